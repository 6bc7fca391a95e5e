//! Combines the native and script frames of one thread. Used by `open`, `core` and others here, and by the crates
//! `report`, `calls` and `lancet`.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use process::snapshot::{Copies, Thread};
use vm::{Fault, Memory};

use super::loaded::{Function, Modules};
use super::merge::merge;
use super::scripts::{Chain, Copied, Coroutine, Objects, ScanCost, Script, Scripts};
use super::state::State;
use super::unwind::{End, Native, Reads, Unwinder};

/// One native frame, and the script frames that it runs.
#[derive(Debug, Clone)]
pub struct Line {
    #[allow(missing_docs)] // The name says it.
    pub native: Native,
    /// The number of the file its code is in, for [`Modules::get`]; `None` for code in no file.
    pub module: Option<usize>,
    /// The function, where the file is known.
    pub function: Option<Function>,
    /// The script frames it runs, innermost first.
    pub scripts: Vec<Script>,
    /// How many words of the frame look like references to objects; `None` where no collector scans it.
    pub objects: Option<u64>,
}

impl Line {
    /// Returns the size of the frame in bytes, its return address included.
    pub fn bytes(&self) -> u64 {
        self.native.cfa - self.native.sp
    }
}

/// What was on the stack of one thread, or of one fiber.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The thread. For a parked coroutine only the registers with which it goes on, and its stack, are known.
    pub thread: Thread,
    /// The coroutine that is parked on it, if no thread runs it.
    pub parked: Option<Coroutine>,
    /// Number of its bytes that are copied at each switch to and from it.
    pub copied: Option<u64>,
    /// The languages whose scripts it runs, separated by commas.
    pub language: Option<String>,
    /// What scanning the stack costs the collector of that language.
    pub scan_cost: Option<ScanCost>,
    /// The address at which that scan ends, where it is known: what lies beyond is in use, but not scanned.
    pub scan_end: Option<u64>,
    /// Its native frames, innermost first, each with the script frames that it runs.
    pub lines: Vec<Line>,
    /// How the walk ended.
    pub end: End,
    /// Whether a frame of a script could not be read, so that those outside of it are missing.
    pub is_broken: bool,
    /// Script frames for which no native frame was found; all of them if `lines` is empty.
    pub unplaced: Vec<Script>,
    /// What the thread does; `None` if not requested, and for parked coroutines and core files.
    pub state: Option<State>,
}

impl Stack {
    /// Returns its script frames, innermost first.
    pub fn scripts(&self) -> impl Iterator<Item = &Script> {
        let placed = self.lines.iter().flat_map(|line| &line.scripts);
        // If the walk reached the outer end, script frames without a native frame have just begun or ended.
        let (inner, outer) = match self.end {
            End::Whole => (Some(&self.unplaced), None),
            End::Lost(_) => (None, Some(&self.unplaced)),
        };
        let [inner, outer] = [inner, outer].map(|list| list.into_iter().flatten());
        inner.chain(placed).chain(outer)
    }

    /// The same, to be changed, in no order.
    pub(super) fn scripts_mut(&mut self) -> impl Iterator<Item = &mut Script> {
        let placed = self.lines.iter_mut().flat_map(|line| &mut line.scripts);
        placed.chain(&mut self.unplaced)
    }

    /// Returns how many bytes are in use, from rsp to the stack's outer end.
    pub fn used(&self) -> u64 {
        let end = self.inside().unwrap_or(self.thread.mapping.end);
        end.saturating_sub(self.thread.context.sp)
    }

    /// Returns the address at which the stack ends, if that is far inside of its mapping: the stack of a goroutine lies
    /// among others.
    pub fn inside(&self) -> Option<u64> {
        let last = self.lines.last()?.native.cfa;
        let beyond = self.thread.mapping.end.saturating_sub(last);
        (self.end == End::Whole && self.scan_cost.is_none() && beyond > BEYOND).then_some(last)
    }

    /// Returns how many bytes a collector scans: those in use that lie within the bounds of its scan. `None` if no collector
    /// scans the stack.
    pub fn scanned(&self) -> Option<u64> {
        let counted = self.lines.iter().any(|line| line.objects.is_some());
        let used = self.used();
        let within = |end: u64| end.saturating_sub(self.thread.context.sp).min(used);
        counted.then(|| self.scan_end.map_or(used, within))
    }

    /// Returns how many bytes of a frame a collector scans.
    pub fn scanned_of(&self, line: &Line) -> u64 {
        let frame = self.scanned_part(&line.native);
        frame.end.saturating_sub(frame.start)
    }

