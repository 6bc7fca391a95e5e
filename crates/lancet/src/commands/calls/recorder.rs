//! `--record`: what is told goes into a file, and on to whoever else wants it.

use super::signatures::Signatures;
use super::sink::{End, Sink};
use super::told::{Call, Caller, End as Ended, Module, Opened, Return, Told, Way, What};
use process::functions::Function;
use process::lanes::Line;
use recording::{At, Event, Happened, Head, Losses, Writer};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// What is told is in the file after so long at most, unless there is more to read all the time.
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
    ways: Written<Way>,
    lines: Written<Line>,
    callers: Written<Caller>,
    flushed: Instant,
    next: Option<Box<dyn Sink + 'a>>,
}

impl<'a> Recorder<'a> {
    /// Begins the file, which is the user's alone.
    pub fn create(
        path: &'a Path,
        signatures: &'a Signatures,
        next: Option<Box<dyn Sink + 'a>>,
    ) -> anyhow::Result<Self> {
        let file = crate::ui::sink::private_file(path)?;
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let head = Head {
            lancet: env!("CARGO_PKG_VERSION").into(),
            command: std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            began: since.unwrap_or_default().as_nanos() as u64,
        };
        let writer = Writer::new(BufWriter::new(file), head).map_err(|error| told(path, &error))?;
        Ok(Recorder {
            writer: Some(writer),
            path,
            signatures,
            guests: HashMap::new(),
            functions: HashMap::new(),
            modules: HashMap::new(),
            ways: HashMap::new(),
            lines: HashMap::new(),
            callers: HashMap::new(),
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

    fn function(&mut self, way: &Way) -> io::Result<u32> {
        let function = &way.function;
        let key = Arc::as_ptr(function).addr();
        if let Some((_, number)) = self.functions.get(&key) {
            return Ok(*number);
        }
        let module = self.module(&way.module)?;
        let prototype = self.signatures.text(&function.module, &function.name);
        let number = self.writer()?.function(recording::Function {
            module,
            names: way.names.to_vec(),
            address: function.address,
            size: function.size,
            prototype: prototype.unwrap_or_default(),
        })?;
        self.functions.insert(key, (function.clone(), number));
        Ok(number)
    }

    fn way(&mut self, way: &Arc<Way>) -> io::Result<u32> {
        let key = Arc::as_ptr(way).addr();
        if let Some((_, number)) = self.ways.get(&key) {
            return Ok(*number);
        }
        let function = self.function(way)?;
        let from = way.from.as_ref();
        let from = from.map(|from| self.module(from)).transpose()?;
        let number = self.writer()?.way(recording::Way {
            function,
            from,
            slots: way.slots,
        })?;
        self.ways.insert(key, (way.clone(), number));
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

    fn call(&mut self, at: At, call: &Call) -> io::Result<()> {
        let way = self.way(&call.way)?;
        let line = call.line.as_ref().map(|line| self.line(line)).transpose()?;
        let library = call.library.as_ref();
        let library = library.map(|line| self.line(line)).transpose()?;
        let callers = call.callers.iter().map(|caller| self.caller(caller));
        let callers = callers.collect::<io::Result<_>>()?;
        self.writer()?.call(&recording::Call {
            at,
            way,
            caller: call.caller,
            line,
            library,
            gp: call.registers.gp,
            sse: call.registers.sse,
            pieces: call.pieces.iter().collect(),
            callers,
        })
    }

    fn back(&mut self, at: At, back: &Return) -> io::Result<()> {
        let returned = &back.returned;
        let with_x87 = returned.x87 != [[0; 10]; 2];
        self.writer()?.back(&recording::Return {
            at,
            gp: [returned.rax, returned.rdx],
            sse: returned.sse,
            x87: with_x87.then_some(returned.x87),
            pieces: back.pieces.iter().collect(),
        })
    }

    fn event(&mut self, at: At, what: Happened) -> io::Result<()> {
        self.writer()?.event(Event {
            guest: at.guest,
            tid: at.tid,
            time: at.time,
            what,
        })
    }

    fn write(&mut self, told: &Told) -> io::Result<()> {
        if let What::Opened(opened) = &told.what {
            return self.guest(told.at.pid, opened);
        }
        let Some(guest) = self.guests.get(&told.at.pid) else {
            return Ok(());
        };
        let at = At {
            guest: *guest,
            tid: told.at.tid,
            lane: told.at.lane,
            stack: told.at.stack,
            frame: told.at.frame,
            time: told.at.time.as_nanos() as u64,
        };
        match &told.what {
            What::Opened(_) => Ok(()),
            What::Call(call) => self.call(at, call),
            What::Return(back) => self.back(at, back),
            // Calls are recorded, not what else happens.
            What::Signal(signal) => self.event(at, Happened::Signal(*signal)),
            What::Forked(child) => self.event(at, Happened::Forked(*child)),
            What::Ended(end) => self.event(
                at,
                match end {
                    Ended::Exited(code) => Happened::Exited(*code),
                    Ended::Killed(signal) => Happened::Killed(*signal),
                    Ended::Unknown => Happened::Ended,
                    Ended::Replaced => Happened::Replaced,
                },
            ),
        }
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        for (pid, losses) in &end.losses {
            if let Some(guest) = self.guests.get(pid).copied() {
                self.writer()?.losses(Losses {
                    guest,
                    records: losses.records,
                    unlaned: losses.unlaned,
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
fn told(path: &Path, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot write the recording {}: {error}; what was written before can be read",
        path.display()
    );
    io::Error::new(error.kind(), text)
}

impl Sink for Recorder<'_> {
    fn take(&mut self, one: Told) -> io::Result<()> {
        self.write(&one).map_err(|error| told(self.path, &error))?;
        match &mut self.next {
            Some(next) => next.take(one),
            None => Ok(()),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        if self.flushed.elapsed() >= OFTEN {
            let flushed = self.writer().and_then(Writer::flush);
            flushed.map_err(|error| told(self.path, &error))?;
            self.flushed = Instant::now();
        }
        match &mut self.next {
            Some(next) => next.rest(),
            None => Ok(()),
        }
    }

    fn finish(&mut self, end: End) -> io::Result<()> {
        self.end(&end).map_err(|error| told(self.path, &error))?;
        match &mut self.next {
            Some(next) => next.finish(end),
            None => Ok(()),
        }
    }
}
