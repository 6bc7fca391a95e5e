//! Names to addresses and back, for one module of a guest. Used by `functions`, `indirect` and others here, and by the
//! crates `frames`, `enter`, `languages` and `rss`.
//!
//! A name is searched for in these places, from cheap to expensive, each read only when it is reached:
//!
//! 1. the dynamic symbols, through the hash table that the loader itself uses;
//! 2. `.symtab` of the file;
//! 3. `.symtab` of a separate debug file (`debug`), which has all that 4. has;
//! 4. the small table that Fedora and its kin put into stripped files (`.gnu_debugdata`).
//!
//! If the file that is loaded can no longer be reached (upgraded, deleted, on a mount we cannot see), the
//! dynamic symbols come out of the guest's memory, where the loader keeps them for `dlsym`, and
//! separate debug files are found by the build ID that is also there.

mod by_address;
mod debug;

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use crate::elf::dynamic::{Dynamic, FileImage, MemoryImage};
use crate::elf::imports::{self, Of};
pub use crate::elf::table::Kind;
use crate::elf::table::{Entry, Table};
use crate::elf::{ElfError, Headers};
use crate::modules::{GuestFiles, Module, Origin, open_regular};
use by_address::ByAddress;

/// A place in the guest that has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// The address in the guest.
    pub address: u64,
    /// The size in bytes; 0 if not known.
    pub size: u64,
    /// Whether a function, an IFUNC or data is there.
    pub kind: Kind,
}

/// A symbol and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named<'a> {
    /// The name, without a version.
    pub name: Cow<'a, str>,
    /// The place that has this name.
    pub symbol: Symbol,
    /// Whether it is the version of this name that new programs are linked to, or the only one.
    pub default: bool,
    /// Whether it is visible only inside its own source file or object.
    pub local: bool,
}

/// What a slot's function is identified by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Slot<'a> {
    /// Its name, without a version.
    Named(Cow<'a, str>),
    /// The address in the guest of the function that picks it.
    Picked(u64),
}

/// The symbols of one module.
#[derive(Debug)]
pub struct Symbols {
    files: Arc<GuestFiles>,
    path: PathBuf,
    origin: Origin,
    headers: Headers,
    bias: u64,
    build_id: Option<Vec<u8>>,
    file: Option<File>,
    dynamic: Option<Dynamic>,
    more: OnceLock<Option<Table>>,
    by_address: OnceLock<ByAddress>,
    imports: OnceLock<HashSet<String>>,
    own_picks: OnceLock<OwnPicks>,
}

/// A name as text. Nearly all are ASCII, which `from_utf8` knows by whole words and `from_utf8_lossy` byte by byte.
fn text(name: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(name) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(name),
    }
}

/// IFUNCs that a module calls through slots of its own.
#[derive(Debug)]
struct OwnPicks {
    names: HashSet<String>,
    /// Whether none of them is exported.
    local: bool,
}

impl Symbols {
    /// The symbols of a module: from its file, or else from the guest's memory.
    pub fn open(
        files: &Arc<GuestFiles>,
        module: &Module,
        memory: &dyn vm::Memory,
    ) -> Result<Symbols, ElfError> {
        match files.open_module(module, memory) {
            Ok((file, path)) => Symbols::from_file(files, module, memory, file, path)
                .or_else(|_| Symbols::from_memory(files, module, memory)),
            // The memory holds the names of exported functions only, so it would seem that there are no others.
            Err(error) if error.is_shortage() => Err(error),
            Err(_) => Symbols::from_memory(files, module, memory),
        }
    }

    /// The symbols of a file that no process need have loaded, at the addresses it was linked for.
    /// Its separate debug file is looked for below our own root.
    pub fn of_file(path: &Path) -> Result<Symbols, ElfError> {
        let failed = |source| ElfError::File {
            path: path.to_owned(),
            source,
        };
        let file = open_regular(path).map_err(failed)?;
        Symbols::of_open_file(path, file)
    }

    /// The same for a file that is open already; its debug file is searched for near `path`.
    pub fn of_open_file(path: &Path, file: File) -> Result<Symbols, ElfError> {
        let malformed = |reason| ElfError::Malformed {
            file: path.to_owned(),
            reason,
        };
        let headers = Headers::read(&file).map_err(malformed)?;
        let image = FileImage {
            bytes: &file,
            headers: &headers,
        };
        // A file without valid dynamic symbols may still have the others.
        let dynamic = Dynamic::read(&image, &headers).unwrap_or_default();
        let build_id = headers.build_id(&file);
        Ok(Symbols {
            files: Arc::new(GuestFiles::of(std::process::id().cast_signed())),
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            origin: Origin::File(path.to_owned()),
            headers,
            bias: 0,
            build_id,
            file: Some(file),
            dynamic,
            more: OnceLock::new(),
            by_address: OnceLock::new(),
            imports: OnceLock::new(),
            own_picks: OnceLock::new(),
        })
    }

    /// The module's own file, if it is still the one that was loaded.
    pub fn file(&self) -> Option<&File> {
        self.file.as_ref()
    }

