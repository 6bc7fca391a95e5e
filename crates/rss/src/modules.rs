//! The ELF files that a process has loaded, as the ledger needs them: whose variables are where, which allocator is there, which VM.

use std::ops::Range;
use std::sync::Arc;

use process::maps::Maps;
use process::modules::{GuestFiles, Module, modules};
use process::symbols::Symbols;

use wire::snapshot::allocator::Asked;

use crate::other::Other;
use process::resident_memory::ResidentMemory;

/// Libraries that replace malloc, by the beginnings of their names.
const ALLOCATORS: [(&str, &str); 4] = [
    ("libjemalloc", "jemalloc"),
    ("libtcmalloc", "tcmalloc"),
    ("libmimalloc", "mimalloc"),
    ("libtbbmalloc", "tbbmalloc"),
];

/// The modules of one process with their symbols, as they were when the ledger was begun.
pub struct Loaded {
    modules: Vec<(Module, Option<Symbols>)>,
}

impl Loaded {
    /// Finds the modules of a process; none if they cannot be read.
    pub fn of(pid: i32, maps: &Maps, memory: &ResidentMemory) -> Self {
        let files = Arc::new(GuestFiles::of(pid));
        let found = modules(&files, maps, memory).unwrap_or_default();
        let open = |module: Module| {
            let symbols = Symbols::open(&files, &module, memory).ok();
            (module, symbols)
        };
        let modules = found.into_iter().map(open).collect();
        Loaded { modules }
    }

    /// The symbols of the module that exports a name, or of the program itself if that has it.
    fn with(&self, name: &str) -> Option<&Symbols> {
        self.having(name).map(|(_, symbols)| symbols)
    }

    fn having(&self, name: &str) -> Option<(&Module, &Symbols)> {
        let all = self.modules.iter();
        let mut all = all.filter_map(|(module, symbols)| Some((module, symbols.as_ref()?)));
        all.find(|(module, symbols)| {
            symbols.exported(name).is_some() || (module.main && symbols.symbol(name).is_some())
        })
    }

    /// Where the variables of the C library lie: of each module that may hold it, the likeliest first.
    pub fn c_libraries(&self) -> Vec<Vec<Range<u64>>> {
        let libraries = self.modules.iter().filter(|(module, _)| is_glibc(module));
        let program = self.modules.iter().filter(|(module, _)| module.main);
        let all = libraries.chain(program);
        all.map(|(module, _)| module.data().collect()).collect()
    }

    /// Whether malloc is that of a glibc that is loaded as a library.
    pub fn has_glibc(&self) -> bool {
        let mut all = self.modules.iter();
        self.other_allocator().is_none() && all.any(|(module, _)| is_glibc(module))
    }

    /// The library that has taken malloc's place.
    pub fn other_allocator(&self) -> Option<&'static str> {
        let mut names = self.modules.iter().map(|(module, _)| module.name());
        names.find_map(|name| {
            let mut all = ALLOCATORS.iter();
            all.find_map(|(begins, allocator)| name.starts_with(begins).then_some(*allocator))
        })
    }

    /// The allocator that has taken malloc's place, and how it is asked.
    pub fn other(&self) -> Option<Other> {
        let name = self.other_allocator()?;
        let function = match name {
            "jemalloc" => Some((Asked::Jemalloc, "mallctl")),
            "tcmalloc" => Some((Asked::Tcmalloc, "MallocExtension_GetNumericProperty")),
            _ => None,
        };
        let asked = function.and_then(|(asked, function)| {
            let symbols = self.with(function)?;
            Some((asked, symbols.exported(function)?.address))
        });
        Some(Other {
            name,
            asked,
            figures: None,
        })
    }

    /// Variables that no file has (`.bss`), with the path of their module.
    pub fn variables(&self) -> impl Iterator<Item = (Range<u64>, String)> + '_ {
        self.modules.iter().flat_map(|(module, _)| {
            let without_file = module
                .mappings
                .iter()
                .filter(|mapping| mapping.path.is_none());
            let path = module.shown_path.to_string_lossy();
            without_file.map(move |mapping| (mapping.start..mapping.end, path.clone().into_owned()))
        })
    }
}

impl languages::resident::LoadedFiles for Loaded {
    fn with_data(&self, name: &str) -> Option<(&Symbols, Vec<Range<u64>>)> {
        let (module, symbols) = self.having(name)?;
        Some((symbols, module.data().collect()))
    }
}

fn is_glibc(module: &Module) -> bool {
    let name = module.name();
    name.starts_with("libc.so.6") || name.starts_with("libc-2")
}
