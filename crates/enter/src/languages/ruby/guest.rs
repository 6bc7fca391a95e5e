//! Finds what the agent needs of a running Ruby: the addresses of its functions, the facts for its reader, and reasons against opening it.
//! Used by `ruby`.
//!
//! The guest is not stopped for it, and runs meanwhile unless we have started it. A table that is changed at that moment may look damaged, so
//! what cannot be read of the VM's facts is read again, up to 20 times.

use inject::remote_call::Gadgets;
use process::error::{Error, Result};
use process::maps::Maps;
use process::memory::GuestMemory;
use process::modules::{GuestFiles, Module, modules};
use process::symbols::{Kind, Symbols};
use std::ops::Range;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;
use vm::Language;
use vm::ruby::{self, Facts, Functions, Ruby, Unsupported, Version};

/// A symbol that every Ruby exports and nothing else does.
const MARK: &str = Language::Ruby.description().mark;
const READ_TRIES: u32 = 20;
/// Bytes around `rb_postponed_job_register_one` in which the VM's code for jobs is: in Debian's builds 1 KiB.
const JOB_CODE: u64 = 2048;

/// What was found of the Ruby in one process. The addresses are valid while that process runs this program; after an exec they mean
/// nothing.
#[derive(Debug)]
pub struct RubyGuest {
    /// Facts of this Ruby's version and layout, by which crate `vm` reads its memory.
    pub facts: Facts,
    /// Addresses of the VM's functions that the agent calls.
    pub functions: Functions,
    /// Address of its `rb_vm_t`.
    pub vm: u64,
    /// Address of the variable with its class Ractor, if Ractors and the birth hook are incompatible in this version.
    pub ractor_class: u64,
    /// Where the code of the module with the VM lies.
    pub code: Vec<Range<u64>>,
    /// Where the variables of that module lie.
    pub data: Vec<Range<u64>>,
    /// Addresses of the instructions by which a stopped thread makes remote calls.
    pub gadgets: Gadgets,
}

impl RubyGuest {
    /// Finds the Ruby in a process.
    pub fn find(pid: i32, memory: &GuestMemory, maps: &Maps) -> Result<Self> {
        let not_a_ruby = |reason: String| Error::UnreadableVm {
            pid,
            language: Language::Ruby,
            reason,
        };
        let symbols = symbols_of_vm(pid, memory, maps)?;
        let address = |name: &str| symbols.symbols.symbol(name).and_then(place);
        let facts = read_facts(memory, &address).map_err(|error| explain(pid, error))?;
        Self::refuse_ractors(pid, memory, &facts)?;
        let ruby = Ruby::new(memory, facts).map_err(|error| not_a_ruby(error.to_string()))?;
        let vm = ruby.vm().map_err(|error| explain(pid, error))?;
        let ractor_class = if facts.version().no_births_beside_ractors().is_some() {
            address("rb_cRactor").unwrap_or(0)
        } else {
            0
        };
        let mut missing = Vec::new();
        let functions = Functions::find(|name, needed| {
            address(name).unwrap_or_else(|| {
                missing.extend(needed.then_some(name));
                0
            })
        });
        if !missing.is_empty() {
            return Err(not_a_ruby(format!(
                "its Ruby is linked in without these symbols: {} (a stripped static build; no debug file was found by its build-id)",
                missing.join(", ")
            )));
        }
        Ok(RubyGuest {
            facts,
            functions,
            vm,
            ractor_class,
            code: symbols.module.code().collect(),
            data: symbols.module.data().collect(),
            gadgets: Gadgets::find(pid, memory, maps)?,
        })
    }

    /// The version of the Ruby.
    pub fn version(&self) -> Version {
        self.facts.version()
    }

    /// Whether a job is registered in two steps, between which no other thread may run: before Ruby 3.3 (`postponed_job_register` in
    /// `vm_trace.c`; since then by one atomic store).
    pub fn registers_in_two_steps(&self) -> bool {
        !self.version().preregisters_jobs()
    }

    /// Whether a thread at `pc` may be in the code that puts jobs into the VM's table and takes them out: `rb_postponed_job_register_one`, or
    /// `rb_postponed_job_flush`, which `vm_trace.c` has right behind it and no symbol names.
    pub fn handles_jobs_at(&self, pc: u64) -> bool {
        self.functions.rb_postponed_job_register_one.abs_diff(pc) < JOB_CODE
    }

    /// Whether a job may wait for a thread that does not run for long: up to Ruby 2.7 it is remembered with the thread that held the lock
    /// last.
    pub fn loses_jobs(&self) -> bool {
        !self.version().has_ractors()
    }

