//! The VM whose births are counted: what a session asks of it, whichever it is.
//!
//! | | Ruby | Python |
//! |---|---|---|
//! | counted | objects, by a hook of the VM | blocks of the two allocators that Python's lock guards |
//! | dead | what the walk over the heap does not find | what was freed |
//! | forked children | count on | are opened anew |

use enter::{CountedPython, Ruby};
use inject::Timing;
use inject::resident::Resident;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use process::memory::GuestMemory;

/// An open process with such a VM.
#[derive(Debug)]
pub(crate) enum Vm {
    Ruby(Box<Ruby>),
    Python(Box<CountedPython>),
}

macro_rules! ask {
    ($any:expr, $vm:ident => $question:expr) => {
        match $any {
            Vm::Ruby($vm) => $question,
            Vm::Python($vm) => $question,
        }
    };
}

impl Vm {
    pub(crate) fn memory(&self) -> &GuestMemory {
        ask!(self, vm => vm.memory())
    }

    pub(crate) fn resident(&self) -> &Resident {
        ask!(self, vm => vm.resident())
    }

    pub(crate) fn tracee(&mut self) -> &mut Option<Tracee> {
        ask!(self, vm => vm.tracee())
    }

    pub(crate) fn census(&mut self, collect: bool) -> Result<()> {
        ask!(self, vm => vm.census(collect))
    }

    pub(crate) fn leave(&mut self) -> Result<Timing> {
        ask!(self, vm => vm.leave())
    }

    pub(crate) fn give_up(&mut self) {
        ask!(self, vm => vm.give_up());
    }

    pub(crate) fn is_open(&self) -> bool {
        ask!(self, vm => vm.is_open())
    }

    pub(crate) fn farewell(&self) -> Result<Option<&'static str>> {
        ask!(self, vm => vm.farewell())
    }

    pub(crate) fn is_alive(&self) -> bool {
        ask!(self, vm => vm.is_alive())
    }

    pub(crate) fn pid(&self) -> i32 {
        ask!(self, vm => vm.pid())
    }

    pub(crate) fn command(&self) -> &[String] {
        ask!(self, vm => vm.command())
    }

    pub(crate) fn timing(&self) -> Timing {
        ask!(self, vm => vm.timing())
    }

    /// The name of its language.
    pub(crate) fn language(&self) -> &'static str {
        let language = match self {
            Vm::Ruby(_) => vm::Language::Ruby,
            Vm::Python(_) => vm::Language::Python,
        };
        language.description().name
    }

    pub(crate) fn version(&self) -> String {
        match self {
            Vm::Ruby(ruby) => ruby.ruby().version().to_string(),
            Vm::Python(python) => python.version(),
        }
    }

    /// The Ruby, for what is asked of Ruby alone.
    pub(crate) fn ruby(&self) -> Result<&Ruby> {
        match self {
            Vm::Ruby(ruby) => Ok(ruby),
            Vm::Python(_) => Err(self.is_no_ruby()),
        }
    }

    pub(crate) fn ruby_mut(&mut self) -> Result<&mut Ruby> {
        match self {
            Vm::Ruby(ruby) => Ok(ruby),
            Vm::Python(_) => Err(self.is_no_ruby()),
        }
    }

    fn is_no_ruby(&self) -> Error {
        Error::NotARuby {
            pid: self.pid(),
            reason: "this is counted of objects of Ruby alone".into(),
        }
    }
}
