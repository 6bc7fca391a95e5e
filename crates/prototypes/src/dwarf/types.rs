//! Converts DWARF's types to those of prototypes. Used by `dwarf`.

use std::collections::HashMap;
use std::sync::Arc;

use gimli::UnitOffset;
use gimli::constants as dw;

use super::{Entry, File, Location, Options};
use crate::types::{Array, Expr, Kind, Lens, Struct, Type};

/// The deepest nesting of types; deeper ones become addresses, or bytes.
const DEPTH: usize = 30;

pub(super) struct Types<'f, 'd, 'o> {
    file: File<'f, 'd>,
    options: Options<'o>,
    /// Structs that pointers lead to. They are kept because a struct may lead to itself.
    structs: HashMap<(usize, UnitOffset), Arc<Struct>>,
    depth: usize,
}

impl<'f, 'd, 'o> Types<'f, 'd, 'o> {
    pub(super) fn new(file: File<'f, 'd>, options: Options<'o>) -> Self {
        Self {
            file,
            options,
            structs: HashMap::new(),
            depth: 0,
        }
    }

    /// Returns the type at a position; `None` if the debug information is broken or elsewhere.
    pub(super) fn ty(&mut self, place: Location) -> Option<Type> {
        if self.depth > DEPTH {
            return None;
        }
        self.depth += 1;
        let ty = self.ty_here(place);
        self.depth -= 1;
        ty
    }

