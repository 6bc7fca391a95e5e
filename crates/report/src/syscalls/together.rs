//! Lines, and the table behind them (`-C`). Used by `lancet::commands::syscalls::args` and `lancet::watching::run`.

use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::Event;
use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

/// An output that two consumers share: what either writes goes to the same place, in the order in which they write.
#[derive(Clone)]
pub struct SharedOutput(Rc<RefCell<Box<dyn Write>>>);

impl SharedOutput {
    /// Makes an output that all clones of it write to.
    #[must_use]
    pub fn new(out: Box<dyn Write>) -> Self {
        SharedOutput(Rc::new(RefCell::new(out)))
    }
}

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// Hands each event to two consumers. At the end the first is finished before the second, so that the table stands behind the lines.
pub struct Together<'a> {
    first: Box<dyn Consumer + 'a>,
    second: Box<dyn Consumer + 'a>,
}

impl<'a> Together<'a> {
    /// Makes one consumer of two.
    #[must_use]
    pub fn new(first: Box<dyn Consumer + 'a>, second: Box<dyn Consumer + 'a>) -> Self {
        Together { first, second }
    }
}

impl Consumer for Together<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.second.take(event.clone())?;
        self.first.take(event)
    }

    fn rest(&mut self) -> io::Result<()> {
        self.first.rest()
    }

    fn forgotten(&self) -> Forgotten {
        self.first.forgotten().max(self.second.forgotten())
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        self.first.finish(SourceEnd::default())?;
        self.second.finish(end)
    }
}
