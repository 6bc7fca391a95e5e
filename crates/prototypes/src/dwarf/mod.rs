//! Prototypes from debug information: DWARF 4 and 5, in the file itself or in its `.debug` file. Used by
//! `calls::signatures`.
//!
//! The compiler knows the signature of a function best, but not what it means: a `char *` is taken for a string, an
//! `int` may be a file descriptor. So a `.conf` file comes first, and debug information fills the gaps, as in ltrace
//! 0.8.

mod types;

use std::borrow::Cow;
use std::collections::BTreeMap;

use gimli::constants as dw;
use gimli::{EndianSlice, LittleEndian, UnitOffset};
use object::{Object, ObjectSection};

use crate::types::{Kind, Parameter, Prototype, Type};
use types::Types;

/// Why the prototypes of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DwarfError {
    /// It is not an ELF file, or a broken one.
    #[error("not an object file: {0}")]
    Object(#[from] object::Error),
    /// Its debug information contradicts itself.
    #[error("broken debug information: {0}")]
    Dwarf(#[from] gimli::Error),
}

/// How DWARF's types are converted.
#[derive(Clone, Copy, Default)]
pub struct Options<'o> {
    /// Whether the structs that pointers lead to are shown, and not their addresses.
    pub follow_structs: bool,
    /// Whether only `const char *` is taken for a string: without `const` it may be where a result goes. It is then an
    /// address, or where pointers are followed the one character that it leads to.
    pub only_const_strings: bool,
    /// Converts the name of a typedef or of a struct, `VALUE`, or a pointer to a typedef, `PyObject*`, to a type.
    pub named: Option<Named<'o>>,
}

/// Returns the type of a name, if it is known.
pub type Named<'o> = &'o dyn Fn(&str) -> Option<Type>;

/// The signature of a function.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The prototype, with the arguments that the debug information names.
    pub prototype: Prototype,
    /// Whether other arguments may follow (`…`).
    pub variadic: bool,
}

/// The prototypes in a file's debug information.
#[derive(Debug, Default)]
pub struct Found {
    /// Functions by the name of their symbol.
    pub functions: BTreeMap<String, Signature>,
    /// Variables that point to functions, by name, with the signature of what they point to. By such a variable the
    /// compiler can be made to write down the signature of what a header declares: `__typeof__(&strlen)
    /// ask_strlen;`.
    pub pointers: BTreeMap<String, Signature>,
    /// Functions left out because their types could not be read.
    pub unreadable: usize,
}

type Reader<'d> = EndianSlice<'d, LittleEndian>;
type Unit<'d> = gimli::Unit<Reader<'d>>;
type Entry<'d> = gimli::DebuggingInformationEntry<Reader<'d>>;

/// Reads the functions whose symbols are `wanted` out of an ELF file.
pub fn read(
    elf: &[u8],
    options: Options<'_>,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Found, DwarfError> {
    let file = object::File::parse(elf)?;
    let sections = gimli::DwarfSections::load(|id| -> Result<Cow<[u8]>, object::Error> {
        match file.section_by_name(id.name()) {
            Some(section) => section.uncompressed_data(),
            None => Ok(Cow::Borrowed(&[])),
        }
    })?;
    let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
    let mut units = Vec::new();
    let mut headers = dwarf.units();
    while let Some(header) = headers.next()? {
        units.push(dwarf.unit(header)?);
    }
    let file = File {
        dwarf: &dwarf,
        units: &units,
    };
    let mut found = Found::default();
    let mut types = Types::new(file, options);
    for index in 0..units.len() {
        file.unit(index, wanted, &mut types, &mut found)?;
    }
    Ok(found)
}

#[derive(Clone, Copy)]
struct File<'f, 'd> {
    dwarf: &'f gimli::Dwarf<Reader<'d>>,
    units: &'f [Unit<'d>],
}

/// A position in the debug information: the number of a unit and an offset in it.
type Location = (usize, UnitOffset);

impl<'f, 'd> File<'f, 'd> {
    fn unit(
        self,
        index: usize,
        wanted: &dyn Fn(&str) -> bool,
        types: &mut Types<'f, 'd, '_>,
        found: &mut Found,
    ) -> Result<(), DwarfError> {
        let mut entries = self.units[index].entries();
        while let Some(entry) = entries.next_dfs()? {
            let (tag, is_variable) = (entry.tag(), entry.tag() == dw::DW_TAG_variable);
            if tag != dw::DW_TAG_subprogram && !(is_variable && entry.depth() == 1) {
                continue;
            }
            let Some(name) = self.name(index, entry, 0).filter(|name| wanted(name)) else {
                continue;
            };
            if is_variable {
                let place = self.place(index, entry, dw::DW_AT_type);
                let pointed = place.and_then(|place| self.pointed_function(place));
                if let Some(signature) = pointed.and_then(|place| self.signature(place, types)) {
                    found.pointers.insert(name, signature);
                }
                continue;
            }
            // A definition says more than the declarations of it in other units.
            let declared =
                entry.has_attr(dw::DW_AT_declaration) || !entry.has_attr(dw::DW_AT_external);
            if declared && found.functions.contains_key(&name) {
                continue;
            }
            match self.signature((index, entry.offset()), types) {
                Some(signature) => drop(found.functions.insert(name, signature)),
                None => found.unreadable += 1,
            }
        }
        Ok(())
    }

