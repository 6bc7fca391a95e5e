//! The arguments that a printf format takes. Used by `show`.

use capture::{ConversionKind, Conversions};

use super::call::{CallValues, Show};
use super::captures::Memory;
use super::storage::{Storage, argument_at};
use crate::types::{Expr, Kind, Lens, Type};

/// Arguments of one format that are shown, at most.
const MOST: usize = 100;

/// Returns each with its type and where its bytes are.
pub(super) fn arguments(
    show: &Show,
    call: CallValues,
    memory: &dyn Memory,
) -> Vec<(Type, Storage)> {
    let mut found = Vec::new();
    let (prototype, locations) = (call.prepared.prototype(), call.prepared.locations());
    let Some(index) = prototype.format() else {
        return found;
    };
    let Storage::Registers(word) = argument_at(locations.arguments[index], call.registers) else {
        return found;
    };
    let mut at = u64::from_le_bytes(word[..8].try_into().expect("eight bytes"));
    let unit = match &prototype.parameters[index].ty.kind {
        Kind::Pointer(to) => match &to.kind {
            Kind::Array(array) => array.element.size(),
            _ => to.size(),
        },
        _ => return found,
    };
    let mut used = locations.used;
    let mut conversions = Conversions::new();
    let mut given = None;
    for _ in 0..capture::CopyLimits::FORMAT {
        let mut character = [0; 8];
        let Some(slot) = character.get_mut(..unit as usize) else {
            break;
        };
        if !memory.read(at, slot) || character == [0; 8] || found.len() == MOST {
            break;
        }
        at = at.wrapping_add(unit.into());
        let Some(conversion) = conversions.next(u64::from_le_bytes(character) as u32) else {
            continue;
        };
        let most = match (conversion.precision_given, conversion.precision) {
            (true, _) => given,
            (_, Some(precision)) => Some(precision),
            _ if show.like_ltrace && conversion.width_given => given,
            _ if show.like_ltrace => conversion.width,
            _ => None,
        };
        let ty = wanted(conversion.kind, most);
        let place = used.next(&ty);
        let at = argument_at(place, call.registers);
        if conversion.kind == ConversionKind::Signed(4) {
            given = number(&at, memory).and_then(|number| u32::try_from(number).ok());
        }
        found.push((ty, at));
    }
    found
}

fn number(at: &Storage, memory: &dyn Memory) -> Option<i32> {
    let mut bytes = [0; 4];
    match at {
        Storage::Registers(word) => bytes.copy_from_slice(&word[..4]),
        Storage::Memory(address) => {
            if !memory.read(*address, &mut bytes) {
                return None;
            }
        }
    }
    Some(i32::from_le_bytes(bytes))
}

fn wanted(kind: ConversionKind, most: Option<u32>) -> Type {
    let signed = |size| match size {
        1 => Kind::Char,
        2 => Kind::Short,
        4 => Kind::Int,
        _ => Kind::Long,
    };
    let unsigned = |size| match size {
        1 => Kind::Char,
        2 => Kind::UShort,
        4 => Kind::UInt,
        _ => Kind::ULong,
    };
    let length = || Expr::Zero(most.map(|most| Box::new(Expr::Number(most))));
    match kind {
        ConversionKind::Signed(size) => Type::new(signed(size)),
        ConversionKind::Unsigned(size) => Type::new(unsigned(size)),
        ConversionKind::Octal(size) => Type::new(unsigned(size)).through(Lens::Octal),
        ConversionKind::Hex(size) => Type::new(unsigned(size)).through(Lens::Hex),
        ConversionKind::Character => Type::new(Kind::Char),
        ConversionKind::WideCharacter => Type::new(Kind::Int).through(Lens::String),
        ConversionKind::Text => Type::string(Kind::Char, length()),
        ConversionKind::WideText => Type::string(Kind::Int, length()),
        ConversionKind::Pointer => Type::address(),
        ConversionKind::Double => Type::new(Kind::Double),
        ConversionKind::LongDouble => Type::new(Kind::LongDouble),
    }
}
