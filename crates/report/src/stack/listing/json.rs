//! The stacks of a process for programs: a `process`, then for each stack a `stack` and its `frame`s, innermost first.
//! Used by `lancet::commands::stack::live`.

use std::io::{self, Write};

use answer::place::{Address, Place};
use answer::stack::{Record, Stack};
use answer::time::nanos;
use frames::live::scripts::Script;
use frames::live::unwind::End;

use super::used;
use crate::json::line;
use crate::stack::Subject;
use crate::stack::names::{parked, tid};
use crate::stack::states::{for_programs, place};
use crate::stack::waits;

/// Writes one look.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    let pid = subject.pid;
    line(out, &Record::Process(subject.process()))?;
    let look = Record::Look {
        pid,
        stopped_ns: nanos(subject.look.stopped),
        copied: subject.look.copied,
    };
    line(out, &look)?;
    let stacks = &subject.look.stacks;
    waits::conclusions(out, subject)?;
    for (number, (stack, room)) in stacks.iter().zip(&subject.look.rooms).enumerate() {
        let whole = stack.end == End::Whole
            && !stack.is_broken
            && (stack.unplaced.is_empty() || stack.lines.is_empty());
        let record = Stack {
            pid,
            tid: tid(stack),
            thread: &stack.thread.name,
            parked: parked(stack),
            state: for_programs(stacks, number),
            language: stack.language.as_deref(),
            frames: stack.lines.len(),
            whole,
            used: used(stack),
            mapped: room.mapped,
            guard: room.guard,
            high_water: room.high_water,
            scanned: stack.scanned(),
            copied: stack.copied,
            scripts: places(&stack.unplaced),
        };
        line(out, &Record::Stack(Box::new(record)))?;
        for frame in &stack.lines {
            let loaded = frame.module.and_then(|module| subject.modules.get(module));
            let function = frame.function.as_ref();
            let record = Record::Frame {
                tid: tid(stack),
                parked: stack.parked.as_ref().map(|one| Address(one.object)),
                ip: Address(frame.native.ip),
                sp: Address(frame.native.sp),
                bytes: frame.bytes(),
                module: loaded.map(|loaded| loaded.path.to_string_lossy().into_owned()),
                function: function.and_then(|function| function.name.clone()),
                offset: function.map(|function| function.offset),
                made_at_run_time: frame.native.made_at_run_time(),
                objects: frame.objects,
                scripts: places(&frame.scripts),
            };
            line(out, &record)?;
        }
    }
    Ok(())
}

fn places(scripts: &[Script]) -> Vec<Place<'_>> {
    scripts.iter().map(place).collect()
}
