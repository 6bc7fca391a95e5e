//! A summary as JSON (RFC 8259): `{"created":3,"types":{"String":3},"lines":[{"file":"/a.rb","line":1,"type":"String","count":3}]}`.

use super::{Line, NOWHERE, Name, Summary};
use crate::births::books::text_at;
use crate::memory::store::List;
use wire::Ledger;
use wire::ledger::ANONYMOUS;

impl Summary {
    /// Returns that text, with the lines in their sorted order. `None`: there is no memory.
    pub fn json(&mut self, ledger: &Ledger) -> Option<&[u8]> {
        let mut text = Text(&mut self.text);
        text.0.clear_to(0);
        text.add(b"{\"created\":")?;
        text.number(self.created)?;
        text.add(b",\"types\":{")?;
        for (number, name) in self.names.all().iter().enumerate() {
            if number != 0 {
                text.add(b",")?;
            }
            text.name(ledger, name)?;
            text.add(b":")?;
            text.number(name.born)?;
        }
        text.add(b"},\"lines\":[")?;
        for (number, line) in self.lines.all().iter().enumerate() {
            if number != 0 {
                text.add(b",")?;
            }
            text.line(ledger, line, self.names.all())?;
        }
        text.add(b"]}")?;
        Some(self.text.all())
    }

    /// Returns the name of the type with this index.
    pub fn name_of<'a>(&'a mut self, ledger: &'a Ledger, name: u32) -> Option<&'a [u8]> {
        let name = self.names.all().get(name as usize)?;
        let mut text = Text(&mut self.text);
        text.0.clear_to(0);
        if name.kind.flags & ANONYMOUS == 0 {
            return Some(text_at(&ledger.text, name.kind.name));
        }
        text.anonymous(name.kind.address)?;
        Some(self.text.all())
    }
}

struct Text<'a>(&'a mut List<u8>);

impl Text<'_> {
    fn add(&mut self, bytes: &[u8]) -> Option<()> {
        self.0.extend(bytes)
    }

    fn number(&mut self, mut number: u64) -> Option<()> {
        // 2^64 has 20 digits.
        let mut digits = [0; 20];
        let mut at = digits.len();
        while let Some(digit) = at.checked_sub(1).and_then(|next| {
            at = next;
            digits.get_mut(next)
        }) {
            *digit = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.add(digits.get(at..)?)
    }

    fn line(&mut self, ledger: &Ledger, line: &Line, names: &[Name]) -> Option<()> {
        self.add(b"{\"file\":")?;
        match line.path {
            NOWHERE => self.add(b"null")?,
            path => self.quoted(text_at(&ledger.text, path))?,
        }
        self.add(b",\"line\":")?;
        self.number(line.line.into())?;
        self.add(b",\"type\":")?;
        self.name(ledger, names.get(line.name as usize)?)?;
        self.add(b",\"count\":")?;
        self.number(line.born)?;
        self.add(b"}")
    }

    fn name(&mut self, ledger: &Ledger, name: &Name) -> Option<()> {
        if name.kind.flags & ANONYMOUS == 0 {
            return self.quoted(text_at(&ledger.text, name.kind.name));
        }
        self.add(b"\"")?;
        self.anonymous(name.kind.address)?;
        self.add(b"\"")
    }

    /// Writes what `inspect` shows of a class without a name.
    fn anonymous(&mut self, address: u64) -> Option<()> {
        self.add(b"#<Class:0x")?;
        for digit in (0..16).rev() {
            let digit = (address >> (4 * digit) & 0xf) as usize;
            self.0.push(*b"0123456789abcdef".get(digit)?)?;
        }
        self.add(b">")
    }

    /// Writes a string. Bytes that are not UTF-8 become U+FFFD.
    fn quoted(&mut self, bytes: &[u8]) -> Option<()> {
        self.add(b"\"")?;
        // Nearly all text is plain; testing it without a branch for each byte is as fast as copying it.
        let plain = |byte: u8| (b' '..0x7f).contains(&byte) & (byte != b'"') & (byte != b'\\');
        if bytes.iter().fold(true, |all, byte| all & plain(*byte)) {
            self.add(bytes)?;
        } else {
            for chunk in bytes.utf8_chunks() {
                self.escaped(chunk.valid())?;
                if !chunk.invalid().is_empty() {
                    self.add("\u{fffd}".as_bytes())?;
                }
            }
        }
        self.add(b"\"")
    }

    fn escaped(&mut self, text: &str) -> Option<()> {
        for byte in text.bytes() {
            match byte {
                b'"' | b'\\' => self.add(&[b'\\', byte])?,
                0..b' ' => {
                    self.add(b"\\u00")?;
                    for digit in [byte >> 4, byte & 0xf] {
                        self.0.push(*b"0123456789abcdef".get(digit as usize)?)?;
                    }
                }
                _ => {
                    self.0.push(byte)?;
                }
            }
        }
        Some(())
    }
}
