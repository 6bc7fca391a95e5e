//! A program that lancet itself runs on a processor of its choice, and the memory that both see. Used by `running`.

use super::{Map, Refused, bpf, load, refused};
use crate::assembler::Program;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;

const PROG_RUN: libc::c_int = 10;
/// `BPF_F_TEST_RUN_ON_CPU`: it is run on the processor that the request names (Linux 5.10).
const ON_PROCESSOR: u32 = 1;

/// The request: `struct { … } test` of `union bpf_attr`.
#[repr(C)]
#[derive(Default)]
struct Run {
    program: u32,
    result: u32,
    data_sizes: [u32; 2],
    data: [u64; 2],
    repeat: u32,
    duration: u32,
    context_sizes: [u32; 2],
    context: [u64; 2],
    flags: u32,
    processor: u32,
    batch: u32,
    padding: u32,
}

/// A program with a value that it reads and writes, and that lancet has mapped; it runs when lancet asks for it, and never otherwise.
#[derive(Debug)]
pub struct OnDemand {
    program: OwnedFd,
    /// The value lives as long as its map.
    _map: Map,
    at: NonNull<u8>,
    length: usize,
}

impl OnDemand {
    /// Makes the value, all zeros, and loads the program that `write` makes for its map.
    ///
    /// # Errors
    /// Why there is no way by BPF.
    pub fn new(
        name: &str,
        length: usize,
        write: impl FnOnce(&Map) -> Program,
    ) -> Result<Self, Refused> {
        let map = Map::mappable(name, length)?;
        let program = load(name, &write(&map))?;
        // SAFETY: a new mapping of the map's value, where the kernel wants it.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.descriptor(),
                0,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(mapped) if at != libc::MAP_FAILED => Ok(OnDemand {
                program,
                _map: map,
                at: mapped,
                length,
            }),
            _ => Err(refused("a mapped map", io::Error::last_os_error())),
        }
    }

    /// Runs it on a processor: within whatever that does at the moment. It has ended when this returns.
    ///
    /// # Errors
    /// ENXIO: there is no such processor, or it is off. EINVAL: the kernel is older than Linux 5.10.
    pub fn run_on(&mut self, processor: usize) -> io::Result<()> {
        let mut asked = Run {
            program: self.program.as_raw_fd() as u32,
            flags: ON_PROCESSOR,
            processor: processor as u32,
            ..Run::default()
        };
        // SAFETY: it holds no address.
        unsafe { bpf(PROG_RUN, &mut asked) }.map(drop)
    }

    /// The value.
    pub fn value(&self) -> &[u8] {
        // SAFETY: `new` has mapped so many bytes, which are unmapped when this is dropped. The program alone writes them beside us, and it
        // runs in `run_on` only, which needs the value for itself.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }

    /// The value, to be changed.
    pub fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `value`; and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.length) }
    }
}

impl Drop for OnDemand {
    fn drop(&mut self) {
        // SAFETY: our own mapping, into which no reference is left.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}
