//! Hooks in a guest: set in one stop for all of them, read through lanes, lifted in one stop.
//!
//! ```text
//!   us                                   guest
//!   symbols → plans (it runs)
//!   stop every thread ─────────────────► stands still
//!     hooks, stubs, their list ────────► written where nothing leads yet
//!     threads within changed bytes ────► moved into the stub
//!     jumps ───────────────────────────► 5 bytes each
//!   let them go; nothing is traced
//!   read lanes ◄──────────────────────── records
//!   close the gate ────────────────────► hooks fall through
//!   stop, put the bytes back, go ──────► as it was; stubs stay, for frames that may return into them
//! ```
//!
//! If we die, the hooks stay, and fall through as soon as nobody reads (`agent::calls::lane`). The next
//! attach finds them in the list and lifts them or uses them again.

mod areas;
mod asked;
mod change;
mod named;
mod notices;
mod open;
mod own;
mod parked;
mod picks;
mod set;
mod standstill;
mod state;
mod system_calls;
mod text;
mod threads;
mod vforks;

use crate::borrow::Gadgets;
use crate::error::Result;
use crate::functions::{Function, Functions};
use crate::guest::{self, Status};
use crate::heart::Heart;
use crate::lanes::Lanes;
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::resident::Resident;
use crate::stop::Ties;
use areas::Areas;
pub use asked::{CALL_THROUGH, Options, PROBE, Refused, Timing, Wanted};
use asked::{FIND_FDE, LEAST_PATIENCE};
pub use notices::{Notice, Says};
use standstill::stopped;
pub use state::Script;
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
pub use system_calls::{OTHERS, Role};
use text::Texts;
use wire::Board;
use wire::calls::{Hook, Patched, want};

/// Where a program that has just begun says that its functions can be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrives {
    /// It is there.
    Now,
    /// When its loader has loaded its libraries, before their constructors: [`Tracing::has_news`].
    AtLoader,
    /// It has no loader: when its thread pointer is set, [`Tracing::has_thread_pointer`].
    AtThread,
}

/// A guest whose calls are traced.
#[derive(Debug)]
pub struct Tracing {
    status: Status,
    memory: Arc<GuestMemory>,
    gadgets: Gadgets,
    resident: Resident,
    _heart: Heart,
    areas: Areas,
    lanes: Lanes,
    session: u32,
    patience: Duration,
    functions: Functions,
    /// Every hook that was ever made in this guest, by its place.
    hooks: HashMap<u64, Known>,
    /// Functions that are hooked for ourselves, and what is wanted of them.
    own: HashMap<u64, u64>,
    /// IFUNCs that were wanted before they picked, by their address.
    pickers: HashMap<u64, Function>,
    follow: bool,
    /// Its VM has not begun with the script yet.
    awaits_script: bool,
    /// `Board::news` as it was when the notices were read last.
    news: u32,
    /// Address of the loader's `r_debug`.
    loader: u64,
    /// Where each program is that was written in this session.
    programs: HashMap<Vec<u64>, u64>,
    /// To be written with the first hooks.
    line_tests: Vec<u64>,
    next_number: u64,
    /// Functions by the number of their hook, those of libraries that are gone too: their calls may be told yet.
    names: HashMap<u32, Function>,
    /// Code that was decoded, for as long as hooks are being set.
    texts: Texts,
    timing: Timing,
    system_calls: system_calls::SystemCalls,
    /// The guest's VM.
    script: Script,
    /// Functions by names of its language.
    defined_names: named::Names,
    /// The language whose lines are told.
    vm: &'static str,
    /// Why no script lines can be told.
    no_lines: Option<String>,
    ties: Ties,
    arrives: Arrives,
    open: bool,
}

/// A hook, and where it is.
#[derive(Clone, Copy, Debug)]
struct Known {
    at: u64,
    hook: Hook,
    /// It stands in the guest's code now.
    set: bool,
}

impl Tracing {
    /// Hooks that were made at an earlier attach; where one that died left them set, they are lifted.
    fn find_old_hooks(&mut self) -> Result<()> {
        let mut left = Vec::new();
        for (at, mut hook) in self.areas.hooks(&self.memory)? {
            self.next_number = self.next_number.max(hook.number + 1);
            let set = patches(&hook).iter().any(|patch| {
                self.now(patch)
                    .is_some_and(|now| now[..] == patch.is[..now.len()])
            });
            if hook.want != 0 {
                hook.want = 0;
                self.silence(at)?;
            }
            // The unwinder's may be there for parked frames.
            if set && hook.routine != self.resident.header.routines[FIND_FDE] {
                left.push(hook.place);
            }
            // A place may have had several; the one that stands there is the one to know.
            let newer = self
                .hooks
                .get(&hook.place)
                .is_none_or(|known| set || !known.set);
            if newer {
                self.hooks.insert(hook.place, Known { at, hook, set });
            }
        }
        match left.is_empty() {
            true => Ok(()),
            false => self.lift(&left).map(drop),
        }
    }

