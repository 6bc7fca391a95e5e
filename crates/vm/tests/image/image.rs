//! Words of a process's memory, in a file.
//!
//! ```text
//!   value │ number of symbols │ length of name, name, address │ … │ runs: address │ number of words, words … │ …
//! ```
//!
//! All numbers are in LEB128, seven bits to a byte, the lowest first. What is not in it cannot be read.

use std::cell::RefCell;
use std::collections::BTreeMap;

use vm::{Fault, Memory};

/// Memory that was looked at, and what the process exports.
#[derive(Default)]
pub struct Image {
    value: u64,
    symbols: BTreeMap<String, u64>,
    words: BTreeMap<u64, u64>,
}

impl Image {
    /// Reads what [`Image::to_bytes`] has written.
    pub fn from_bytes(bytes: &[u8]) -> Image {
        let mut rest = bytes;
        let mut image = Image {
            value: take(&mut rest),
            ..Image::default()
        };
        for _ in 0..take(&mut rest) {
            let (name, behind) = {
                let length = take(&mut rest) as usize;
                rest.split_at(length)
            };
            rest = behind;
            let name = String::from_utf8(name.to_vec()).expect("a name");
            image.symbols.insert(name, take(&mut rest));
        }
        while !rest.is_empty() {
            let (start, count) = (take(&mut rest), take(&mut rest));
            for index in 0..count {
                image.words.insert(start + index * 8, take(&mut rest));
            }
        }
        image
    }

    /// The address of what the process exports under this name.
    pub fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// The object that the script has made to be shown.
    pub fn value(&self) -> u64 {
        self.value
    }

    /// Replaces bytes.
    pub fn overwrite<const N: usize>(&mut self, at: u64, bytes: [u8; N]) {
        for (at, byte) in (at..).zip(bytes) {
            let word = self.words.get_mut(&(at & !7)).expect("memory of the image");
            let mut all = word.to_le_bytes();
            all[(at % 8) as usize] = byte;
            *word = u64::from_le_bytes(all);
        }
    }
}

fn take(rest: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, behind) = rest.split_first().expect("one byte more");
        *rest = behind;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return number;
        }
    }
    panic!("a number of more than 64 bits");
}

fn put(mut number: u64, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

impl Memory for Image {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        for (at, byte) in (at..).zip(into) {
            let word = self.words.get(&(at & !7)).ok_or(Fault { at })?;
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        Ok(())
    }
}

/// A memory that notes what is read of it.
pub struct Recorder<M> {
    memory: M,
    image: RefCell<Image>,
}

impl<M: Memory> Recorder<M> {
    /// Records what is read of `memory`; `value` is the object to show.
    pub fn new(memory: M, value: u64) -> Self {
        let image = Image {
            value,
            ..Image::default()
        };
        Recorder {
            memory,
            image: RefCell::new(image),
        }
    }

    /// Notes a symbol.
    pub fn symbol(&self, name: &str, address: Option<u64>) -> Option<u64> {
        let address = address?;
        let mut image = self.image.borrow_mut();
        image.symbols.insert(name.to_owned(), address);
        Some(address)
    }

    /// What was read, as a file's contents.
    pub fn to_bytes(&self) -> Vec<u8> {
        let image = self.image.borrow();
        let mut bytes = Vec::new();
        put(image.value, &mut bytes);
        put(image.symbols.len() as u64, &mut bytes);
        for (name, address) in &image.symbols {
            put(name.len() as u64, &mut bytes);
            bytes.extend(name.bytes());
            put(*address, &mut bytes);
        }
        let mut words = image.words.iter().peekable();
        while let Some((start, first)) = words.next() {
            let mut run = vec![*first];
            while let Some((_, word)) =
                words.next_if(|(at, _)| **at == start + run.len() as u64 * 8)
            {
                run.push(*word);
            }
            for number in [*start, run.len() as u64].into_iter().chain(run) {
                put(number, &mut bytes);
            }
        }
        bytes
    }
}

impl<M: Memory> Memory for Recorder<M> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, into)?;
        let mut word = at & !7;
        while word < at + into.len() as u64 {
            let mut bytes = [0; 8];
            self.memory.read(word, &mut bytes)?;
            let word_there = u64::from_le_bytes(bytes);
            self.image.borrow_mut().words.insert(word, word_there);
            word += 8;
        }
        Ok(())
    }
}
