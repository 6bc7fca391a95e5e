//! What the rows of a table of calls are made by.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hooks::rings::Line;

/// The key of a row: the function's name with what a preset's calls have in common, and where it is called.
pub type Key = (String, Site);

/// Where the calls of a row come from. Two are the same where a table has the same text for them.
#[derive(Clone, Debug, Default)]
pub struct Site {
    text: String,
    line: Option<Arc<Line>>,
    callers: Vec<String>,
}

impl Site {
    /// A line of a script.
    pub fn of(line: &Arc<Line>) -> Self {
        Site {
            text: line.to_string(),
            line: Some(line.clone()),
            callers: Vec::new(),
        }
    }

    /// The native frames around calls that no script makes, the caller first.
    pub fn of_frames(callers: Vec<String>) -> Self {
        Site {
            text: callers.join(" ← "),
            line: None,
            callers,
        }
    }

    /// As a table has it: `app.rb:12 in 'show'`; empty where nothing is known.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line of a script, if it is one.
    pub fn line(&self) -> Option<&Line> {
        self.line.as_deref()
    }

    /// The native frames, the caller first, if it is none.
    pub fn callers(&self) -> &[String] {
        &self.callers
    }
}

impl PartialEq for Site {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Site {}

impl Hash for Site {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl PartialOrd for Site {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Site {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}
