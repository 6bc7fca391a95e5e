//! A PHP whose births are counted by the agent: how it is opened, and what the agent is asked. Used by `entry`.

use super::{Found, Php};
use crate::counted::Counted;
use crate::counted_vm::{AskedVm, begins, begun};
use crate::entered::{Entered, Reached};
use crate::opening::Opening;
use hooks::ScriptStart;
use inject::Image;
use inject::seccomp::check_all_threads;
use inject::tracee::Tracee;
use languages::objects::Objects;
use process::error::{Error, Result};
use vm::Language;
use wire::Request;

/// Opens a process, and waits until its agent counts.
///
/// # Errors
/// It has no PHP, or one whose births cannot be counted; or it cannot be opened.
pub fn open(pid: i32, image: &Image, opening: Opening) -> Result<Box<dyn Counted>> {
    check_all_threads(pid, &[])?;
    let reached = Reached::new(pid)?;
    let found = Found::of(&reached)?;
    let mut config = opening.config;
    config.language = Language::Php.number();
    let entered = reached.enter_for(image, config, true)?;
    let Entered {
        memory, resident, ..
    } = &entered;
    found.hand_over(memory, resident)?;
    (opening.claimed)(memory, resident)?;
    begun(Php {
        entered,
        found,
        tracee: None,
    })
}

/// Opens a program that we started and that waits for us where its script begins: the hooks that brought it there are taken out, and
/// the agent begins there.
///
/// # Errors
/// Its births cannot be counted, or its memory cannot be read or written; its main thread is given back.
pub fn open_at_script(
    tracee: Tracee,
    start: ScriptStart,
    opening: Opening,
) -> std::result::Result<Box<dyn Counted>, (Tracee, Error)> {
    match handed_over(tracee.pid(), start, opening) {
        Ok(php) => Ok(begins(php, tracee)),
        Err(error) => Err((tracee, error)),
    }
}

/// A program that we started and that waits where its script begins, with the agent that begins there.
fn handed_over(pid: i32, start: ScriptStart, opening: Opening) -> Result<Php> {
    check_all_threads(pid, &[])?;
    let reached = Reached::at_script(pid, &start)?;
    let found = Found::of(&reached)?;
    let mut config = opening.config;
    config.language = Language::Php.number();
    let entered = reached.take_over(start, config, |memory, resident| {
        found.hand_over(memory, resident)?;
        (opening.claimed)(memory, resident)?;
        resident.request(memory, Request::Watch, 0)
    })?;
    Ok(Php {
        entered,
        found,
        tracee: None,
    })
}

/// What is in cycles of references counts as living: the VM's collector is not called, and the count says whether one was wanted.
impl AskedVm for Php {
    const LANGUAGE: Language = Language::Php;
    const FORKED: &'static str = "it was forked by a PHP, whose births it does not count; those of the next program that it runs are counted";
    const ENDED: &'static str = "it ended in the middle of its request (a signal)";

    fn entered(&self) -> &Entered {
        &self.entered
    }

    fn entered_mut(&mut self) -> &mut Entered {
        &mut self.entered
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    fn version(&self) -> String {
        self.found.facts.version().to_string()
    }

    fn ask(&mut self, request: Request, argument: u64) -> Result<()> {
        Php::ask(self, request, argument)
    }

    fn await_request(&mut self) -> Result<()> {
        self.await_answer()
    }

    fn why_not_done(request: Request) -> &'static str {
        match request {
            Request::Watch => {
                "its allocator, or what its requests begin and end with, has functions of somebody else in its place (another lancet, an extension that profiles memory, USE_ZEND_ALLOC=0)"
            }
            _ => "the agent did not do what it was asked",
        }
    }

    fn has_ended(&self) -> bool {
        Php::has_ended(self)
    }

    fn objects(&self) -> Result<Box<dyn Objects + '_>> {
        Err(Error::Refused {
            pid: self.entered.pid(),
            what: "read its objects",
            reason: "those of a PHP are not read one by one",
        })
    }
}
