//! The process to be patched, examined before anything is changed. Used by `plan`, `apply` and others here, and by
//! crate `lancet`.

use crate::error::Result;
use crate::scripts::patching;
use hooks::{Standstill, Threads};
use inject::Timing;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::resident::Resident;
use process::functions::{Functions, ModuleSymbols};
use process::guest::{Status, reach};
use process::linkmap;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties};
use std::sync::Arc;
use std::time::Duration;
use vm::Language;

/// An additional condition of a plan, checked in the stopped process.
pub(crate) type Condition = fn(&Guest, &Stop, &RemoteThread) -> Result<()>;

/// A process as it was when it was opened, which neither changed nor stopped it. A library that is loaded later is not among its functions.
#[derive(Debug)]
pub struct Guest {
    pub(crate) status: Status,
    pub(crate) memory: Arc<GuestMemory>,
    pub(crate) functions: Functions,
    gadgets: Gadgets,
}

impl Guest {
    /// Looks at a process; it is not stopped for that.
    ///
    /// # Errors
    /// The process cannot be opened.
    pub fn open(pid: i32) -> Result<Self> {
        let (status, memory, maps) = reach(pid)?;
        let gadgets = Gadgets::find(pid, &memory, &maps)?;
        let functions = Functions::read(pid, &memory, &maps)?;
        Ok(Guest {
            status,
            memory,
            functions,
            gadgets,
        })
    }

    /// The id of the process.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// What the kernel calls it (`/proc/PID/comm`).
    pub fn name(&self) -> &str {
        &self.status.name
    }

    /// The language of its script, if it is one whose functions can be replaced.
    pub fn language(&self) -> Option<Language> {
        Language::loaded(&|name| self.functions.symbol(name))
            .filter(|language| patching(*language).is_some())
    }

    /// Whether the process contains the agent. Functions of the script are replaced through the agent, which stays until the program ends;
    /// so without it none was replaced, and the VM need not be asked.
    ///
    /// # Errors
    /// Its mappings cannot be read.
    pub fn has_agent(&self) -> Result<bool> {
        Ok(Resident::all(&self.memory, &self.maps()?).next().is_some())
    }

    /// The functions of the process, as they were when it was opened.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Its resident memory in bytes; `None` if it has ended.
    pub fn resident(&self) -> Option<u64> {
        process::rss::resident_now(self.pid())
    }

    /// Whether it still runs; true also where that cannot be found out.
    pub fn is_alive(&self) -> bool {
        !self.status.is_gone()
    }

    /// Calls `work` while all threads of the process are stopped, and returns for how long. `work` may be called again.
    pub(crate) fn stopped<T>(
        &self,
        mut work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<(T, Duration)> {
        let standstill = Standstill {
            status: &self.status,
            memory: &self.memory,
            gadgets: self.gadgets,
            ties: Ties::None,
            threads: Threads::All,
        };
        let mut timing = Timing::default();
        let done = standstill.run(&mut timing, |stop, remote| match work(stop, remote) {
            // What may pass is tried again there.
            Err(crate::Error::Process(error)) => Err(error),
            done => Ok(done),
        })?;
        Ok((done?, timing.longest_stop))
    }

    /// Its mappings, as they are now.
    pub(crate) fn maps(&self) -> Result<Maps> {
        Ok(Maps::of(self.pid())?)
    }

    /// Its modules in the order in which the loader searches them for a name: the program, then its libraries in the order
    /// of loading. Modules that are not in the loader's list come last.
    pub(crate) fn in_search_order(&self) -> Vec<Arc<ModuleSymbols>> {
        let mut modules = self.functions.modules().to_vec();
        let program = modules.iter().find(|place| place.module.main);
        let list = program
            .and_then(|place| linkmap::find(&place.module, &*self.memory).ok()?)
            .and_then(|at| linkmap::read(&*self.memory, at).ok())
            .unwrap_or_default();
        let place_of = |module: &ModuleSymbols| {
            let mut entries = list.entries.iter();
            let at = entries.position(|entry| entry.bias == module.module.bias);
            (!module.module.main, at.unwrap_or(usize::MAX))
        };
        modules.sort_by_key(|place| place_of(place));
        modules
    }
}
