//! Text that a guest's VM evaluates for us: it is written into the agent, and the answer is
//! read there. Used by `languages::python` and `languages::ruby::evaluation`, and by `patch::scripts`.

use inject::resident::Resident;
use process::error::{Error, Result};
use process::memory::GuestMemory;
use std::mem::offset_of;
use wire::Script;
use wire::script::{Outcome, TEXT};

/// Limit of the bytes of a text, because a zero ends it in [`Script::text`].
pub const MOST: usize = TEXT - 1;

/// Writes a text to be evaluated.
///
/// # Errors
/// It has more than [`MOST`] bytes, or a zero among them.
pub(crate) fn write(memory: &GuestMemory, resident: &Resident, text: &str) -> Result<()> {
    let refused = |reason| {
        Err(Error::Refused {
            pid: memory.pid(),
            what: "evaluate a text",
            reason,
        })
    };
    if text.len() > MOST {
        return refused("it is longer than 64 KiB");
    }
    if text.contains('\0') {
        return refused("it has a character with the number 0");
    }
    let at = |field: usize| resident.header.script + field as u64;
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    memory.write(at(offset_of!(Script, text)), &bytes)?;
    let outcome = (Outcome::None as u64).to_le_bytes();
    memory.write(at(offset_of!(Script, outcome)), &outcome)
}

/// Returns the string that the text evaluated to.
///
/// # Errors
/// It raised, or evaluated to something else.
pub(crate) fn answer(memory: &GuestMemory, resident: &Resident) -> Result<String> {
    let at = |field: usize| resident.header.script + field as u64;
    let outcome = memory.word(at(offset_of!(Script, outcome)))?;
    if outcome != Outcome::Answered as u64 {
        return Err(Error::Refused {
            pid: memory.pid(),
            what: "evaluate a text",
            reason: if outcome == Outcome::Raised as u64 {
                "it raised"
            } else {
                "its answer is no string that could be read"
            },
        });
    }
    let length = memory.word(at(offset_of!(Script, length)))?;
    let mut bytes = vec![0; length.min(TEXT as u64) as usize];
    memory.read_bytes(at(offset_of!(Script, text)), &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
