//! What a language finds of a VM of which nothing but frames is read. Used by `ruby::script`, `python::script`, `script` and `entry`.

use vm::Memory;
use vm::reader::Found;

use super::{Sources, Unread, WithoutTable};

/// What a language finds of a VM of which nothing but frames is read.
#[derive(Clone, Debug)]
pub struct FramesAlone {
    /// What its reader must know.
    pub found: Found,
    /// How it is read if there is no table for its version.
    pub without_table: Option<WithoutTable>,
}

/// Finds what must be known of a VM of which nothing but frames is read. `symbol` returns the address of an exported symbol; `sources` has
/// the text of its scripts.
pub type FindFramesAlone = fn(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
) -> Result<FramesAlone, Unread>;
