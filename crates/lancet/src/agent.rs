//! The agent's program, which every command that opens a process brings into it.

/// The ELF file of the agent, as `build.rs` has built it: optimised, whatever profile this program
/// is built with.
pub const AGENT: &[u8] = include_bytes!(env!("LANCET_AGENT"));
