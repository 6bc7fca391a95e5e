//! Why a file's frames cannot be told.

use std::path::PathBuf;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be opened, or is no ELF file for x86-64.
    #[error(transparent)]
    Elf(#[from] process::elf::Error),
    /// The process cannot be opened or stopped.
    #[error(transparent)]
    Process(#[from] process::Error),
    /// The file has no executable segment that can be read.
    #[error(
        "{0}: holds no code (a separate debug file, or data only); name the program or library itself"
    )]
    NoCode(PathBuf),
}

/// Or what was asked for.
pub type Result<T> = std::result::Result<T, Error>;
