//! Static probes (USDT) of a module, from the section `.note.stapsdt` of its file (`trampoline::usdt`). The section is
//! not loaded, so the file is read. Used by crate `calls`.
//!
//! A probe is named `usdt:PROVIDER:NAME`. Several places may have the same name.

use process::elf::Headers;
use process::functions::{Function, ModuleSymbols};
use trampoline::usdt::{self, Argument};
use wire::calls::operand;

/// One place in the code of a probe.
#[derive(Clone, Debug)]
pub struct Probe {
    /// The probe as if a function of its name began there.
    pub function: Function,
    /// Address of the counter of its users; 0 = it has none.
    pub semaphore: u64,
    /// Where its arguments are, two words each, see [`operand`].
    pub operands: Vec<u64>,
    /// Their sizes in bytes, negative for signed; the first [`operand::MOST`] that are understood.
    pub sizes: Vec<i8>,
}

/// Reads the probes of a module.
pub fn of(place: &ModuleSymbols) -> Vec<Probe> {
    let read = || {
        let file = place.symbols.file()?;
        let headers = Headers::read(file).ok()?;
        let sections = headers.sections(file);
        let notes = headers.section_named(file, &sections, ".note.stapsdt")?;
        let base = headers.find_section(file, &sections, ".stapsdt.base");
        let base = base.map(|section| section.address);
        let probes = usdt::probes(&notes, base);
        Some(probes.map(|probe| made(place, &probe)).collect())
    };
    read().unwrap_or_default()
}

fn made(place: &ModuleSymbols, probe: &usdt::Probe) -> Probe {
    let guest = |address: u64| address.wrapping_add(place.module.bias);
    let understood = usdt::arguments(probe.arguments).map_while(|argument| {
        let argument = argument?;
        Some((words(place, &argument)?, argument))
    });
    let found: Vec<([u64; 2], Argument)> = understood.take(operand::MOST).collect();
    Probe {
        function: Function {
            name: format!("usdt:{}:{}", probe.provider, probe.name),
            module: place.name.clone(),
            address: guest(probe.pc),
            size: 0,
            picks: false,
        },
        semaphore: match probe.semaphore {
            0 => 0,
            at => guest(at),
        },
        operands: found.iter().flat_map(|(words, _)| *words).collect(),
        sizes: found
            .iter()
            .map(|(_, of)| {
                if of.signed {
                    -(of.size as i8)
                } else {
                    of.size as i8
                }
            })
            .collect(),
    }
}

/// Encodes an argument for the agent; `None` if it cannot be encoded.
fn words(place: &ModuleSymbols, argument: &Argument) -> Option<[u64; 2]> {
    let shared = u64::from(argument.size) << 32 | u64::from(argument.signed) << 40;
    let none = operand::NONE;
    let (how, number) = match argument.place {
        usdt::Place::Register { number, shift } => (
            operand::REGISTER | u64::from(number) << 8 | u64::from(shift) << 48,
            0,
        ),
        usdt::Place::Vector(number) => (operand::VECTOR | u64::from(number) << 8, 0),
        usdt::Place::Constant(value) => (operand::CONSTANT, value as u64),
        usdt::Place::Memory {
            base,
            index,
            displacement,
            symbol,
        } => {
            let symbol = match symbol {
                Some(name) => place.symbols.symbol(name)?.address,
                None => 0,
            };
            let (index, scale) = index.map_or((none, 0), |(index, scale)| (index.into(), scale));
            let base = base.map_or(none, u64::from);
            let how = operand::MEMORY | base << 8 | index << 16 | u64::from(scale) << 24;
            (how, symbol.wrapping_add(displacement as u64))
        }
    };
    Some([how | shared, number])
}
