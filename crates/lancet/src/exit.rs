//! The exit codes that commands share; see the tables in `docs/`. Used by `commands::mem::run`, `commands::patch::run`,
//! `commands::tune::run` and others.

/// It could not be done; a line says why.
pub const FAILED: u8 = 1;
/// The command line is wrong; a line says how.
pub const WRONG: u8 = 2;
/// A limit that the user set was exceeded (`--fail-on`, `--max`).
pub const EXCEEDED: u8 = 3;
/// The command did its work, but something was lost or refused.
pub const LOST: u8 = 4;

/// An error that is in the command line, seen only when all of it was read: ends with [`WRONG`].
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}
