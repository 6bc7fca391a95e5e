//! Functions of the script itself, replaced and put back by its VM, which evaluates a text in the script's language
//! ([`languages::patch`]). Used by `guest`, and by `lancet::commands::patch::script`.

mod answer;
mod request;

pub use answer::{ScriptPatch, ScriptState};
pub use request::ScriptRequest;

use crate::error::{Error, Result};
use answer::Answer;
use enter::Interpreter;
use inject::Image;
use languages::patch::{Job, Patching};
use std::path::Path;
use vm::Language;

/// A process whose script functions are replaced.
#[derive(Debug)]
pub struct Script {
    patching: Patching,
    interpreter: Box<dyn Interpreter>,
}

/// How functions of scripts in this language are replaced; `None` = they are not.
pub(crate) fn patching(language: Language) -> Option<Patching> {
    languages::of(language)?.patch
}

/// A job without a function and its file.
const fn plain(what: &'static str) -> Job<'static> {
    Job {
        what,
        target: "",
        path: "",
        text: "",
        id: 0,
    }
}

/// A job for the function that is asked for, with its file.
fn of<'a>(what: &'static str, request: &'a ScriptRequest, file: &'a (String, String)) -> Job<'a> {
    Job {
        target: &request.target,
        path: &file.0,
        text: &file.1,
        ..plain(what)
    }
}

impl Script {
    /// Opens a process.
    ///
    /// # Errors
    /// It has no such VM, or cannot be opened.
    pub fn open(pid: i32, image: &Image, language: Language) -> Result<Self> {
        // Looked up before the process is entered and claimed, which it notices.
        let patching = patching(language).ok_or_else(|| Error::Script {
            what: "the list of patches".into(),
            reason: format!("functions of {language} are not replaced"),
        })?;
        Ok(Script {
            patching,
            interpreter: enter::open(pid, image, language)?,
        })
    }

    /// Replaces a function.
    ///
    /// # Errors
    /// Nothing has changed then.
    pub fn apply(&mut self, request: &ScriptRequest) -> Result<ScriptPatch> {
        let file = read(&request.file)?;
        self.one(&of("apply", request, &file))
            .map_err(|reason| refused(request, reason))
    }

    /// Looks whether [`apply`](Self::apply) would find the function and accept the file's syntax; nothing of the file is run.
    ///
    /// # Errors
    /// It would not.
    pub fn check(&mut self, request: &ScriptRequest) -> Result<ScriptPatch> {
        let file = read(&request.file)?;
        self.one(&of("check", request, &file))
            .map_err(|reason| refused(request, reason))
    }

    /// Puts a function back.
    ///
    /// # Errors
    /// There is no such patch, or something has changed the function since.
    pub fn undo(&mut self, id: u64) -> Result<ScriptPatch> {
        let job = Job {
            id,
            ..plain("undo")
        };
        self.one(&job).map_err(|reason| match reason {
            Failed::Refused(reason) => Error::Script {
                what: format!("patch s{id}"),
                reason,
            },
            Failed::Error(error) => error,
        })
    }

    /// The patches of the process, in the order in which they were made.
    ///
    /// # Errors
    /// The process did not answer.
    pub fn list(&mut self) -> Result<Vec<ScriptPatch>> {
        match self.answer(&plain("list")) {
            Ok(patches) => Ok(patches),
            Err(Failed::Error(error)) => Err(error),
            Err(Failed::Refused(reason)) => Err(Error::Script {
                what: "the list of patches".into(),
                reason,
            }),
        }
    }

    /// Leaves the process.
    ///
    /// # Errors
    /// It could not be told.
    pub fn leave(self) -> Result<()> {
        Ok(self.interpreter.leave()?)
    }

    fn one(&mut self, job: &Job) -> std::result::Result<ScriptPatch, Failed> {
        self.answer(job)?
            .pop()
            .ok_or_else(|| Failed::Refused("it answered nothing".into()))
    }

    fn answer(&mut self, job: &Job) -> std::result::Result<Vec<ScriptPatch>, Failed> {
        let text = (self.patching.expression)(job);
        if text.len() > enter::script::MOST {
            let all = languages::ALL.iter().filter_map(|entry| entry.patch);
            let longest = all.map(|one| one.program.len()).max().unwrap_or(0);
            return Err(Failed::Refused(format!(
                "the file is too long: at most some {} KiB",
                (enter::script::MOST - longest) >> 11
            )));
        }
        let said = self.interpreter.evaluate(&text).map_err(Error::from);
        match Answer::read(&said.map_err(Failed::Error)?) {
            Answer::Done(patches) => Ok(patches),
            Answer::Refused(reason) => Err(Failed::Refused(reason)),
        }
    }
}

/// The reason why there is no patch.
enum Failed {
    /// The process cannot be asked.
    Error(Error),
    /// It was asked, and this is what it said.
    Refused(String),
}

fn refused(request: &ScriptRequest, failed: Failed) -> Error {
    match failed {
        Failed::Error(error) => error,
        Failed::Refused(reason) => Error::Function {
            function: request.to_string(),
            reason,
        },
    }
}

/// The path of a file as it is shown, and its text.
fn read(path: &Path) -> Result<(String, String)> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let text = std::fs::read_to_string(&path).map_err(|error| Error::File {
        file: path.clone(),
        reason: error.to_string(),
    })?;
    Ok((path.display().to_string(), text))
}
