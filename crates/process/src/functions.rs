//! The functions of a process: the symbols of all its modules, by name and by address, with the choices of IFUNCs
//! (`crate::indirect`) followed.

use crate::error::{Error, Result};
use crate::indirect::picked;
use crate::maps::Maps;
use crate::memory::GuestMemory;
use crate::modules::{GuestFiles, Module, kernels_own, modules};
use crate::symbols::{Kind, Symbols};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// The name that stands for the kernel in place of a module's, as in ltrace's `name@SYS`.
pub const SYSTEM: &str = "SYS";

/// A function of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, without a symbol version.
    pub name: String,
    /// The module that it is in: its SONAME, or else the name of its file.
    pub module: Arc<str>,
    /// Its address in the process.
    pub address: u64,
    /// Its size in bytes; 0 = not known.
    pub size: u64,
    /// It is an IFUNC that has not picked yet, as far as is known: callers will not come to this address, but to what
    /// it picks.
    pub picks: bool,
}

impl Function {
    /// Whether it is a system call.
    pub fn is_system_call(&self) -> bool {
        &*self.module == SYSTEM
    }

    /// Its name as users see it. That of a system call has `@SYS` behind it, because a function may have the same name.
    pub fn shown(&self) -> Cow<'_, str> {
        if self.is_system_call() {
            format!("{}@{SYSTEM}", self.name).into()
        } else {
            self.name.as_str().into()
        }
    }
}

/// A module with its symbols.
#[derive(Debug)]
pub struct Place {
    /// The module.
    pub module: Module,
    /// Its SONAME; of a file without one, and of the program, the file's name.
    pub name: Arc<str>,
    /// Its symbols.
    pub symbols: Symbols,
}

/// All modules of a guest, as they were when it was read.
#[derive(Clone, Debug)]
pub struct Functions {
    pid: i32,
    places: Vec<Arc<Place>>,
    /// The kernel's vDSO, which IFUNCs pick functions of. Nothing else of it is looked for: libc has a function of each
    /// name.
    kernel: Option<Arc<Place>>,
    /// What IFUNCs picked, by their own address, read when it is first asked for.
    picked: OnceLock<HashMap<u64, u64>>,
    /// The same as notices of the agent have told it ([`Functions::note_pick`]).
    said: HashMap<u64, u64>,
}

impl Functions {
    /// Reads the modules of a process; those without readable symbols are left out.
    pub fn read(pid: i32, memory: &GuestMemory, maps: &Maps) -> Result<Self> {
        let mut functions = Functions {
            pid,
            places: Vec::new(),
            kernel: None,
            picked: OnceLock::new(),
            said: HashMap::new(),
        };
        functions.refresh(pid, memory, maps)?;
        Ok(functions)
    }

    /// Reads modules that were loaded since, and forgets those that were unloaded.
    pub fn refresh(&mut self, pid: i32, memory: &GuestMemory, maps: &Maps) -> Result<()> {
        let files = Arc::new(GuestFiles::of(pid));
        let modules = modules(&files, maps, memory).map_err(|error| Error::Elf { pid, error })?;
        let mut known = std::mem::take(&mut self.places);
        self.picked = OnceLock::new();
        for module in modules {
            let same = |place: &Arc<Place>| {
                let old = &place.module;
                (old.bias, old.device, old.inode) == (module.bias, module.device, module.inode)
            };
            if let Some(at) = known.iter().position(same) {
                self.places.push(known.swap_remove(at));
            } else if let Ok(symbols) = Symbols::open(&files, &module, memory) {
                let name = match symbols.soname() {
                    Some(name) if !module.main => name.as_ref().into(),
                    _ => module.name().into(),
                };
                self.places.push(Arc::new(Place {
                    name,
                    module,
                    symbols,
                }));
            }
        }
        if self.kernel.is_none() {
            self.kernel = kernels_own(maps, memory).and_then(|module| {
                let symbols = Symbols::from_memory(&files, &module, memory).ok()?;
                let name = symbols.soname()?.as_ref().into();
                Some(Arc::new(Place {
                    module,
                    name,
                    symbols,
                }))
            });
        }
        let places = &self.places;
        self.said
            .retain(|picker, _| places.iter().any(|place| place.module.contains(*picker)));
        Ok(())
    }

    /// The modules.
    pub fn modules(&self) -> &[Arc<Place>] {
        &self.places
    }

    /// The module that holds an address.
    pub fn module_of(&self, address: u64) -> Option<&Place> {
        let mut places = self.places.iter().chain(&self.kernel).map(Arc::as_ref);
        places.find(|place| place.module.contains(address))
    }

    /// Whether an address is in the kernel's vDSO.
    pub fn is_kernels(&self, address: u64) -> bool {
        let mut kernel = self.kernel.iter();
        kernel.any(|kernel| kernel.module.contains(address))
    }

