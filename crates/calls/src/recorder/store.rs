//! Writes the file of a recording: what its events refer to is defined once, when it first occurs. Used by
//! `live::guest::straight`, and by `lancet::watching::run`.

use super::{Destination, not_recorded};
use crate::consumer::SourceEnd;
use crate::event::{Call, CallEdge, Caller, Event, EventKind, Module, Opened};
use crate::signatures::Signatures;
use hooks::rings::Line;
use process::functions::Function;
use recording::{
    CallRecord, Copies, Definition, Head, Losses, Place, ReturnRecord, ShortRecord, Site, Writer,
};
use std::collections::HashMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

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

/// Number of events between two checks for room, and of the time.
const BETWEEN: u32 = 64;

/// Time between two checks for data that have waited too long, and the longest time they may wait: if lancet is killed, no more than that
/// is lost.
const OFTEN: Duration = Duration::from_millis(100);
const AGE: Duration = Duration::from_millis(400);

/// The number of the stream of signals and ends of a process, which no ring has.
const NO_RING: u32 = u32::MAX - 1;

/// Things that were written, by their address; they are kept so that the address is not used again.
type Written<T> = HashMap<usize, (Arc<T>, u32)>;

/// A recording that is being written, and the numbers under which it has defined what its events refer to. All that write to one file share
/// one value ([`Recording`](super::Recording)), because a second one would assign the same numbers to other things.
pub struct Store {
    /// `None` when the file is finished.
    writer: Option<Writer<Out>>,
    path: PathBuf,
    signatures: Rc<Signatures>,
    guests: HashMap<i32, u32>,
    functions: Written<Function>,
    modules: Written<Module>,
    edges: Written<CallEdge>,
    lines: Written<Line>,
    callers: Written<Caller>,
    /// Numbers of streams by guest and ring.
    streams: HashMap<(u32, u32), u32>,
    /// The numbers of a call's frames; the buffer is reused.
    numbers: Vec<u32>,
    flushed: Instant,
    /// Whether there was room at the last check, and for how many more events that result is used.
    room: (bool, u32),
    /// For each process, how many events are not in the file.
    dropped: HashMap<i32, u64>,
    /// The first error in a place that could not return it.
    failed: Option<io::Error>,
}

impl Store {
    /// Begins the file, which only the user can read.
    pub fn create(
        path: &Path,
        file: Box<dyn Destination>,
        command: Vec<String>,
        signatures: Rc<Signatures>,
    ) -> io::Result<Self> {
        let head = Head {
            lancet: env!("CARGO_PKG_VERSION").into(),
            command,
            began: now(),
        };
        let writer = Writer::new(Out(file), head).map_err(|error| not_recorded(path, &error))?;
        Ok(Store {
            writer: Some(writer),
            path: path.to_owned(),
            signatures,
            guests: HashMap::new(),
            functions: HashMap::new(),
            modules: HashMap::new(),
            edges: HashMap::new(),
            lines: HashMap::new(),
            callers: HashMap::new(),
            streams: HashMap::new(),
            numbers: Vec::new(),
            flushed: Instant::now(),
            room: (true, 0),
            dropped: HashMap::new(),
            failed: None,
        })
    }

    fn writer(&mut self) -> io::Result<&mut Writer<Out>> {
        self.writer.as_mut().ok_or(io::ErrorKind::Other.into())
    }

    fn define(&mut self, definition: Definition) -> io::Result<u32> {
        self.writer()?.define(definition)
    }

    fn add_guest(&mut self, pid: i32, opened: &Opened) -> io::Result<()> {
        let guest = recording::Guest {
            pid,
            command: opened.command.clone(),
            vm: opened.vm.clone(),
            since: now(),
        };
        let number = self.define(Definition::Guest(guest))?;
        self.guests.insert(pid, number);
        Ok(())
    }

    /// Returns the number of a process that was opened.
    pub fn guest(&self, pid: i32) -> Option<u32> {
        self.guests.get(&pid).copied()
    }

    /// Returns the stream of a guest's ring.
    pub fn stream(&mut self, guest: u32, ring: u32) -> io::Result<u32> {
        if let Some(stream) = self.streams.get(&(guest, ring)) {
            return Ok(*stream);
        }
        let stream = self.writer()?.stream(guest, ring);
        self.streams.insert((guest, ring), stream);
        Ok(stream)
    }

