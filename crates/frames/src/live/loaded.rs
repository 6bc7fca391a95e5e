//! The ELF files of a process, each read when an address in it is looked up. Used by `open`, `scripts` and others here,
//! and by the crates `dump`, `report`, `calls` and `lancet`.

use std::cell::OnceCell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use iced_x86::{Decoder, DecoderOptions, FlowControl};
use object::elf;
use process::maps::{Maps, PAGE};
use process::modules::{GuestFiles, Module, modules};
use process::symbols::Symbols;
use vm::Memory;

use crate::Result;
use crate::hints::{self, Hints};
use crate::image::Image;
use crate::imports::Imports;
use crate::names::readable;

/// Offset of the table in `.eh_frame_hdr`: behind version, three encodings, pointer and count.
const TABLE: usize = 12;

/// Names of libraries that make system calls for others: the C library and what it loads to look up names.
const C_LIBRARIES: &[&str] = &[
    "libc.so",
    "libc-",
    "libresolv",
    "libnss_",
    "libpthread",
    "ld-linux",
    "ld-musl",
];

/// A file that a process has loaded.
#[derive(Debug)]
pub struct Loaded {
    /// Its path, as the process sees it.
    pub path: PathBuf,
    /// The addresses at which it is mapped.
    pub range: Range<u64>,
    /// Load bias: what is added to an address in the file to get the one in memory.
    pub bias: u64,
    source: Source,
    image: OnceCell<Option<Image>>,
    symbols: OnceCell<Option<Symbols>>,
    imports: OnceCell<Imports>,
}

#[derive(Debug)]
enum Source {
    Guest {
        files: Arc<GuestFiles>,
        module: Box<Module>,
    },
    File(PathBuf),
}

/// A function, and where in it an address lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name in readable form; `None` if no symbol names it.
    pub name: Option<String>,
    /// The address at which it begins in the process.
    pub start: u64,
    /// The distance of the address from `start`, in bytes.
    pub offset: u64,
}

impl Loaded {
    fn new(path: PathBuf, range: Range<u64>, bias: u64, source: Source) -> Loaded {
        Loaded {
            path,
            range,
            bias,
            source,
            image: OnceCell::new(),
            symbols: OnceCell::new(),
            imports: OnceCell::new(),
        }
    }

    /// Returns the name of the file without its folder.
    pub fn name(&self) -> &str {
        self.path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or("?")
    }

    /// Whether it is musl's C library.
    pub fn is_musl(&self) -> bool {
        self.name().starts_with("ld-musl")
    }

    /// Whether it is the C library, or what that loads.
    pub fn is_c_library(&self) -> bool {
        let name = self.name();
        C_LIBRARIES.iter().any(|library| name.starts_with(library))
    }

    /// Returns the file's segments; `None` if the file is gone or is no longer the one that is loaded.
    pub fn image(&self, memory: &dyn Memory) -> Option<&Image> {
        let open = || match &self.source {
            Source::Guest { files, module } => {
                let (file, path) = files.open_module(module, memory).ok()?;
                Image::read(&path, file).ok()
            }
            Source::File(path) => Image::open(path).ok(),
        };
        self.image.get_or_init(open).as_ref()
    }

    fn symbols(&self, memory: &dyn Memory) -> Option<&Symbols> {
        let open = || match &self.source {
            Source::Guest { files, module } => Symbols::open(files, module, memory).ok(),
            Source::File(path) => Symbols::of_file(path).ok(),
        };
        self.symbols.get_or_init(open).as_ref()
    }

    /// Returns what must be added to the symbols' addresses to get those in memory.
    fn symbol_bias(&self) -> u64 {
        match self.source {
            Source::Guest { .. } => 0,
            Source::File(_) => self.bias,
        }
    }

    /// Returns the address of an exported symbol in the process.
    pub fn exported(&self, memory: &dyn Memory, name: &str) -> Option<u64> {
        let symbol = self.symbols(memory)?.exported(name)?;
        Some(symbol.address.wrapping_add(self.symbol_bias()))
    }

    /// Returns the addresses of its variables; none if the file is gone.
    pub fn data(&self, memory: &dyn Memory) -> Vec<Range<u64>> {
        let loads = self
            .image(memory)
            .map(|image| image.headers().loads())
            .into_iter()
            .flatten();
        let data = loads.filter(|load| load.writable);
        data.map(|load| {
            let range = load.range();
            range.start.wrapping_add(self.bias)..range.end.wrapping_add(self.bias)
        })
        .collect()
    }

    /// Returns the function to which the one at `start` jumps at its end.
    pub fn tail_call(&self, memory: &dyn Memory, start: u64) -> Option<u64> {
        let image = self.image(memory)?;
        let start = start.wrapping_sub(self.bias);
        let range = start..search_table(image, start)?.1?;
        let code = image.code_of(&range)?;
        let mut instructions = Decoder::with_ip(64, code, start, DecoderOptions::NONE).into_iter();
        let jump = instructions.find(|instruction| {
            let target = instruction.near_branch_target();
            instruction.flow_control() == FlowControl::UnconditionalBranch
                && !range.contains(&target)
        })?;
        Some(jump.near_branch_target().wrapping_add(self.bias))
    }

