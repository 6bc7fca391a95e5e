//! Thrift's compact protocol, as far as the metadata of a Parquet file needs it. Used by `file` and `pages`.
//!
//! A struct is its fields, each behind a byte that has its type and how far its number is from that of the field before, and a 0. Numbers are zigzag
//! and of 7 bits a byte. A list has a byte with its type and length in front.

/// The type of a field or element.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Integer = 5,
    Long = 6,
    Bytes = 8,
    List = 9,
    Struct = 12,
}

/// The type of the elements of a list of flags.
const FLAG: u8 = 2;

/// A struct that is written, with the number of its last field.
#[derive(Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    last: u8,
}

impl Struct {
    fn head(&mut self, field: u8, kind: u8) {
        // No struct of the format leaves out 15 numbers.
        self.bytes.push((field - self.last) << 4 | kind);
        self.last = field;
    }

    /// A number of 32 bits.
    pub fn integer(mut self, field: u8, value: i32) -> Self {
        self.head(field, Type::Integer as u8);
        zigzag(&mut self.bytes, value.into());
        self
    }

    /// A number of 64 bits.
    pub fn long(mut self, field: u8, value: i64) -> Self {
        self.head(field, Type::Long as u8);
        zigzag(&mut self.bytes, value);
        self
    }

    /// A length or a place in the file.
    pub fn size(self, field: u8, value: usize) -> Self {
        self.long(field, value as i64)
    }

    /// True or false, which is the type.
    pub fn flag(mut self, field: u8, value: bool) -> Self {
        self.head(field, if value { 1 } else { 2 });
        self
    }

    /// Bytes, or a text.
    pub fn bytes(mut self, field: u8, value: &[u8]) -> Self {
        self.head(field, Type::Bytes as u8);
        self.bytes.extend(of_bytes(value));
        self
    }

    /// Another struct.
    pub fn inner(mut self, field: u8, value: Struct) -> Self {
        self.head(field, Type::Struct as u8);
        self.bytes.extend(value.end());
        self
    }

    /// A list of elements that are written already.
    pub fn list(mut self, field: u8, kind: Type, all: &[Vec<u8>]) -> Self {
        self.head(field, Type::List as u8);
        self.elements(kind as u8, all.len());
        self.bytes.extend(all.iter().flatten());
        self
    }

    /// A list of flags.
    pub fn flags(mut self, field: u8, all: &[bool]) -> Self {
        self.head(field, Type::List as u8);
        self.elements(FLAG, all.len());
        self.bytes
            .extend(all.iter().map(|one| if *one { 1 } else { 2 }));
        self
    }

    fn elements(&mut self, kind: u8, length: usize) {
        match length {
            0..15 => self.bytes.push((length as u8) << 4 | kind),
            _ => {
                self.bytes.push(0xf0 | kind);
                varint(&mut self.bytes, length as u64);
            }
        }
    }

    /// Its bytes.
    pub fn end(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// An element of a list of bytes.
pub(super) fn of_bytes(value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(&mut bytes, value.len() as u64);
    bytes.extend_from_slice(value);
    bytes
}

/// An element of a list of numbers.
pub(super) fn of_number(value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    zigzag(&mut bytes, value);
    bytes
}

fn zigzag(bytes: &mut Vec<u8>, value: i64) {
    varint(bytes, (value << 1 ^ value >> 63) as u64);
}

pub(super) fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
