//! Reads the guest's memory by plain loads, for addresses that the VM guarantees at this moment. Other addresses
//! are read through [`Copied`](super::copied::Copied). Used by `languages::python::births::caller`, `calls::languages`,
//! `languages::php::births::allocator` and others.

use crate::memory::follow::kept;
use vm::{Fault, Memory};

/// The guest's memory from inside.
pub struct Direct;

impl Memory for Direct {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        if at < LOWEST {
            return Err(Fault { at });
        }
        // SAFETY: callers pass only addresses that the VM uses at this moment, and `vm` reads only within the
        // structures at them. `into` is a live buffer elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(kept::<u8>(at), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    #[inline]
    fn u32(&self, at: u64) -> Result<u32, Fault> {
        if at < LOWEST {
            return Err(Fault { at });
        }
        // SAFETY: callers pass only addresses that the VM uses at this moment, and `vm` reads only within the
        // structures at them.
        Ok(unsafe { kept::<u32>(at).read_unaligned() })
    }

    #[inline]
    fn u64(&self, at: u64) -> Result<u64, Fault> {
        if at < LOWEST {
            return Err(Fault { at });
        }
        // SAFETY: callers pass only addresses that the VM uses at this moment, and `vm` reads only within the
        // structures at them.
        Ok(unsafe { kept::<u64>(at).read_unaligned() })
    }
}

/// The same without that look at each address, for a reader that asks itself whether there is what it follows (`vm::python::Running`).
pub struct Plain(());

impl Plain {
    /// # Safety
    /// Whatever is read through it is memory that the VM or the C library keeps for what this thread does at this moment.
    #[inline(always)]
    pub const unsafe fn new() -> Self {
        Plain(())
    }
}

impl Memory for Plain {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        // SAFETY: as `new` requires. `into` is a live buffer elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(kept::<u8>(at), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    #[inline(always)]
    fn u32(&self, at: u64) -> Result<u32, Fault> {
        // SAFETY: as `new` requires.
        Ok(unsafe { kept::<u32>(at).read_unaligned() })
    }

    #[inline(always)]
    fn u64(&self, at: u64) -> Result<u64, Fault> {
        // SAFETY: as `new` requires.
        Ok(unsafe { kept::<u64>(at).read_unaligned() })
    }
}

/// No memory is mapped below this address (`vm.mmap_min_addr`); a null pointer plus an offset is caught here.
const LOWEST: u64 = 0x1000;
