//! The only way by which a stopped thread is made to call a function of its VM: through a [`Door`] of the list in `vm` that is proven open.
//! Used by crate `enter`.
//!
//! The agent makes the call, so a door is a bit of the argument of its entry, with the language of the door ([`wire::control_page::enter`]).

use crate::remote_call::{RemoteThread, Work};
use process::error::Result;
use std::time::Instant;
use vm::{Door, Needs};
use wire::control_page::enter::{HERE, HOLDS, LANGUAGE, LOCK, REGISTER, WAKE};

/// Doors that are open while the threads stand that were stopped for the proof.
#[derive(Debug)]
pub struct Open {
    bits: u64,
    waits: bool,
    /// Whether handlers of signals would run within the call: those of some VMs do, those of others only note the signal, and such a
    /// VM may itself send signals to a thread that waits for its lock.
    puts_off: bool,
}

impl Open {
    /// Asks whether a door is open. `is_proven` is called unless it is always open, and shows what [`Door::needs`] says.
    ///
    /// # Errors
    /// Those of the proof.
    pub fn proven(
        door: Door,
        is_proven: impl FnOnce(Needs) -> Result<bool>,
    ) -> Result<Option<Self>> {
        let needs = door.needs();
        let is_open = needs == Needs::Nothing || is_proven(needs)?;
        Ok(is_open.then(|| Open {
            bits: bits(door),
            waits: needs == Needs::Waits,
            puts_off: door == Door::TakeLock,
        }))
    }

    /// A door that is always open; `None` if it needs a proof.
    pub fn always(door: Door) -> Option<Self> {
        Self::proven(door, |_| Ok(false)).unwrap_or_default()
    }

    /// Both doors of one VM, one after the other.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        debug_assert_eq!(
            self.bits >> LANGUAGE,
            other.bits >> LANGUAGE,
            "one call enters the VM of one language"
        );
        Open {
            bits: self.bits | other.bits,
            waits: self.waits || other.waits,
            puts_off: self.puts_off || other.puts_off,
        }
    }
}

/// A door in the argument of the agent's entry.
const fn bits(door: Door) -> u64 {
    let bit = match door {
        Door::RegisterJob | Door::AddPendingCall => REGISTER,
        Door::SignalHandler => WAKE,
        Door::HasLock => HOLDS,
        Door::CallWithLock | Door::TakeLock => LOCK,
        Door::GetHeap => HERE,
    };
    bit | door.language().number() << LANGUAGE
}

impl RemoteThread<'_> {
    /// Calls the functions of open doors by the agent's `entry`.
    ///
    /// # Errors
    /// As of [`call`](Self::call).
    pub fn enter(&mut self, entry: u64, open: Open) -> Result<()> {
        debug_assert!(
            !open.waits,
            "such a call waits for threads that stand still"
        );
        self.call(entry, open.bits)
    }

    /// The same by [`call_freely`](Self::call_freely), for doors that wait for the VM's lock.
    ///
    /// # Errors
    /// As of [`call_freely`](Self::call_freely).
    pub fn enter_freely(
        &mut self,
        entry: u64,
        open: Open,
        deadline: Instant,
        work: impl Fn() -> Work,
    ) -> Result<bool> {
        self.puts_off = open.puts_off;
        self.call_freely((entry, open.bits), deadline, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of two languages in one argument would be that of a third, or of none.
    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "one call enters the VM of one language")]
    fn doors_of_two_vms_are_not_opened_by_one_call() {
        let open = |door| Open::always(door).expect("it needs no proof");
        let _ = open(Door::SignalHandler).and(open(Door::HasLock));
    }

    #[test]
    fn no_door_with_a_lock_opens_without_its_proof() {
        for door in Door::ALL {
            let shut = Open::always(door).is_none();
            assert_eq!(shut, door.needs() != Needs::Nothing, "{door:?}");
            let asked = Open::proven(door, |_| Ok(true)).expect("no error");
            assert!(asked.is_some(), "{door:?}");
        }
    }
}
