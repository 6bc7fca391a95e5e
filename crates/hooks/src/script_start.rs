//! Brings a program that stands at its exec to the first line of its script, for a command that hooks nothing else.
//! Used by the crates `enter` and `births`.
//!
//! ```text
//!   us                                     the program
//!   map the agent, hook `_dl_debug_state`  stands at its exec
//!                                          the loader maps the libraries and calls `_dl_debug_state`: waits for us
//!   hook the function that runs the
//!   script, forget the loader's hook ────► constructors, `main`; the VM is made, the script compiled
//!                                          calls the function: posts a notice and waits for us
//!   in one stop: put all bytes back,
//!   give the agent to its next user ─────► `agent::jobs::at_script`, then the script
//! ```
//!
//! If lancet dies, the program goes on from each of these: both waits end when the heartbeat stops or our process is
//! gone, and a hook falls through when the gate is closed (`agent::calls::notices`, `agent::calls::loader`). The
//! function that runs the script gets no frame of ours, because it returns only when the program ends.

use crate::bound::MAX_STOP;
use crate::{Arrives, Options, Says, Tracing, Wanted};
use crate::{lifting, pool};
use inject::image::Image;
use inject::resident::Resident;
use inject::tracee::Tracee;
use process::error::{Error, Result};
use process::functions::Function;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::Ties;
use process::symbols::Kind;
use std::mem::offset_of;
use std::sync::Arc;
use wire::ControlPage;
use wire::calls::{Hook, want};

/// How far a program has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It is being loaded, or its VM is being made.
    OnItsWay,
    /// Its libraries are there and none has the function: it runs no script of this language.
    NoScript,
    /// Its main thread waits at the first instruction of the function, until [`ScriptStart::hand_over`].
    Reached,
}

/// A program between its exec and its script; see the module's text.
#[derive(Debug)]
pub struct ScriptStart {
    tracing: Tracing,
    functions: &'static [&'static str],
    /// That of them which is hooked.
    hooked: Option<&'static str>,
}

