//! Names of IDs and Symbols. Used by `facts`, `function`, `globals` and others.
//!
//! An ID is a number; what it is called stands in the VM's symbol table (`rb_symbols_t`, `symbol.h`), a
//! variable no symbol of libruby leads to. Its Array `ids` is an object though, hidden and never moved
//! (`rb_gc_register_mark_object`), so it can be found in the heap and known by what is in it:
//!
//! ```text
//!   ids ─▶ Array ─▶ Array of 2 × 512, for IDs of serial 0 to 511:   … 86: "+"  87: :+ or 0   88: …
//!                   Array of 2 × 512, for IDs of serial 512 to 1023
//! ```
//!
//! The serial number of an operator of one character is that character, so `"+"` stands at 2 × 43. The Array
//! is made a moment before class Object, and looked for first in the page that the name of Object is in.
//! `set_id_entry`, `get_id_serial_entry` (`symbol.c`), alike from v2_7_4 to v4.0.5.

use core::fmt::Write;

use super::object::Type;
use super::string::Text;
use super::{Error, Page, Ruby};
use crate::Memory;

/// `ID_ENTRY_UNIT` IDs to an Array, `ID_ENTRY_SIZE` words to each ID.
const UNIT: u64 = 512;
const WORDS: u64 = 2;

/// `fstr` in `struct RSymbol` (`symbol.h`, since 3.1 `internal/symbol.h`; the same from 2.7 to 4.0).
const STRING_OF_SYMBOL: u64 = 24;
/// The lowest byte of a static Symbol, `RUBY_SYMBOL_FLAG`, and where its ID begins, `RUBY_SPECIAL_SHIFT`.
const STATIC: u64 = 0x0c;
const STATIC_SHIFT: u32 = 8;

/// `fstr` in `struct RSymbol` (`symbol.h`).
const DYNAMIC_NAME: u64 = 24;

/// IDs by whose names the Array is recognised.
const KNOWN: [(u32, &[u8]); 3] = [
    (b'+' as u32, b"+"),
    (b'<' as u32, b"<"),
    (b'!' as u32, b"!"),
];