    /// What stands where a patch is or will be.
    fn now(&self, patch: &Patched) -> Option<Vec<u8>> {
        let mut now = vec![0; (patch.length as usize).min(patch.is.len())];
        self.memory.read_bytes(patch.at, &mut now).ok()?;
        Some(now)
    }

    fn silence(&self, at: u64) -> Result<()> {
        self.memory
            .write(at + offset_of!(Hook, want) as u64, &0u64.to_le_bytes())
    }

    /// Opens or closes the gate that every hook asks first.
    fn gate(&self, session: u32) -> Result<()> {
        self.resident
            .set_board(&self.memory, offset_of!(Board, calls), session)
    }

    /// Hooks functions, in one stop; those that cannot be hooked, and why. Where a thread stands in the way of some, these
    /// are tried again a moment later.
    pub fn set(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let refused = self.set_here(wanted);
        self.texts = Texts::default();
        refused
    }

    /// The same, where more is to be set at once.
    fn set_here(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let wanted = self.with_pickers(wanted);
        let wanted = self.with_returns(wanted);
        let mut refused = self.try_set(wanted.clone())?;
        for _ in 0..guest::TRIES {
            let busy = |refused: &Refused| refused.reason == set::IN_THE_WAY;
            let again: Vec<u64> = refused
                .iter()
                .filter(|refused| busy(refused))
                .map(|refused| refused.function.address)
                .collect();
            if again.is_empty() {
                break;
            }
            std::thread::sleep(guest::PAUSE);
            refused.retain(|refused| !busy(refused));
            let wanted = wanted.iter();
            let wanted = wanted.filter(|wanted| again.contains(&wanted.function.address));
            refused.extend(self.try_set(wanted.cloned().collect())?);
        }
        // What was to tell us of others, and cannot.
        for Refused { function, .. } in &refused {
            let address = &function.address;
            self.pickers.remove(address);
            self.own
                .retain(|at, own| at != address || *own & (want::PICKS | want::BACK) == 0);
        }
        Ok(refused)
    }

    fn try_set(&mut self, wanted: Vec<Wanted>) -> Result<Vec<Refused>> {
        let (mut refused, mut steps) = (Vec::new(), Vec::new());
        let mut texts = std::mem::take(&mut self.texts);
        for wanted in wanted {
            match self.step(&wanted, &mut texts) {
                Ok(step) => steps.push(step),
                Err(reason) => refused.push(Refused {
                    function: wanted.function,
                    reason,
                }),
            }
        }
        self.texts = texts;
        if steps.is_empty() {
            return Ok(refused);
        }
        let (status, memory, gadgets) = (self.status.clone(), self.memory.clone(), self.gadgets);
        let mut timing = self.timing;
        let set = stopped(
            &status,
            &memory,
            gadgets,
            self.ties,
            &mut timing,
            |stop, borrowed| self.write(stop, borrowed, &steps, &mut refused),
        );
        self.timing = timing;
        set.map(|()| refused)
    }

    /// Puts back what stood at these places; where each thread's stack ended meanwhile.
    fn lift(&mut self, places: &[u64]) -> Result<Vec<u64>> {
        let (status, memory, gadgets) = (self.status.clone(), self.memory.clone(), self.gadgets);
        let mut timing = self.timing;
        let pads: Vec<(u64, u64)> = places
            .iter()
            .filter_map(|place| self.hooks.get(place))
            .filter(|known| patches(&known.hook).len() > 1)
            .map(|known| (known.hook.patches[0].at, known.hook.stub))
            .collect();
        let lifted = stopped(
            &status,
            &memory,
            gadgets,
            self.ties,
            &mut timing,
            |stop, borrowed| {
                threads::take_jumps(borrowed, &stop.threads().collect::<Vec<_>>(), &pads)?;
                for place in places {
                    let Some(known) = self.hooks.get_mut(place) else {
                        continue;
                    };
                    for patch in patches(&known.hook).iter().rev() {
                        let length = (patch.length as usize).min(patch.is.len());
                        let mut now = [0; 8];
                        // A library that was unloaded has taken its hooks with it.
                        if memory.read_bytes(patch.at, &mut now[..length]).is_ok()
                            && now[..length] == patch.is[..length]
                        {
                            memory.write(patch.at, &patch.was[..length])?;
                            if patch.at == known.hook.place {
                                set::raise(&memory, &known.hook, -1);
                            }
                        }
                    }
                    known.set = false;
                }
                let others = stop.threads().filter(|tid| *tid != status.pid);
                let others = others.filter_map(|tid| Some(crate::ptrace::registers(tid).ok()?.rsp));
                Ok(others.chain([borrowed.registers().rsp]).collect())
            },
        );
        self.timing = timing;
        lifted
    }

