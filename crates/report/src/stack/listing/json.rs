//! The stacks of a process for programs: a `process`, then for each stack a `stack` and its `frame`s, innermost first.

use std::io::{self, Write};

use frames::live::scripts::Script;
use frames::live::unwind::End;
use serde_json::{Value, json};

use super::used;
use crate::json::line;
use crate::stack::Subject;
use crate::stack::names::{parked, tid};
use crate::stack::states::for_programs;
use crate::stack::waits;

/// Writes one look.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    let record = json!({
        "record": "process",
        "pid": subject.pid,
        "command": subject.command,
        "languages": subject.languages,
        "stopped_us": subject.look.stopped.as_secs_f64() * 1e6,
        "copied": subject.look.copied,
    });
    line(out, &record)?;
    let stacks = &subject.look.stacks;
    waits::conclusions(out, subject)?;
    for (number, (stack, room)) in stacks.iter().zip(&subject.look.rooms).enumerate() {
        let record = json!({
            "record": "stack",
            "pid": subject.pid,
            "tid": tid(stack),
            "thread": stack.thread.name,
            "parked": parked(stack),
            "state": for_programs(stacks, number),
            "language": stack.language,
            "frames": stack.lines.len(),
            "whole": stack.end == End::Whole && (stack.unplaced.is_empty() || stack.lines.is_empty()),
            "used": used(stack),
            "mapped": room.mapped,
            "guard": room.guard,
            "high_water": room.high_water,
            "scanned": stack.scanned(),
            "copied": stack.copied,
            "scripts": scripts(&stack.unplaced),
        });
        line(out, &record)?;
        for frame in &stack.lines {
            let loaded = frame.module.and_then(|module| subject.modules.get(module));
            let record = json!({
                "record": "frame",
                "tid": tid(stack),
                "parked": stack.parked.as_ref().map(|one| one.object),
                "ip": frame.native.ip,
                "sp": frame.native.sp,
                "bytes": frame.bytes(),
                "module": loaded.map(|loaded| loaded.path.to_string_lossy()),
                "function": frame.function.as_ref().and_then(|function| function.name.clone()),
                "offset": frame.function.as_ref().map(|function| function.offset),
                "made_at_run_time": frame.native.made_at_run_time(),
                "objects": frame.objects,
                "scripts": scripts(&frame.scripts),
            });
            line(out, &record)?;
        }
    }
    Ok(())
}

fn scripts(scripts: &[Script]) -> Vec<Value> {
    let script = |script: &Script| json!({ "path": script.path, "line": script.line, "name": script.name, "qualified": script.qualified });
    scripts.iter().map(script).collect()
}
