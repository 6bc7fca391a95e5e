//! Reads the objects of an open guest one by one from outside, while it runs.
//!
//! A census has counted them before, so garbage that had not been swept is gone. Objects that the guest's other threads make
//! or free meanwhile may or may not be found. All that is read is checked: an object that is gone when it is read is left out.

use std::time::{Duration, Instant};

use process::error::{Error, Result};
use process::memory::GuestMemory;
use vm::Limits;
use vm::ruby::{Facts, Ruby, Type};
use wire::slots::{epoch_of, site_of};

use crate::numbers::Slots;

/// Time limit of the walk over the heap. Ten million objects take two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// An object in a slot of the heap.
pub struct Object<'a> {
    ruby: &'a Ruby<'a, GuestMemory>,
    /// The object's address in the guest.
    pub address: u64,
    /// The agent's number of the site at which it was born.
    pub site: u32,
    /// The epoch of its birth.
    pub epoch: u32,
    flags: u64,
}

impl Object<'_> {
    /// Returns the VM's kind of the object: `string`, `array`, `object`.
    pub fn kind(&self) -> &'static str {
        Type::of(self.flags).hidden_name().trim_matches('_')
    }

    /// Returns the bytes of a String, elements of an Array, pairs of a Hash; `None` for other objects.
    pub fn length(&self) -> Option<u64> {
        match Type::of(self.flags) {
            Type::String => self.ruby.text(self.address).ok().map(|text| text.len),
            Type::Array | Type::Hash => self.ruby.length(self.address).ok(),
            _ => None,
        }
    }

    /// Returns what `inspect` would write of the object, as far as that is known without running its code; long texts are cut.
    pub fn contents(&self) -> Option<String> {
        let mut text = String::new();
        let written = self
            .ruby
            .write_value(self.address, &Limits::default(), &mut text);
        written.ok().map(|()| text)
    }
}

/// Calls `each` for every object that carries a number, at most for 20 s. Returns whether the heap was walked to its end.
pub(crate) fn each(
    memory: &GuestMemory,
    facts: &Facts,
    ledger: u64,
    each: &mut dyn FnMut(Object),
) -> Result<bool> {
    let started = Instant::now();
    let unreadable = |error: vm::ruby::Error| Error::NotARuby {
        pid: memory.pid(),
        reason: error.to_string(),
    };
    let slots = Slots::of(memory, ledger)?;
    let ruby = Ruby::new(memory, *facts).map_err(|error| unreadable(error.into()))?;
    for page in ruby.pages().map_err(unreadable)?.flatten() {
        // The list of pages comes from the process and may have no end, while its thread waits for us.
        if started.elapsed() > PATIENCE {
            return Ok(false);
        }
        let numbers = slots.numbers(page.start)?;
        for slot in ruby.slots(page).flatten() {
            let number = numbers.of(slot.address);
            if site_of(number) != 0 && !matches!(Type::of(slot.flags), Type::None | Type::Moved) {
                each(Object {
                    ruby: &ruby,
                    address: slot.address,
                    site: site_of(number),
                    epoch: epoch_of(number),
                    flags: slot.flags,
                });
            }
        }
    }
    Ok(true)
}