    /// Whether registering a job marks the registering thread if it is one of the VM's, and otherwise the one that holds the lock: from 3.1
    /// on (`get_valid_ec` in `vm_trace.c`). Before, only threads of the VM may register jobs.
    pub fn marks_own_thread(&self) -> bool {
        self.version() >= Version::new(3, 1, 0)
    }

    /// Whether the VM that was found is still in `memory`, by the address of its class Object.
    pub fn is_there(&self, memory: &GuestMemory) -> bool {
        Ruby::new(memory, self.facts).is_ok_and(|ruby| {
            let mut name = String::new();
            ruby.write_class_name(self.facts.object(), &mut name)
                .is_ok()
                && name == "Object"
        })
    }

    /// Returns where on its stack the VM's main thread notes that it blocks without the VM's lock; 0 = it does not block.
    pub fn main_region(&self, memory: &GuestMemory) -> u64 {
        let found = Ruby::new(memory, self.facts)
            .ok()
            .and_then(|ruby| ruby.main_region(self.vm).ok());
        found.unwrap_or(0)
    }

    /// Whether there are several Ractors, which the lock of one does not stop; also true if that cannot be read.
    pub fn has_several_ractors(&self, memory: &GuestMemory) -> bool {
        let count = Ruby::new(memory, self.facts)
            .ok()
            .and_then(|ruby| ruby.ractor_count(self.vm).ok());
        count != Some(1)
    }

    /// Whether `address` is in the VM's own code.
    pub fn owns(&self, address: u64) -> bool {
        self.code.iter().any(|range| range.contains(&address))
    }

    fn refuse_ractors(pid: i32, memory: &GuestMemory, facts: &Facts) -> Result<()> {
        let version = facts.version();
        let Some(why) = version.no_births_beside_ractors() else {
            return Ok(());
        };
        let ruby = Ruby::new(memory, *facts).map_err(|error| Error::UnreadableVm {
            pid,
            language: Language::Ruby,
            reason: error.to_string(),
        })?;
        match ruby.vm().and_then(|vm| ruby.ractor_count(vm)) {
            Ok(2..) => Err(Error::Ractors {
                pid,
                language: Language::Ruby,
                version: version.to_string(),
                why,
            }),
            _ => Ok(()),
        }
    }
}

struct VmSymbols {
    module: Module,
    symbols: Symbols,
}

/// Returns the module that contains a Ruby: the program itself, or a library; modules named after Ruby are tried first.
fn symbols_of_vm(pid: i32, memory: &GuestMemory, maps: &Maps) -> Result<VmSymbols> {
    let files = Arc::new(GuestFiles::of(pid));
    let mut candidates =
        modules(&files, maps, memory).map_err(|error| Error::Elf { pid, error })?;
    candidates.sort_by_key(|module| (!module.name().contains("ruby"), !module.main));
    for module in candidates {
        let symbols = match Symbols::open(&files, &module, memory) {
            Ok(symbols) => symbols,
            // Otherwise it would be said that it runs no Ruby.
            Err(error) if error.is_shortage() => return Err(Error::Elf { pid, error }),
            Err(_) => continue,
        };
        if symbols.exported(MARK).is_some() || (module.main && symbols.symbol(MARK).is_some()) {
            return Ok(VmSymbols { module, symbols });
        }
    }
    Err(Error::UnreadableVm {
        pid,
        language: Language::Ruby,
        reason: "no Ruby is loaded in it".into(),
    })
}

fn place(symbol: process::symbols::Symbol) -> Option<u64> {
    (symbol.kind != Kind::Indirect).then_some(symbol.address)
}

fn read_facts(
    memory: &GuestMemory,
    address: &dyn Fn(&str) -> Option<u64>,
) -> std::result::Result<Facts, ruby::Error> {
    let mut tries = 0;
    loop {
        match Facts::find(memory, address) {
            Err(ruby::Error::Garbled { .. } | ruby::Error::Memory(_)) if tries < READ_TRIES => {
                tries += 1;
                sleep(Duration::from_millis(2));
            }
            other => return other,
        }
    }
}

fn explain(pid: i32, error: ruby::Error) -> Error {
    match error {
        ruby::Error::Unsupported(why @ Unsupported::Broken(_)) => Error::BrokenVm {
            pid,
            language: Language::Ruby,
            reason: why.to_string(),
        },
        error => Error::UnreadableVm {
            pid,
            language: Language::Ruby,
            reason: error.to_string(),
        },
    }
}
