//! The VM of a process as the agent reads the lines of its scripts. Used by the crate `hooks`.
//!
//! Of most versions all is read. Of some only the frames are: there is no table for the version, so that its layout was derived and held
//! against the process, or the table has nothing of its objects. Then no function has a name in the language, and no value a text.

use vm::reader::{Error, Found};
use vm::{Language, Memory};

use crate::frames::without_table::is_taken_away;
use crate::frames::{FramesAlone, Sources, Unread, WithoutTable};

/// A VM of which at least the lines of scripts are read.
#[derive(Clone, Debug)]
pub struct Vm {
    /// Its language.
    pub language: Language,
    /// What its reader must know.
    pub found: Found,
    /// Why nothing but frames is read of it; `None` where all is.
    pub frames_alone: Option<String>,
    /// By what it is read without a table, and what that was held against.
    pub note: Option<String>,
}

/// Finds the VM of this language in a process, of which at least the lines of scripts can be read. `symbol` and `sources` are as for
/// [`FindFramesAlone`](crate::frames::FindFramesAlone).
pub fn find(
    language: Language,
    memory: &dyn Memory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    sources: &dyn Sources,
) -> Result<Vm, Unread> {
    let why = match language.find(&memory, symbol) {
        Ok(_) if is_taken_away(language) => format!("this {language} has no table"),
        Ok(found) => {
            return Ok(Vm {
                language,
                found,
                frames_alone: None,
                note: None,
            });
        }
        Err(error) => refused(error)?,
    };
    let entry = crate::of(language).and_then(|entry| entry.frames_alone);
    let find = entry.ok_or_else(|| Unread::Refused(why.clone()))?;
    let FramesAlone {
        found,
        without_table,
    } = find(memory, symbol, sources)?;
    let note = match without_table {
        Some(WithoutTable {
            no_lines: Some(why),
            ..
        }) => return Err(Unread::Refused(why)),
        Some(WithoutTable { note, .. }) => Some(note),
        None => None,
    };
    Ok(Vm {
        language,
        found,
        frames_alone: Some(why),
        note,
    })
}

/// Returns why there is no reader of all for it, unless another try may succeed.
fn refused(error: Error) -> Result<String, Unread> {
    match error.may_pass() {
        true => Err(Unread::NotNow(error.to_string())),
        false => Ok(error.to_string()),
    }
}