    /// Whether the module's file has a section of this name.
    pub fn has_section(&self, name: &str) -> bool {
        self.file.as_ref().is_some_and(|file| {
            let sections = self.headers.sections(file);
            self.headers.find_section(file, &sections, name).is_some()
        })
    }

    /// Returns the addresses in the guest of a section of the module's file that is mapped.
    pub fn mapped_section(&self, name: &str) -> Option<std::ops::Range<u64>> {
        let file = self.file.as_ref()?;
        let sections = self.headers.sections(file);
        let section = self.headers.find_section(file, &sections, name)?;
        let start = section.address.wrapping_add(self.bias);
        let end = start.checked_add(section.size)?;
        (section.address != 0).then_some(start..end)
    }

    /// The separate debug file, if there is one that belongs to the module.
    pub fn debug_file(&self) -> Option<File> {
        self.separate()
    }

    /// The dynamic symbols of a module as they lie in the guest's memory.
    pub fn from_memory(
        files: &Arc<GuestFiles>,
        module: &Module,
        memory: &dyn vm::Memory,
    ) -> Result<Symbols, ElfError> {
        let extent = module.headers.extent();
        let image = MemoryImage {
            memory,
            bias: module.bias,
            extent,
        };
        let dynamic =
            Dynamic::read(&image, &module.headers).map_err(|reason| ElfError::Malformed {
                file: module.path.clone(),
                reason,
            })?;
        Ok(Symbols::new(
            files,
            module,
            memory,
            Origin::Memory,
            None,
            dynamic,
        ))
    }

    fn from_file(
        files: &Arc<GuestFiles>,
        module: &Module,
        memory: &dyn vm::Memory,
        file: File,
        path: PathBuf,
    ) -> Result<Symbols, ElfError> {
        let malformed = |reason| ElfError::Malformed {
            file: path.clone(),
            reason,
        };
        let headers = Headers::read(&file).map_err(malformed)?;
        let image = FileImage {
            bytes: &file,
            headers: &headers,
        };
        let dynamic = Dynamic::read(&image, &headers).map_err(malformed)?;
        let mut symbols = Symbols::new(
            files,
            module,
            memory,
            Origin::File(path),
            Some(file),
            dynamic,
        );
        symbols.headers = headers;
        Ok(symbols)
    }

    fn new(
        files: &Arc<GuestFiles>,
        module: &Module,
        memory: &dyn vm::Memory,
        origin: Origin,
        file: Option<File>,
        dynamic: Option<Dynamic>,
    ) -> Symbols {
        Symbols {
            files: Arc::clone(files),
            path: module.path.clone(),
            origin,
            headers: module.headers.clone(),
            bias: module.bias,
            build_id: module.build_id(memory),
            file,
            dynamic,
            more: OnceLock::new(),
            by_address: OnceLock::new(),
            imports: OnceLock::new(),
            own_picks: OnceLock::new(),
        }
    }

    /// Where the symbols come from.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The build ID of the module, from the guest's memory.
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Finds a name that the module exports; of several versions the default one. This is one lookup in a hash table,
    /// whatever the size of the module.
    pub fn exported(&self, name: &str) -> Option<Symbol> {
        let (_, entry) = self.dynamic.as_ref()?.find(name.as_bytes())?;
        self.symbol_of(entry)
    }

    /// Finds a name among all symbols there are. A name that is not exported costs reading the full
    /// symbol table the first time, some milliseconds for a large library.
    pub fn symbol(&self, name: &str) -> Option<Symbol> {
        self.exported(name).or_else(|| {
            let table = self.more()?;
            self.symbol_of(table.entry(table.find(name.as_bytes())?)?)
        })
    }

