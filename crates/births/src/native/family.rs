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

/// Those without which no allocator is one, and without any of which nothing could be said of the others' blocks.
const NEEDED: [&str; 4] = ["malloc", "calloc", "realloc", "free"];

/// `operator new` in the forms that take a number of bytes first: the C++ library's call `malloc` or `aligned_alloc`, and the block is its
/// caller's. `operator delete` calls `free`, whose caller does not matter.
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

/// The functions that are hooked in a process.
pub(super) struct Family {
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
        let place = allocators.min_by_key(rank).ok_or(Error::NotAGuest {
            pid,
            reason: "no allocator is found in it: no program or library of it has malloc, calloc, realloc and free by name (a static program without symbols, or one that calls the kernel alone)",
        })?;
        let name = place.name.clone();
        let found = functions.find_in(
            |module| module.name == name,
            is_static,
            |name, _| C.iter().any(|(known, _)| *known == name),
        );
        let mut wanted: Vec<Wanted> = Vec::new();
        for function in found {
            if let Some((_, effect)) = C.iter().find(|(known, _)| *known == function.name) {
                wanted.push(Wanted::blocks(function, *effect));
            }
        }
        wanted.extend(new(functions));
        let grain = match &*name {
            name if name.contains("musl") => 4,
            // A chunk of glibc takes 32 bytes at least (`MINSIZE`, malloc/malloc.c).
            name if is_c_library(name) => 5,
            _ => 3,
        };
        Ok(Family {
            allocator: name,
            grain,
            wanted,
        })
    }
}

/// The C++ library's `operator new`. One that a program or an allocator has in its place may take its memory elsewhere.
pub(super) fn new(functions: &Functions) -> Vec<Wanted> {
    let is_library = |place: &ModuleSymbols| {
        place.name.starts_with("libstdc++.") || place.name.starts_with("libc++.")
    };
    let found = functions.find_in(is_library, false, |name, _| NEW.contains(&name));
    let effect = Effect::takes(0).outermost();
    let wanted = found.into_iter();
    wanted
        .map(|function| Wanted::blocks(function, effect))
        .collect()
}

/// Whether without this function what is counted of others would be wrong.
pub(super) fn is_needed(name: &str) -> bool {
    C.iter().any(|(known, _)| *known == name)
}

fn is_c_library(name: &str) -> bool {
    name.starts_with("libc.so") || name.starts_with("libc-2") || name.contains("musl")
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
        let free = family.wanted.iter().find(|one| one.function.name == "free");
        assert!(free.is_some_and(|free| free.entry_only));
    }
}
