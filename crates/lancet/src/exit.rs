//! The exit codes that commands share; see the tables in `docs/`.

/// It could not be done; a line says why.
pub const FAILED: u8 = 1;
/// A limit that the user set was exceeded (`--fail-on`, `--max`).
pub const EXCEEDED: u8 = 3;
/// The command did its work, but something was lost or refused.
pub const LOST: u8 = 4;