    /// The functions of the guest.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The function with this hook.
    pub fn function(&self, hook: u32) -> Option<&Function> {
        self.names.get(&hook)
    }

    /// How many functions are hooked.
    pub fn hooked(&self) -> usize {
        self.told().count()
    }

    /// How many functions were hooked at some time.
    pub fn ever_hooked(&self) -> usize {
        self.names.len()
    }

    /// The functions whose calls are told now.
    fn told(&self) -> impl Iterator<Item = &Function> {
        let set = self.hooks.values();
        let set = set.filter(|known| known.set && known.hook.patched != 0);
        let numbers = set.flat_map(|known| self.numbers(known));
        numbers.filter_map(|number| self.names.get(&(number as u32)))
    }

    /// What the hooks say.
    pub fn lanes(&mut self) -> &mut Lanes {
        &mut self.lanes
    }

    /// The language whose lines are told; empty = none.
    pub fn vm(&self) -> &'static str {
        self.vm
    }

    /// Why script lines are not known, if they are not.
    pub fn no_lines(&self) -> Option<&str> {
        self.no_lines.as_deref()
    }

    /// The guest's id.
    pub fn pid(&self) -> i32 {
        self.status.pid
    }

    /// Whether the guest still runs.
    pub fn is_alive(&self) -> bool {
        self.status.is_current()
    }

    /// Whether it runs another program now. One that is ending has none.
    pub fn is_replaced(&self) -> bool {
        let program = format!("/proc/{}/exe", self.status.pid);
        self.memory.word(self.resident.base).is_err()
            && self.is_alive()
            && std::fs::read_link(program).is_ok()
    }

    /// How long the guest stood still.
    pub fn timing(&self) -> Timing {
        self.timing
    }

    /// No hook says anything from now on; what has been said can still be read.
    pub fn close(&mut self) -> Result<()> {
        self.gate(0)
    }

    /// Takes all hooks out. What the lanes hold can still be read afterwards. Whether all of them are out: the
    /// unwinder's stays where frames of ours are parked (`parked`).
    pub fn leave(&mut self) -> Result<bool> {
        self.open = false;
        self.close()?;
        let unwinder: Vec<u64> = self.unwinder_places();
        let set: Vec<u64> = self
            .hooks
            .iter()
            .filter(|(place, known)| known.set && !unwinder.contains(place))
            .map(|(place, _)| *place)
            .collect();
        let mut lifted = self.lift(&set);
        let parked = match &lifted {
            Ok(stacks) => self.has_parked_frames(stacks),
            Err(_) => true,
        };
        if lifted.is_ok() && !unwinder.is_empty() && !parked {
            lifted = self.lift(&unwinder);
        }
        for known in self.hooks.values() {
            if known.hook.want != 0 {
                self.silence(known.at)?;
            }
        }
        self.resident
            .set_board(&self.memory, offset_of!(Board, state), 0u32)?;
        lifted.map(|_| !parked || unwinder.is_empty())
    }

    /// Where the unwinder is hooked.
    fn unwinder_places(&self) -> Vec<u64> {
        let routine = self.resident.header.routines[FIND_FDE];
        let set = self.hooks.iter().filter(|(_, known)| known.set);
        set.filter(|(_, known)| known.hook.routine == routine)
            .map(|(place, _)| *place)
            .collect()
    }

    /// Where our code is in the guest.
    pub fn agent(&self) -> Range<u64> {
        self.resident.base..self.resident.base + self.resident.header.size
    }

    /// The guest's memory.
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    fn has_parked_frames(&self, stacks: &[u64]) -> bool {
        let [routine, end, _] = self.resident.header.routines;
        let Ok(maps) = Maps::read(self.status.pid) else {
            return false;
        };
        let mut ours = self.lanes.ranges();
        ours.push(self.agent());
        parked::may_be(&self.memory, &maps, routine..end, &ours, stacks)
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        // An exec has taken the memory away.
        let there = || self.memory.word(self.resident.base).is_ok();
        if self.open && self.is_alive() && there() {
            // Nobody is left to tell.
            let _ = self.leave();
        }
    }
}

/// What a hook changes.
fn patches(hook: &Hook) -> &[Patched] {
    &hook.patches[..(hook.patched as usize).min(hook.patches.len())]
}
