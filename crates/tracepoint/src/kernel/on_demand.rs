//! A program that lancet itself runs on a processor of its choice, and the memory that both see. Used by `running`.

use super::{Map, Mapped, Refused, bpf, load};
use crate::assembler::Program;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

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
    value: Mapped,
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
        let value = Mapped::new(name, length)?;
        let program = load(name, &write(value.map()))?;
        Ok(OnDemand { program, value })
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
        // SAFETY: so many bytes are mapped as long as `self.value` lives. The program alone writes them beside us, and it runs in `run_on`
        // only, which needs the value for itself.
        unsafe { std::slice::from_raw_parts(self.value.at().as_ptr(), self.value.length()) }
    }

    /// The value, to be changed.
    pub fn value_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `value`; and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.value.at().as_ptr(), self.value.length()) }
    }
}
