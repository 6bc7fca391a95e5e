//! The functions of a process by which it takes memory and gives it back. Used by `native`.

use hooks::Wanted;
use process::error::{Error, Result};
use process::functions::{Functions, ModuleSymbols};
use std::sync::Arc;
use wire::calls::blocks::Effect;

/// The functions of an allocator in C, and what each does. Those that may call others of them count for these: a block has one birth, at the
/// place that the program has called. `realloc` of a block is its death, and the birth of the block that it becomes.
const C: [(&str, Effect); 10] = [
    ("malloc", Effect::takes(0)),
    ("calloc", Effect::takes(0).times(1).outermost()),
    ("realloc", Effect::takes(1).releasing().outermost()),
    (
        "reallocarray",
        Effect::takes(1).times(2).releasing().outermost(),
    ),
    ("free", Effect::RELEASES),
    ("posix_memalign", Effect::takes(2).storing().outermost()),
    ("aligned_alloc", Effect::takes(1).outermost()),
    ("memalign", Effect::takes(1).outermost()),
    ("valloc", Effect::takes(0).outermost()),
    ("pvalloc", Effect::takes(0).outermost()),
];

/// Those by which an allocator is known, and without any of which nothing could be said of the others' blocks.
const NEEDED: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

/// What the library of another allocator may have beside, where it takes and gives back the same blocks: the functions of jemalloc, of C23, and
/// the C++ operators, which then do not call `malloc` and `free`.
const BESIDE: [(&str, Effect); 8] = [
    ("mallocx", Effect::takes(0).outermost()),
    ("rallocx", Effect::takes(1).releasing().outermost()),
    ("dallocx", Effect::RELEASES),
    ("sdallocx", Effect::RELEASES),
    ("free_sized", Effect::RELEASES),
    ("free_aligned_sized", Effect::RELEASES),
    ("cfree", Effect::RELEASES),
    ("tc_free", Effect::RELEASES),
];

/// `operator new` in the forms that take a number of bytes first: the C++ library's call `malloc` or `aligned_alloc`, and the block is its
/// caller's (`wrappers`). `operator delete` calls `free`, whose caller does not matter.
const NEW: [&str; 8] = [
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
];

/// `operator delete` in all its forms begins so: for one, and for an array.
const DELETE: [&str; 2] = ["_ZdlPv", "_ZdaPv"];

/// The functions that are hooked in a process.
pub(super) struct Family {
    /// Other modules that have an allocator of their own, whose blocks are not counted.
    pub others: Vec<Arc<str>>,
    /// The module whose allocator it is.
    pub allocator: Arc<str>,
    /// How far apart two of its blocks begin at least, as a binary logarithm.
    pub grain: u64,
    /// The functions.
    pub wanted: Vec<Wanted>,
}

impl Family {
    /// Finds the allocator that a process uses.
    ///
    /// # Errors
    /// There is none by name.
    pub fn of(pid: i32, functions: &Functions) -> Result<Self> {
        let is_static = functions.modules().len() == 1;
        let has_all = |place: &&Arc<ModuleSymbols>| {
            let has = |name: &str| match is_static {
                true => place.symbols.symbol(name).is_some(),
                false => place.symbols.exported(name).is_some(),
            };
            NEEDED.iter().all(|name| has(name))
        };
        // A symbol is looked for in the program first, then in what is preloaded and in the libraries that it names, of which the C library
        // is the last one.
        let rank = |place: &&Arc<ModuleSymbols>| match &*place.name {
            _ if place.module.main => 0,
            name if is_loader(name) => 3,
            name if is_c_library(name) => 2,
            _ => 1,
        };
        let allocators = functions.modules().iter().filter(has_all);
        let mut allocators: Vec<_> = allocators.collect();
        allocators.sort_by_key(rank);
        let place = allocators.first().ok_or(Error::NotAGuest {
            pid,
            reason: "no allocator is found in it: no program or library of it has malloc, calloc, realloc and free by name (a static program without symbols, or one that calls the kernel alone)",
        })?;
        let name = place.name.clone();
        // A static program has the C++ library in itself, too.
        let is_own = is_static || rank(place) == 1;
        // The loader's is for itself alone; the C library's is there whoever else is used.
        let others = allocators.iter().skip(1).filter(|place| rank(place) == 1);
        let others = others.map(|place| place.name.clone()).collect();
        let found = functions.find_in(
            |module| module.name == name,
            is_static,
            |name, _| effect(name, is_own).is_some(),
        );
        let mut wanted: Vec<Wanted> = Vec::new();
        for function in found {
            let effect = match &*function.name {
                "calloc" if is_glibc(&name) => Some(Effect::takes(0).times(1)),
                known => effect(known, is_own),
            };
            if let Some(effect) = effect {
                wanted.push(Wanted::blocks(function, effect));
            }
        }
        let grain = match &*name {
            name if name.contains("musl") => 4,
            // A chunk of glibc takes 32 bytes at least (`MINSIZE`, malloc/malloc.c).
            name if is_glibc(name) => 5,
            _ => 3,
        };
        Ok(Family {
            others,
            allocator: name,
            grain,
            wanted,
        })
    }
}