    fn module(&mut self, module: &Arc<Module>) -> io::Result<u32> {
        let key = Arc::as_ptr(module).addr();
        if let Some((_, number)) = self.modules.get(&key) {
            return Ok(*number);
        }
        let number = self.define(Definition::Module(recording::Module {
            path: module.path.clone(),
            name: module.name.to_string(),
            main: module.main,
            bias: module.bias,
        }))?;
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
        let number = self.define(Definition::Function(recording::Function {
            module,
            names: edge.names.to_vec(),
            address: function.address,
            size: function.size,
            prototype: prototype.unwrap_or_default(),
        }))?;
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
        let number = self.define(Definition::CallEdge(recording::CallEdge {
            function,
            from,
            slots: edge.slots,
            inside: edge.inside.as_deref().unwrap_or_default().into(),
        }))?;
        self.edges.insert(key, (edge.clone(), number));
        Ok(number)
    }

    fn line(&mut self, line: &Arc<Line>) -> io::Result<u32> {
        let key = Arc::as_ptr(line).addr();
        if let Some((_, number)) = self.lines.get(&key) {
            return Ok(*number);
        }
        let number = self.define(Definition::Line(recording::Line {
            path: line.path.clone(),
            line: line.line,
            name: line.name.clone(),
        }))?;
        self.lines.insert(key, (line.clone(), number));
        Ok(number)
    }

    fn caller(&mut self, caller: &Arc<Caller>) -> io::Result<u32> {
        let key = Arc::as_ptr(caller).addr();
        if let Some((_, number)) = self.callers.get(&key) {
            return Ok(*number);
        }
        let (name, offset) = caller.function.clone().unwrap_or_default();
        let number = self.define(Definition::Caller(recording::Caller {
            address: caller.address,
            path: caller.path.clone().unwrap_or_default(),
            name,
            offset,
            in_file: caller.in_file,
        }))?;
        self.callers.insert(key, (caller.clone(), number));
        Ok(number)
    }

    /// Returns the site with what calls from one place have in common, and defines everything that it refers to.
    pub fn site(
        &mut self,
        edge: &Arc<CallEdge>,
        caller: u64,
        lines: [Option<&Arc<Line>>; 2],
    ) -> io::Result<Site> {
        let edge = self.edge(edge)? + 1;
        let mut numbers = [0; 2];
        for (number, line) in numbers.iter_mut().zip(lines) {
            if let Some(line) = line {
                *number = self.line(line)? + 1;
            }
        }
        let [line, library] = numbers;
        Ok(Site {
            edge,
            caller,
            line,
            library,
        })
    }

    fn call(&mut self, stream: u32, place: Place, event: &Event, call: &Call) -> io::Result<()> {
        let lines = [call.line.as_ref(), call.library.as_ref()];
        let site = self.site(&call.edge, call.caller, lines)?;
        let mut callers = std::mem::take(&mut self.numbers);
        callers.clear();
        for caller in &call.callers {
            callers.push(self.caller(caller)?);
        }
        let record = CallRecord {
            site,
            place,
            frame: event.at.frame,
            time: event.at.nanos(),
            registers: &call.registers,
            copies: Copies::Captures(&call.captures),
            callers: &callers,
        };
        self.record_call(stream, &record)?;
        self.numbers = callers;
        Ok(())
    }

    /// Writes a call into the segment of its stream; a full segment is closed.
    #[inline]
    pub fn record_call(&mut self, stream: u32, call: &CallRecord) -> io::Result<()> {
        self.writer()?.call(stream, call)
    }

    /// Like [`record_call`](Self::record_call), for a return.
    #[inline]
    pub fn record_return(&mut self, stream: u32, back: &ReturnRecord) -> io::Result<()> {
        self.writer()?.back(stream, back)
    }

