//! Reads the objects of an open guest one by one from outside, while it runs. Used by `session::epochs` and `tracked`,
//! and by `lancet::commands::companion::blocks`.
//!
//! A census has counted them before, so garbage that had not been swept is gone.

use std::time::{Duration, Instant};

use languages::objects::{Object, Objects};
use process::error::Result;
use process::memory::GuestMemory;
use wire::slots::{epoch_of, site_of};

use crate::numbers::Slots;

/// Time limit of the walk over the heap. Ten million objects take two seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// An object that carries a number of the agent's.
pub struct Numbered<'a> {
    /// The objects of its process, which say what it is.
    pub heap: &'a dyn Objects,
    /// The object.
    pub object: Object,
    /// The agent's number of the site at which it was born.
    pub site: u32,
    /// The epoch of its birth.
    pub epoch: u32,
}

/// Calls `each` for every object that carries a number, at most for 20 s. Returns whether the heap was walked to its end.
pub(crate) fn each(
    memory: &GuestMemory,
    heap: &dyn Objects,
    ledger: u64,
    each: &mut dyn FnMut(Numbered),
) -> Result<bool> {
    let started = Instant::now();
    let slots = Slots::of(memory, ledger)?;
    heap.each_page(&mut |start, objects| {
        // The list of pages comes from the process and may have no end, while its thread waits for us.
        if started.elapsed() > PATIENCE {
            return Ok(false);
        }
        let numbers = slots.numbers(start)?;
        for object in objects {
            let number = numbers.of(object.address);
            if site_of(number) != 0 {
                each(Numbered {
                    heap,
                    object,
                    site: site_of(number),
                    epoch: epoch_of(number),
                });
            }
        }
        Ok(true)
    })
}