    fn scanned_part(&self, native: &Native) -> Range<u64> {
        let end = self.scan_end.unwrap_or(u64::MAX);
        native.sp.min(end)..native.cfa.min(end)
    }

    /// Returns how many words of the scanned frames look like references to objects.
    pub fn references(&self) -> u64 {
        self.lines.iter().filter_map(|line| line.objects).sum()
    }

    /// Returns how long each collection is predicted to take for this stack, with what is marked with it in the processor's
    /// cache, and without; `None` if no collector scans it.
    pub fn cost(&self) -> Option<[Duration; 2]> {
        let scanned = self.scanned()?;
        Some(self.scan_cost?.of_stack(scanned, self.references()))
    }
}

/// The data of a process that are needed to read stacks.
pub struct Process<'a> {
    /// The files it has loaded.
    pub modules: &'a Modules,
    /// The VMs that run in it.
    pub vms: &'a [Box<dyn Scripts>],
    /// Its memory: as copied, or, where nothing was copied, as it is now.
    pub memory: &'a dyn Memory,
    /// What was copied while it stood still.
    pub copies: &'a Copies,
}

impl<'a> Process<'a> {
    /// Returns the memory that a walk along `stack` reads; `hosts` are the functions of the VMs' [`Scripts::host`].
    fn reads(&self, stack: &'a dyn Memory, hosts: &'a [Range<u64>]) -> Reads<'a> {
        Reads {
            modules: self.modules,
            stack,
            memory: self.memory,
            hosts,
        }
    }
}

/// Reads one thread's stack. `objects` are the heap slots of each VM, if references are counted.
pub fn read(
    process: &Process,
    unwinder: &mut Unwinder,
    thread: &Thread,
    objects: &[Option<Objects>],
) -> Stack {
    let mut stack = natives(process, unwinder, thread, process.copies);
    let mut languages = Vec::new();
    for (vm, objects) in process.vms.iter().zip(objects) {
        if let Some(chain) = vm.frames(process.memory, thread, process.copies) {
            languages.push(vm.language());
            let end = || vm.scan_end(process.memory, thread, process.copies);
            stack.scan_end = stack.scan_end.or_else(end);
            stack.add(process, vm.as_ref(), chain, objects.as_ref());
        }
    }
    stack.language = (!languages.is_empty()).then(|| languages.join(", "));
    stack
}

/// Reads the stack of a coroutine of the VM with index `vm`. It lies in `mapping`, if it has one.
pub fn read_parked(
    process: &Process,
    unwinder: &mut Unwinder,
    (vm, one): &(usize, Coroutine),
    mapping: &dyn Fn(u64) -> Range<u64>,
    objects: &[Option<Objects>],
) -> Option<Stack> {
    let objects = objects.get(*vm).and_then(Option::as_ref);
    let vm = process.vms.get(*vm)?;
    let parked = vm.parked(process.memory, one)?;
    let thread = Thread {
        tid: 0,
        own_id: 0,
        name: String::new(),
        main: false,
        context: parked.context.unwrap_or_default(),
        mapping: match &parked.context {
            Some(context) if parked.stack.is_empty() => mapping(context.sp),
            // The first greenlet of a thread has the end of all memory as the end of its stack.
            _ if parked.stack.end == u64::MAX => {
                parked.stack.start..mapping(parked.stack.start).end
            }
            _ => parked.stack,
        },
        activity: process::snapshot::Activity::Unknown,
    };
    let mut stack = match (&parked.context, &parked.copied) {
        (None, _) => Stack::empty(&thread),
        (Some(_), None) => natives(process, unwinder, &thread, process.copies),
        (Some(_), Some(copied)) => spread(process, unwinder, &thread, copied),
    };
    stack.language = Some(vm.language());
    stack.copied = parked.copied.as_ref().map(Copied::size);
    stack.parked = Some(one.clone());
    let Thread {
        context, mapping, ..
    } = &stack.thread;
    stack.scan_end = vm.parked_scan_end(process.memory, one, mapping, context.sp);
    let chain = vm.coroutine(process.memory, one);
    stack.add(process, vm.as_ref(), chain, objects);
    Some(stack)
}

impl Stack {
    pub(super) fn empty(thread: &Thread) -> Stack {
        Stack {
            thread: thread.clone(),
            parked: None,
            copied: None,
            language: None,
            scan_cost: None,
            scan_end: None,
            lines: Vec::new(),
            end: End::Whole,
            is_broken: false,
            unplaced: Vec::new(),
            state: None,
        }
    }

