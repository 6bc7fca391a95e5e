//! Strings and Symbols as text: `rb_str_inspect`, `sym_inspect` (`string.c`), `rb_enc_symname_type`
//! (`symbol.c`). Used by `show` and `symbol`.
//!
//! Characters are shown where the encoding is UTF-8 (or the text ASCII); in any other, bytes that are not ASCII
//! are `\xE9`. Beyond what Ruby escapes, invisible and combining characters are, so that what is shown stays what
//! it is.

use core::fmt::Write;

use super::object::USER_SHIFT;
use super::string::Text;
use super::{Error, Ruby};
use crate::Memory;

/// `ENCODING_SHIFT`, `ENCODING_INLINE_MAX` (`include/ruby/encoding.h`), and `ENCINDEX_UTF_8` (`encindex.h`).
const ENCODING: u32 = USER_SHIFT + 10;
const ENCODING_MASK: u64 = 0x7f;
const UTF_8: u64 = 1;

/// Bytes that are looked at in one piece. Longer Symbols are quoted.
const PIECE: usize = 256;

/// A unit of a String's text.
#[derive(Clone, Copy)]
enum Unit {
    Character(char),
    /// A byte that is no character, or no ASCII in an encoding whose characters are not known here.
    Byte(u8),
}

impl<M: Memory> Ruby<'_, M> {
    /// Writes a String in quotes, at most `limit` bytes of it.
    pub(super) fn write_string(
        &self,
        string: u64,
        limit: u64,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let text = self.text(string)?;
        let unicode = self.flags(string)? >> ENCODING & ENCODING_MASK == UTF_8;
        out.write_char('"')?;
        let mut hash = false;
        self.units(text, limit, unicode, &mut |unit| {
            if hash {
                // An interpolation would begin here.
                let begins = matches!(unit, Unit::Character('{' | '$' | '@'));
                out.write_str(if begins { "\\#" } else { "#" })?;
            }
            hash = matches!(unit, Unit::Character('#'));
            match unit {
                Unit::Character('#') => Ok(()),
                Unit::Character(character) => write_character(character, unicode, out),
                Unit::Byte(byte) => Ok(write!(out, "\\x{byte:02X}")?),
            }
        })?;
        if hash {
            out.write_char('#')?;
        }
        out.write_char('"')?;
        if text.len > limit {
            out.write_char('…')?;
        }
        Ok(())
    }

    /// Writes a Symbol, given the String that is its name: `:name`, `:"a name"`.
    pub(super) fn write_symbol(
        &self,
        name: u64,
        limit: u64,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        out.write_char(':')?;
        let mut buffer = [0; PIECE];
        match self.plain_name(name, limit, &mut buffer)? {
            Some(plain) => Ok(out.write_str(plain)?),
            None => self.write_string(name, limit, out),
        }
    }

    /// Writes a Symbol as the key of a Hash, as 3.4 does: `name: `, `"a name": `.
    pub(super) fn write_key(
        &self,
        name: u64,
        limit: u64,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        let mut buffer = [0; PIECE];
        match self.plain_name(name, limit, &mut buffer)? {
            Some(plain) if is_plain_key(plain) => out.write_str(plain)?,
            _ => self.write_string(name, limit, out)?,
        }
        Ok(out.write_str(": ")?)
    }

    /// Returns the name of a Symbol that needs no quotes.
    fn plain_name<'b>(
        &self,
        name: u64,
        limit: u64,
        buffer: &'b mut [u8; PIECE],
    ) -> Result<Option<&'b str>, Error> {
        let text = self.text(name)?;
        if text.len > limit.min(PIECE as u64) {
            return Ok(None);
        }
        let unicode = self.flags(name)? >> ENCODING & ENCODING_MASK == UTF_8;
        let copied = self.copy(text, buffer)?;
        let plain = core::str::from_utf8(&buffer[..copied.len])
            .ok()
            .filter(|name| (unicode || name.is_ascii()) && is_plain_symbol(name));
        Ok(plain)
    }

    /// Calls `each` with the units of a text one by one, as many as are whole within `limit` bytes.
    fn units(
        &self,
        text: Text,
        limit: u64,
        unicode: bool,
        give: &mut dyn FnMut(Unit) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut buffer = [0; PIECE];
        let mut done = 0;
        let len = text.len.min(limit);
        while done < len {
            let rest = Text {
                address: text.address.wrapping_add(done),
                len: len - done,
            };
            let copied = self.copy(rest, &mut buffer)?;
            let mut piece = &buffer[..copied.len];
            // A character that continues in the next piece is left to that one; beyond the limit it is dropped.
            if unicode && (copied.truncated || text.len > limit) {
                piece = without_begun(piece);
            }
            if piece.is_empty() {
                break;
            }
            done += piece.len() as u64;
            if !unicode {
                for &byte in piece {
                    give(if byte.is_ascii() {
                        Unit::Character(char::from(byte))
                    } else {
                        Unit::Byte(byte)
                    })?;
                }
                continue;
            }
            for chunk in piece.utf8_chunks() {
                for character in chunk.valid().chars() {
                    give(Unit::Character(character))?;
                }
                for &byte in chunk.invalid() {
                    give(Unit::Byte(byte))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns a piece without the character that its end cuts.
fn without_begun(piece: &[u8]) -> &[u8] {
    let continued = piece.iter().rev().take(3);
    let behind = continued.take_while(|&byte| byte & 0xc0 == 0x80).count();
    let (whole, last) = piece.split_at(piece.len().saturating_sub(behind + 1));
    match core::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => whole,
        _ => piece,
    }
}

fn write_character(character: char, unicode: bool, out: &mut dyn Write) -> Result<(), Error> {
    let code = u32::from(character);
    match character {
        '"' => out.write_str("\\\"")?,
        '\\' => out.write_str("\\\\")?,
        '\n' => out.write_str("\\n")?,
        '\r' => out.write_str("\\r")?,
        '\t' => out.write_str("\\t")?,
        '\x0c' => out.write_str("\\f")?,
        '\x0b' => out.write_str("\\v")?,
        '\x08' => out.write_str("\\b")?,
        '\x07' => out.write_str("\\a")?,
        '\x1b' => out.write_str("\\e")?,
        ' '..='~' => out.write_char(character)?,
        _ if character > '\x7f' && is_shown(character) => out.write_char(character)?,
        _ if !unicode => write!(out, "\\x{code:02X}")?,
        _ if code < 0x1_0000 => write!(out, "\\u{code:04X}")?,
        _ => write!(out, "\\u{{{code:X}}}")?,
    }
    Ok(())
}

/// Returns whether Rust prints the character as it is.
fn is_shown(character: char) -> bool {
    character.escape_debug().next() == Some(character)
}

/// Names that are operators.
const OPERATORS: [&str; 28] = [
    "<", "<<", "<=", "<=>", ">", ">>", ">=", "=~", "==", "===", "*", "**", "+", "+@", "-", "-@",
    "|", "^", "&", "/", "%", "~", "`", "[]", "[]=", "!", "!=", "!~",
];

/// Returns whether a Symbol of this name needs no quotes, as `rb_str_symname_p` does.
fn is_plain_symbol(name: &str) -> bool {
    if name.is_empty()
        || !name
            .chars()
            .all(|character| matches!(character, ' '..='~') || is_shown(character))
    {
        return false;
    }
    if OPERATORS.contains(&name) {
        return true;
    }
    if let Some(global) = name.strip_prefix('$') {
        return is_special_global(global) || is_identifier(global);
    }
    if let Some(variable) = name.strip_prefix("@@").or(name.strip_prefix('@')) {
        return is_identifier(variable);
    }
    let end = ['?', '!', '='];
    is_identifier(name.strip_suffix(end).unwrap_or(name))
}

fn is_identifier(name: &str) -> bool {
    let part = |character: char| {
        character == '_' || character.is_ascii_alphanumeric() || !character.is_ascii()
    };
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(part)
}

/// Returns whether the name is that of a special global variable, as `is_special_global_name` does: `$1`, `$~`, `$-w`.
fn is_special_global(name: &str) -> bool {
    let mut characters = name.chars();
    match (characters.next(), characters.next(), characters.next()) {
        (Some('-'), Some(option), None) => {
            option == '_' || option.is_ascii_alphanumeric() || !option.is_ascii()
        }
        (Some(one), None, None) if r#"~*$?!@/\;,.=:<>"&`'+_"#.contains(one) => true,
        _ => !name.is_empty() && name.chars().all(|character| character.is_ascii_digit()),
    }
}

/// Returns whether a name that is plain as a Symbol is so as a key, too: the opposite of `symbol_key_needs_quote`
/// (`hash.c` of 3.4).
fn is_plain_key(name: &str) -> bool {
    !name.starts_with(['@', '$', '!'])
        && !name.ends_with(|last: char| "+-*/`%^&|]<=>~@".contains(last))
}
