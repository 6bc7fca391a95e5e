//! How a child of a traced process is adopted, with its copy of the hooks.

use crate::ids::own_id;
use crate::target::Target;
use crate::tracing::{Arrives, Tracing};
use inject::heartbeat::Heartbeat;
use inject::records::ReadRecords;
use process::error::{Error, Result};
use process::guest;
use process::memory::GuestMemory;
use process::pidfd::PidFd;
use process::stop::Ties;
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use wire::calls::Calls;
use wire::{Config, ControlPage};

impl Tracing {
    /// Whether a process has a copy of this one's memory, with a control page that was wiped as in the child of a fork.
    /// A child between vfork and exec has no copy; it shares the memory.
    pub fn is_copied_in(&self, pid: i32) -> Result<bool> {
        let memory = GuestMemory::open_briefly(pid)?;
        let header: wire::Header = memory.record(self.target.resident.base)?;
        let wiped = |offset| Ok(self.target.resident.control_page_u32(&memory, offset)? == 0);
        Ok(header == self.target.resident.header
            && wiped(offset_of!(ControlPage, calls))?
            && wiped(offset_of!(ControlPage, state))?)
    }

    /// Whether a child of this process has rings of its own, as it must before it is adopted. An error means that the
    /// child is gone.
    pub fn is_apart(&self, pid: i32) -> Result<bool> {
        let memory = GuestMemory::open_briefly(pid)?;
        let at = self.target.resident.header.calls + offset_of!(Calls, apart) as u64;
        Ok(memory.word(at)? == u64::from(own_id(pid, pid)))
    }

    /// Adopts a child of this process that waits for it. If that fails, the child is released.
    pub fn adopt(&self, pid: i32) -> Result<Self> {
        let adopted = self.adopt_waiting(pid);
        if adopted.is_err()
            && let Ok(memory) = GuestMemory::open_briefly(pid)
            && let Ok(header) = memory.record::<wire::Header>(self.target.resident.base)
            && header == self.target.resident.header
        {
            let at = header.calls + offset_of!(Calls, refused) as u64;
            let _ = memory.write(at, &1u64.to_le_bytes());
        }
        adopted
    }

    /// Adopts a waiting child with its copy of the parent's memory: hooks, stubs, rings. Calls that were open at the
    /// fork return in both processes.
    fn adopt_waiting(&self, pid: i32) -> Result<Self> {
        let (status, memory, _) = guest::reach(pid)?;
        let header: wire::Header = memory.record(self.target.resident.base)?;
        if header != self.target.resident.header {
            return Err(Error::Replaced(pid));
        }
        let resident = self.target.resident;
        let at = |offset: usize| resident.header.calls + offset as u64;
        let own_id = u64::from(own_id(pid, pid));
        memory.write(at(offset_of!(Calls, pid)), &own_id.to_le_bytes())?;
        resident.claim(
            &memory,
            &Config {
                session: u64::from(self.target.session),
                ..Config::default()
            },
        )?;
        let rings = self.rings.adopt(memory.clone())?;
        let tracing = Tracing {
            _heartbeat: Heartbeat::start(memory.clone(), &resident),
            target: Target {
                held: PidFd::open(status.pid).ok(),
                status,
                memory,
                gadgets: self.target.gadgets,
                resident,
                functions: self.target.functions.clone(),
                session: self.target.session,
                ties: Ties::None,
                timing: Cell::default(),
                max_stop: self.target.max_stop,
                agents: RefCell::default(),
            },
            patcher: self.patcher.of_child(),
            rings,
            scripts: self.scripts.clone(),
            system_calls: self.system_calls.clone(),
            patience: self.patience,
            follow: self.follow,
            news: 0,
            loader: self.loader,
            arrives: Arrives::Now,
            open: true,
        };
        tracing.target.open_gate()?;
        Ok(tracing)
    }

    /// Whether the child has waited too long for its adoption and gone on.
    pub fn was_late(&self) -> Result<bool> {
        let at = self.target.resident.header.calls + offset_of!(Calls, late) as u64;
        Ok(self.target.memory.word(at)? != 0)
    }
}