    /// The module by whose name a function is known. What an IFUNC picked may lie in another one, the vDSO.
    pub fn home_of(&self, function: &Function) -> Option<&Place> {
        let place = self.module_of(function.address)?;
        let mut places = self.places.iter().map(Arc::as_ref);
        let mut home = || places.find(|place| place.name == function.module);
        if place.name == function.module {
            Some(place)
        } else {
            home().or(Some(place))
        }
    }

    /// The address of an exported symbol, in whichever module; not of IFUNCs.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let places = self.places.iter();
        let found = places.filter_map(|place| place.symbols.exported(name));
        found
            .filter(|symbol| symbol.kind != Kind::Indirect)
            .map(|symbol| symbol.address)
            .next()
    }

    /// What IFUNCs picked, by their own address.
    fn picked(&self) -> &HashMap<u64, u64> {
        self.picked
            .get_or_init(|| match GuestMemory::open(self.pid) {
                Ok(memory) => {
                    let mut picked = picked(&self.places, self.kernel.as_deref(), &memory);
                    picked.extend(&self.said);
                    picked
                }
                Err(_) => HashMap::new(),
            })
    }

    /// Notes that the IFUNC at `picker` has picked the function at `target`. False if that was known, or `target` is in
    /// no module.
    pub fn note_pick(&mut self, picker: u64, target: u64) -> bool {
        let known = self.picked().get(&picker) == Some(&target);
        if known || self.module_of(target).is_none() {
            return false;
        }
        self.said.insert(picker, target);
        self.picked = OnceLock::new();
        true
    }

    /// The address of what an IFUNC picked, if that is known.
    pub fn pick_of(&self, picker: u64) -> Option<u64> {
        self.picked().get(&picker).copied()
    }

    /// Addresses of functions that were picked; none before [`Functions::find`] has come across an IFUNC.
    pub fn picks(&self) -> impl Iterator<Item = u64> {
        self.picked
            .get()
            .into_iter()
            .flat_map(|picked| picked.values().copied())
    }

    /// Replaces the address of each IFUNC by that of what it picked.
    fn follow_picks(&self, found: &mut [Function]) {
        let picked = self.picked();
        let targets: HashSet<u64> = picked.values().copied().collect();
        let every = self.places.iter().flat_map(|place| place.symbols.every());
        let sizes: HashMap<u64, u64> = every
            .map(|named| named.symbol)
            .filter(|symbol| symbol.size != 0 && targets.contains(&symbol.address))
            .map(|symbol| (symbol.address, symbol.size))
            .collect();
        for function in found.iter_mut().filter(|function| function.picks) {
            if let Some(target) = picked.get(&function.address) {
                function.address = *target;
                function.size = sizes.get(target).copied().unwrap_or(0);
                function.picks = false;
            }
        }
    }

    /// The functions for which `wanted` says yes, given name and module. `all` = also those that are not exported. One
    /// that has several names comes once, with the shortest.
    pub fn find(&self, all: bool, wanted: impl Fn(&str, &Place) -> bool) -> Vec<Function> {
        self.find_in(|_| true, all, wanted)
    }

    /// The same in those modules for which `those` says yes.
    pub fn find_in(
        &self,
        those: impl Fn(&Place) -> bool,
        all: bool,
        wanted: impl Fn(&str, &Place) -> bool,
    ) -> Vec<Function> {
        let mut found = Vec::new();
        for place in self.places.iter().filter(|place| those(place)) {
            let code: Vec<Range<u64>> = place.module.code().collect();
            let mut take = |name: &str, symbol: crate::symbols::Symbol| {
                let is_code = code.iter().any(|range| range.contains(&symbol.address));
                let is_function = matches!(symbol.kind, Kind::Function | Kind::Indirect);
                if is_function && is_code && !is_part(name) && wanted(name, place) {
                    found.push(Function {
                        name: name.to_owned(),
                        module: place.name.clone(),
                        address: symbol.address,
                        size: symbol.size,
                        picks: symbol.kind == Kind::Indirect,
                    });
                }
            };
            let mut each = |named: crate::symbols::Named| take(&named.name, named.symbol);
            if all {
                place.symbols.every().for_each(&mut each)
            } else {
                place.symbols.exports().for_each(&mut each)
            }
        }
        if found.iter().any(|function| function.picks) {
            self.follow_picks(&mut found);
        }
        // Other names are mostly made of the shortest: `__libc_malloc` of `malloc`.
        found.sort_by(|a, b| {
            (a.address, a.name.len(), &a.name).cmp(&(b.address, b.name.len(), &b.name))
        });
        found.dedup_by_key(|function| function.address);
        found
    }
}

/// Whether a symbol names only a part of a function: gcc's `-freorder-blocks-and-partition` moves the unlikely blocks
/// away, gives them a symbol with `.cold` in its name, and marks that as a function. Nothing calls it, so it is none
/// here.
fn is_part(symbol: &str) -> bool {
    let name = symbol.split('@').next().unwrap_or(symbol);
    name.ends_with(".cold") || name.contains(".cold.")
}
