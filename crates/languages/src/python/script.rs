//! What must be known of a Python in order to read its frames: by the table of its version, or as it describes itself. Used by `frames` and
//! `python`.

use std::fmt::Display;

use process::pages::Pages;
use vm::python::{Error, Facts};
use vm::{Language, Memory};

use super::debug_offsets;
use crate::frames::without_table::is_taken_away;
use crate::frames::{FramesAlone, Sources, Unread, WithoutTable};

/// Returns what must be known of a Python in order to read its frames, and how it is read if there is no table for its version.
pub fn facts(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
) -> Result<(Facts, Option<WithoutTable>), Unread> {
    let derived = |why: &dyn Display| {
        let derived = debug_offsets::find(memory, symbol, sources, why);
        let derived = derived.map_err(Unread::Refused)?;
        Ok((derived.facts, Some(derived.without_table)))
    };
    match Facts::for_frames(&Pages::new(memory), symbol) {
        Ok(facts) if is_taken_away(Language::Python) => {
            derived(&format_args!("Python {} has no table", facts.version()))
        }
        Ok(facts) => Ok((facts, None)),
        Err(Error::Unsupported(why)) if why.is_newer() => derived(&why),
        Err(Error::Unsupported(why)) => Err(Unread::Refused(why.to_string())),
        Err(error) => Err(Unread::NotNow(error.to_string())),
    }
}

/// Finds what the agent must know of a Python of which nothing but frames is read.
pub fn find(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
) -> Result<FramesAlone, Unread> {
    let (facts, without_table) = facts(memory, symbol, sources)?;
    Ok(FramesAlone {
        found: facts.for_script(),
        without_table,
    })
}
