//! A guest for tests: memory that is filled by hand, and calls that are captured as a hook captures them.

use std::cell::Cell;
use std::collections::BTreeMap;

use prototypes::capture::{CopyLimits, Ended, Registers, Returned, run};
use prototypes::show::{CallValues, Captures, Memory, Prepared, Show};
use prototypes::types::Prototype;
use prototypes::{Detail, Library};

const PAGE: u64 = 4096;
/// Between what a test puts there.
const RUBBISH: u8 = 0xa5;
/// Where the memory begins.
const FIRST: u64 = 0x7f00_0000_0000;
const STACK: u64 = 0x7ffc_0000_1000;

/// Wider than a hook's, so that what is shown depends on the prototype alone.
const LIMITS: CopyLimits = CopyLimits {
    bytes: 1 << 22,
    steps: 1 << 22,
};

/// Memory and registers.
#[derive(Clone, Debug)]
pub struct Guest {
    pages: BTreeMap<u64, Vec<u8>>,
    next: u64,
    pushed: u64,
    pub registers: Registers,
    pub returned: Returned,
    gp: usize,
    sse: usize,
}

impl Guest {
    pub fn new() -> Self {
        let registers = Registers {
            stack: STACK,
            ..Registers::default()
        };
        Self {
            pages: BTreeMap::new(),
            next: FIRST,
            pushed: STACK,
            registers,
            returned: Returned::default(),
            gp: 0,
            sse: 0,
        }
    }

    /// Puts bytes somewhere and says where. Rubbish follows.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let at = self.next;
        self.next += (bytes.len() as u64).next_multiple_of(16) + 32;
        self.write(at, bytes);
        at
    }

    /// Puts bytes where no memory follows.
    pub fn put_last(&mut self, bytes: &[u8]) -> u64 {
        let end = (self.next + bytes.len() as u64).next_multiple_of(PAGE);
        self.next = end + PAGE;
        self.write(end - bytes.len() as u64, bytes);
        end - bytes.len() as u64
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        for (at, byte) in (at..).zip(bytes) {
            let page = self
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| vec![RUBBISH; PAGE as usize]);
            page[(at % PAGE) as usize] = *byte;
        }
    }

    pub fn text(&mut self, text: &str) -> u64 {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.put(&bytes)
    }

    pub fn wide(&mut self, text: &str) -> u64 {
        let words = text.chars().map(u32::from).chain([0]);
        let bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        self.put(&bytes)
    }

    pub fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(&bytes)
    }

    pub fn ints(&mut self, ints: &[i32]) -> u64 {
        let bytes: Vec<u8> = ints.iter().flat_map(|int| int.to_le_bytes()).collect();
        self.put(&bytes)
    }

    pub fn set(&mut self, at: u64, bytes: &[u8]) {
        self.write(at, bytes);
    }

    /// The next integer argument.
    pub fn int(mut self, value: u64) -> Self {
        match self.registers.gp.get_mut(self.gp) {
            Some(register) => *register = value,
            None => self.stack(&value.to_le_bytes()),
        }
        self.gp += 1;
        self
    }

    /// The next floating argument, as bits.
    pub fn float(mut self, bits: u64) -> Self {
        match self.registers.sse.get_mut(self.sse) {
            Some(register) => *register = bits,
            None => self.stack(&bits.to_le_bytes()),
        }
        self.sse += 1;
        self
    }

    pub fn double(self, value: f64) -> Self {
        self.float(value.to_bits())
    }

    pub fn stack(&mut self, bytes: &[u8]) {
        self.write(self.pushed, bytes);
        self.pushed += bytes.len() as u64;
    }

    pub fn returns(mut self, value: u64) -> Self {
        self.returned.rax = value;
        self
    }

    pub fn call<'a>(&'a self, prepared: &'a Prepared) -> CallValues<'a> {
        CallValues {
            prepared,
            registers: &self.registers,
            returned: Some(&self.returned),
        }
    }

    /// What the hook copies at call and return.
    pub fn capture(&self, prototype: &Prototype, detail: Detail) -> Captures {
        let programs = prototype.capture(detail);
        let mut captures = Captures::new();
        for (words, returned) in [
            (&programs.call, None),
            (&programs.exit, Some(&self.returned)),
        ] {
            let copied = Cell::new(0);
            let ended = run(
                words,
                &self.registers,
                returned,
                LIMITS,
                &mut (
                    |at: u64, into: &mut [u8]| {
                        assert!(
                            at % 4096 + into.len() as u64 <= 4096,
                            "a capture within a page"
                        );
                        self.read(at, into)
                    },
                    |at: u64, bytes: &[u8]| {
                        copied.set(copied.get() + bytes.len());
                        captures.add(at, bytes);
                        true
                    },
                ),
            );
            assert_ne!(
                ended,
                Ended::Malformed,
                "{:?}",
                prototype.named("f").to_string()
            );
        }
        captures
    }

    /// The call as it is printed from what was captured, which must be what the whole memory shows.
    pub fn line(&self, prototype: &Prototype, name: &str, show: &Show) -> String {
        let captures = self.capture(prototype, show.detail);
        let prepared = Prepared::new(prototype.clone());
        let line = show.line(name, self.call(&prepared), &captures);
        let whole = show.line(name, self.call(&prepared), self);
        assert_eq!(
            line,
            whole,
            "captured, whole memory: {}",
            prototype.named(name)
        );
        line
    }
}

impl Memory for Guest {
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let known = (at..)
            .zip(&*into)
            .all(|(at, _)| self.pages.contains_key(&(at / PAGE)));
        if known {
            for (at, byte) in (at..).zip(into) {
                *byte = self.pages[&(at / PAGE)][(at % PAGE) as usize];
            }
        }
        known
    }
}

/// A file without problems.
pub fn library(text: &str) -> Library {
    let (library, errors) = Library::parse("test.conf", text, &mut |_| None);
    let errors: Vec<_> = errors
        .iter()
        .filter(|error| !error.problem.is_warning())
        .collect();
    assert!(errors.is_empty(), "{errors:?}");
    library
}

/// Types' definitions and one function; the call is printed.
pub fn shown(conf: &str, guest: Guest, show: &Show) -> String {
    let library = library(conf);
    let (name, prototype) = library.prototypes().next().expect("a prototype");
    guest.line(prototype, name, show)
}

/// How ltrace prints.
pub const PLAIN: Show = Show {
    detail: Detail {
        strings: 32,
        array: 4,
        whole: false,
    },
    decode: None,
    like_ltrace: true,
};

/// Checks what is printed of a call of that function.
pub fn is(conf: &str, guest: Guest, expected: &str) {
    assert_eq!(shown(conf, guest, &PLAIN), expected, "{conf}");
}

/// The register that holds a number below 0.
pub fn neg(number: i64) -> u64 {
    number as u64
}
