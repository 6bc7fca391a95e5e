//! Parses where a static probe's arguments are: `8@%rdi -4@$5 4@-20(%rbp) 8@(%rax,%rcx,8) 4@counter+8(%rip) 8f@%xmm0`.
//! Used by `hooks::probes`.
//!
//! Each is an operand in the assembler's AT&T syntax with its size in bytes before it: negative if signed, with an `f`
//! if floating point.

use routine::ProbeFrame;

/// An argument of a probe: its type, and where it is when the probe is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether it is sign-extended to 64 bits.
    pub signed: bool,
    /// A `float` or `double`.
    pub float: bool,
    /// The register, constant or place in memory that holds the argument.
    pub place: Place<'a>,
}

/// Where an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// In a general register, by the machine's number; `shift` is 8 for `%ah` and its like.
    Register {
        /// 0 = rax … 15 = r15.
        number: u8,
        /// How many of the lowest bits are dropped.
        shift: u8,
    },
    /// In the low half of a vector register.
    Vector(u8),
    /// A number that stands in the note itself, as `$5`.
    Constant(i64),
    /// In memory, at base + index · scale + displacement + symbol.
    Memory {
        /// Number of the base register, 0 = rax … 15 = r15; `None` = there is none, or it is rip.
        base: Option<u8>,
        /// Number of the index register, and the scale that it is multiplied by: 1, 2, 4 or 8.
        index: Option<(u8, u8)>,
        /// Bytes that are added to base and index.
        displacement: i64,
        /// The displacement is relative to this symbol of the module.
        symbol: Option<&'a str>,
    },
}

/// An argument as found when the probe is hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Its value, extended to 64 bits.
    Value(u64),
    /// The address at which its `size` bytes are.
    At(u64),
}

impl Argument<'_> {
    /// Finds the argument by the registers in `frame`. `symbol` is the address of the symbol that [`Place::Memory`]
    /// names.
    pub fn find(&self, frame: &ProbeFrame, symbol: u64) -> Found {
        let register = |number: u8| frame.registers[usize::from(number & 15)];
        match self.place {
            Place::Register { number, shift } => {
                Found::Value(self.extend(register(number) >> shift))
            }
            Place::Vector(number) => {
                Found::Value(self.extend(frame.xmm[usize::from(number & 15)][0]))
            }
            Place::Constant(value) => Found::Value(value as u64),
            Place::Memory {
                base,
                index,
                displacement,
                symbol: named,
            } => {
                let symbol = if named.is_some() { symbol } else { 0 };
                let index = index.map_or(0, |(number, scale)| {
                    register(number).wrapping_mul(scale.into())
                });
                let base = base.map_or(0, register);
                Found::At(
                    base.wrapping_add(index)
                        .wrapping_add(displacement as u64)
                        .wrapping_add(symbol),
                )
            }
        }
    }

    /// Cuts `value` to the argument's size and extends it by its sign or with zeros.
    pub fn extend(&self, value: u64) -> u64 {
        let unused = 64 - 8 * u32::from(self.size.clamp(1, 8));
        if self.signed {
            ((value << unused) as i64 >> unused) as u64
        } else {
            value << unused >> unused
        }
    }
}

/// Parses the arguments of a probe; `None` for each that cannot be understood.
pub fn arguments(text: &str) -> impl Iterator<Item = Option<Argument<'_>>> {
    let mut rest = text.trim();
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        // Blanks may stand within parentheses.
        let mut depth = 0;
        let end = rest.find(|character| {
            depth += match character {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            character == ' ' && depth <= 0
        });
        let (one, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after.trim_start();
        Some(argument(one))
    })
}

fn argument(text: &str) -> Option<Argument<'_>> {
    // Version 1 of the notes had no sizes.
    let (size, operand) = text.split_once('@').unwrap_or(("8", text));
    let (size, float) = size
        .strip_suffix('f')
        .map_or((size, false), |size| (size, true));
    let (size, signed) = size
        .strip_prefix('-')
        .map_or((size, false), |size| (size, true));
    let size = size
        .parse()
        .ok()
        .filter(|size| matches!(size, 1 | 2 | 4 | 8))?;
    let place = if let Some(name) = operand.strip_prefix('%') {
        match name.strip_prefix("xmm").map(str::parse) {
            Some(number) => Place::Vector(number.ok().filter(|number| *number < 16)?),
            None => register(name).map(|(number, shift)| Place::Register { number, shift })?,
        }
    } else if let Some(value) = operand.strip_prefix('$') {
        Place::Constant(number(value)?)
    } else {
        memory(operand)?
    };
    Some(Argument {
        size,
        signed,
        float,
        place,
    })
}