    /// Adds the script frames that a VM has for the stack, and counts the references if `objects` are given.
    fn add(
        &mut self,
        process: &Process,
        vm: &dyn Scripts,
        chain: Chain,
        objects: Option<&Objects>,
    ) {
        self.scan_cost = self.scan_cost.or(vm.scan_cost());
        self.is_broken |= !chain.is_whole;
        let whole = self.end == End::Whole && chain.is_whole;
        let unplaced = merge(&mut self.lines, chain.scripts, vm.runner(), whole);
        self.unplaced.extend(unplaced);
        let Some(objects) = objects else {
            return;
        };
        let parts: Vec<Range<u64>> = self
            .lines
            .iter()
            .map(|line| self.scanned_part(&line.native))
            .collect();
        for (line, part) in self.lines.iter_mut().zip(parts) {
            if part.is_empty() {
                continue;
            }
            let copied = process.copies.parts(part).unwrap_or_default();
            let counted = copied.iter().map(|(_, bytes)| objects.count(bytes));
            line.objects = Some(counted.sum());
        }
    }
}

/// Limit of the bytes above the frame of a thread's first function: its arguments and environment, or its thread-local
/// data.
const BEYOND: u64 = 256 << 10;

/// Number of bytes that a fiber's first function leaves unused at the outer end of its stack.
const OUTERMOST: u64 = 128;

/// Whether reading a thread's stack needs registers that can be read only of a stopped thread.
pub fn needs_registers(process: &Process, unwinder: &mut Unwinder, thread: &Thread) -> bool {
    let hosts: Vec<Range<u64>> = process.vms.iter().filter_map(|vm| vm.host()).collect();
    let outermost = |native: &Native| thread.mapping.end.saturating_sub(native.sp) <= OUTERMOST;
    let reads = process.reads(process.copies, &hosts);
    !unwinder.walks_without_rbp(thread.context, reads, &outermost)
}

/// Walks along the native frames of a stack, for what is read of it.
pub(super) fn walk(
    process: &Process,
    unwinder: &mut Unwinder,
    thread: &Thread,
    stack: &dyn Memory,
) {
    let hosts: Vec<Range<u64>> = process.vms.iter().filter_map(|vm| vm.host()).collect();
    unwinder.walk(thread.context, process.reads(stack, &hosts));
}

/// Returns the native frames of a stack.
fn natives(
    process: &Process,
    unwinder: &mut Unwinder,
    thread: &Thread,
    stack: &dyn Memory,
) -> Stack {
    let hosts = process.vms.iter().filter_map(|vm| vm.host());
    let hosts: Vec<Range<u64>> = hosts.collect();
    let (natives, end) = unwinder.walk(thread.context, process.reads(stack, &hosts));
    // A fiber's first function has no caller, and its call frame information may not say so.
    let rest = |native: &Native| thread.mapping.end.saturating_sub(native.sp);
    let end = match natives.last() {
        Some(last) if rest(last) <= OUTERMOST => End::Whole,
        _ => end,
    };
    Stack {
        lines: natives
            .into_iter()
            .map(|native| line(process, native))
            .collect(),
        end,
        ..Stack::empty(thread)
    }
}

/// Reads a stack of which a part is copied away, because another stack uses its addresses now. Behind its end lie the
/// present frames of the function that began it.
fn spread(process: &Process, unwinder: &mut Unwinder, thread: &Thread, copied: &Copied) -> Stack {
    let memory = Spread {
        copies: process.copies,
        copied,
        end: thread.mapping.end,
        ended: Cell::new(false),
    };
    let mut stack = natives(process, unwinder, thread, &memory);
    if memory.ended.get()
        && let Some(last) = stack.lines.last_mut()
    {
        last.native.cfa = memory.end;
        stack.end = End::Whole;
    }
    stack
}

/// The memory of a stack of which a part was copied away.
struct Spread<'a> {
    copies: &'a Copies,
    copied: &'a Copied,
    end: u64,
    /// Whether memory behind the end was read.
    ended: Cell<bool>,
}

impl Memory for Spread<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let length = into.len() as u64;
        if at.checked_add(length).is_none_or(|next| next > self.end) {
            self.ended.set(true);
            return Err(Fault { at });
        }
        match self.copied.find(at) {
            None => self.copies.read(at, into),
            Some((lies, rest)) if rest >= length => self.copies.read(lies, into),
            Some((lies, rest)) => {
                let (first, second) = into.split_at_mut(rest as usize);
                self.copies.read(lies, first)?;
                self.copies.read(at + rest, second)
            }
        }
    }
}

fn line(process: &Process, native: Native) -> Line {
    let module = process.modules.number(native.lookup);
    let function = module
        .and_then(|module| process.modules.get(module))
        .map(|loaded| loaded.function(process.memory, native.lookup));
    Line {
        native,
        module,
        function,
        scripts: Vec::new(),
        objects: None,
    }
}
