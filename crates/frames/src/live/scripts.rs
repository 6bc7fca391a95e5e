//! Script frames: the lines of scripts that native frames run.
//!
//! A VM runs script frames inside a native function of its own, again and again: each call of that function is a *run*.
//! A language's reader says which function that is and returns its frames innermost first, with the last of each run
//! marked; `merge`, which combines both, needs to know nothing else of the language.
//!
//! A language is added by a file here and a line in `VMS`; no other place names one.

mod greenlet;
mod perl;
mod php;
mod python;
mod reader;
mod ruby;

use std::ops::Range;

use process::pages::Pages;
use vm::Memory;

pub use reader::{
    Copied, Coroutine, Objects, Parked, Placement, Reader, ScanCost, Script, Scripts, Through,
    Turn, VmThread,
};

use super::loaded::Modules;

/// The VMs whose script frames lancet can read.
const VMS: &[Find] = &[ruby::find, python::find, perl::find, php::find];
/// Returns the reader of one VM.
type Find = fn(&Modules, &dyn Memory) -> Reader;

/// The VMs in a process.
#[derive(Default)]
pub struct Found {
    /// Those that can be read.
    pub vms: Vec<Box<dyn Scripts>>,
    /// Of each of the others, why its script frames cannot be read.
    pub unread: Vec<String>,
}

/// Finds the VMs in a process.
pub fn find(modules: &Modules, memory: &dyn Memory) -> Found {
    let mut found = Found::default();
    for vm in VMS.iter().filter_map(|find| find(modules, memory)) {
        match vm {
            Ok(vm) => found.vms.push(vm),
            Err(why) => found.unread.push(why),
        }
    }
    found
}

/// In a function of type [`Find`], returns the facts that were found; returns from it where a VM is of a version without a reader, or
/// none runs (its library may be loaded alone).
macro_rules! facts_or_return {
    ($found:expr, $error:ident) => {
        match $found {
            Ok(facts) => facts,
            Err($error::Unsupported(why)) => return Some(Err(why.to_string())),
            Err(_) => return None,
        }
    };
}
pub(super) use facts_or_return;

/// Limit of how often a list that changed while it was read is read again.
const ATTEMPTS: u32 = 8;

/// Returns the coroutines that may be parked, each with its VM's index, and whether these are all.
pub(super) fn coroutines(
    vms: &[Box<dyn Scripts>],
    memory: &dyn Memory,
) -> (Vec<(usize, Coroutine)>, bool) {
    let (mut found, mut all) = (Vec::new(), true);
    for (number, vm) in vms.iter().enumerate() {
        let mut best = (Vec::new(), false);
        for _ in 0..ATTEMPTS {
            let next = vm.coroutines(memory);
            if next.1 || next.0.len() > best.0.len() {
                best = next;
            }
            if best.1 {
                break;
            }
        }
        all &= best.1;
        found.extend(best.0.into_iter().map(|one| (number, one)));
    }
    (found, all)
}

/// Returns the threads of the VMs that no kernel thread may run, each with its VM's index.
pub(super) fn threads_apart(
    vms: &[Box<dyn Scripts>],
    memory: &dyn Memory,
) -> Vec<(usize, Coroutine)> {
    let mut apart = Vec::new();
    for (number, vm) in vms.iter().enumerate() {
        let threads = vm.threads_apart(memory).into_iter();
        apart.extend(threads.map(|one| (number, one)));
    }
    apart
}

/// Returns what must be copied of parked coroutines while the process stands: their native stacks, and the memory that
/// leads to their frames. `end` returns the end of the mapping that a stack lies in.
pub(super) fn wanted_of_parked(
    vms: &[Box<dyn Scripts>],
    memory: &dyn Memory,
    coroutines: &[(usize, Coroutine)],
    end: &dyn Fn(u64) -> u64,
) -> Vec<Range<u64>> {
    let pages = Pages::new(memory);
    let mut wanted = Vec::new();
    for (number, one) in coroutines {
        let Some(parked) = vms.get(*number).and_then(|vm| vm.parked(&pages, one)) else {
            continue;
        };
        if let Some(copied) = parked.copied {
            wanted.push(copied.at..copied.at.saturating_add(copied.size()));
        } else if let Some(context) = parked.context {
            let end = if parked.stack.is_empty() {
                end(context.sp)
            } else {
                parked.stack.end
            };
            wanted.push(context.sp..end.max(context.sp));
        }
    }
    wanted.extend(pages.read_so_far());
    wanted
}