fn memory(text: &str) -> Option<Place<'_>> {
    let (offset, inner) = match text.split_once('(') {
        Some((offset, inner)) => (offset, inner.strip_suffix(')')?),
        None => (text, ""),
    };
    let (symbol, displacement) = displacement(offset.trim())?;
    let mut parts = inner.split(',').map(str::trim);
    let base = match parts.next().unwrap_or_default() {
        // The symbol's address is absolute already.
        "" | "%rip" => None,
        name => Some(register(name.strip_prefix('%')?)?.0),
    };
    let index = match parts.next().unwrap_or_default() {
        "" => None,
        name => {
            let scale = match parts.next().unwrap_or_default() {
                "" => 1,
                scale => scale
                    .parse()
                    .ok()
                    .filter(|scale| matches!(scale, 1 | 2 | 4 | 8))?,
            };
            Some((register(name.strip_prefix('%')?)?.0, scale))
        }
    };
    Some(Place::Memory {
        base,
        index,
        displacement,
        symbol,
    })
}

/// Parses `-20`, `name`, `name+8`, `name-8`, `8+name`, or nothing.
fn displacement(text: &str) -> Option<(Option<&str>, i64)> {
    if text.is_empty() {
        return Some((None, 0));
    }
    if let Some(value) = number(text) {
        return Some((None, value));
    }
    if let Some((value, name)) = text.split_once('+')
        && let Some(value) = number(value)
    {
        return Some((Some(name), value));
    }
    let at = text.rfind(['+', '-']).filter(|at| *at > 0);
    match at {
        None => Some((Some(text), 0)),
        Some(at) => {
            let (name, value) = text.split_at(at);
            Some((Some(name), number(value)?))
        }
    }
}

fn number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits
            .bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| digits.parse().ok())??,
    };
    Some(if negative {
        (value as i64).wrapping_neg()
    } else {
        value as i64
    })
}

/// Returns number and shift of a general register, by any of its names.
fn register(name: &str) -> Option<(u8, u8)> {
    const NAMES: [[&str; 4]; 8] = [
        ["rax", "eax", "ax", "al"],
        ["rcx", "ecx", "cx", "cl"],
        ["rdx", "edx", "dx", "dl"],
        ["rbx", "ebx", "bx", "bl"],
        ["rsp", "esp", "sp", "spl"],
        ["rbp", "ebp", "bp", "bpl"],
        ["rsi", "esi", "si", "sil"],
        ["rdi", "edi", "di", "dil"],
    ];
    if let Some(number) = NAMES.iter().position(|names| names.contains(&name)) {
        return Some((number as u8, 0));
    }
    if let Some(number) = ["ah", "ch", "dh", "bh"]
        .iter()
        .position(|high| *high == name)
    {
        return Some((number as u8, 8));
    }
    let number = name.strip_prefix('r')?.trim_end_matches(['d', 'w', 'b']);
    let number = number
        .parse()
        .ok()
        .filter(|number| (8..16).contains(number))?;
    Some((number, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn frame() -> ProbeFrame {
        let mut registers = [0; 16];
        for (number, register) in (0u64..).zip(&mut registers) {
            *register = 0x1000 * (number + 1) + 0xf0;
        }
        let mut xmm = [[0; 2]; 16];
        xmm[3] = [2.5f64.to_bits(), 9];
        ProbeFrame {
            xmm,
            registers,
            flags: 0,
            descriptor: core::ptr::null(),
        }
    }

    #[test]
    fn every_form_of_operand_is_found() {
        let text = "8@%rdi -4@$-5 4@-20(%rbp) 8@(%rax,%rcx,8) 4@counter+8(%rip) 8f@%xmm3 -1@%al 1@%ah 2@%r9w 8@16(,%rbx,4) 8@ruby_vm(%rip) 4@(%rax, %rdx) 8@8+name(%rip) %rsi";
        let found: Vec<Found> = arguments(text)
            .map(|argument| argument.expect(text).find(&frame(), 0x70_0000))
            .collect();
        let expected = [
            Found::Value(0x80f0),
            Found::Value(-5i64 as u64),
            Found::At(0x60f0 - 20),
            Found::At(0x10f0 + 8 * 0x20f0),
            Found::At(0x70_0008),
            Found::Value(2.5f64.to_bits()),
            Found::Value(-16i64 as u64),
            Found::Value(0x10),
            Found::Value(0xa0f0),
            Found::At(16 + 4 * 0x40f0),
            Found::At(0x70_0000),
            Found::At(0x10f0 + 0x30f0),
            Found::At(0x70_0008),
            Found::Value(0x70f0),
        ];
        assert_eq!(found, expected);
        for bad in [
            "3@%rdi",
            "8@%xyz",
            "8@%r16",
            "8@%xmm16",
            "8@(%rax",
            "8@(%rax,%rbx,3)",
            "8@$",
            "8@$x",
        ] {
            assert_eq!(arguments(bad).collect::<Vec<_>>(), [None], "{bad}");
        }
        assert_eq!(arguments("").count(), 0);
    }

    proptest! {
        #[test]
        fn hostile_arguments_do_not_panic(text in "[-+0-9@$%a-z(),. ]{0,40}") {
            for argument in arguments(&text).flatten() {
                argument.find(&frame(), u64::MAX);
            }
        }

        #[test]
        fn any_text_ends(text in ".{0,60}") {
            prop_assert!(arguments(&text).count() <= text.len());
        }
    }
}
