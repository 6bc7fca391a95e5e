//! Finds the function that collects a VM's garbage, which mostly is static and has no symbol in a stripped
//! library. Each language chooses which of these functions finds its own. Used by `python::functions`,
//! `ruby::functions` and `php::functions`.
//!
//! The table of exception handling says where the function begins around a place that was found.

use process::elf::Headers;
use process::functions::{Functions, ModuleSymbols};
use process::memory::GuestMemory;
use process::modules::GuestFiles;
use trampoline::usdt;

/// Returns the address of a function that a module has a symbol for; the first of several names that exists
/// counts.
pub fn by_symbol(
    functions: &Functions,
    names: &[&str],
    of: impl Fn(&ModuleSymbols) -> bool,
) -> Option<u64> {
    let found = |wanted: &&str| {
        let found = functions.find(true, |name, place| name == *wanted && of(place));
        found.first().map(|function| function.address)
    };
    names.iter().find_map(found)
}

/// Returns the module that exports a name, with the address.
pub fn exporter<'a>(functions: &'a Functions, name: &str) -> Option<(&'a ModuleSymbols, u64)> {
    let address = functions.symbol(name)?;
    Some((functions.module_of(address)?, address))
}

/// Returns the only function that contains one of the places that `find` finds in code.
pub fn only(
    memory: &GuestMemory,
    place: &ModuleSymbols,
    find: impl Fn(&[u8], u64) -> Vec<u64>,
) -> Option<u64> {
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

/// Returns where the semaphore of a static probe is in the guest.
pub fn semaphore(
    memory: &GuestMemory,
    place: &ModuleSymbols,
    provider: &str,
    name: &str,
) -> Option<u64> {
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