    /// The name that programs linked to the module know it by, if it has one: `libz.so.1`.
    pub fn soname(&self) -> Option<Cow<'_, str>> {
        let name = self.dynamic.as_ref()?.soname()?;
        Some(String::from_utf8_lossy(name))
    }

    /// Whether the module calls a function of this name through a slot of its own (PLT or GOT), as it calls those
    /// of other modules.
    pub fn imports(&self, name: &str) -> bool {
        self.imports
            .get_or_init(|| {
                let names = self.dynamic.iter().flat_map(Dynamic::imports);
                let text = |name| String::from_utf8_lossy(name).into_owned();
                names.map(text).collect()
            })
            .contains(name)
    }

    /// Whether the module calls an IFUNC of its own by this name through a slot without a name (`R_X86_64_IRELATIVE`).
    pub fn calls_own_pick(&self, name: &str) -> bool {
        self.own_picks().names.contains(name)
    }

    /// Whether it has IFUNCs that it calls in this way, and exports none of them.
    pub fn has_local_picks(&self) -> bool {
        self.own_picks().local
    }

    fn own_picks(&self) -> &OwnPicks {
        let find = || {
            let slots = self.slots().into_iter();
            let pickers: HashSet<u64> = slots
                .filter_map(|(_, slot)| match slot {
                    Slot::Picked(by) => Some(by),
                    Slot::Named(_) => None,
                })
                .collect();
            let is_picker = |named: &Named| {
                named.symbol.kind == Kind::Indirect && pickers.contains(&named.symbol.address)
            };
            let name = |named: Named| named.name.into_owned();
            let names: HashSet<String> = self.exports().filter(is_picker).map(name).collect();
            if pickers.is_empty() || !names.is_empty() {
                OwnPicks {
                    names,
                    local: false,
                }
            } else {
                OwnPicks {
                    names: self.all().filter(is_picker).map(name).collect(),
                    local: true,
                }
            }
        };
        self.own_picks.get_or_init(find)
    }

    /// The name of the function or variable that holds `address`, and how far into it that is.
    pub fn name_at(&self, address: u64) -> Option<(Cow<'_, str>, u64)> {
        let (table, name, offset) = self.by_address().find(address.wrapping_sub(self.bias))?;
        let table = if table == 0 {
            self.dynamic.as_ref()?.table()
        } else {
            self.more()?
        };
        Some((String::from_utf8_lossy(table.name(name)?), offset))
    }

    /// Returns the words that the loader fills with functions' addresses: the address of each in the guest, and its
    /// function, by name or by the address of the function that picks it.
    pub fn slots(&self) -> Vec<(u64, Slot<'_>)> {
        let guest = |address: u64| address.wrapping_add(self.bias);
        let of = |of: Of| match of {
            Of::Picked(by) => Some(Slot::Picked(guest(by))),
            Of::Symbol(index) => {
                let name = self.dynamic.as_ref()?.table().callable(index)?;
                Some(Slot::Named(String::from_utf8_lossy(name)))
            }
        };
        let of_static = || match &self.file {
            Some(file) => imports::of_static(file, &self.headers),
            None => Vec::new(),
        };
        let slots = match &self.dynamic {
            Some(dynamic) => dynamic.slots().to_vec(),
            None => of_static(),
        };
        let slots = slots.into_iter();
        slots
            .filter_map(|slot| Some((guest(slot.at), of(slot.of)?)))
            .collect()
    }

    /// Every symbol the module shows to others, all versions of each.
    pub fn exports(&self) -> impl Iterator<Item = Named<'_>> {
        self.dynamic.iter().flat_map(move |dynamic| {
            self.named(dynamic.table(), move |index| dynamic.is_default(index))
        })
    }

    /// Returns every symbol of the full table, which contains most exported ones again; nothing if there is no such
    /// table.
    pub fn all(&self) -> impl Iterator<Item = Named<'_>> {
        self.more()
            .into_iter()
            .flat_map(|table| self.named(table, |_| true))
    }

    /// Returns the symbols of both: the exported ones first.
    pub fn every(&self) -> impl Iterator<Item = Named<'_>> {
        self.exports().chain(self.all())
    }

    fn named<'a>(
        &'a self,
        table: &'a Table,
        is_default: impl Fn(u32) -> bool + 'a,
    ) -> impl Iterator<Item = Named<'a>> {
        let extent = self.headers.extent();
        table.entries().filter_map(move |(index, entry)| {
            Some(Named {
                name: text(table.name(entry.name)?),
                symbol: self.symbol_within(&extent, entry)?,
                default: is_default(index),
                local: entry.local,
            })
        })
    }

    /// Returns the places of the symbols of both, without their names: to read these takes most of the time.
    pub fn places(&self) -> impl Iterator<Item = Symbol> {
        let extent = self.headers.extent();
        let exported = self.dynamic.iter().map(Dynamic::table);
        let tables = exported.chain(self.more());
        let entries = tables.flat_map(Table::entries);
        entries.filter_map(move |(_, entry)| self.symbol_within(&extent, entry))
    }

    /// The symbol of an entry, unless its address lies outside of the module.
    fn symbol_of(&self, entry: Entry) -> Option<Symbol> {
        self.symbol_within(&self.headers.extent(), entry)
    }

    /// The same, where the extent of the module is known.
    fn symbol_within(&self, extent: &std::ops::Range<u64>, entry: Entry) -> Option<Symbol> {
        // `_end` and similar symbols point one past the last byte.
        (extent.start..=extent.end)
            .contains(&entry.address)
            .then(|| Symbol {
                address: entry.address.wrapping_add(self.bias),
                size: entry.size,
                kind: entry.kind,
            })
    }

    /// Returns the most complete table beyond the dynamic one.
    fn more(&self) -> Option<&Table> {
        let find = || {
            let file = self.file.as_ref();
            let full = file.and_then(|file| Table::full(file, &self.headers));
            full.filter(|table| !table.is_empty())
                .or_else(|| self.separate().and_then(|file| debug::full_table(&file)))
                .or_else(|| debug::embedded(file?, &self.headers))
        };
        self.more.get_or_init(find).as_ref()
    }

    fn separate(&self) -> Option<File> {
        let link = self
            .file
            .as_ref()
            .and_then(|file| debug::link(file, &self.headers));
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        debug::separate(&self.files, folder, self.build_id.as_deref(), link.as_ref())
    }

    fn by_address(&self) -> &ByAddress {
        self.by_address.get_or_init(|| {
            let dynamic = self.dynamic.as_ref().map(Dynamic::table);
            ByAddress::new([dynamic, self.more()], &self.headers.extent())
        })
    }
}
