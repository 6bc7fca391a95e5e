//! A PHP whose births are counted by the agent: what the agent is asked, and how it leaves.
//!
//! If it cannot be asked to leave, the agent is made quiet: its functions then take themselves out when the VM next calls one.

use super::{Found, Php};
use crate::counted::Counted;
use crate::entered::{Entered, Reached};
use crate::farewell;
use crate::opening::Opening;
use hooks::ScriptStart;
use inject::resident::Resident;
use inject::seccomp::check_all_threads;
use inject::tracee::Tracee;
use inject::{Image, Timing};
use languages::objects::Objects;
use process::error::{Error, Result};
use process::guest::command_line;
use process::memory::GuestMemory;
use std::mem::offset_of;
use vm::Language;
use wire::control_page::CENSUS_COLLECT;
use wire::{ControlPage, Farewell, Reply, Request};

/// A PHP that is open: its agent counts, and requests to it are possible until it is left. Dropping this value leaves it.
#[derive(Debug)]
struct CountedPhp {
    php: Php,
    command: Vec<String>,
    open: bool,
    /// Whether it was asked to begin, and nobody has waited for that.
    comes: bool,
}

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
    let mut counted = CountedPhp::of(Php {
        entered,
        found,
        tracee: None,
    });
    counted.ask(Request::Watch, 0, "count its births")?;
    Ok(Box::new(counted))
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
        Ok(mut php) => {
            php.tracee = Some(tracee);
            let mut counted = CountedPhp::of(php);
            counted.comes = true;
            Ok(Box::new(counted))
        }
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

impl CountedPhp {
    fn of(php: Php) -> Self {
        CountedPhp {
            command: command_line(php.entered.pid()),
            php,
            open: true,
            comes: false,
        }
    }

    /// Makes the agent do something, and fails if it did not.
    fn ask(&mut self, request: Request, argument: u64, what: &'static str) -> Result<()> {
        let pid = self.pid();
        if let Some(why) = self.farewell()? {
            return Err(Error::Left { pid, why });
        }
        if std::mem::take(&mut self.comes) && request != Request::Leave {
            self.php.await_answer()?;
        }
        self.php.ask(request, argument)?;
        let reply = offset_of!(ControlPage, reply);
        let reply = self.resident().control_page_u32(self.memory(), reply)?;
        if reply == Reply::Done as u32 {
            return Ok(());
        }
        if let Some(why) = self.farewell()? {
            return Err(Error::Left { pid, why });
        }
        let reason = match (request, reply) {
            (_, reply) if reply == Reply::NoMemory as u32 => {
                "it could not map memory for its books, which take a quarter of what its limits and the machine leave it"
            }
            (Request::Watch, _) => {
                "its allocator, or what its requests begin and end with, has functions of somebody else in its place (another lancet, an extension that profiles memory, USE_ZEND_ALLOC=0)"
            }
            _ => "the agent did not do what it was asked",
        };
        Err(Error::Refused { pid, what, reason })
    }
}

impl Counted for CountedPhp {
    fn language(&self) -> Language {
        Language::Php
    }

    /// What is in cycles of references counts as living: the VM's collector is not called, and the count says whether one was wanted.
    fn census(&mut self, collect: bool) -> Result<()> {
        let collect = if collect { CENSUS_COLLECT } else { 0 };
        self.ask(Request::Census, collect, "count the living")
    }

    fn leave(&mut self) -> Result<Timing> {
        self.open = false;
        let asked = match self.farewell()? {
            // An agent that was made quiet, because it did not answer, does not answer this either; and of a VM that has ended nothing is left
            // that its functions could be taken out of.
            None if self.php.entered.is_quiet() || self.php.has_ended() => Ok(()),
            None => self.ask(Request::Leave, 0, "take the agent's functions out"),
            Some(_) => Ok(()),
        };
        let left = self.php.entered.leave();
        asked.and(left)
    }

    fn give_up(&mut self) {
        self.open = false;
        self.php.entered.give_up();
    }

    fn is_open(&self) -> bool {
        self.open
    }

    fn farewell(&self) -> Result<Option<&'static str>> {
        let all = [Farewell::Alone, Farewell::Broken, Farewell::Replaced];
        farewell::among(&all, self.resident(), self.memory())
    }

    fn is_alive(&self) -> bool {
        !self.php.entered.status.is_gone()
    }

    fn pid(&self) -> i32 {
        self.php.entered.pid()
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn version(&self) -> String {
        self.php.found.facts.version().to_string()
    }

    fn memory(&self) -> &GuestMemory {
        &self.php.entered.memory
    }

    fn resident(&self) -> &Resident {
        &self.php.entered.resident
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.php.tracee
    }

    fn timing(&self) -> Timing {
        self.php.entered.timing()
    }

    fn adopt(&self, pid: i32) -> Result<Box<dyn Counted>> {
        Err(Error::NotAGuest {
            pid,
            reason: "it was forked by a PHP, whose births it does not count; those of the next program that it runs are counted",
        })
    }

    fn objects(&self) -> Result<Box<dyn Objects + '_>> {
        Err(Error::Refused {
            pid: self.pid(),
            what: "read its objects",
            reason: "those of a PHP are not read one by one",
        })
    }

    fn objects_at_end(&self) -> Result<Box<dyn Objects + '_>> {
        Err(Error::Refused {
            pid: self.pid(),
            what: "count what it held at its end",
            reason: "it ended in the middle of its request (a signal)",
        })
    }
}

impl Drop for CountedPhp {
    fn drop(&mut self) {
        if self.open && self.is_alive() {
            // The error cannot be returned.
            let _ = self.leave();
        }
    }
}
