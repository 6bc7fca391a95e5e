//! Native and script frames of one thread, put together.

use std::ops::Range;

use process::snapshot::{Copies, Thread};
use vm::Memory;

use super::loaded::{Function, Modules};
use super::merge::merge;
use super::scripts::{Objects, ScanCost, Script, Scripts};
use super::unwind::{End, Native, Unwinder};

/// One native frame, and what it runs.
#[derive(Debug, Clone)]
pub struct Line {
    /// The frame.
    pub native: Native,
    /// The number of the file its code is in.
    pub module: Option<usize>,
    /// The function.
    pub function: Option<Function>,
    /// The script frames it runs, innermost first.
    pub scripts: Vec<Script>,
    /// Words in the frame that look like references to objects; `None` where no collector scans it.
    pub objects: Option<u64>,
}

impl Line {
    /// The size of the frame.
    pub fn bytes(&self) -> u64 {
        self.native.cfa - self.native.sp
    }
}

/// What was on one thread's stack.
#[derive(Debug, Clone)]
pub struct Stack {
    /// The thread.
    pub thread: Thread,
    /// The language whose scripts it runs.
    pub language: Option<String>,
    /// What scanning it costs that language's collector.
    pub scan_cost: Option<ScanCost>,
    /// Its frames, innermost first.
    pub lines: Vec<Line>,
    /// How the walk ended.
    pub end: End,
    /// Script frames that no native frame was found for.
    pub homeless: Vec<Script>,
}

impl Stack {
    /// From rsp to the stack's outer end.
    pub fn used(&self) -> u64 {
        self.thread.mapping.end.saturating_sub(self.thread.place.sp)
    }

    /// The addresses that are in use.
    pub fn range(&self) -> Range<u64> {
        self.thread.place.sp..self.thread.mapping.end
    }

    /// Bytes a collector scans: all that is in use.
    pub fn scanned(&self) -> Option<u64> {
        self.lines
            .iter()
            .any(|line| line.objects.is_some())
            .then(|| self.used())
    }
}

/// What reading stacks needs to know of a process.
pub struct Process<'a> {
    /// Its files.
    pub modules: &'a Modules,
    /// Its VMs.
    pub vms: &'a [Box<dyn Scripts>],
    /// Its memory, copies first.
    pub memory: &'a dyn Memory,
    /// The copies.
    pub copies: &'a Copies,
}

/// Reads one thread's stack. `objects` belong to `vms`, one each, where they are to be counted.
pub fn read(
    process: &Process,
    unwinder: &mut Unwinder,
    thread: &Thread,
    objects: &[Option<Objects>],
) -> Stack {
    let (natives, end) = unwinder.walk(
        process.modules,
        thread.place,
        process.copies,
        process.memory,
    );
    let mut lines: Vec<Line> = natives
        .into_iter()
        .map(|native| line(process, native))
        .collect();
    let (mut languages, mut scan_cost) = (Vec::new(), None);
    let mut homeless = Vec::new();
    for (vm, objects) in process.vms.iter().zip(objects) {
        let Some(scripts) = vm.frames(process.memory, thread, process.copies) else {
            continue;
        };
        languages.push(vm.language());
        scan_cost = scan_cost.or(vm.scan_cost());
        let whole = end == End::Whole;
        homeless.extend(merge(&mut lines, scripts, vm.runner(), whole));
        if let Some(objects) = objects {
            for line in &mut lines {
                let frame = line.native.sp..line.native.cfa;
                line.objects = Some(
                    process
                        .copies
                        .slice(frame)
                        .map_or(0, |bytes| objects.count(bytes)),
                );
            }
        }
    }
    Stack {
        thread: thread.clone(),
        language: (!languages.is_empty()).then(|| languages.join(", ")),
        scan_cost,
        lines,
        end,
        homeless,
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