    fn ty_here(&mut self, (unit, offset): Location) -> Option<Type> {
        let entry = self.file.units[unit].entry(offset).ok()?;
        Some(match entry.tag() {
            dw::DW_TAG_base_type => self.base(unit, &entry)?,
            dw::DW_TAG_typedef
            | dw::DW_TAG_const_type
            | dw::DW_TAG_volatile_type
            | dw::DW_TAG_restrict_type
            | dw::DW_TAG_atomic_type => {
                let name = match entry.tag() {
                    dw::DW_TAG_typedef => self.name(unit, &entry),
                    _ => None,
                };
                if let Some(ty) = name.as_deref().and_then(|name| self.options.named?(name)) {
                    return Some(ty);
                }
                let mut ty = self.inner(unit, &entry)?;
                match (name.as_deref(), &ty.lens) {
                    (Some("wchar_t" | "wint_t"), _) => ty.through(Lens::String),
                    // An enum keeps its name, to be defined once.
                    (Some(name), Some(Lens::Enum(_))) => {
                        ty.alias = Some(name.into());
                        ty
                    }
                    _ => ty,
                }
            }
            dw::DW_TAG_pointer_type
            | dw::DW_TAG_reference_type
            | dw::DW_TAG_rvalue_reference_type => self.pointer(unit, &entry)?,
            dw::DW_TAG_enumeration_type => self.enumeration(unit, &entry, offset)?,
            dw::DW_TAG_array_type => self.array(unit, &entry, offset)?,
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                if let Some(ty) = self.struct_by_name(unit, &entry) {
                    return Some(ty);
                }
                let members = self.members(unit, &entry, offset)?;
                Type::new(Kind::Struct(Arc::new(Struct::new(members))))
            }
            // A function, or a type of another language than C.
            _ => Type::new(Kind::Void),
        })
    }

    /// Returns the type that an entry is made of; without one it is `void`.
    fn inner(&mut self, unit: usize, entry: &Entry<'d>) -> Option<Type> {
        match self.file.place(unit, entry, dw::DW_AT_type) {
            Some(place) => self.ty(place),
            None if entry.has_attr(dw::DW_AT_type) => None,
            None => Some(Type::new(Kind::Void)),
        }
    }

    fn name(&self, unit: usize, entry: &Entry<'d>) -> Option<String> {
        let value = entry.attr_value(dw::DW_AT_name)?;
        let text = self
            .file
            .dwarf
            .attr_string(&self.file.units[unit], value)
            .ok()?;
        text.to_string().ok().map(str::to_owned)
    }

    fn base(&self, unit: usize, entry: &Entry<'d>) -> Option<Type> {
        let gimli::AttributeValue::Encoding(encoding) = entry.attr_value(dw::DW_AT_encoding)?
        else {
            return None;
        };
        let size = size(entry)?;
        if self
            .name(unit, entry)
            .is_some_and(|name| name.to_ascii_lowercase().contains("float128"))
        {
            // It is passed in a whole SSE register, of which only half is recorded.
            return None;
        }
        let signed = matches!(encoding, dw::DW_ATE_signed | dw::DW_ATE_signed_char);
        let pair = |kind: Kind| {
            Kind::Struct(Arc::new(Struct::new(vec![
                Type::new(kind.clone()),
                Type::new(kind),
            ])))
        };
        let kind = match (encoding, size, signed) {
            (dw::DW_ATE_float, 4, _) => Kind::Float,
            (dw::DW_ATE_float, 8, _) => Kind::Double,
            (dw::DW_ATE_float, 16, _) => Kind::LongDouble,
            (dw::DW_ATE_complex_float, 8, _) => pair(Kind::Float),
            (dw::DW_ATE_complex_float, 16, _) => pair(Kind::Double),
            (dw::DW_ATE_complex_float, 32, _) => Kind::ComplexLongDouble,
            (_, 1, _) => Kind::Char,
            (_, 2, true) => Kind::Short,
            (_, 2, false) => Kind::UShort,
            (_, 4, true) => Kind::Int,
            (_, 4, false) => Kind::UInt,
            (_, 8, true) => Kind::Long,
            (_, 8, false) => Kind::ULong,
            // __int128: two words, passed like a struct of them but for its alignment on the stack.
            (_, 16, _) => pair(Kind::ULong),
            _ => return None,
        };
        let ty = Type::new(kind);
        Some(match encoding {
            dw::DW_ATE_boolean => ty.through(Lens::Bool),
            _ => ty,
        })
    }

    fn pointer(&mut self, unit: usize, entry: &Entry<'d>) -> Option<Type> {
        let Some(place) = self.file.place(unit, entry, dw::DW_AT_type) else {
            return Some(Type::address());
        };
        let direct = self.file.units[place.0].entry(place.1).ok()?;
        if let Some(ty) = self.pointer_by_name(place.0, &direct) {
            return Some(ty);
        }
        let is_const = direct.tag() == dw::DW_TAG_const_type;
        let (unit, offset) = self.file.unqualified(place)?;
        let to = self.file.units[unit].entry(offset).ok()?;
        if to.attr_value(dw::DW_AT_encoding)
            == Some(gimli::AttributeValue::Encoding(dw::DW_ATE_unsigned_char))
        {
            // A pointer to bytes, which are a text only by chance.
            return Some(Type::address());
        }
        Some(match to.tag() {
            dw::DW_TAG_structure_type | dw::DW_TAG_class_type | dw::DW_TAG_union_type => {
                if !self.options.follow_structs || self.depth > DEPTH / 2 {
                    return Some(Type::address());
                }
                if let Some(ty) = self.struct_by_name(unit, &to) {
                    return Some(ty.pointer());
                }
                match self.structure(unit, &to, offset) {
                    Some(of) => Type::new(Kind::Struct(of)).pointer(),
                    None => Type::address(),
                }
            }
            _ => {
                let ty = self.ty(place)?;
                match (&ty.kind, &ty.lens) {
                    (Kind::Void, None) => Type::address(),
                    (Kind::Char, _) | (_, Some(Lens::String))
                        if self.options.only_const_strings && !is_const =>
                    {
                        if self.options.follow_structs {
                            ty.pointer()
                        } else {
                            Type::address()
                        }
                    }
                    (Kind::Char, None) => Type::string(Kind::Char, Expr::Zero(None)),
                    (Kind::Int | Kind::UInt, Some(Lens::String)) => {
                        Type::string(ty.kind, Expr::Zero(None))
                    }
                    _ => ty.pointer(),
                }
            }
        })
    }

    fn struct_by_name(&self, unit: usize, entry: &Entry<'d>) -> Option<Type> {
        self.options.named?(&self.name(unit, entry)?)
    }

    fn pointer_by_name(&self, unit: usize, to: &Entry<'d>) -> Option<Type> {
        let named = self.options.named?;
        let (unit, to) = match to.tag() {
            dw::DW_TAG_const_type => {
                let (unit, offset) = self.file.place(unit, to, dw::DW_AT_type)?;
                (unit, self.file.units[unit].entry(offset).ok()?)
            }
            _ => (unit, to.clone()),
        };
        match to.tag() {
            dw::DW_TAG_typedef => named(&format!("{}*", self.name(unit, &to)?)),
            _ => None,
        }
    }

    /// Returns a struct that a pointer leads to. It is announced first, because it may hold pointers to itself.
    fn structure(
        &mut self,
        unit: usize,
        entry: &Entry<'d>,
        offset: UnitOffset,
    ) -> Option<Arc<Struct>> {
        if let Some(known) = self.structs.get(&(unit, offset)) {
            return Some(known.clone());
        }
        let of = Arc::new(Struct::announced("struct".into()));
        self.structs.insert((unit, offset), of.clone());
        match self.members(unit, entry, offset) {
            Some(members) if !members.is_empty() => {
                let _ = of.fields.set(members);
                Some(of)
            }
            // A struct that is declared only, or that cannot be converted, becomes an address.
            _ => {
                self.structs.remove(&(unit, offset));
                None
            }
        }
    }

    /// Returns the members of a struct, if they lie as this crate would lay them out; else words of the same size and
    /// class.
    fn members(&mut self, unit: usize, entry: &Entry<'d>, offset: UnitOffset) -> Option<Vec<Type>> {
        let is_union = entry.tag() == dw::DW_TAG_union_type;
        let mut members = Vec::new();
        let mut plain = !is_union;
        let mut tree = self.file.units[unit].entries_tree(Some(offset)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            let child = child.entry();
            if child.tag() != dw::DW_TAG_member {
                continue;
            }
            plain &=
                !child.has_attr(dw::DW_AT_bit_size) && !child.has_attr(dw::DW_AT_data_bit_offset);
            let at = match child.attr(dw::DW_AT_data_member_location) {
                Some(at) => at.udata_value()?,
                // A static member of a class, unless this is a union.
                None if !is_union && plain => continue,
                None => 0,
            };
            members.push((at, self.inner(unit, child)?));
        }
        let size = size(entry).unwrap_or(0);
        let types: Vec<Type> = members.iter().map(|(_, ty)| ty.clone()).collect();
        let ours = Struct::new(types.clone());
        let same = plain
            && ours
                .members()
                .zip(&members)
                .all(|((ours, _), (theirs, _))| u64::from(ours) == *theirs)
            && u64::from(Type::new(Kind::Struct(Arc::new(ours))).size()) == size;
        if same {
            return Some(types);
        }
        let unaligned = |(at, ty): &(u64, Type)| !at.is_multiple_of(ty.alignment().into());
        if size <= 16 && members.iter().any(unaligned) {
            // It is passed in memory for its unaligned member alone, and no type here has such a member.
            return None;
        }
        Some(overlaid(size, &members))
    }

    fn array(&mut self, unit: usize, entry: &Entry<'d>, offset: UnitOffset) -> Option<Type> {
        let mut ty = self.inner(unit, entry)?;
        let mut lengths = Vec::new();
        let mut tree = self.file.units[unit].entries_tree(Some(offset)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            let child = child.entry();
            if child.tag() != dw::DW_TAG_subrange_type {
                continue;
            }
            let count = child
                .attr(dw::DW_AT_count)
                .and_then(|count| count.udata_value());
            let last = child
                .attr(dw::DW_AT_upper_bound)
                .and_then(|last| last.udata_value());
            let length = count.or_else(|| Some(last?.wrapping_add(1))).unwrap_or(0);
            lengths.push(u32::try_from(length).unwrap_or(0).min(i32::MAX as u32));
        }
        for length in lengths.into_iter().rev() {
            let text = matches!(ty.kind, Kind::Char) && ty.lens.is_none();
            let length = if text {
                Expr::Zero(Some(Box::new(Expr::Number(length))))
            } else {
                Expr::Number(length)
            };
            ty = Type::new(Kind::Array(Arc::new(Array {
                element: ty,
                length,
            })));
            if text {
                ty = ty.through(Lens::String);
            }
        }
        Some(ty)
    }

    fn enumeration(&mut self, unit: usize, entry: &Entry<'d>, offset: UnitOffset) -> Option<Type> {
        let of = if entry.has_attr(dw::DW_AT_type) {
            self.inner(unit, entry)?.kind
        } else if size(entry) == Some(4) {
            Kind::UInt
        } else {
            return None;
        };
        let mut names: Vec<(Box<str>, i64)> = Vec::new();
        let mut tree = self.file.units[unit].entries_tree(Some(offset)).ok()?;
        let mut children = tree.root().ok()?.children();
        while let Some(child) = children.next().ok()? {
            let child = child.entry();
            if child.tag() != dw::DW_TAG_enumerator {
                continue;
            }
            let name = self
                .file
                .dwarf
                .attr_string(&self.file.units[unit], child.attr_value(dw::DW_AT_name)?)
                .ok()?;
            let value = child.attr(dw::DW_AT_const_value)?;
            let value = value
                .sdata_value()
                .or_else(|| value.udata_value().map(|value| value as i64))?;
            names.push((name.to_string_lossy().into(), value));
        }
        let mut ty = Type::new(of).through(Lens::Enum(names.into()));
        ty.alias = self.name(unit, entry).map(Into::into);
        Some(ty)
    }
}

