//! The functions of a process: the symbols of all its modules, by name and by address, with the choices of IFUNCs
//! (`crate::indirect`) followed. Used by `indirect` and `linkage`, and by most crates above.

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

/// The name that stands for the kernel in the place of a module's, as in ltrace's `name@SYS`.
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
    /// Whether it is an IFUNC that has not picked yet, as far as is known: callers will not come to this address, but
    /// to the address that it picks.
    pub picks: bool,
}

impl Function {
    /// Returns whether it is a system call.
    pub fn is_system_call(&self) -> bool {
        &*self.module == SYSTEM
    }

    /// Returns its name as users see it: that of a system call ends in `@SYS`, because a function may have the same
    /// name.
    pub fn shown(&self) -> Cow<'_, str> {
        if self.is_system_call() {
            format!("{}@{SYSTEM}", self.name).into()
        } else {
            self.name.as_str().into()
        }
    }
}

/// A loaded module with its symbols.
#[derive(Debug)]
pub struct ModuleSymbols {
    /// Where the module is mapped, and which file it is.
    pub module: Module,
    /// Its SONAME; of a file without one, and of the program, the file's name.
    pub name: Arc<str>,
    /// The symbols of the module, of all its tables.
    pub symbols: Symbols,
}

/// All modules of a process, as they were when it was read.
#[derive(Clone, Debug)]
pub struct Functions {
    pid: i32,
    places: Vec<Arc<ModuleSymbols>>,
    /// The kernel's vDSO, because IFUNCs may pick functions of it. It is not searched for names, because libc has a
    /// function of each name.
    kernel: Option<Arc<ModuleSymbols>>,
    /// What IFUNCs have picked, by their own address. Read at the first request.
    picked: OnceLock<HashMap<u64, u64>>,
    /// What notices of the agent have reported of IFUNCs, likewise ([`Functions::note_pick`]).
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
            let same = |place: &Arc<ModuleSymbols>| {
                let old = &place.module;
                (old.bias, old.device, old.inode) == (module.bias, module.device, module.inode)
            };
            if let Some(at) = known.iter().position(same) {
                self.places.push(known.swap_remove(at));
                continue;
            }
            match Symbols::open(&files, &module, memory) {
                Ok(symbols) => {
                    let name = match symbols.soname() {
                        Some(name) if !module.main => name.as_ref().into(),
                        _ => module.name().into(),
                    };
                    self.places.push(Arc::new(ModuleSymbols {
                        name,
                        module,
                        symbols,
                    }));
                }
                Err(error) if error.is_shortage() => {
                    // What was known stays known.
                    self.places.extend(known);
                    self.places.sort_by_key(|place| place.module.bias);
                    return Err(Error::Elf { pid, error });
                }
                Err(_) => {}
            }
        }
        if self.kernel.is_none() {
            self.kernel = kernels_own(maps, memory).and_then(|module| {
                let symbols = Symbols::from_memory(&files, &module, memory).ok()?;
                let name = symbols.soname()?.as_ref().into();
                Some(Arc::new(ModuleSymbols {
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

    /// Returns all modules, by rising address.
    pub fn modules(&self) -> &[Arc<ModuleSymbols>] {
        &self.places
    }

    /// Returns these and the kernel's vDSO: all code that was there when the program began or that its loader has mapped.
    pub fn with_kernels(&self) -> impl Iterator<Item = &Arc<ModuleSymbols>> {
        self.places.iter().chain(&self.kernel)
    }

    /// Returns the module that holds an address.
    pub fn module_of(&self, address: u64) -> Option<&ModuleSymbols> {
        let mut places = self.places.iter().chain(&self.kernel).map(Arc::as_ref);
        places.find(|place| place.module.contains(address))
    }

    /// Returns whether an address is in the kernel's vDSO.
    pub fn is_kernels(&self, address: u64) -> bool {
        let mut kernel = self.kernel.iter();
        kernel.any(|kernel| kernel.module.contains(address))
    }

    /// Returns the module by whose name users know a function. For what an IFUNC picked this is the IFUNC's module,
    /// though the function may lie in another one, the vDSO.
    pub fn home_of(&self, function: &Function) -> Option<&ModuleSymbols> {
        let place = self.module_of(function.address)?;
        let mut places = self.places.iter().map(Arc::as_ref);
        let mut home = || places.find(|place| place.name == function.module);
        if place.name == function.module {
            Some(place)
        } else {
            home().or(Some(place))
        }
    }

    /// Returns the address of an exported symbol of any module, but not of an IFUNC.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        let places = self.places.iter();
        let found = places.filter_map(|place| place.symbols.exported(name));
        found
            .filter(|symbol| symbol.kind != Kind::Indirect)
            .map(|symbol| symbol.address)
            .next()
    }

    /// Returns what IFUNCs have picked, by their own address.
    fn picked(&self) -> &HashMap<u64, u64> {
        self.picked
            .get_or_init(|| match GuestMemory::open_briefly(self.pid) {
                Ok(memory) => {
                    let mut picked = picked(&self.places, self.kernel.as_deref(), &memory);
                    picked.extend(&self.said);
                    picked
                }
                Err(_) => HashMap::new(),
            })
    }

    /// Notes that the IFUNC at `picker` has picked the function at `target`. Returns false if that was known, or if
    /// `target` is in no module.
    pub fn note_pick(&mut self, picker: u64, target: u64) -> bool {
        let known = self.picked().get(&picker) == Some(&target);
        if known || self.module_of(target).is_none() {
            return false;
        }
        self.said.insert(picker, target);
        self.picked = OnceLock::new();
        true
    }

    /// Returns the address that an IFUNC has picked, if that is known.
    pub fn pick_of(&self, picker: u64) -> Option<u64> {
        self.picked().get(&picker).copied()
    }

    /// Returns the addresses of functions that IFUNCs have picked; none before [`Functions::find`] has found an IFUNC.
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
        let every = self.places.iter().flat_map(|place| place.symbols.places());
        let sizes: HashMap<u64, u64> = every
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

    /// Returns the functions for which `wanted` is true, given name and module. With `all` those that are not exported
    /// are among them. A function that has several names comes once, with the shortest.
    pub fn find(&self, all: bool, wanted: impl Fn(&str, &ModuleSymbols) -> bool) -> Vec<Function> {
        self.find_in(|_| true, all, wanted)
    }

    /// As [`Functions::find`], in those modules for which `those` is true.
    pub fn find_in(
        &self,
        those: impl Fn(&ModuleSymbols) -> bool,
        all: bool,
        wanted: impl Fn(&str, &ModuleSymbols) -> bool,
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
        // Other names are mostly longer forms of the shortest: `__libc_malloc` of `malloc`.
        found.sort_by(|a, b| {
            (a.address, a.name.len(), &a.name).cmp(&(b.address, b.name.len(), &b.name))
        });
        found.dedup_by_key(|function| function.address);
        found
    }
}

/// Returns whether a symbol names only a part of a function. gcc's `-freorder-blocks-and-partition` moves the unlikely
/// blocks away, gives them a symbol with `.cold` in its name, and marks that as a function. Nothing calls it, so it is
/// not listed.
fn is_part(symbol: &str) -> bool {
    // Every symbol of a process is asked, and few have one.
    if !symbol.contains('.') {
        return false;
    }
    let name = symbol.split('@').next().unwrap_or(symbol);
    name.ends_with(".cold") || name.contains(".cold.")
}
