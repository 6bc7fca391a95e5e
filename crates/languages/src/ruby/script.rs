//! What must be known of a Ruby in order to read its frames: by the table of its version, or by the newest one. Used by `frames` and `ruby`.

use std::fmt::Display;

use vm::ruby::{Error, Facts, Ruby, Unsupported};
use vm::{Language, Memory};

use super::newest_layout;
use crate::frames::without_table::is_taken_away;
use crate::frames::{FramesAlone, Sources, Unread, WithoutTable};

/// Returns what must be known of a Ruby in order to read its frames, and how it is read if there is no table for its version.
pub fn facts(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
) -> Result<(Facts, Option<WithoutTable>), Unread> {
    let derived = |why: &dyn Display| {
        let derived = newest_layout::find(memory, symbol, sources, why);
        let derived = derived.map_err(Unread::Refused)?;
        Ok((derived.facts, Some(derived.without_table)))
    };
    match Facts::find(&memory, symbol) {
        Ok(facts) if is_taken_away(Language::Ruby) => {
            derived(&format_args!("Ruby {} has no table", facts.version()))
        }
        Ok(facts) => Ok((facts, None)),
        Err(Error::Unsupported(why @ Unsupported::Newer(_))) => derived(&why),
        Err(Error::Unsupported(why)) => Err(Unread::Refused(why.to_string())),
        Err(error) => Err(Unread::NotNow(error.to_string())),
    }
}

/// Finds what the agent must know of a Ruby of which nothing but frames is read.
pub fn find(
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
) -> Result<FramesAlone, Unread> {
    let (facts, without_table) = facts(memory, symbol, sources)?;
    let found = || Ruby::new(&memory, facts)?.for_script();
    Ok(FramesAlone {
        found: found().map_err(|error| Unread::NotNow(error.to_string()))?,
        without_table,
    })
}
