//! The function that collects a VM's garbage, which mostly is static and has no symbol in a stripped library.
//!
//! | VM | function | how it is found |
//! |---|---|---|
//! | Ruby | `gc_start(objspace, reason)` (`gc.c`, `gc/default/default.c`) | `rb_gc_count` loads a member of the object space, and this alone adds one to it |
//! | Python | `gc_collect_main(tstate, generation, …)`, `_PyGC_Collect` (`gcmodule.c`, `gc.c`) | it alone tests the semaphore of the probe `python:gc__start` |
//! | PHP | `zend_gc_collect_cycles()` (`zend_gc.c`) | exported |
//! | Perl | none | |
//!
//! The table of exception handling says where the function begins around the place that was found.

use super::{Calling, Collector, Look, Named};
use crate::elf::Headers;
use crate::functions::{Functions, Place};
use crate::hooks::Script;
use crate::memory::GuestMemory;
use crate::modules::GuestFiles;
use trampoline::{mentions, usdt};

/// Bytes of `rb_gc_count` that are looked at.
const GETTER: usize = 64;
/// Symbols where a library has them.
const OF_RUBY: [&str; 1] = ["gc_start"];
const OF_PYTHON: [&str; 3] = ["gc_collect_main", "_PyGC_Collect", "collect"];
const OF_PHP: [&str; 1] = ["zend_gc_collect_cycles"];

pub fn look(memory: &GuestMemory, script: &Script, functions: &Functions) -> Look {
    let found = match script {
        Script::None(reason) => Err(reason.clone()),
        Script::Ruby(..) => ruby(memory, functions),
        Script::Python(_) => python(memory, functions),
        Script::Php(_) => {
            let found = by_symbol(functions, &OF_PHP, |_| true);
            let why = "this PHP does not export zend_gc_collect_cycles";
            found.map(|at| (at, Collector::Php)).ok_or(why.into())
        }
        Script::Perl(_) => Err(
            "Perl has no garbage collection: it counts references, and frees what nothing refers to at once".into(),
        ),
    };
    match found {
        Ok((address, collector)) => Look::Found(vec![Named {
            name: "gc".into(),
            address,
            identity: 0,
            calling: Calling::Collector(collector),
        }]),
        Err(why) => Look::Never(why),
    }
}

/// The address of a function that a module has a symbol for.
fn by_symbol(functions: &Functions, names: &[&str], of: impl Fn(&Place) -> bool) -> Option<u64> {
    let found = |wanted: &&str| {
        let found = functions.find(true, |name, place| name == *wanted && of(place));
        found.first().map(|function| function.address)
    };
    names.iter().find_map(found)
}

/// The module that exports a name, with the address.
fn exporter<'a>(functions: &'a Functions, name: &str) -> Option<(&'a Place, u64)> {
    let address = functions.symbol(name)?;
    Some((functions.module_of(address)?, address))
}

/// The one function in which one of the places is that `find` finds in code.
fn only(memory: &GuestMemory, place: &Place, find: impl Fn(&[u8], u64) -> Vec<u64>) -> Option<u64> {
    let mut functions: Vec<u64> = Vec::new();
    for range in place.module.code() {
        let mut code = vec![0; (range.end - range.start) as usize];
        memory.read_bytes(range.start, &mut code).ok()?;
        for at in find(&code, range.start) {
            functions.push(place.module.function_at(at, memory)?.start);
        }
    }
    functions.sort_unstable();
    functions.dedup();
    match functions[..] {
        [one] => Some(one),
        _ => None,
    }
}

fn ruby(memory: &GuestMemory, functions: &Functions) -> Result<(u64, Collector), String> {
    let (place, getter) =
        exporter(functions, "rb_gc_count").ok_or("this Ruby does not export rb_gc_count")?;
    let mut code = [0; GETTER];
    let read = memory.read_bytes(getter, &mut code);
    let count = read.ok().and_then(|()| mentions::getter(&code));
    let count =
        count.ok_or("where this Ruby counts its collections could not be read from rb_gc_count")?;
    let of = |other: &Place| other.module.bias == place.module.bias;
    let found = by_symbol(functions, &OF_RUBY, of).or_else(|| {
        only(memory, place, |code, at| {
            mentions::increments(code, at, count)
        })
    });
    let found = found.ok_or("the function that collects was not found: no symbol gc_start, and not one place alone counts")?;
    Ok((found, Collector::Ruby { count }))
}

fn python(memory: &GuestMemory, functions: &Functions) -> Result<(u64, Collector), String> {
    let (place, _) =
        exporter(functions, "_PyRuntime").ok_or("this Python does not export _PyRuntime")?;
    let of = |other: &Place| other.module.bias == place.module.bias;
    let by_probe = || {
        let semaphore = semaphore(memory, place, "python", "gc__start")?;
        only(memory, place, |code, at| {
            mentions::tests(code, at, semaphore)
        })
    };
    let found = by_probe().or_else(|| by_symbol(functions, &OF_PYTHON, of));
    let found = found.ok_or("the function that collects was not found: this Python has neither the probe python:gc__start nor a symbol for it")?;
    Ok((found, Collector::Python))
}

/// Where the semaphore of a static probe is in the guest.
fn semaphore(memory: &GuestMemory, place: &Place, provider: &str, name: &str) -> Option<u64> {
    let files = GuestFiles::of(memory.pid());
    let (file, _) = files.open_module(&place.module, memory).ok()?;
    let headers = Headers::read(&file).ok()?;
    let sections = headers.sections(&file);
    let notes = headers.section_named(&file, &sections, ".note.stapsdt")?;
    let base = headers.find_section(&file, &sections, ".stapsdt.base");
    let mut probes = usdt::probes(&notes, base.map(|base| base.address));
    let probe = probes.find(|probe| (probe.provider, probe.name) == (provider, name))?;
    (probe.semaphore != 0).then(|| place.module.bias.wrapping_add(probe.semaphore))
}
