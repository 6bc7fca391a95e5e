//! Finds the variable that makes a frame big, if DWARF describes it. Used by `scan`.
//!
//! A function is a `DW_TAG_subprogram` with `DW_AT_low_pc`; its variables and parameters, those of the blocks in it and
//! of what was inlined into it, are `DW_TAG_variable` and `DW_TAG_formal_parameter` below. One lies in the frame if its
//! location is an address (DWARF 5 §2.6.1.1: an expression that begins with `DW_OP_fbreg` or `DW_OP_breg*`); the size
//! is its type's (§5).

mod types;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;

use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianArcSlice, LittleEndian, Operation,
    Reader, Unit, UnitHeader,
};
use object::{Object, ObjectSection, ReadCache};

type Bytes = EndianArcSlice<LittleEndian>;

/// Limit of the bytes of a section that are read. Those of the largest programs have some hundred MiB.
const LARGEST_SECTION: u64 = 1 << 30;

/// A variable that lies in a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Its name in the source.
    pub name: String,
    /// Its type, written as in C.
    pub kind: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The name of the source file, without its folder.
    pub file: Option<String>,
    /// The line of its declaration, from 1.
    pub line: Option<u64>,
}

/// The variables of one file's functions.
#[derive(Default)]
pub struct Variables {
    dwarf: Option<Dwarf<Bytes>>,
    /// Each unit and the code it is about.
    units: Vec<(Vec<Range<u64>>, UnitHeader<Bytes>)>,
    /// What has been read: the largest of each function, unit by unit.
    read: RefCell<Read>,
}

#[derive(Default)]
struct Read {
    units: HashSet<usize>,
    largest: HashMap<u64, Variable>,
}

impl std::fmt::Debug for Variables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables")
            .field("units", &self.units.len())
            .finish_non_exhaustive()
    }
}

impl Variables {
    /// Reads which units there are in the DWARF of `file`, or else of its separate debug file. Without DWARF there are
    /// no variables; damaged parts are left out.
    pub fn open(file: &File, separate: impl FnOnce() -> Option<File>) -> Variables {
        let mut variables = Variables::default();
        let Some(dwarf) = load(file).or_else(|| load(&separate()?)) else {
            return variables;
        };
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let code = dwarf
                .unit(header.clone())
                .and_then(|unit| code_of(&dwarf, &unit));
            if let Ok(code) = code {
                variables.units.push((code, header));
            }
        }
        variables.dwarf = Some(dwarf);
        variables
    }

    /// Returns the largest variable of the function that begins at `address`.
    pub fn largest(&self, address: u64) -> Option<Variable> {
        let dwarf = self.dwarf.as_ref()?;
        let mut read = self.read.borrow_mut();
        for (number, (code, header)) in self.units.iter().enumerate() {
            let about = code.iter().any(|range| range.contains(&address));
            if about
                && read.units.insert(number)
                && let Ok(unit) = dwarf.unit(header.clone())
            {
                // What was read before the damage is kept.
                let _ = read_unit(dwarf, &unit, &mut read.largest);
            }
        }
        read.largest.get(&address).cloned()
    }
}

fn code_of(dwarf: &Dwarf<Bytes>, unit: &Unit<Bytes>) -> gimli::Result<Vec<Range<u64>>> {
    let mut ranges = dwarf.unit_ranges(unit)?;
    let mut code = Vec::new();
    while let Some(range) = ranges.next()? {
        code.push(range.begin..range.end);
    }
    Ok(code)
}

