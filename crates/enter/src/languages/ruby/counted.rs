//! A Ruby whose births are counted: what the agent is asked. Used by `entry`.

use super::{Ruby, SCRATCH};
use crate::counted::Counted;
use crate::opening::Opening;
use hooks::ScriptStart;
use inject::Timing;
use inject::heartbeat::Heartbeat;
use inject::image::Image;
use inject::records::ReadRecords;
use inject::resident::Resident;
use inject::tracee::Tracee;
use languages::objects::Objects;
use languages::snapshot::Told;
use process::error::{Error, Result};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use std::mem::offset_of;
use std::sync::Arc;
use vm::Language;
use wire::{Config, ControlPage, Farewell, Request, State};

/// Opens a process whose births are counted.
pub fn open(pid: i32, image: &Image, opening: Opening) -> Result<Box<dyn Counted>> {
    Ok(Box::new(Ruby::open(pid, image, opening)?))
}

/// Opens a program that we started and that waits for us where its script begins.
pub fn open_at_script(
    tracee: Tracee,
    start: ScriptStart,
    opening: Opening,
) -> std::result::Result<Box<dyn Counted>, (Tracee, Error)> {
    Ok(Box::new(Ruby::at_script(tracee, start, opening)?))
}

impl Counted for Ruby {
    fn language(&self) -> Language {
        Language::Ruby
    }

    fn version(&self) -> String {
        self.ruby.version().to_string()
    }

    fn pid(&self) -> i32 {
        Ruby::pid(self)
    }

    fn command(&self) -> &[String] {
        &self.command
    }

    fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    fn resident(&self) -> &Resident {
        &self.resident
    }

    fn tracee(&mut self) -> &mut Option<Tracee> {
        &mut self.tracee
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn is_alive(&self) -> bool {
        Ruby::is_alive(self)
    }

    fn is_open(&self) -> bool {
        self.open
    }

    fn farewell(&self) -> Result<Option<&'static str>> {
        Ruby::farewell(self)
    }

    fn census(&mut self, collect: bool) -> Result<()> {
        self.ask(Request::Census, u64::from(collect), "count the living")
    }

    fn leave(&mut self) -> Result<Timing> {
        Ruby::leave(self)
    }

    fn give_up(&mut self) {
        self.open = false;
    }

    fn adopt(&self, pid: i32) -> Result<Box<dyn Counted>> {
        let status = Status::read(pid)?;
        let memory = Arc::new(GuestMemory::open(pid)?);
        let header: wire::Header = memory.record(self.resident.base)?;
        let config: Config = memory.record(self.resident.header.config)?;
        if header != self.resident.header || config.session != self.config.session {
            return Err(Error::NotAGuest {
                pid,
                reason: "it does not carry its parent's agent",
            });
        }
        if self.shares_memory_with(&memory)? {
            return Err(Error::NotAGuest {
                pid,
                reason: "it still uses its parent's memory (vfork)",
            });
        }
        if self
            .resident
            .control_page_u32(&memory, offset_of!(ControlPage, deserted))?
            != 0
        {
            return Err(Error::NotAGuest {
                pid,
                reason: "its agent has left by itself",
            });
        }
        self.resident.claim(&memory, &config)?;
        self.resident
            .write_control_page(&memory, offset_of!(ControlPage, hooked), 1u32)?;
        let (ruby, maps) = (self.ruby.clone(), Maps::of(pid)?);
        let mut child = Ruby::unclaimed(status, memory, ruby, maps, config);
        child.resident = self.resident;
        child.heartbeat = Heartbeat::start(child.memory.clone(), &child.resident);
        child.open = true;
        Ok(Box::new(child))
    }

    fn objects(&self) -> Result<Box<dyn Objects + '_>> {
        self.ruby.facts.objects(&self.memory)
    }

    fn awaits_last_count(&self) -> Result<bool> {
        let half = |offset| self.resident.control_page_u32(&self.memory, offset);
        Ok(
            half(offset_of!(ControlPage, deserted))? == Farewell::Ractor as u32
                && half(offset_of!(ControlPage, state))? == State::Open as u32,
        )
    }

    fn let_go(&mut self) -> Result<()> {
        self.open = false;
        if self.awaits_last_count()? {
            self.go_quiet();
        }
        Ok(())
    }

    fn rise(&mut self) -> Result<()> {
        self.ask(Request::Rise, 0, "set its hook again")
    }
}

impl Ruby {
    /// Whether `child` is between vfork and exec: what is written to our guest can be read there. A forked child has a
    /// control page of its own.
    fn shares_memory_with(&self, child: &GuestMemory) -> Result<bool> {
        let nonce = inject::heartbeat::unique();
        let place = self.resident.header.control_page + SCRATCH;
        self.memory.write(place, &nonce.to_le_bytes())?;
        Ok(child.word(place)? == nonce)
    }
}
