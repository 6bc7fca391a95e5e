//! Writing a recording.

use crate::codec::State;
use crate::event::{At, Call, EventKind, Numbers, Return};
use crate::item::{CallEdge, Caller, Function, Guest, Head, Item, Line, Losses, Module};
use crate::{MAGIC, SEGMENT, VERSION};
use std::io::{self, Write};

/// Writes a recording, segment by segment. What was written before the last [`Writer::flush`] can be read, whatever
/// happens to the writer later.
pub struct Writer<W> {
    out: W,
    state: State,
    items: Vec<u8>,
    packed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    pub fn new(mut out: W, head: Head) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut writer = Writer {
            out,
            state: State::default(),
            items: Vec::new(),
            packed: Vec::new(),
        };
        writer.state.anew();
        writer.put(&Item::Head(head))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Where it writes to.
    pub fn out_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn put(&mut self, item: &Item) -> io::Result<u32> {
        let number = self.state.put(&mut self.items, item);
        self.spill()?;
        Ok(number)
    }

    #[inline]
    fn spill(&mut self) -> io::Result<()> {
        if self.items.len() >= SEGMENT {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes a process and returns its number.
    pub fn guest(&mut self, guest: Guest) -> io::Result<u32> {
        self.put(&Item::Guest(guest))
    }

    /// Writes a module and returns its number.
    pub fn module(&mut self, module: Module) -> io::Result<u32> {
        self.put(&Item::Module(module))
    }

    /// Writes a function of a module that was written, and returns its number.
    pub fn function(&mut self, function: Function) -> io::Result<u32> {
        self.put(&Item::Function(function))
    }

    /// Writes a call edge between items that were written, and returns its number.
    pub fn edge(&mut self, edge: CallEdge) -> io::Result<u32> {
        self.put(&Item::CallEdge(edge))
    }

    /// Writes a script line and returns its number.
    pub fn line(&mut self, line: Line) -> io::Result<u32> {
        self.put(&Item::Line(line))
    }

    /// Writes a native frame and returns its number.
    pub fn caller(&mut self, caller: Caller) -> io::Result<u32> {
        self.put(&Item::Caller(caller))
    }

    /// Writes a call. `numbers` are those of items that were written before; the names in `call` itself are ignored.
    #[inline]
    pub fn call<E, L, F>(
        &mut self,
        at: &At,
        numbers: Numbers,
        call: &Call<E, L, F>,
    ) -> io::Result<()> {
        self.state.put_call(&mut self.items, at, numbers, call);
        self.spill()
    }

    /// Writes a return.
    #[inline]
    pub fn back(&mut self, at: &At, back: &Return) -> io::Result<()> {
        self.state.put_return(&mut self.items, at, back);
        self.spill()
    }

    /// Writes a signal, a fork or an end. Events of other kinds are ignored.
    pub fn event<C>(&mut self, at: &At, kind: &EventKind<C>) -> io::Result<()> {
        if let EventKind::Signal(_) | EventKind::Forked(_) | EventKind::Ended(_) = kind {
            self.state.put_event(&mut self.items, at, kind);
            self.spill()?;
        }
        Ok(())
    }

    /// Writes what was lost of a guest's events.
    pub fn losses(&mut self, losses: Losses) -> io::Result<()> {
        self.put(&Item::Losses(losses)).map(drop)
    }

    /// Writes the items taken so far as a segment, and flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.items.is_empty() {
            return Ok(());
        }
        let most = lz4_flex::block::get_maximum_output_size(self.items.len());
        self.packed.resize(most, 0);
        let packed = lz4_flex::block::compress_into(&self.items, &mut self.packed)
            .map_err(io::Error::other)?;
        let packed = &self.packed[..packed];
        let sum = crc32fast::hash(packed);
        for word in [packed.len() as u32, self.items.len() as u32, sum] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        self.out.write_all(packed)?;
        self.out.flush()?;
        self.items.clear();
        self.state.anew();
        Ok(())
    }

    /// Writes the last item and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.put(&Item::End)?;
        self.flush()?;
        Ok(self.out)
    }
}