fn read_unit(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    largest: &mut HashMap<u64, Variable>,
) -> gimli::Result<()> {
    let mut entries = unit.entries();
    // The function that the entry lies in, with its depth in the tree.
    let mut inside: Option<(isize, u64)> = None;
    while let Some(entry) = entries.next_dfs()? {
        let depth = entry.depth();
        inside = inside.filter(|(outer, _)| *outer < depth);
        match entry.tag() {
            gimli::DW_TAG_subprogram => {
                inside = low_pc(dwarf, unit, entry)
                    .map(|start| (depth, start))
                    .or(inside);
            }
            gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                let Some((_, function)) = inside else {
                    continue;
                };
                let known = largest.get(&function).map_or(0, |known| known.bytes);
                if let Some(variable) = in_frame(dwarf, unit, entry, known) {
                    largest.insert(function, variable);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn low_pc(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    entry: &DebuggingInformationEntry<Bytes>,
) -> Option<u64> {
    dwarf
        .attr_address(unit, entry.attr_value(gimli::DW_AT_low_pc)?)
        .ok()?
}

/// Returns the variable, if it lies in the frame and is larger than `known`.
fn in_frame(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    entry: &DebuggingInformationEntry<Bytes>,
    known: u64,
) -> Option<Variable> {
    if !on_stack(dwarf, unit, entry) {
        return None;
    }
    // A variable of an inlined function refers to its original for name and type.
    let origin = entry
        .attr_value(gimli::DW_AT_abstract_origin)
        .and_then(|value| match value {
            AttributeValue::UnitRef(at) => unit.entry(at).ok(),
            _ => None,
        });
    let attribute = |name| {
        let own = entry.attr_value(name);
        own.or_else(|| origin.as_ref().and_then(|origin| origin.attr_value(name)))
    };
    let kind = match attribute(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(at) => at,
        _ => return None,
    };
    let bytes = types::size(unit, kind)?;
    if bytes <= known {
        return None;
    }
    let name = dwarf
        .attr_string(unit, attribute(gimli::DW_AT_name)?)
        .ok()?;
    let file = attribute(gimli::DW_AT_decl_file).and_then(|value| match value {
        AttributeValue::FileIndex(index) => file_name(dwarf, unit, index),
        _ => None,
    });
    Some(Variable {
        name: name.to_string_lossy().ok()?.into_owned(),
        kind: types::name(dwarf, unit, kind),
        bytes,
        file,
        line: attribute(gimli::DW_AT_decl_line).and_then(|line| line.udata_value()),
    })
}

/// Returns whether the variable lies in the frame, at some point of the function at least.
fn on_stack(
    dwarf: &Dwarf<Bytes>,
    unit: &Unit<Bytes>,
    entry: &DebuggingInformationEntry<Bytes>,
) -> bool {
    let location = entry.attr_value(gimli::DW_AT_location);
    match location {
        Some(AttributeValue::Exprloc(expression)) => is_place(unit, expression),
        Some(value) => {
            let Ok(Some(mut list)) = dwarf.attr_locations(unit, value) else {
                return false;
            };
            while let Ok(Some(entry)) = list.next() {
                if is_place(unit, entry.data) {
                    return true;
                }
            }
            false
        }
        None => false,
    }
}

/// Returns whether an expression is a register plus a distance and nothing else: with more behind it, it could be a
/// computed value.
fn is_place(unit: &Unit<Bytes>, expression: gimli::Expression<Bytes>) -> bool {
    let mut operations = expression.operations(unit.encoding());
    matches!(
        operations.next(),
        Ok(Some(
            Operation::FrameOffset { .. } | Operation::RegisterOffset { .. }
        ))
    ) && matches!(operations.next(), Ok(None))
}

fn file_name(dwarf: &Dwarf<Bytes>, unit: &Unit<Bytes>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let name = dwarf
        .attr_string(unit, header.file(index)?.path_name())
        .ok()?;
    let name = name.to_string_lossy().ok()?.into_owned();
    Some(name.rsplit('/').next().unwrap_or(&name).to_owned())
}

/// Reads the DWARF sections of a file; `None` if it has none of use.
fn load(file: &File) -> Option<Dwarf<Bytes>> {
    let cache = ReadCache::new(file.try_clone().ok()?);
    let object = object::File::parse(&cache).ok()?;
    object.section_by_name(".debug_info")?;
    let section = |id: gimli::SectionId| -> Result<Bytes, gimli::Error> {
        let found = object.section_by_name(id.name());
        let bytes = found.and_then(|section| match section.compressed_data() {
            Ok(data) if data.uncompressed_size <= LARGEST_SECTION => data.decompress().ok(),
            _ => None,
        });
        Ok(EndianArcSlice::new(
            bytes.unwrap_or_default().into(),
            LittleEndian,
        ))
    };
    Dwarf::load(section).ok()
}
