//! What was lost or refused in a run, in the same words for every command: the last record of each output.
//!
//! ```text
//! {"record":"losses","losses":[{"pid":4242,"what":"records","count":7,"text":"…"}],"more":0}
//! ```
//!
//! The page `docs/losses.md` lists the words. An empty list says that nothing was lost, and that the output is whole.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// All that was lost or refused in the run; an output without this record was cut off.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Losses<'a> {
    /// Empty: nothing was lost.
    pub losses: &'a [Loss],
    /// How many are not in the list, which has at most 1,000.
    pub more: u64,
    /// Where and when lancet looked; left out where it has read a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<&'a Origin>,
}

/// Where and when lancet looked.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Origin {
    /// The machine's name.
    pub host: String,
    /// The id of the machine's start, of /proc/sys/kernel/random/boot_id; null: not known.
    pub boot_id: Option<String>,
    /// The version of lancet.
    pub lancet: &'static str,
    /// When it began.
    pub began_ns: u64,
    /// When the answer was whole.
    pub ended_ns: u64,
}

/// What can be lost; docs/losses.md has the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A process, or what happened in it from some moment on.
    Process,
    /// A process could not be left as it was found.
    Leaving,
    /// Records that found no room in a ring buffer in time.
    Records,
    /// Calls of threads that got no ring buffer.
    Threads,
    /// Calls that found no room in a table of `-c`, or whose table went with its process.
    Counts,
    /// What arguments and results of calls lead to: texts, structs.
    Values,
    /// Script lines of calls.
    Lines,
    /// What happened while lancet stood still.
    Gap,
    /// Calls of functions that can never be hooked.
    Hooks,
    /// System calls that were made where no hook sees them.
    Unseen,
    /// Calls behind a fault of lancet's own code in the process.
    Agent,
    /// Lines of output that nobody has read in time.
    Output,
    /// What a recording would have held.
    Recording,
    /// Births that were not counted, for want of memory or because a count was under way.
    Births,
    /// Rows that are not told apart because there are too many; their sum is right.
    Rows,
    /// Sizes that are those of heap slots alone.
    Sizes,
    /// The end of a program that was counted from outside, or not to its end; what is missing from a snapshot.
    Heap,
    /// Stacks that were not seen.
    Stacks,
    /// Frames beyond the last that could be found.
    Frames,
    /// Looks of `--for` that did not take place.
    Looks,
    /// Events of processes for which the kernel found no room.
    Events,
    /// Files or settings that could not be read.
    Files,
    /// Settings that were not taken back, or not made.
    Settings,
    /// Patches that were not taken back, or not looked for everywhere.
    Patches,
}

/// Something that was lost or refused in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Loss {
    /// The process it is of; null: of none, or of all.
    pub pid: Option<i32>,
    /// The kind of what was lost: one of the words of docs/losses.md.
    pub what: What,
    /// How much of it; null: not known.
    pub count: Option<u64>,
    /// What was lost and why, as a sentence.
    pub text: String,
}

impl What {
    /// Returns its word.
    pub fn word(self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Returns the one with this word.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|what| what.word() == word)
    }

    /// Every kind, in the order of docs/losses.md.
    pub const ALL: [Self; 24] = [
        Self::Process,
        Self::Leaving,
        Self::Records,
        Self::Threads,
        Self::Counts,
        Self::Values,
        Self::Lines,
        Self::Gap,
        Self::Hooks,
        Self::Unseen,
        Self::Agent,
        Self::Output,
        Self::Recording,
        Self::Births,
        Self::Rows,
        Self::Sizes,
        Self::Heap,
        Self::Stacks,
        Self::Frames,
        Self::Looks,
        Self::Events,
        Self::Files,
        Self::Settings,
        Self::Patches,
    ];
}

impl Loss {
    /// Makes a loss; `text` is a sentence that says what was lost and why.
    pub fn new(pid: Option<i32>, what: What, count: Option<u64>, text: impl Into<String>) -> Self {
        Loss {
            pid,
            what,
            count,
            text: text.into(),
        }
    }

    /// Returns whether it is about what a count of `mem` found, which the report of `mem` says itself.
    pub fn is_counted(&self) -> bool {
        matches!(
            self.what,
            What::Births | What::Rows | What::Sizes | What::Heap
        )
    }
}
