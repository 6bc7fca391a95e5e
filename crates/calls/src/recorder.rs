//! `--record`: events go into a file, and on to the format that shows them, if one does.

use crate::consumer::{Consumer, End};
use crate::event::{Call, CallEdge, Caller, Event, EventKind, Module, Opened};
use crate::signatures::Signatures;
use hooks::rings::Line;
use process::functions::Function;
use recording::{At, Head, Losses, Numbers, Writer};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Where a recording goes. It may take what is written from a thread of its own, so that nobody waits for a slow disk.
pub trait Destination: Write {
    /// Whether there is room for more events. Where there is none in time, they are not written, and
    /// [`dropped`](Self::dropped) is called for each; what was written before stays whole.
    fn has_room(&mut self) -> bool;

    /// An event is not recorded.
    fn dropped(&mut self);
}

/// Gives a writer to [`Writer`], and keeps it in reach.
struct Out(Box<dyn Destination>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// So many events are written between two questions for room.
const BETWEEN: u32 = 64;

/// Events are in the file after so long at most, unless there is more to read all the time.
const OFTEN: Duration = Duration::from_millis(200);

/// Things that were written, by their address, and kept, so that no other gets it.
type Written<T> = HashMap<usize, (Arc<T>, u32)>;

/// See the module's text.
pub struct Recorder<'a> {
    /// `None` when it is finished.
    writer: Option<Writer<Out>>,
    path: &'a Path,
    signatures: &'a Signatures,
    guests: HashMap<i32, u32>,
    functions: Written<Function>,
    modules: Written<Module>,
    edges: Written<CallEdge>,
    lines: Written<Line>,
    callers: Written<Caller>,
    /// The numbers of a call's frames: room that is used again.
    numbers: Vec<u32>,
    flushed: Instant,
    /// Whether there was room when it was asked for last, and for how many events the answer holds.
    room: (bool, u32),
    /// Events that are not in the file, of each process.
    dropped: HashMap<i32, u64>,
    next: Option<Box<dyn Consumer + 'a>>,
}

