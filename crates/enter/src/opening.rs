//! What a process is opened for, as data: the agent's configuration, and what is done when it is claimed. Used by
//! `counting`, `languages` and others here, and by the crates `births` and `dump`.

use inject::resident::Resident;
use process::error::Result;
use process::memory::GuestMemory;
use wire::{Config, Purpose};

/// What a process is opened for.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// The agent's configuration, as far as the question decides it; the rest is filled in with what is found of the VM.
    pub config: Config,
    /// Called when the agent is claimed and has not begun to watch. The main thread may stand still meanwhile, so it writes a few words and
    /// waits for nothing.
    pub claimed: fn(&GuestMemory, &Resident) -> Result<()>,
}

impl Opening {
    /// An opening for something that counts no births. The intervals and the epoch of births in the agent stay as an earlier command has
    /// left them: nothing reads them before births are counted again, and who counts them writes both ([`Opening::claimed`]).
    pub const fn plain(purpose: Purpose) -> Self {
        Opening {
            config: Config {
                purpose: purpose as u64,
                ..Config::NONE
            },
            claimed: |_, _| Ok(()),
        }
    }
}
