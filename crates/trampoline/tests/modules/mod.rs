//! A library's text, functions and tables, read from its file.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolFlags, SymbolKind};
use trampoline::{Function, Pads, Targets};

/// An ELF file.
pub struct Module {
    /// Loadable segments.
    segments: Vec<(u64, Vec<u8>)>,
    /// Sections with instructions.
    texts: Vec<(u64, Vec<u8>)>,
    /// Address, name and size of exported functions; one name per address.
    symbols: BTreeMap<u64, (String, u64)>,
    /// Address and length of writable sections with contents.
    writable: Vec<(u64, usize)>,
    /// Address of `.stapsdt.base`, contents of `.note.stapsdt`.
    probes: (Option<u64>, Vec<u8>),
}

/// One of its functions.
pub struct Named<'a> {
    pub name: &'a str,
    pub code: Function<'a>,
}

impl Module {
    /// Of this name, where Debian keeps libraries; or the file itself.
    pub fn open(name: &str) -> Option<Self> {
        let path = ["", "/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu"]
            .map(|folder| PathBuf::from(folder).join(name))
            .into_iter()
            .find(|path| path.is_file())?;
        Some(Self::at(&path, 0))
    }

    /// The file `path`, loaded at `base`.
    pub fn at(path: &Path, base: u64) -> Self {
        let bytes = std::fs::read(path).expect("readable");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let mut symbols: BTreeMap<u64, (String, u64)> = BTreeMap::new();
        for symbol in file.dynamic_symbols() {
            let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
                continue;
            };
            // STT_FUNC, STT_GNU_IFUNC
            let function = symbol.kind() == SymbolKind::Text || st_info.0 & 15 == 10;
            if function && symbol.is_definition() && symbol.address() != 0 {
                let entry = symbols.entry(base + symbol.address()).or_default();
                *entry = (
                    symbol.name().unwrap_or("?").to_owned(),
                    entry.1.max(symbol.size()),
                );
            }
        }
        Self {
            segments: file
                .segments()
                .map(|segment| {
                    (
                        base + segment.address(),
                        segment.data().expect("data").to_vec(),
                    )
                })
                .collect(),
            texts: file
                .sections()
                .filter(|section| section.kind() == object::SectionKind::Text)
                .filter(|section| !section.name().unwrap_or("").starts_with(".plt"))
                .map(|section| {
                    (
                        base + section.address(),
                        section.data().expect("data").to_vec(),
                    )
                })
                .collect(),
            symbols,
            writable: file
                .sections()
                .filter(|section| section.kind() == object::SectionKind::Data)
                .map(|section| (base + section.address(), section.size() as usize))
                .collect(),
            probes: (
                file.section_by_name(".stapsdt.base")
                    .map(|section| base + section.address()),
                file.section_by_name(".note.stapsdt")
                    .map(|section| section.data().expect("data").to_vec())
                    .unwrap_or_default(),
            ),
        }
    }

    pub fn writable(&self) -> Vec<(u64, usize)> {
        self.writable.clone()
    }

    pub fn probes(&self) -> (Option<u64>, Vec<u8>) {
        self.probes.clone()
    }

    /// The text from the last exported function before `pc` to the next one.
    pub fn containing(&self, pc: u64) -> Option<Function<'_>> {
        let (at, code) = self.text();
        let end = at + code.len() as u64;
        let entry = *self.symbols.range(at..=pc).next_back()?.0;
        let next = self.symbols.range(pc + 1..).next();
        let next = next.map_or(end, |(next, _)| (*next).min(end));
        Some(Function {
            entry,
            code: code.get((entry - at) as usize..(next - at) as usize)?,
            size: 0,
        })
    }

    /// The section `.text`.
    pub fn text(&self) -> (u64, &[u8]) {
        let largest = self.texts.iter().max_by_key(|text| text.1.len());
        let (at, code) = largest.expect("a text");
        (*at, code)
    }

    fn starts(&self) -> Vec<u64> {
        self.symbols.keys().copied().collect()
    }

    pub fn targets(&self) -> Targets {
        let (at, code) = self.text();
        let read = |from: u64, into: &mut [u8]| {
            let found = self.segments.iter().find_map(|(at, bytes)| {
                let offset = usize::try_from(from.checked_sub(*at)?).ok()?;
                bytes.get(offset..offset.checked_add(into.len())?)
            });
            found.map(|bytes| into.copy_from_slice(bytes)).is_some()
        };
        Targets::of(code, at, &self.starts(), Some(&read))
    }

    pub fn pads(&self) -> Pads {
        let (at, code) = self.text();
        let ends: Vec<u64> = self
            .symbols
            .iter()
            .filter(|(_, (_, size))| *size > 0)
            .map(|(start, (_, size))| start + size)
            .collect();
        Pads::of(code, at, &ends, &self.targets())
    }

    /// Bytes at an address of the text.
    pub fn bytes(&self, at: u64, length: usize) -> &[u8] {
        let (start, code) = self.text();
        &code[(at - start) as usize..][..length]
    }

    /// Those in the text.
    pub fn functions(&self) -> impl Iterator<Item = Named<'_>> {
        let (at, code) = self.text();
        let end = at + code.len() as u64;
        self.symbols
            .range(at..end)
            .map(move |(entry, (name, size))| {
                let next = self.symbols.range(entry + 1..).next();
                let next = next.map_or(end, |(next, _)| (*next).min(end));
                Named {
                    name,
                    code: Function {
                        entry: *entry,
                        code: &code[(entry - at) as usize..(next - at) as usize],
                        size: (*size).min(next - entry) as usize,
                    },
                }
            })
    }
}
