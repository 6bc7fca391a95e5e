//! The size and the name of a type. Used by `variables`.

use gimli::{AttributeValue, Dwarf, Reader, Unit, UnitOffset};

use super::Bytes;

/// The longest chain of types that refer to each other; damaged ones may form a circle.
const DEEPEST: usize = 32;

/// Returns how many bytes a value of the type takes.
pub(super) fn size(unit: &Unit<Bytes>, mut at: UnitOffset) -> Option<u64> {
    let mut count = 1u64;
    for _ in 0..DEEPEST {
        let entry = unit.entry(at).ok()?;
        let stated = entry.attr_value(gimli::DW_AT_byte_size);
        if let Some(bytes) = stated.and_then(|value| value.udata_value()) {
            return count.checked_mul(bytes);
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => {
                return count.checked_mul(8);
            }
            gimli::DW_TAG_array_type => count = count.checked_mul(length(unit, at)?)?,
            _ => {}
        }
        at = target(&entry)?;
    }
    None
}

/// Returns how many elements an array has, all dimensions together; `None` if that is decided at run time.
fn length(unit: &Unit<Bytes>, at: UnitOffset) -> Option<u64> {
    let mut tree = unit.entries_tree(Some(at)).ok()?;
    let mut children = tree.root().ok()?.children();
    let mut product = 1u64;
    while let Ok(Some(child)) = children.next() {
        let entry = child.entry();
        if entry.tag() != gimli::DW_TAG_subrange_type {
            continue;
        }
        let number = |name| {
            entry
                .attr_value(name)
                .and_then(|value: AttributeValue<Bytes>| value.udata_value())
        };
        let count = number(gimli::DW_AT_count)
            .or_else(|| number(gimli::DW_AT_upper_bound).and_then(|last| last.checked_add(1)))?;
        product = product.checked_mul(count)?;
    }
    Some(product)
}

/// Returns the type as C writes it, roughly: `char [4096]`, `struct epoll_event [65536]`.
pub(super) fn name(dwarf: &Dwarf<Bytes>, unit: &Unit<Bytes>, mut at: UnitOffset) -> String {
    let mut after = String::new();
    for _ in 0..DEEPEST {
        let Ok(entry) = unit.entry(at) else { break };
        let named = entry
            .attr_value(gimli::DW_AT_name)
            .and_then(|name| dwarf.attr_string(unit, name).ok());
        let before = match entry.tag() {
            gimli::DW_TAG_structure_type => "struct ",
            gimli::DW_TAG_union_type => "union ",
            gimli::DW_TAG_enumeration_type => "enum ",
            _ => "",
        };
        if let Some(named) = named {
            let named = named
                .to_string_lossy()
                .map(|name| name.into_owned())
                .unwrap_or_default();
            return format!("{before}{named}{after}");
        }
        match entry.tag() {
            gimli::DW_TAG_pointer_type => after.insert_str(0, " *"),
            gimli::DW_TAG_array_type => {
                let count = length(unit, at).map_or_else(String::new, |count| count.to_string());
                after.push_str(&format!(" [{count}]"));
            }
            _ => {}
        }
        match target(&entry) {
            Some(next) => at = next,
            None if before.is_empty() => return format!("void{after}"),
            None => return format!("{before}{{…}}{after}"),
        }
    }
    format!("?{after}")
}

fn target(entry: &gimli::DebuggingInformationEntry<Bytes>) -> Option<UnitOffset> {
    match entry.attr_value(gimli::DW_AT_type)? {
        AttributeValue::UnitRef(at) => Some(at),
        _ => None,
    }
}
