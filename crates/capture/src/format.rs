//! What a printf format says of the arguments that follow it. Used by `run`, and by `prototypes::show::varargs`.
//!
//! The grammar is glibc's (`info libc`, "Output Conversion Syntax"), without the positional `%1$d`, which
//! programs use only for translated text. One scanner for both sides: the hook uses it to find the strings to
//! copy, the command to print.

/// The type of argument that a conversion takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConversionKind {
    /// `%d`, `%i`, and the `*` of a width or precision: a signed number of this many bytes, 1 to 8.
    Signed(u8),
    /// `%u`: an unsigned number of this many bytes.
    Unsigned(u8),
    /// `%o`: an unsigned number of this many bytes.
    Octal(u8),
    /// `%x`, `%X`, and `%b`, `%B`, which are shown in hexadecimal, too: an unsigned number of this many
    /// bytes.
    Hex(u8),
    /// `%c`: a byte, passed as an `int`.
    Character,
    /// `%lc`, `%C`: a character, passed as a `wint_t`.
    WideCharacter,
    /// `%s`: the address of a string of bytes.
    Text,
    /// `%ls`, `%S`: the address of a string of `wchar_t`, four bytes each.
    WideText,
    /// `%p`, and `%n`, whose argument says where to write.
    Pointer,
    /// `%e`, `%f`, `%g`, `%a`.
    Double,
    /// `%Lf` and the like: sixteen bytes on the stack.
    LongDouble,
}

/// One argument that a format asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The type of the argument.
    pub kind: ConversionKind,
    /// The least width of the field, if it is a number in the format.
    pub width: Option<u32>,
    /// The precision, if it is a number in the format: for a string the largest number of characters.
    pub precision: Option<u32>,
    /// Whether the width was the argument before this one (`*`).
    pub width_given: bool,
    /// Whether the precision was the argument before this one (`.*`).
    pub precision_given: bool,
}

/// Scans a format; the caller reads the characters and passes them one by one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conversions {
    inside: bool,
    dot: bool,
    half: u8,
    long: u8,
    big: bool,
    width: Option<u32>,
    precision: Option<u32>,
    width_given: bool,
    precision_given: bool,
}

impl Conversions {
    /// Makes a scanner at the beginning of a format.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            inside: false,
            dot: false,
            half: 0,
            long: 0,
            big: false,
            width: None,
            precision: None,
            width_given: false,
            precision_given: false,
        }
    }

    /// Takes the next character, and returns the argument that it completes, if it does.
    pub fn next(&mut self, character: u32) -> Option<Conversion> {
        let character = u8::try_from(character).unwrap_or(0);
        if !self.inside {
            if character == b'%' {
                *self = Self {
                    inside: true,
                    ..Self::new()
                };
            }
            return None;
        }
        match character {
            b'.' => self.dot = true,
            b'*' => {
                let star = self.conversion(ConversionKind::Signed(4));
                if self.dot {
                    self.precision_given = true
                } else {
                    self.width_given = true
                }
                return Some(star);
            }
            b'0'..=b'9' => {
                let number = if self.dot {
                    &mut self.precision
                } else {
                    &mut self.width
                };
                let digit = u32::from(character - b'0');
                *number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(digit));
            }
            b'h' => self.half = self.half.saturating_add(1),
            b'l' => self.long = self.long.saturating_add(1),
            b'q' | b'j' | b't' | b'z' | b'Z' => self.long = 2,
            b'L' => self.big = true,
            b'd' | b'i' => return self.end(ConversionKind::Signed(self.size())),
            b'u' => return self.end(ConversionKind::Unsigned(self.size())),
            b'o' => return self.end(ConversionKind::Octal(self.size())),
            b'x' | b'X' | b'b' | b'B' => return self.end(ConversionKind::Hex(self.size())),
            b'e' | b'E' | b'f' | b'F' | b'g' | b'G' | b'a' | b'A' => {
                return self.end(if self.big {
                    ConversionKind::LongDouble
                } else {
                    ConversionKind::Double
                });
            }
            b'c' if self.long == 0 => return self.end(ConversionKind::Character),
            b'c' | b'C' => return self.end(ConversionKind::WideCharacter),
            b's' if self.long == 0 => return self.end(ConversionKind::Text),
            b's' | b'S' => return self.end(ConversionKind::WideText),
            b'p' | b'n' => return self.end(ConversionKind::Pointer),
            // %% and %m take no argument.
            b'%' | b'm' => self.inside = false,
            // Flags, and characters that are not known.
            _ => {}
        }
        None
    }

    fn size(&self) -> u8 {
        match (self.half, self.long, self.big) {
            (_, _, true) | (_, 1.., _) => 8,
            (0, 0, _) => 4,
            (1, 0, _) => 2,
            _ => 1,
        }
    }

    fn conversion(&self, kind: ConversionKind) -> Conversion {
        Conversion {
            kind,
            width: self.width,
            precision: self.precision,
            width_given: self.width_given,
            precision_given: self.precision_given,
        }
    }

    fn end(&mut self, kind: ConversionKind) -> Option<Conversion> {
        let found = self.conversion(kind);
        *self = Self::new();
        Some(found)
    }
}
