//! What the rows of a table of calls are made by: the function that is called and the script line that calls.

use std::sync::Arc;

use frames::labels::Labelled;
use hooks::rings::Line;

/// The key of a row: the function's name with what a preset's calls have in common, and where it is called.
pub type Key = (String, Site);

/// Where the calls of a row come from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site(Labelled<Origin>);

/// A line of a script, native frames within it.
#[derive(Clone, Debug, Default)]
struct Origin {
    line: Option<Arc<Line>>,
    callers: Vec<String>,
}

impl Site {
    /// A line of a script.
    pub fn of(line: &Arc<Line>) -> Self {
        let origin = Origin {
            line: Some(line.clone()),
            callers: Vec::new(),
        };
        Site(Labelled::new(&line.to_string(), origin))
    }

    /// The native frames around calls, the caller first, and the line of a script around them, if there is one.
    pub fn of_frames(callers: Vec<String>, line: Option<&Arc<Line>>) -> Self {
        let line_text = line.map(|line| line.to_string());
        let text = callers
            .iter()
            .map(String::as_str)
            .chain(line_text.as_deref());
        let text = text.collect::<Vec<_>>().join(" ← ");
        let line = line.cloned();
        Site(Labelled::new(&text, Origin { line, callers }))
    }

    /// As a table has it: `app.rb:12 in 'show'`; empty where nothing is known.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The line of a script, if one is known.
    pub fn line(&self) -> Option<&Line> {
        self.0.what.line.as_deref()
    }

    /// The native frames, the caller first, as far as rows are told apart by them.
    pub fn callers(&self) -> &[String] {
        &self.0.what.callers
    }
}
