//! The agent's program, which every command that opens a process brings into it.

/// Built by `build.rs`.
pub const AGENT: &[u8] = include_bytes!(env!("LANCET_AGENT"));