    /// Returns the code of the function at `start`: its own range first, then those of its parts that the compiler
    /// moved elsewhere (`.cold`). A part is recognised by a jump into the midst of what the unwinder's table has as
    /// another function, or by a conditional jump to its start. Empty without that table.
    pub fn extent(&self, memory: &dyn Memory, start: u64) -> Vec<Range<u64>> {
        let ranges = || {
            let image = self.image(memory)?;
            let start = start.wrapping_sub(self.bias);
            let body = start..search_table(image, start)?.1?;
            let code = image.code_of(&body)?;
            let mut ranges = vec![body.clone()];
            for jump in Decoder::with_ip(64, code, start, DecoderOptions::NONE) {
                let conditional = match jump.flow_control() {
                    FlowControl::ConditionalBranch => true,
                    FlowControl::UnconditionalBranch => false,
                    _ => continue,
                };
                let target = jump.near_branch_target();
                if ranges.iter().any(|range| range.contains(&target)) {
                    continue;
                }
                if let Some((part, Some(next))) = search_table(image, target)
                    && (conditional || target != part)
                {
                    ranges.push(part..next);
                }
            }
            Some(ranges)
        };
        let biased = |range: Range<u64>| {
            range.start.wrapping_add(self.bias)..range.end.wrapping_add(self.bias)
        };
        let ranges = ranges().unwrap_or_default();
        ranges.into_iter().map(biased).collect()
    }

    /// Returns the function that holds `address`.
    pub fn function(&self, memory: &dyn Memory, address: u64) -> Function {
        let named = self.symbols(memory).and_then(|symbols| {
            let (name, offset) = symbols.name_at(address.wrapping_sub(self.symbol_bias()))?;
            Some((readable(&name), offset))
        });
        let start = self.function_start(memory, address);
        match (named, start) {
            // Another function begins behind the symbol, so the symbol's name is not that of this function.
            (Some((name, offset)), start)
                if start.is_none_or(|start| address - start >= offset) =>
            {
                Function {
                    name: Some(name),
                    start: address - offset,
                    offset,
                }
            }
            (_, start) => {
                let start = start.unwrap_or(self.range.start);
                Function {
                    name: None,
                    start,
                    offset: address - start,
                }
            }
        }
    }

    /// Returns what the code of a function says of its purpose, for functions without a name.
    pub fn hints(&self, memory: &dyn Memory, start: u64) -> Hints {
        let Some(image) = self.image(memory) else {
            return Hints::default();
        };
        let start = start.wrapping_sub(self.bias);
        let end = search_table(image, start)
            .and_then(|(_, next)| next)
            .unwrap_or(start + PAGE);
        let imports = self.imports.get_or_init(|| Imports::of(image));
        hints::of(image, imports, &(start..end))
    }

    /// Returns where the function that holds `address` begins, by the sorted table that unwinders use.
    pub fn function_start(&self, memory: &dyn Memory, address: u64) -> Option<u64> {
        let (start, _) = search_table(self.image(memory)?, address.wrapping_sub(self.bias))?;
        Some(start.wrapping_add(self.bias))
    }
}

/// Searches `.eh_frame_hdr` (LSB Core "Exception Frames"), whose table every linker writes as pairs of signed 32-bit
/// distances from the header. Returns the start of the function at or before `address`, and that of the next one.
fn search_table(image: &Image, address: u64) -> Option<(u64, Option<u64>)> {
    let header = image.headers().segment(elf::PT_GNU_EH_FRAME)?;
    let bytes = image.rest(header.address)?;
    if bytes.get(..4)? != [1, 0x1b, 0x03, 0x3b] {
        return None;
    }
    let count = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?) as usize;
    let entries = bytes.get(TABLE..)?.as_chunks::<8>().0;
    let entries = &entries[..entries.len().min(count)];
    let start = |entry: &[u8; 8]| {
        let distance = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        header.address.wrapping_add_signed(i64::from(distance))
    };
    let after = entries.partition_point(|entry| start(entry) <= address);
    let found = entries.get(after.checked_sub(1)?)?;
    Some((start(found), entries.get(after).map(start)))
}

/// All files of a process, by rising address.
#[derive(Debug)]
pub struct Modules {
    list: Vec<Loaded>,
}

impl Modules {
    /// Finds the files of a running process.
    pub fn of_guest(pid: i32, maps: &Maps, memory: &dyn Memory) -> Result<Modules> {
        let files = Arc::new(GuestFiles::of(pid));
        let found = modules(&files, maps, memory)?;
        let list = found.into_iter().map(|module| {
            let source = Source::Guest {
                files: Arc::clone(&files),
                module: Box::new(module.clone()),
            };
            Loaded::new(module.path.clone(), module.range(), module.bias, source)
        });
        Ok(Modules {
            list: list.collect(),
        })
    }

    /// Makes the modules of a process of which only a list is known: path, first address, one past the last.
    pub fn of_list(files: Vec<(PathBuf, Range<u64>)>) -> Modules {
        let list = files.into_iter().map(|(path, range)| {
            let headers = process::modules::open_regular(&path)
                .ok()
                .and_then(|file| process::elf::Headers::read(&file).ok());
            let first = headers.map_or(0, |headers| headers.extent().start / PAGE * PAGE);
            Loaded::new(
                path.clone(),
                range.clone(),
                range.start.wrapping_sub(first),
                Source::File(path),
            )
        });
        let mut list: Vec<Loaded> = list.collect();
        list.sort_by_key(|loaded| loaded.range.start);
        Modules { list }
    }

    /// Returns all files, by rising address.
    pub fn iter(&self) -> impl Iterator<Item = &Loaded> {
        self.list.iter()
    }

    /// Returns the number of the file that `address` lies in.
    pub fn number(&self, address: u64) -> Option<usize> {
        let after = self
            .list
            .partition_point(|loaded| loaded.range.start <= address);
        let last = after.checked_sub(1)?;
        self.list[last].range.contains(&address).then_some(last)
    }

    /// Returns the file that `address` lies in.
    pub fn at(&self, address: u64) -> Option<&Loaded> {
        self.number(address).map(|number| &self.list[number])
    }

    /// Returns a file by its number.
    pub fn get(&self, number: usize) -> Option<&Loaded> {
        self.list.get(number)
    }
}