    /// Like [`record_call`](Self::record_call) and [`record_return`](Self::record_return), for a call with its return. Returns false if
    /// there may not be room for it, so that each must be checked.
    #[inline]
    pub fn record_short(&mut self, stream: u32, call: &ShortRecord) -> io::Result<bool> {
        let (true, left @ 2..) = self.room else {
            return Ok(false);
        };
        self.room.1 = left - 2;
        self.writer()?.short(stream, call)?;
        Ok(true)
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        let at = &event.at;
        if let EventKind::Opened(opened) = &event.kind {
            return self.add_guest(at.process, opened);
        }
        if let EventKind::Thread(_) = event.kind {
            return Ok(());
        }
        let Some(guest) = self.guest(at.process) else {
            return Ok(());
        };
        let is_call = matches!(event.kind, EventKind::Call(_) | EventKind::Return(_));
        if is_call && !self.has_room(at.process)? {
            return Ok(());
        }
        let ring = match event.kind {
            EventKind::Signal(_) | EventKind::Ended(_) => NO_RING,
            _ => at.ring,
        };
        let stream = self.stream(guest, ring)?;
        let place = Place {
            guest,
            tid: at.tid,
            stack: at.stack,
        };
        match &event.kind {
            EventKind::Call(call) => self.call(stream, place, event, call),
            EventKind::Return(back) => {
                let back = ReturnRecord {
                    place,
                    frame: at.frame,
                    time: at.nanos(),
                    returned: &back.returned,
                    copies: Copies::Captures(&back.captures),
                };
                self.record_return(stream, &back)
            }
            EventKind::Forked(_) => self.writer()?.other(stream, place, at.nanos(), &event.kind),
            kind => {
                // It comes after all events that were reported before it.
                let writer = self.writer()?;
                let time = at.nanos().max(writer.latest());
                writer.other(stream, place, time, kind)
            }
        }
    }

    fn fails(&mut self) -> io::Result<()> {
        let failed = self.failed.take();
        failed.map_or(Ok(()), |error| Err(not_recorded(&self.path, &error)))
    }

    /// Writes an event, after the definitions of what it refers to for the first time.
    pub fn take(&mut self, event: &Event) -> io::Result<()> {
        self.fails()?;
        let written = self.write(event);
        written.map_err(|error| not_recorded(&self.path, &error))
    }

    /// Whether the next call of a process is written; this is checked from time to time.
    #[inline]
    pub fn has_room(&mut self, pid: i32) -> io::Result<bool> {
        let (room, left) = self.room;
        if room && left != 0 {
            self.room.1 -= 1;
            return Ok(true);
        }
        self.look_for_room(pid)
    }

    fn look_for_room(&mut self, pid: i32) -> io::Result<bool> {
        let (mut room, mut left) = self.room;
        if left == 0 {
            if self.flushed.elapsed() >= OFTEN {
                self.writer()?.flush_old(AGE)?;
                self.flushed = Instant::now();
            }
            (room, left) = (self.writer()?.out_mut().0.has_room(), BETWEEN);
        }
        if !room {
            self.writer()?.out_mut().0.dropped();
            *self.dropped.entry(pid).or_default() += 1;
        }
        self.room = (room, left - 1);
        Ok(room)
    }

    /// Writes data that have waited for long, because there is time for that.
    pub fn flush(&mut self) -> io::Result<()> {
        self.fails()?;
        if self.flushed.elapsed() < OFTEN {
            return Ok(());
        }
        self.flushed = Instant::now();
        let flushed = self.writer().and_then(|writer| writer.flush_old(AGE));
        flushed.map_err(|error| not_recorded(&self.path, &error))
    }

    /// Writes the losses, and the end.
    pub fn finish(&mut self, end: &SourceEnd) -> io::Result<()> {
        self.fails()?;
        let finished = self.end(end);
        finished.map_err(|error| not_recorded(&self.path, &error))
    }

    /// Notes a failure to write, which the next call returns as its error.
    pub fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    fn end(&mut self, end: &SourceEnd) -> io::Result<()> {
        // A process that has run several programs is reported once for each; what was dropped here belongs to one of them.
        let mut dropped = std::mem::take(&mut self.dropped);
        let told = end.losses.iter().map(|(pid, losses)| {
            let dropped = dropped.remove(pid).unwrap_or(0);
            // Recordings have no kind of loss for panics.
            let records = losses.records.saturating_add(losses.panics);
            (*pid, records.saturating_add(dropped), losses.without_ring)
        });
        let mut told: Vec<_> = told.collect();
        told.extend(dropped.into_iter().map(|(pid, dropped)| (pid, dropped, 0)));
        for (pid, records, without_ring) in told {
            let Some(guest) = self.guest(pid) else {
                continue;
            };
            self.define(Definition::Losses(Losses {
                guest,
                records,
                without_ring,
            }))?;
        }
        match self.writer.take() {
            Some(writer) => writer.finish().map(drop),
            None => Ok(()),
        }
    }
}

/// The time now in nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default().as_nanos() as u64
}
