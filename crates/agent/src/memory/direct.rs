//! The guest's memory by plain loads, for addresses that the VM vouches for at this moment. What is not vouched for
//! is read through `calls::values::Proven`.

use vm::{Fault, Memory};

/// The guest's memory from inside.
pub struct Direct;

impl Memory for Direct {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        if at < LOWEST {
            return Err(Fault { at });
        }
        // SAFETY: the VM guarantees the address, and `vm` reads only within the
        // structures it leads to.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    #[inline]
    fn u32(&self, at: u64) -> Result<u32, Fault> {
        if at < LOWEST {
            return Err(Fault { at });
        }
        // SAFETY: as in `read`.
        Ok(unsafe { (at as *const u32).read_unaligned() })
    }

    #[inline]
    fn u64(&self, at: u64) -> Result<u64, Fault> {
        if at < LOWEST {
            return Err(Fault { at });
        }
        // SAFETY: as in `read`.
        Ok(unsafe { (at as *const u64).read_unaligned() })
    }
}

/// Nothing is mapped below (`vm.mmap_min_addr`); a null pointer with an offset ends here.
const LOWEST: u64 = 0x1000;
