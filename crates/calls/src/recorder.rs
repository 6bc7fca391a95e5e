//! `--record`: events go into a file, and on to the format that shows them, if one does.

use crate::consumer::{Consumer, End};
use crate::event::{Call, CallEdge, Caller, Event, EventKind, Module, Opened};
use crate::signatures::Signatures;
use hooks::rings::Line;
use process::functions::Function;
use recording::{At, Head, Losses, Numbers, Writer};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Events are in the file after so long at most, unless there is more to read all the time.
const OFTEN: Duration = Duration::from_millis(200);

/// Things that were written, by their address, and kept, so that no other gets it.
type Written<T> = HashMap<usize, (Arc<T>, u32)>;

/// See the module's text.
pub struct Recorder<'a> {
    /// `None` when it is finished.
    writer: Option<Writer<BufWriter<File>>>,
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
    next: Option<Box<dyn Consumer + 'a>>,
}

impl<'a> Recorder<'a> {
    /// Begins the file, which is the user's alone.
    pub fn create(
        path: &'a Path,
        file: File,
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
        let writer =
            Writer::new(BufWriter::new(file), head).map_err(|error| named(path, &error))?;
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
            next,
        })
    }

    fn writer(&mut self) -> io::Result<&mut Writer<BufWriter<File>>> {
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
        match &event.kind {
            EventKind::Call(call) => self.call(&at, call),
            EventKind::Return(back) => self.writer()?.back(&at, back),
            kind => self.writer()?.event(&at, kind),
        }
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        for (pid, losses) in &end.losses {
            if let Some(guest) = self.guests.get(pid).copied() {
                self.writer()?.losses(Losses {
                    guest,
                    // Recordings have no kind of loss of its own for it.
                    records: losses.records + losses.panics,
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
fn named(path: &Path, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot write the recording {}: {error}; what was written before can be read",
        path.display()
    );
    io::Error::new(error.kind(), text)
}

impl Consumer for Recorder<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.write(&event)
            .map_err(|error| named(self.path, &error))?;
        match &mut self.next {
            Some(next) => next.take(event),
            None => Ok(()),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        if self.flushed.elapsed() >= OFTEN {
            let flushed = self.writer().and_then(Writer::flush);
            flushed.map_err(|error| named(self.path, &error))?;
            self.flushed = Instant::now();
        }
        match &mut self.next {
            Some(next) => next.rest(),
            None => Ok(()),
        }
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        self.end(&end).map_err(|error| named(self.path, &error))?;
        match &mut self.next {
            Some(next) => next.finish(end),
            None => Ok(()),
        }
    }
}