impl ScriptStart {
    /// Opens a program that stands at its exec and leaves it there; [`go_on`](Self::go_on) sets it going. The `functions` are
    /// what `main` calls to run the script, in the order in which they are looked for. `None`: it has no loader, and none of them is in it.
    pub fn at_exec(
        tracee: &mut Tracee,
        image: &Image,
        functions: &'static [&'static str],
    ) -> Result<Option<Self>> {
        let options = Options {
            max_stop: MAX_STOP,
            ..Options::default()
        };
        let mut start = ScriptStart {
            tracing: Tracing::at_exec(tracee, image, options)?,
            functions,
            hooked: None,
        };
        let alone = start.tracing.functions().modules().len() == 1;
        if start.tracing.arrives == Arrives::AtThread && alone && start.find().is_none() {
            start.tracing.tie(Ties::Standing);
            start.tracing.leave()?;
            return Ok(None);
        }
        start.tracing.tie(Ties::Kept);
        Ok(Some(start))
    }

    /// Sets the program going after an event that its tracer has seen.
    pub fn go_on(&self, tracee: &mut Tracee) -> Result<()> {
        tracee.go_on(self.tracing.arrives == Arrives::AtThread)
    }

    /// Looks how far the program is, and does the next step, without waiting. The error is [`Error::AtEvent`] if its
    /// main thread stands at something that its tracer must see first.
    pub fn poll(&mut self) -> Result<Progress> {
        if self.tracing.has_news()? {
            return self.loaded();
        }
        let notices = self.tracing.notices()?;
        if notices.iter().any(|notice| notice.says == Says::Script) {
            Ok(Progress::Reached)
        } else {
            Ok(Progress::OnItsWay)
        }
    }

    /// Handles a system call of a program without a loader. As soon as its thread pointer is set, its function is
    /// hooked; before that, our code must not run in it.
    pub fn at_system_call(&mut self, tracee: &mut Tracee) -> Result<Progress> {
        if !self.tracing.has_thread_pointer() {
            return Ok(Progress::OnItsWay);
        }
        tracee.stand_still()?;
        self.tracing.tie(Ties::Standing);
        let progress = self.loaded();
        self.tracing.tie(Ties::Kept);
        progress
    }

    /// The memory of the program.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        self.tracing.memory()
    }

    /// Hooks the function when the libraries are there, and lets the loader go on.
    fn loaded(&mut self) -> Result<Progress> {
        let tracing = &mut self.tracing;
        tracing.arrives = Arrives::Now;
        let at = offset_of!(ControlPage, loads);
        let loads = tracing.target.control_page_u32(at)?;
        if self.hooked.is_none() {
            let pid = tracing.pid();
            let maps = Maps::of(pid)?;
            let target = &mut tracing.target;
            target.functions.refresh(pid, &target.memory, &maps)?;
            let Some((name, function)) = self.find() else {
                return Ok(Progress::NoScript);
            };
            self.hook(function)?;
            self.hooked = Some(name);
        }
        let at = offset_of!(ControlPage, loads_seen);
        self.tracing.target.set_on_control_page(at, loads)?;
        Ok(Progress::OnItsWay)
    }

    fn hook(&mut self, function: Function) -> Result<()> {
        let wanted = Wanted {
            entry_only: true,
            ..Wanted::own(function, want::SCRIPT)
        };
        let refused = self.tracing.set(vec![wanted])?;
        if let Some(refused) = refused.into_iter().next() {
            return Err(Error::Hook {
                pid: self.tracing.pid(),
                function: refused.function.name,
                reason: refused.reason.to_string(),
            });
        }
        // Libraries that come from now on do not matter, so their loading need not wait.
        let Tracing {
            target, patcher, ..
        } = &mut self.tracing;
        target.forced(|memory| patcher.table.unwant(memory, want::LOADER))
    }

    /// The function that runs the script.
    pub fn function(&self) -> Option<&'static str> {
        self.hooked
    }

    /// Finds the function that runs the script, in the program itself or in one of its libraries.
    fn find(&self) -> Option<(&'static str, Function)> {
        let mut names = self.functions.iter();
        names.find_map(|name| Some((*name, self.find_one(name)?)))
    }

    fn find_one(&self, name: &'static str) -> Option<Function> {
        let mut places = self.tracing.functions().modules().iter();
        places.find_map(|place| {
            let symbol = if place.module.main {
                place.symbols.symbol(name)
            } else {
                place.symbols.exported(name)
            };
            let symbol = symbol.filter(|symbol| symbol.kind != Kind::Indirect)?;
            Some(Function {
                name: name.into(),
                module: place.name.clone(),
                address: symbol.address,
                size: symbol.size,
                picks: false,
            })
        })
    }

    /// Takes the hooks out and gives the agent to its next user, in one stop of all threads; then the main thread goes
    /// on, and the agent does what `take` has requested before the script begins. `take` may be called again if a thread
    /// could not be stopped at a usable place.
    pub fn hand_over(mut self, mut take: impl FnMut(Resident) -> Result<()>) -> Result<()> {
        let Tracing {
            target, patcher, ..
        } = &mut self.tracing;
        let set = patcher.table.set_ones();
        let hooks: Vec<(u64, Hook)> = set.map(|known| (known.at, known.hook)).collect();
        let handed = target.stopped(|stop, remote| {
            lifting::put_back(stop, remote, &target.layers()?, &hooks)?;
            patcher.table.silence_by_page(&target.memory)?;
            pool::withdraw(&target.memory, &target.resident, remote)?;
            take(target.resident)
        });
        if let Err(error) = handed {
            let _ = self.leave();
            return Err(error);
        }
        self.tracing.open = false;
        Ok(())
    }

    /// Takes the hooks out; the program goes on alone.
    pub fn leave(&mut self) -> Result<()> {
        self.tracing.leave().map(drop)
    }
}
