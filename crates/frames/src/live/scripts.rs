//! Script frames: the lines of scripts that native frames run. Each language's reader is [`languages::frames`]'s; here all of those
//! that are in a process are asked. Used by `core` and `open`.

use std::ops::Range;

use process::pages::Pages;
use vm::Memory;

pub use languages::frames::{
    Chain, Copied, Coroutine, FoundScripts, NoSources, NotRead, Objects, Parked, Placement,
    ScanCost, Script, Scripts, Sources, Through, Turn, VmThread,
};

use languages::frames::{Module, WithoutTable};

use super::loaded::{Loaded, Modules};

/// The VMs in a process.
#[derive(Default)]
pub struct Found {
    /// Those that can be read.
    pub vms: Vec<Box<dyn Scripts>>,
    /// Of each of the others, that and why its script frames cannot be read, and of those whose lines are not known, why.
    pub unread: Vec<String>,
    /// What is to be said of those that are read without a table.
    pub notes: Vec<String>,
}

/// Finds the VMs in a process; `sources` has the text of its scripts.
pub fn find(modules: &Modules, memory: &dyn Memory, sources: &dyn Sources) -> Found {
    let mut found = Found::default();
    let modules: Vec<&dyn Module> = modules.iter().map(|one| one as &dyn Module).collect();
    let entries = languages::ALL.iter();
    for vm in entries.filter_map(|entry| (entry.frames)(&modules, memory, sources)) {
        match vm {
            Ok(vm) => {
                match vm.without_table() {
                    Some(WithoutTable {
                        no_lines: Some(why),
                        ..
                    }) => found.unread.push(why.clone()),
                    Some(WithoutTable { note, .. }) => found.notes.push(note.clone()),
                    None => {}
                }
                found.vms.push(vm);
            }
            Err(why) => {
                let why = format!("its script lines cannot be read: {why}");
                found.unread.push(why);
            }
        }
    }
    found
}

/// Returns the coroutines that may be parked, each with its VM's index, and whether these are all.
pub(super) fn coroutines(
    vms: &[Box<dyn Scripts>],
    memory: &dyn Memory,
) -> (Vec<(usize, Coroutine)>, bool) {
    let (mut found, mut all) = (Vec::new(), true);
    // That it is not read in the others is said ([`not_read`]).
    let all_vms = vms.iter().enumerate();
    for (number, vm) in all_vms.filter(|(_, vm)| vm.no_coroutines().is_none()) {
        let mut best = (Vec::new(), false);
        for _ in 0..languages::frames::ATTEMPTS {
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

/// Returns whether more may be found in the process when it does something else: a VM, or of one without a table what was not proven.
pub(super) fn may_be_more(vms: &[Box<dyn Scripts>]) -> bool {
    let mut without_table = vms.iter().filter_map(|vm| vm.without_table());
    vms.is_empty() || without_table.any(|how| how.may_be_more)
}

/// Returns what was asked for and not read of the VMs; `fibers`: that what is parked was asked for.
pub(super) fn not_read(vms: &[Box<dyn Scripts>], fibers: bool) -> Vec<NotRead> {
    let mut not_read: Vec<NotRead> = vms.iter().flat_map(|vm| vm.take_lost()).collect();
    let parked = vms.iter().filter(|_| fibers).filter_map(|vm| {
        let (language, why) = (vm.language(), vm.no_coroutines()?);
        Some(NotRead {
            what: format!(
                "{language} {why}, so its fibers and coroutines that are parked are not read"
            ),
            stacks: 0,
            frames: 0,
        })
    });
    not_read.extend(parked);
    not_read
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

impl Module for Loaded {
    fn name(&self) -> &str {
        self.name()
    }

    fn exported(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        self.exported(memory, name)
    }

    fn extent(&self, memory: &dyn Memory, start: u64) -> Vec<Range<u64>> {
        self.extent(memory, start)
    }

    fn tail_call(&self, memory: &dyn Memory, start: u64) -> Option<u64> {
        self.tail_call(memory, start)
    }

    fn each_code(&self, memory: &dyn Memory, each: &mut dyn FnMut(u64, &[u8])) {
        let image = self.image(memory).into_iter();
        for code in image.flat_map(|image| image.code()) {
            each(code.address.wrapping_add(self.bias), code.bytes);
        }
    }
}