fn size(entry: &Entry) -> Option<u64> {
    entry.attr(dw::DW_AT_byte_size)?.udata_value()
}

/// Returns a union, a packed struct or one with bit-fields as eightbytes: doubles where only floating point lies, else
/// words. So it is read from the right registers, and its bytes are shown.
fn overlaid(size: u64, members: &[(u64, Type)]) -> Vec<Type> {
    if size > 16 {
        let bytes = Expr::Number(u32::try_from(size).unwrap_or(0).min(i32::MAX as u32));
        let aligned = members.iter().any(|(_, ty)| ty.alignment() >= 8) && size.is_multiple_of(8);
        let (element, length) = match (aligned, bytes) {
            (true, Expr::Number(size)) => (Kind::ULong, Expr::Number(size / 8)),
            (_, bytes) => (Kind::Char, bytes),
        };
        let element = Type::new(element).through(Lens::Hex);
        return vec![Type::new(Kind::Array(Arc::new(Array { element, length })))];
    }
    let floats = |from: u64| {
        let mut inside = members
            .iter()
            .filter(|(at, ty)| *at < from + 8 && at + u64::from(ty.size()) > from);
        inside.clone().count() > 0 && inside.all(|(_, ty)| is_floating(ty))
    };
    let hex = |kind| Type::new(kind).through(Lens::Hex);
    let mut types = Vec::new();
    let mut from = 0;
    while from < size {
        types.extend(match (size - from, floats(from)) {
            (8.., true) => vec![Type::new(Kind::Double)],
            (8.., false) => vec![hex(Kind::ULong)],
            (4, true) => vec![Type::new(Kind::Float)],
            (4, false) => vec![hex(Kind::UInt)],
            (2, _) => vec![hex(Kind::UShort)],
            (rest, _) => vec![hex(Kind::Char); rest as usize],
        });
        from += 8;
    }
    types
}

fn is_floating(ty: &Type) -> bool {
    match &ty.kind {
        Kind::Float | Kind::Double => true,
        Kind::Array(array) => is_floating(&array.element),
        Kind::Struct(of) => of.fields().iter().all(is_floating),
        _ => false,
    }
}
