//! What the books ask about code of a PHP. The code is that of a running frame, which keeps it. Used by `counting`.

use crate::births::books::DEEPEST;
use crate::births::living::Script;
use crate::births::texts::{Buffer, Class, Texts};
use crate::memory::direct::Direct;
use core::fmt::Write;
use vm::php::{Error, Php, Place, Point};

/// The number that stands for the type of all blocks.
pub const BLOCK: u64 = 1;

/// The reader of this process's PHP, with the one buffer that every text is read into.
pub struct Names {
    pub reader: Option<Php<'static, Direct>>,
    buffer: Buffer,
    /// Places of the frames that were walked last: code is known by the address of its operations, and its texts by that of its function.
    places: [Place; DEEPEST],
    walked: usize,
}

/// An instruction: the line, which tells code from other code that comes to the same address, and the number of the operation.
fn instruction(place: Place) -> u64 {
    u64::from(place.line) << 32 | u64::from(place.index) << 1
}

impl Names {
    pub const fn new() -> Self {
        Names {
            reader: None,
            buffer: Buffer::new(),
            places: [Place {
                function: 0,
                opcodes: 0,
                index: 0,
                line: 0,
            }; DEEPEST],
            walked: 0,
        }
    }

    /// The function whose operations these are.
    fn function(&self, code: u64) -> Option<u64> {
        let walked = self.places.get(..self.walked)?;
        let found = walked.iter().find(|place| place.opcodes == code)?;
        Some(found.function)
    }
}

/// Writes a function's name and its class's, each to its first NUL: behind that stands what tells anonymous classes apart, which is another text
/// each time the class is compiled.
fn write_name(php: &Php<'_, Direct>, function: u64, out: &mut Buffer) -> Result<(), Error> {
    let Some(name) = php.function_name(function)? else {
        return php.write_function_name(function, out);
    };
    let longest = out.bytes.len() as u64;
    if let Some(class) = php.class_name(function)? {
        php.write_text(class, longest, out)?;
        out.cut();
        out.write_str("::")?;
    }
    php.write_text(name, longest, out)?;
    out.cut();
    Ok(())
}

impl Texts for Names {
    fn line(&self, _code: u64, pc: u64) -> u32 {
        (pc >> 32) as u32
    }

    fn path(&mut self, code: u64) -> &[u8] {
        self.buffer.length = 0;
        if let (Some(php), Some(function)) = (self.reader.as_ref(), self.function(code))
            && let Ok(file) = php.file(Point {
                function,
                opline: 0,
            })
        {
            let longest = self.buffer.bytes.len() as u64;
            let _ = php.write_text(file, longest, &mut self.buffer);
        }
        self.buffer.text()
    }

    fn method(&mut self, code: u64) -> &[u8] {
        self.buffer.length = 0;
        if let (Some(php), Some(function)) = (self.reader, self.function(code)) {
            let _ = write_name(&php, function, &mut self.buffer);
        }
        self.buffer.text()
    }

    fn class(&mut self, _class: u64) -> Class<'_> {
        Class::Named {
            name: b"(block)",
            internal: false,
        }
    }

    fn is_own(&mut self, _code: u64) -> bool {
        false
    }
}

/// `thread` is what the VM had in r15.
impl Script for Names {
    #[inline(always)]
    fn point(&self, register: u64) -> Option<(u64, u64)> {
        let php = self.reader.as_ref()?;
        match php.here().ok()? {
            Some(point) => {
                let place = php.place(point, register).ok()?;
                Some((place.opcodes, instruction(place)))
            }
            None => Some((0, 0)),
        }
    }

    fn frames(&mut self, register: u64, mut each: impl FnMut(u64, u64) -> Option<()>) {
        self.walked = 0;
        let Some(php) = self.reader else {
            return;
        };
        let Ok(current) = php.current() else {
            return;
        };
        let points = php.frames(current).map_while(Result::ok);
        let mut register = register;
        for point in points.filter_map(|frame| frame.point) {
            // As in `point`.
            match php.is_written(point.function) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => return,
            }
            // What is in the register is of the innermost frame.
            let Ok(place) = php.place(point, core::mem::take(&mut register)) else {
                return;
            };
            if let Some(room) = self.places.get_mut(self.walked) {
                *room = place;
                self.walked += 1;
            }
            if each(place.opcodes, instruction(place)).is_none() {
                return;
            }
        }
    }
}
