//! The agent's program, which every command that opens a process brings into it.

use inject::image::Image;
use process::programs;

/// The ELF file of the agent, as `build.rs` has built it: optimised, whatever profile this program
/// is built with.
pub const AGENT: &[u8] = include_bytes!(env!("LANCET_AGENT"));

/// Takes out the hooks that an earlier lancet has left in a process, where code was still to return through them.
pub fn mend(pid: i32) -> process::Result<()> {
    let image = Image::parse(AGENT)?;
    programs::at_present(pid, || hooks::mend(pid, &image))
}
