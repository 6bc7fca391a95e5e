//! Parses the answers of the script's VM. They come from the guest, so they are untrusted: text to show, and numbers.
//! Used by `scripts`, and by the crates `report` and `lancet`.

/// The character between the fields of a record, and that between records.
const FIELD: char = '\u{1f}';
const RECORD: char = '\u{1e}';
/// The most patches that an answer may list; a process that lists more is refused, and not half read.
const MOST: usize = 4096;

/// How it stands with a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptState {
    /// The new function runs.
    InForce,
    /// Something has changed the function since.
    Covered,
    /// It is taken back, and calls of it still run, which need what else its file defines.
    Ends,
}

/// A function of a script that was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptPatch {
    /// Whether the new function runs.
    pub state: ScriptState,
    /// Its number in the process, which is written `s1`.
    pub id: u64,
    /// The function, as its language names it: `Shop::Order#total`.
    pub target: String,
    /// The path of the file with the new one, as the process was told it.
    pub file: String,
    /// Where the old function is, `path:line`.
    pub old: String,
    /// How many definitions were changed: the function's, and what else the file defines.
    pub definitions: u64,
}

/// What the VM has answered.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done; these are the patches that the answer names.
    Done(Vec<ScriptPatch>),
    /// It was not done, and why.
    Refused(String),
}

impl Answer {
    /// Reads an answer; a text that is none is a refusal.
    pub fn read(text: &str) -> Self {
        let mut records = text.split(RECORD);
        let first = records.next().unwrap_or_default();
        if let Some(reason) = first.strip_prefix("refused") {
            return Answer::Refused(reason.trim_start_matches(FIELD).to_owned());
        }
        if !(first.starts_with("done") || first.starts_with("ends")) {
            return Answer::Refused("it answered what lancet does not understand".into());
        }
        let patches = std::iter::once(first).chain(records).filter_map(patch);
        let patches: Vec<ScriptPatch> = patches.take(MOST + 1).collect();
        if patches.len() > MOST {
            return Answer::Refused(format!("it lists more than {MOST} patches"));
        }
        Answer::Done(patches)
    }
}

fn patch(record: &str) -> Option<ScriptPatch> {
    let fields: Vec<&str> = record.split(FIELD).collect();
    let [state, id, target, file, old, definitions] = fields.as_slice() else {
        return None;
    };
    Some(ScriptPatch {
        state: match *state {
            "covered" => ScriptState::Covered,
            "ends" => ScriptState::Ends,
            // What was asked for has been done, and this is the patch; or this is one of a list.
            "done" | "in force" => ScriptState::InForce,
            _ => return None,
        },
        id: id.parse().ok()?,
        target: (*target).to_owned(),
        file: (*file).to_owned(),
        old: (*old).to_owned(),
        definitions: definitions.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let text = "done\u{1e}in force\u{1f}3\u{1f}Order#total\u{1f}fix.rb\u{1f}app.rb:7\u{1f}1";
        let Answer::Done(patches) = Answer::read(text) else {
            panic!("it is done");
        };
        assert_eq!(patches.len(), 1);
        assert_eq!((patches[0].id, patches[0].old.as_str()), (3, "app.rb:7"));
        assert_eq!(
            Answer::read("refused\u{1f}no such method"),
            Answer::Refused("no such method".into())
        );
        let Answer::Done(patches) = Answer::read("done\u{1f}4\u{1f}a\u{1f}b\u{1f}c\u{1f}1") else {
            panic!("it is done");
        };
        assert_eq!((patches[0].id, patches[0].state), (4, ScriptState::InForce));
        assert!(matches!(Answer::read(""), Answer::Refused(_)));
        assert_eq!(Answer::read("done\u{1e}x\u{1f}y"), Answer::Done(Vec::new()));
    }
}
