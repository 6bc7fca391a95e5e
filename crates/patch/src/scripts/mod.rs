//! Functions of the script itself, replaced and put back by its VM: `ruby:Order#total=fix.rb`, `python:shop.cart.total=fix.py`.
//!
//! The work is done by code in the script's own language (`patch.rb`, `patch.py`), so that the VM's caches, its compiled code and its
//! hooks on definitions take part. The list of patches is an object of the program: `$lancet_patches` in Ruby,
//! `sys.__lancet_patches__` in Python. It exists while there are patches, and any later lancet reads it.

mod answer;
mod request;

pub use answer::{ScriptPatch, State as ScriptState};
pub use request::ScriptRequest;

use crate::error::{Error, Result};
use answer::Answer;
use enter::{Interpreter, literal};
use inject::Image;
use std::path::Path;
use vm::Language;

const RUBY: &str = include_str!("patch.rb");
const PYTHON: &str = include_str!("patch.py");

/// A process whose script functions are replaced.
#[derive(Debug)]
pub struct Script {
    language: Language,
    interpreter: Box<dyn Interpreter>,
}

/// What is to be done.
struct Job<'a> {
    what: &'static str,
    target: &'a str,
    path: &'a str,
    text: &'a str,
    id: u64,
}

impl<'a> Job<'a> {
    const fn new(what: &'static str) -> Self {
        Job {
            what,
            target: "",
            path: "",
            text: "",
            id: 0,
        }
    }

    fn of(what: &'static str, request: &'a ScriptRequest, file: &'a (String, String)) -> Self {
        Job {
            target: &request.target,
            path: &file.0,
            text: &file.1,
            ..Job::new(what)
        }
    }

    /// The job as one expression that evaluates to its answer.
    fn text(&self, language: Language) -> String {
        let beyond: fn(u32) -> String = match language {
            Language::Ruby => |code| format!("\\u{{{code:x}}}"),
            _ => |code| format!("\\U{code:08x}"),
        };
        let [what, target, path, text] =
            [self.what, self.target, self.path, self.text].map(|word| literal(word, beyond));
        let id = self.id;
        match language {
            Language::Ruby => format!("({RUBY}).call({what}, {target}, {path}, {text}, {id})"),
            _ => {
                let program = literal(PYTHON, beyond);
                format!(
                    "(lambda space: (exec(compile({program}, \"<lancet>\", \"exec\"), space), space[\"answer\"])[1])\
                     ({{\"__name__\": \"lancet\", \"job\": ({what}, {target}, {path}, {text}, {id})}})"
                )
            }
        }
    }
}

impl Script {
    /// Opens a process.
    ///
    /// # Errors
    /// It has no such VM, or cannot be opened.
    pub fn open(pid: i32, image: &Image, language: Language) -> Result<Self> {
        Ok(Script {
            language,
            interpreter: enter::open(pid, image, language)?,
        })
    }

    /// Replaces a function.
    ///
    /// # Errors
    /// Nothing has changed then.
    pub fn apply(&mut self, request: &ScriptRequest) -> Result<ScriptPatch> {
        let file = read(&request.file)?;
        self.one(&Job::of("apply", request, &file))
            .map_err(|reason| refused(request, reason))
    }

    /// Looks whether [`apply`](Self::apply) would find the function and accept the file's syntax; nothing of the file is run.
    ///
    /// # Errors
    /// It would not.
    pub fn check(&mut self, request: &ScriptRequest) -> Result<ScriptPatch> {
        let file = read(&request.file)?;
        self.one(&Job::of("check", request, &file))
            .map_err(|reason| refused(request, reason))
    }

    /// Puts a function back.
    ///
    /// # Errors
    /// There is no such patch, or something has changed the function since.
    pub fn undo(&mut self, id: u64) -> Result<ScriptPatch> {
        let job = Job {
            id,
            ..Job::new("undo")
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
        match self.answer(&Job::new("list")) {
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
        let text = job.text(self.language);
        if text.len() > enter::script::MOST {
            return Err(Failed::Refused(format!(
                "the file is too long: at most some {} KiB",
                (enter::script::MOST - RUBY.len().max(PYTHON.len())) >> 11
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