    /// Returns the name of an entry's symbol, which may stand in the entry that it refers to.
    fn name(self, unit: usize, entry: &Entry<'d>, depth: usize) -> Option<String> {
        let own = entry
            .attr_value(dw::DW_AT_linkage_name)
            .or_else(|| entry.attr_value(dw::DW_AT_name));
        if let Some(value) = own {
            let text = self.dwarf.attr_string(&self.units[unit], value).ok()?;
            return text.to_string().ok().map(str::to_owned);
        }
        let (unit, entry) = self.referred(unit, entry)?;
        match depth {
            0..4 => self.name(unit, &entry, depth + 1),
            _ => None,
        }
    }

    fn referred(self, unit: usize, entry: &Entry<'d>) -> Option<(usize, Entry<'d>)> {
        let to = self.place(unit, entry, dw::DW_AT_abstract_origin);
        let (unit, offset) = to.or_else(|| self.place(unit, entry, dw::DW_AT_specification))?;
        Some((unit, self.units[unit].entry(offset).ok()?))
    }

    /// Returns the position that an attribute refers to.
    fn place(self, unit: usize, entry: &Entry<'d>, attribute: gimli::DwAt) -> Option<Location> {
        match entry.attr_value(attribute)? {
            gimli::AttributeValue::UnitRef(offset) => Some((unit, offset)),
            gimli::AttributeValue::DebugInfoRef(to) => {
                let starts =
                    self.units
                        .partition_point(|unit| match unit.header.debug_info_offset() {
                            Some(start) => start.0 <= to.0,
                            None => false,
                        });
                let unit = starts.checked_sub(1)?;
                Some((unit, to.to_unit_offset(&self.units[unit].header)?))
            }
            _ => None,
        }
    }

    /// Returns the type behind typedefs and qualifiers.
    fn unqualified(self, mut place: Location) -> Option<Location> {
        for _ in 0..30 {
            let entry = self.units[place.0].entry(place.1).ok()?;
            match entry.tag() {
                dw::DW_TAG_typedef
                | dw::DW_TAG_const_type
                | dw::DW_TAG_volatile_type
                | dw::DW_TAG_restrict_type
                | dw::DW_TAG_atomic_type => match self.place(place.0, &entry, dw::DW_AT_type) {
                    Some(inner) => place = inner,
                    None => return Some(place),
                },
                _ => return Some(place),
            }
        }
        None
    }

    /// Returns the function type that a pointer type leads to.
    fn pointed_function(self, (unit, offset): Location) -> Option<Location> {
        let pointer = self.units[unit].entry(offset).ok()?;
        if pointer.tag() != dw::DW_TAG_pointer_type {
            return None;
        }
        // gcc writes __attribute__((const)) as a const function, noreturn as a volatile one.
        let (unit, offset) = self.unqualified(self.place(unit, &pointer, dw::DW_AT_type)?)?;
        let function = self.units[unit].entry(offset).ok()?;
        (function.tag() == dw::DW_TAG_subroutine_type).then_some((unit, offset))
    }

    /// Returns the signature of a function or of a function's type; `None` if a type in it cannot be read.
    fn signature(
        self,
        (unit, offset): Location,
        types: &mut Types<'f, 'd, '_>,
    ) -> Option<Signature> {
        let mut tree = self.units[unit].entries_tree(Some(offset)).ok()?;
        let root = tree.root().ok()?;
        let returns = self.typed(unit, root.entry(), types)?;
        let mut prototype = Prototype {
            returns,
            parameters: Vec::new(),
            late_from: None,
        };
        let mut variadic = false;
        let mut children = root.children();
        while let Some(child) = children.next().ok()? {
            match child.entry().tag() {
                dw::DW_TAG_formal_parameter => {
                    let ty = self.typed(unit, child.entry(), types)?;
                    prototype.parameters.push(Parameter::new(ty));
                }
                dw::DW_TAG_unspecified_parameters => variadic = true,
                _ => {}
            }
        }
        Some(Signature {
            prototype,
            variadic,
        })
    }

    /// Returns the type that an entry has, or the entry that it refers to; without one it is `void`.
    fn typed(self, unit: usize, entry: &Entry<'d>, types: &mut Types<'f, 'd, '_>) -> Option<Type> {
        if let Some(place) = self.place(unit, entry, dw::DW_AT_type) {
            return types.ty(place);
        }
        if entry.has_attr(dw::DW_AT_type) {
            // The type is in another file (dwz), which is not read.
            return None;
        }
        match self.referred(unit, entry) {
            Some((unit, entry)) => match self.place(unit, &entry, dw::DW_AT_type) {
                Some(place) => types.ty(place),
                None => Some(Type::new(Kind::Void)),
            },
            None => Some(Type::new(Kind::Void)),
        }
    }
}
