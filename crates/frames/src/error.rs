//! Why the frames of a file or a process cannot be found. Used by `objects`, `live::core` and others here, and by the
//! crates `calls`, `lancet` and `dump`.

use std::path::PathBuf;

/// Why frames cannot be found. The text names the file or the process.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, or is no ELF file for x86-64.
    #[error(transparent)]
    Elf(#[from] process::elf::ElfError),
    /// The process cannot be opened or stopped.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The file has no executable segment that can be read.
    #[error(
        "{0}: holds no code (a separate debug file, or data only); name the program or library itself"
    )]
    NoCode(PathBuf),
}

impl Error {
    /// Whether it says that the process that was opened has ended or runs another program.
    pub fn is_left(&self) -> bool {
        matches!(self, Error::Process(error) if error.is_left())
    }
}

/// The result of functions of this crate.
pub type Result<T> = std::result::Result<T, Error>;
