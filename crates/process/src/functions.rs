//! The functions of a guest: every module's symbols, by name and by address.

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
use trampoline::exempt::{Treatment, is_part, treatment};

/// What stands for the kernel where a module's name is asked for, as ltrace has it.
pub const SYSTEM: &str = "SYS";

/// A function in a guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, without a version.
    pub name: String,
    /// The module it is in, by its SONAME or the file's name.
    pub module: Arc<str>,
    /// Its address in the guest.
    pub address: u64,
    /// Its bytes; 0 = not known.
    pub size: u64,
    /// An IFUNC of which is not known what it picked: what stands there is not what is called (`indirect`).
    pub picks: bool,
}

impl Function {
    /// Whether it is a system call.
    pub fn is_system_call(&self) -> bool {
        &*self.module == SYSTEM
    }

    /// Its name as it is shown: that of a system call says so, because a function may have the same.
    pub fn shown(&self) -> Cow<'_, str> {
        match self.is_system_call() {
            true => format!("{}@{SYSTEM}", self.name).into(),
            false => self.name.as_str().into(),
        }
    }

    /// Whether its returns cannot be seen (`trampoline::exempt`).
    pub fn is_told_at_entry_only(&self) -> bool {
        if self.is_system_call() {
            return matches!(self.name.as_str(), "exit" | "exit_group");
        }
        matches!(treatment(&self.name), Treatment::EntryOnly(_))
    }

    /// Whether it can be given no frame of ours.
    pub(crate) fn gets_no_frame(&self) -> bool {
        matches!(
            treatment(&self.name),
            Treatment::EntryOnly(_) | Treatment::EntryAndProbe(_)
        )
    }

    /// Whether its returns are seen by a probe.
    pub(crate) fn returns_at_probe(&self) -> bool {
        matches!(treatment(&self.name), Treatment::EntryAndProbe(_))
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
    /// The kernel's vDSO, which IFUNCs pick functions of. Nothing else of it is looked for: libc has a function of each name.
    kernel: Option<Arc<Place>>,
    /// What IFUNCs picked.
    picked: OnceLock<HashMap<u64, u64>>,
    /// What they said when they picked.
    said: HashMap<u64, u64>,
}

impl Functions {
    /// Reads the modules; those without readable symbols are left out.
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

    /// Reads those that came, forgets those that went.
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

    /// Whether what stands at an address is the kernel's.
    pub fn is_kernels(&self, address: u64) -> bool {
        let mut kernel = self.kernel.iter();
        kernel.any(|kernel| kernel.module.contains(address))
    }

    /// The module that a function is known to be of: what an IFUNC picked may lie in another (the vDSO).
    pub fn home_of(&self, function: &Function) -> Option<&Place> {
        let place = self.module_of(function.address)?;
        let mut places = self.places.iter().map(Arc::as_ref);
        let mut home = || places.find(|place| place.name == function.module);
        match place.name == function.module {
            true => Some(place),
            false => home().or(Some(place)),
        }
    }

    /// The address of a symbol that any module shows to others.
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

    /// An IFUNC says that it picked what stands at `target`; whether that is news, and code that is known.
    pub fn note_pick(&mut self, picker: u64, target: u64) -> bool {
        let known = self.picked().get(&picker) == Some(&target);
        if known || self.module_of(target).is_none() {
            return false;
        }
        self.said.insert(picker, target);
        self.picked = OnceLock::new();
        true
    }

    /// What the IFUNC at an address picked, if that is known.
    pub fn pick_of(&self, picker: u64) -> Option<u64> {
        self.picked().get(&picker).copied()
    }

    /// Where functions begin that were picked, as far as anybody asked.
    pub fn picks(&self) -> impl Iterator<Item = u64> {
        self.picked
            .get()
            .into_iter()
            .flat_map(|picked| picked.values().copied())
    }

    /// Puts what was picked in the place of those that picked it.
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

    /// Functions for which `wanted` says yes (name, module); `all` = not only those that are exported.
    pub fn find(&self, all: bool, wanted: impl Fn(&str, &Place) -> bool) -> Vec<Function> {
        self.find_in(|_| true, all, wanted)
    }

    /// The same in some of the modules.
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
            match all {
                true => place.symbols.every().for_each(&mut each),
                false => place.symbols.exports().for_each(&mut each),
            }
        }
        if found.iter().any(|function| function.picks) {
            self.follow_picks(&mut found);
        }
        // Several names of one function: the shortest, which the others are made from.
        found.sort_by(|a, b| {
            (a.address, a.name.len(), &a.name).cmp(&(b.address, b.name.len(), &b.name))
        });
        found.dedup_by_key(|function| function.address);
        found
    }
}