impl<M: Memory> Ruby<'_, M> {
    /// Returns the name of an ID. IDs of the VM's own have no name.
    pub fn id_text(&self, id: u64) -> Result<Option<Text>, Error> {
        self.serial_text(self.serial(id))
    }

    /// Writes an ID as the Symbol of its name, at most `limit` characters of it.
    pub fn write_id(&self, id: u64, limit: u64, out: &mut dyn Write) -> Result<(), Error> {
        let name = match self.facts.symbols() {
            0 => return Err(Error::NoSymbols),
            ids => self.entry_in(ids, self.serial(id))?,
        };
        self.write_symbol(name.ok_or(Error::garbled("ID", id))?, limit, out)
    }

    /// Returns whether an ID has this name.
    pub fn is_id(&self, id: u64, name: &[u8]) -> bool {
        matches!(self.id_text(id), Ok(Some(text)) if self.is_text(text, name) == Ok(true))
    }

    /// Returns the ID of a Symbol that was in the program's text; `None` for anything else.
    pub fn symbol_id(&self, value: u64) -> Option<u64> {
        (value & 0xff == STATIC).then_some(value >> STATIC_SHIFT)
    }

    /// Returns the String that a Symbol in a slot of the heap has: one that was made at run time.
    pub fn string_of_symbol(&self, symbol: u64) -> Result<u64, Error> {
        Ok(self.memory.u64(symbol.wrapping_add(STRING_OF_SYMBOL))?)
    }

    /// Returns the IDs in an Array of such Symbols, at most as many as there are places in `into`; 0 for another element.
    pub fn symbols_in_array<'i>(
        &self,
        array: u64,
        into: &'i mut [u64],
    ) -> Result<&'i [u64], Error> {
        let elements = self.elements(array)?;
        let count = usize::try_from(elements.len).unwrap_or(usize::MAX);
        let count = count.min(into.len());
        for (index, place) in (0..).zip(&mut into[..count]) {
            let value = self.memory.u64(elements.address.wrapping_add(index * 8))?;
            *place = self.symbol_id(value).unwrap_or(0);
        }
        Ok(&into[..count])
    }

    /// Whether an object is the Array with the names of all symbols.
    pub fn is_table_of_symbols(&self, object: u64) -> bool {
        object == self.facts.symbols()
    }

    /// Returns the name of an ID by its serial number, the key in an [`IdTable`](super::IdTable).
    pub fn serial_text(&self, serial: u32) -> Result<Option<Text>, Error> {
        match self.facts.symbols() {
            0 => Err(Error::NoSymbols),
            ids => self.name_in(ids, serial),
        }
    }

    /// Returns the String that is a Symbol's name, which knows its encoding.
    pub(super) fn symbol_name(&self, value: u64) -> Result<Option<u64>, Error> {
        if value & 0xff == STATIC {
            return match self.facts.symbols() {
                0 => Err(Error::NoSymbols),
                ids => self.entry_in(ids, self.serial(value >> STATIC_SHIFT)),
            };
        }
        Ok(match self.type_of(value)? {
            Type::Symbol => Some(self.memory.u64(value.wrapping_add(DYNAMIC_NAME))?),
            _ => None,
        })
    }

    fn name_in(&self, ids: u64, serial: u32) -> Result<Option<Text>, Error> {
        match self.entry_in(ids, serial)? {
            Some(name) => Ok(Some(self.text(name)?)),
            None => Ok(None),
        }
    }

    fn entry_in(&self, ids: u64, serial: u32) -> Result<Option<u64>, Error> {
        let (array, index) = (u64::from(serial) / UNIT, u64::from(serial) % UNIT * WORDS);
        let arrays = self.elements(ids)?;
        if array >= arrays.len {
            return Ok(None);
        }
        let array = self.memory.u64(arrays.address.wrapping_add(array * 8))?;
        if self.type_of(array)? != Type::Array {
            return Ok(None);
        }
        let entries = self.elements(array)?;
        if index >= entries.len {
            return Ok(None);
        }
        let name = self.memory.u64(entries.address.wrapping_add(index * 8))?;
        Ok((self.type_of(name)? == Type::String).then_some(name))
    }

    /// Returns the same reader, with the symbol table searched for once more if it was not found: the process may have
    /// run when its facts were taken.
    pub(super) fn with_symbols(self) -> Result<Self, Error> {
        Ok(match self.facts.symbols() {
            0 => Ruby {
                facts: self.facts.with_symbols(self.find_symbols()?),
                ..self
            },
            _ => self,
        })
    }

    /// Finds the Array of the names of all IDs, `ids`, page by page.
    pub(super) fn find_symbols(&self) -> Result<u64, Error> {
        if let Ok(Some(name)) = self.class_path(self.facts.object())
            && let Some(found) = self.symbols_in(self.page_of(name)?)
        {
            return Ok(found);
        }
        self.pages()?
            .filter_map(Result::ok)
            .find_map(|page| self.symbols_in(page))
            .ok_or(Error::NoSymbols)
    }

    fn symbols_in(&self, page: Page) -> Option<u64> {
        self.slots(page)
            .filter_map(Result::ok)
            .filter(|slot| slot.klass == 0 && Type::of(slot.flags) == Type::Array)
            .map(|slot| slot.address)
            .find(|&array| self.lists_symbols(array).unwrap_or(false))
    }

    fn lists_symbols(&self, array: u64) -> Result<bool, Error> {
        for (serial, name) in KNOWN {
            match self.name_in(array, serial)? {
                Some(text) if self.is_text(text, name)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Returns whether a text has these bytes.
    pub(super) fn is_text(&self, text: Text, wanted: &[u8]) -> Result<bool, Error> {
        if text.len != wanted.len() as u64 {
            return Ok(false);
        }
        let mut buffer = [0; 64];
        for (at, piece) in (0_u64..).step_by(64).zip(wanted.chunks(64)) {
            let found = &mut buffer[..piece.len()];
            self.memory.read(text.address.wrapping_add(at), found)?;
            if found != piece {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