/// What a function of the allocator does, by its name; `is_own` = it is not one of a dynamic program's own, or of the C library.
fn effect(name: &str, is_own: bool) -> Option<Effect> {
    let of = |table: &[(&str, Effect)]| {
        let found = table.iter().find(|(known, _)| *known == name);
        found.map(|(_, effect)| *effect)
    };
    if let Some(effect) = of(&C) {
        return Some(effect);
    }
    match name {
        _ if !is_own => None,
        _ if NEW.contains(&name) => Some(Effect::takes(0).outermost()),
        _ if DELETE.iter().any(|known| name.starts_with(known)) => Some(Effect::RELEASES),
        _ => of(&BESIDE),
    }
}

/// Whether it is a form of `operator new`.
pub(super) fn is_new(name: &str) -> bool {
    NEW.contains(&name)
}

/// Whether without this function what is counted of others would be wrong.
pub(super) fn is_needed(name: &str) -> bool {
    NEEDED.contains(&name)
}

fn is_c_library(name: &str) -> bool {
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.contains("musl")
}

/// Whether it is the GNU C library, whose `calloc` calls no other function of these.
fn is_glibc(name: &str) -> bool {
    is_c_library(name) && !name.contains("musl")
}

fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-2")
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::maps::Maps;
    use process::memory::GuestMemory;

    /// This test's own process, whose allocator is the C library's.
    #[test]
    fn the_allocator_of_a_program_is_found_with_all_its_functions() {
        let pid = std::process::id() as i32;
        let memory = GuestMemory::open(pid).expect("our own memory");
        let maps = Maps::read(pid).expect("our own maps");
        let functions = Functions::read(pid, &memory, &maps).expect("our own functions");
        let family = Family::of(pid, &functions).expect("an allocator");
        assert!(is_c_library(&family.allocator), "{}", family.allocator);
        let has = |name: &str| {
            let mut wanted = family.wanted.iter();
            wanted.any(|wanted| wanted.function.name == name)
        };
        assert!(NEEDED.iter().all(|name| has(name)));
        let calloc = family
            .wanted
            .iter()
            .find(|one| one.function.name == "calloc");
        assert!(calloc.is_some_and(|calloc| calloc.blocks.is_simple()));
        let free = family.wanted.iter().find(|one| one.function.name == "free");
        assert!(free.is_some_and(|free| free.entry_only));
        assert!(family.others.is_empty(), "{:?}", family.others);
    }

    /// An allocator that has the C++ operators too takes their blocks itself; the C library's does not, and a program's may take them
    /// elsewhere.
    #[test]
    fn operators_are_counted_in_the_library_of_another_allocator() {
        assert!(effect("_Znwm", true).is_some_and(Effect::is_outermost));
        assert_eq!(
            effect("_ZdlPvmSt11align_val_t", true),
            Some(Effect::RELEASES)
        );
        assert_eq!(effect("sdallocx", true), Some(Effect::RELEASES));
        assert!(
            ["_Znwm", "_ZdlPv", "sdallocx"]
                .iter()
                .all(|name| effect(name, false).is_none())
        );
        assert!(effect("pvalloc", false).is_some() && !is_needed("pvalloc"));
        assert!(effect("strdup", true).is_none());
    }
}
