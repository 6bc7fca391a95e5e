//! Which machine a program is made for. Used by `elf` and `guest`, and by the crates `frames` and `rss`.
//!
//! Layout: gABI, "ELF Identification" (`EI_CLASS` is byte 4, `EI_DATA` byte 5) and `e_machine`, bytes 18 and
//! 19, which lie at the same place in both classes. x32 is the class of 32 bits with the machine of
//! x86-64 (x86-64 psABI, "ILP32 Programming Model").

use crate::proc_file;
use std::fmt;
use std::io;
use std::os::unix::fs::FileExt;

use object::elf;

use super::ElfError;
use crate::descriptors::open_briefly;

/// The machine an ELF file is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Architecture {
    /// 64-bit x86-64, the only one lancet opens.
    X86_64,
    /// x86-64 instructions with 32-bit pointers.
    X32,
    /// x86 with 32-bit instructions and pointers (`EM_386`).
    X86,
    /// Anything else: the ELF class in bits, and `e_machine`.
    Other {
        /// The ELF class: 32 or 64.
        bits: u8,
        /// The number of the machine in the ELF header.
        machine: u16,
    },
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Architecture::X86_64 => write!(f, "64-bit x86-64"),
            Architecture::X32 => write!(f, "x32 (x86-64 with 32-bit pointers)"),
            Architecture::X86 => write!(f, "32-bit x86"),
            Architecture::Other { bits, machine: 183 } => write!(f, "{bits}-bit ARM"),
            Architecture::Other { bits, machine } => {
                write!(f, "{bits}-bit machine number {machine}")
            }
        }
    }
}

/// Returns the machine that the program of process `pid` is made for, from the header of `/proc/PID/exe`.
pub fn architecture(pid: i32) -> Result<Architecture, ElfError> {
    let path = proc_file::path(pid, "exe");
    let header = open_briefly(&path).and_then(|file| {
        let mut header = [0; 20];
        file.read_exact_at(&mut header, 0).map(|()| header)
    });
    match header {
        Ok(header) => architecture_of(&header).ok_or(ElfError::Malformed {
            file: path,
            reason: "not an ELF file",
        }),
        // The link itself is there as long as the process is, but leads nowhere.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ElfError::NoProgram { pid }),
        Err(source) => Err(ElfError::File { path, source }),
    }
}

/// Like [`architecture`], with an error for every machine but x86-64.
pub fn require_x86_64(pid: i32) -> Result<(), ElfError> {
    match architecture(pid)? {
        Architecture::X86_64 => Ok(()),
        found => {
            let link = proc_file::path(pid, "exe");
            let file = std::fs::read_link(&link).unwrap_or(link);
            Err(ElfError::Architecture { file, found })
        }
    }
}

/// Reads the machine out of the first 20 bytes of a file; `None` if it is not ELF.
pub fn architecture_of(header: &[u8; 20]) -> Option<Architecture> {
    if header[..4] != elf::ELFMAG {
        return None;
    }
    let bits = match header[4] {
        1 => 32,
        2 => 64,
        _ => return None,
    };
    let machine = match header[5] {
        1 => u16::from_le_bytes([header[18], header[19]]),
        2 => u16::from_be_bytes([header[18], header[19]]),
        _ => return None,
    };
    Some(match (bits, elf::Machine(machine)) {
        (64, elf::EM_X86_64) => Architecture::X86_64,
        (32, elf::EM_X86_64) => Architecture::X32,
        (32, elf::EM_386) => Architecture::X86,
        _ => Architecture::Other { bits, machine },
    })
}