impl<'a> Recorder<'a> {
    /// Begins the file, which is the user's alone.
    pub fn create(
        path: &'a Path,
        file: Box<dyn Destination>,
        command: Vec<String>,
        signatures: &'a Signatures,
        next: Option<Box<dyn Consumer + 'a>>,
    ) -> io::Result<Self> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let head = Head {
            lancet: env!("CARGO_PKG_VERSION").into(),
            command,
            began: since.unwrap_or_default().as_nanos() as u64,
        };
        let writer = Writer::new(Out(file), head).map_err(|error| not_recorded(path, &error))?;
        Ok(Recorder {
            writer: Some(writer),
            path,
            signatures,
            guests: HashMap::new(),
            functions: HashMap::new(),
            modules: HashMap::new(),
            edges: HashMap::new(),
            lines: HashMap::new(),
            callers: HashMap::new(),
            numbers: Vec::new(),
            flushed: Instant::now(),
            room: (true, 0),
            dropped: HashMap::new(),
            next,
        })
    }

    fn writer(&mut self) -> io::Result<&mut Writer<Out>> {
        self.writer.as_mut().ok_or(io::ErrorKind::Other.into())
    }

    fn guest(&mut self, pid: i32, opened: &Opened) -> io::Result<()> {
        let guest = recording::Guest {
            pid,
            command: opened.command.clone(),
            vm: opened.vm.clone(),
        };
        let number = self.writer()?.guest(guest)?;
        self.guests.insert(pid, number);
        Ok(())
    }

    fn module(&mut self, module: &Arc<Module>) -> io::Result<u32> {
        let key = Arc::as_ptr(module).addr();
        if let Some((_, number)) = self.modules.get(&key) {
            return Ok(*number);
        }
        let number = self.writer()?.module(recording::Module {
            path: module.path.clone(),
            name: module.name.to_string(),
            main: module.main,
            bias: module.bias,
        })?;
        self.modules.insert(key, (module.clone(), number));
        Ok(number)
    }

    fn function(&mut self, edge: &CallEdge) -> io::Result<u32> {
        let function = &edge.function;
        let key = Arc::as_ptr(function).addr();
        if let Some((_, number)) = self.functions.get(&key) {
            return Ok(*number);
        }
        let module = self.module(&edge.module)?;
        let prototype = self.signatures.text(&function.module, &function.name);
        let number = self.writer()?.function(recording::Function {
            module,
            names: edge.names.to_vec(),
            address: function.address,
            size: function.size,
            prototype: prototype.unwrap_or_default(),
        })?;
        self.functions.insert(key, (function.clone(), number));
        Ok(number)
    }

    fn edge(&mut self, edge: &Arc<CallEdge>) -> io::Result<u32> {
        let key = Arc::as_ptr(edge).addr();
        if let Some((_, number)) = self.edges.get(&key) {
            return Ok(*number);
        }
        let function = self.function(edge)?;
        let from = edge.from.as_ref();
        let from = from.map(|from| self.module(from)).transpose()?;
        let number = self.writer()?.edge(recording::CallEdge {
            function,
            from,
            slots: edge.slots,
        })?;
        self.edges.insert(key, (edge.clone(), number));
        Ok(number)
    }

    fn line(&mut self, line: &Arc<Line>) -> io::Result<u32> {
        let key = Arc::as_ptr(line).addr();
        if let Some((_, number)) = self.lines.get(&key) {
            return Ok(*number);
        }
        let number = self.writer()?.line(recording::Line {
            path: line.path.clone(),
            line: line.line,
            name: line.name.clone(),
        })?;
        self.lines.insert(key, (line.clone(), number));
        Ok(number)
    }

    fn caller(&mut self, caller: &Arc<Caller>) -> io::Result<u32> {
        let key = Arc::as_ptr(caller).addr();
        if let Some((_, number)) = self.callers.get(&key) {
            return Ok(*number);
        }
        let (name, offset) = caller.function.clone().unwrap_or_default();
        let number = self.writer()?.caller(recording::Caller {
            address: caller.address,
            path: caller.path.clone().unwrap_or_default(),
            name,
            offset,
        })?;
        self.callers.insert(key, (caller.clone(), number));
        Ok(number)
    }

    fn call(&mut self, at: &At, call: &Call) -> io::Result<()> {
        let edge = self.edge(&call.edge)?;
        let line = call.line.as_ref().map(|line| self.line(line)).transpose()?;
        let library = call.library.as_ref();
        let library = library.map(|line| self.line(line)).transpose()?;
        let mut callers = std::mem::take(&mut self.numbers);
        callers.clear();
        for caller in &call.callers {
            callers.push(self.caller(caller)?);
        }
        let numbers = Numbers {
            edge,
            line,
            library,
            callers: &callers,
        };
        self.writer()?.call(at, numbers, call)?;
        self.numbers = callers;
        Ok(())
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        if let EventKind::Opened(opened) = &event.kind {
            return self.guest(event.at.process, opened);
        }
        let Some(guest) = self.guests.get(&event.at.process) else {
            return Ok(());
        };
        let at = event.at.named(*guest);
        let is_call = matches!(event.kind, EventKind::Call(_) | EventKind::Return(_));
        if is_call && !self.has_room()? {
            *self.dropped.entry(event.at.process).or_default() += 1;
            return Ok(());
        }
        match &event.kind {
            EventKind::Call(call) => self.call(&at, call),
            EventKind::Return(back) => self.writer()?.back(&at, back),
            kind => self.writer()?.event(&at, kind),
        }
    }

    /// Whether the next call is written; the answer is asked for from time to time.
    fn has_room(&mut self) -> io::Result<bool> {
        let (room, left) = self.room;
        let out = &mut self.writer()?.out_mut().0;
        let (room, left) = match left {
            0 => (out.has_room(), BETWEEN),
            left => (room, left),
        };
        if !room {
            out.dropped();
        }
        self.room = (room, left - 1);
        Ok(room)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        for (pid, losses) in &end.losses {
            if let Some(guest) = self.guests.get(pid).copied() {
                let dropped = self.dropped.get(pid).copied().unwrap_or(0);
                self.writer()?.losses(Losses {
                    guest,
                    // Recordings have no kinds of loss of their own for these.
                    records: losses
                        .records
                        .saturating_add(losses.panics)
                        .saturating_add(dropped),
                    without_ring: losses.without_ring,
                })?;
            }
        }
        match self.writer.take() {
            Some(writer) => writer.finish().map(drop),
            None => Ok(()),
        }
    }
}

/// An error of the file, with its name.
pub fn not_recorded(path: &Path, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot write the recording {}: {error}; what was written before can be read",
        path.display()
    );
    io::Error::new(error.kind(), text)
}

impl Consumer for Recorder<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.write(&event)
            .map_err(|error| not_recorded(self.path, &error))?;
        match &mut self.next {
            Some(next) => next.take(event),
            None => Ok(()),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        if self.flushed.elapsed() >= OFTEN {
            let flushed = self.writer().and_then(Writer::flush);
            flushed.map_err(|error| not_recorded(self.path, &error))?;
            self.flushed = Instant::now();
        }
        match &mut self.next {
            Some(next) => next.rest(),
            None => Ok(()),
        }
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        self.end(&end)
            .map_err(|error| not_recorded(self.path, &error))?;
        match &mut self.next {
            Some(next) => next.finish(end),
            None => Ok(()),
        }
    }
}
