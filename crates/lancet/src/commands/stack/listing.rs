//! Stacks, written down: for people, and one object a line for programs.
//!
//! ```text
//! ruby app.rb (PID 4242), Ruby 3.1.2; stood still for 38 µs while 24.1 KiB were copied
//!
//! thread 4242 ruby: 31 frames, 12.0 KiB in use, 136 KiB mapped, at most 31.9 KiB ever used
//! the collector scans 12.0 KiB of it, with 211 words like references to objects
//!
//!   bytes      all  objects
//!      64       64        0  libc.so.6: read+0x1a
//!     …
//!     240    1,904       11  libruby-3.1.so.3.1: rb_vm_exec+0x12f
//!                              app.rb:12 in block in serve
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;

use export::figures::{grouped, pause, plural, size};
use export::text::printable;
use frames::live::loaded::Modules;
use frames::live::open::Look;
use frames::live::scripts::Script;
use frames::live::stack::{Line, Stack};
use frames::live::unwind::End;
use process::snapshot::Room;
use serde_json::json;

use super::repeats::stretches;

/// A frame of this size is warned of: a few of them fill a fiber's stack, and each collection scans it.
pub const BIG: u64 = 16 << 10;

/// One look at one process.
pub struct Subject<'a> {
    /// The process.
    pub pid: i32,
    /// Its command line.
    pub command: &'a str,
    /// Its files.
    pub modules: &'a Modules,
    /// Its memory.
    pub memory: &'a dyn vm::Memory,
    /// What runs in it.
    pub languages: Vec<String>,
    /// It comes from a core file.
    pub dead: bool,
    /// What was seen.
    pub look: &'a Look,
}

/// Writes it for people, at most `rows` frames of each stack.
pub fn text(out: &mut dyn Write, subject: &Subject, rows: usize) -> std::io::Result<()> {
    let languages = &subject.languages;
    let language = if languages.is_empty() {
        String::new()
    } else {
        format!(", {}", languages.join(", "))
    };
    let how = match subject.dead {
        true => "as it was when the core was written".to_owned(),
        false => {
            let (stopped, copied) = (pause(subject.look.stopped), size(subject.look.copied));
            format!("stood still for {stopped} while {copied} were copied")
        }
    };
    writeln!(
        out,
        "{} (PID {}){language}; {how}",
        printable(subject.command),
        subject.pid
    )?;
    warnings(out, subject)?;
    switches(out, subject)?;
    for (stack, room) in subject.look.stacks.iter().zip(&subject.look.rooms) {
        writeln!(out)?;
        head(out, stack, room)?;
        frames(out, subject, stack, rows)?;
    }
    Ok(())
}

/// The biggest frames first, before everything else; those of one place together, however many threads stand there.
fn warnings(out: &mut dyn Write, subject: &Subject) -> std::io::Result<()> {
    let mut big: BTreeMap<(Reverse<u64>, String, bool), Vec<&Stack>> = BTreeMap::new();
    for stack in &subject.look.stacks {
        for line in stack.lines.iter().filter(|line| line.bytes() >= BIG) {
            let key = (
                Reverse(line.bytes()),
                place(subject, line),
                line.objects.is_some(),
            );
            big.entry(key).or_default().push(stack);
        }
    }
    for ((Reverse(bytes), place, scanned), mut stacks) in big {
        let bytes = grouped(bytes);
        let (frames, them) = match stacks.len() as u64 {
            1 => (format!("a frame of {bytes} bytes"), "it"),
            count => (
                format!("{} frames of {bytes} bytes", grouped(count)),
                "them",
            ),
        };
        stacks.dedup_by(|one, other| std::ptr::eq(*one, *other));
        let first = match &stacks[0].parked {
            None => format!("thread {}", stacks[0].thread.tid),
            Some(_) => whose(stacks[0]),
        };
        let on = match stacks.len() as u64 - 1 {
            0 => format!("the stack of {first}"),
            more => format!("the stacks of {first} and {} more", grouped(more)),
        };
        let scans = if scanned {
            format!("; every collection scans {them}")
        } else {
            String::new()
        };
        writeln!(out, "warning: {place} has {frames} on {on}{scans}")?;
    }
    Ok(())
}

/// What switching between coroutines costs that share a thread's stack.
fn switches(out: &mut dyn Write, subject: &Subject) -> std::io::Result<()> {
    let sharing = |stack: &&Stack| stack.copied.is_some();
    let sharing: Vec<&Stack> = subject.look.stacks.iter().filter(sharing).collect();
    let bytes = |stack: &&Stack| stack.copied.unwrap_or(0);
    let Some(most) = sharing.iter().copied().max_by_key(bytes) else {
        return Ok(());
    };
    let all: u64 = sharing.iter().map(bytes).sum();
    let count = sharing.len() as u64;
    writeln!(
        out,
        "{count} {} parked, {} of their stacks lie copied; each switch copies {} bytes there or back, on average, at most {} ({})",
        plural(count, "greenlet is", "greenlets are"),
        size(all),
        grouped(all / count),
        grouped(bytes(&most)),
        whose(most)
    )
}

fn head(out: &mut dyn Write, stack: &Stack, room: &Room) -> std::io::Result<()> {
    let guard = if room.guard > 0 {
        format!(", guard {}", size(room.guard))
    } else {
        String::new()
    };
    let high_water = match room.high_water {
        0 => String::new(),
        bytes => format!(", at most {} ever used", size(bytes)),
    };
    let kind = if stack.parked.is_none() {
        "thread "
    } else {
        ""
    };
    write!(out, "{kind}{}: ", whose(stack))?;
    let frames = |count: usize| plural(count as u64, "frame", "frames");
    let used = size(used(stack));
    match (stack.lines.len(), stack.homeless.len()) {
        (0, scripts) => write!(
            out,
            "{} script {}",
            grouped(scripts as u64),
            frames(scripts)
        )?,
        (count, _) => write!(out, "{} {}", grouped(count as u64), frames(count))?,
    }
    match stack.inside() {
        _ if stack.copied.is_some() => write!(out, ", {used} in use")?,
        _ if stack.lines.is_empty() => {}
        Some(_) => write!(out, ", {used} in use, inside of {}", size(room.mapped))?,
        None => write!(
            out,
            ", {used} in use, {} mapped{guard}{high_water}",
            size(room.mapped)
        )?,
    }
    if let Some(copied) = stack.copied {
        write!(out, ", {} bytes copied at each switch", grouped(copied))?;
    }
    writeln!(out)?;
    if let Some(scanned) = stack.scanned() {
        let objects: u64 = stack.lines.iter().filter_map(|line| line.objects).sum();
        writeln!(
            out,
            "the collector scans {} of it, with {} words like references to objects",
            size(scanned),
            grouped(objects)
        )?;
    }
    Ok(())
}

fn frames(
    out: &mut dyn Write,
    subject: &Subject,
    stack: &Stack,
    rows: usize,
) -> std::io::Result<()> {
    let counted = stack.lines.iter().any(|line| line.objects.is_some());
    writeln!(out)?;
    if !stack.lines.is_empty() {
        let objects = if counted { "  objects" } else { "" };
        writeln!(out, "{:>9} {:>10}{objects}", "bytes", "all")?;
    }
    let mut all = 0;
    let shown = &stack.lines[..stack.lines.len().min(rows)];
    let same = |one: &Line, other: &Line| {
        (one.native.lookup, one.bytes(), &one.scripts)
            == (other.native.lookup, other.bytes(), &other.scripts)
    };
    for stretch in stretches(shown, same) {
        for line in stretch.first(shown) {
            all += line.bytes();
            write!(out, "{:>9} {:>10}", grouped(line.bytes()), grouped(all))?;
            if counted {
                write!(out, " {:>8}", grouped(line.objects.unwrap_or(0)))?;
            }
            writeln!(out, "  {}", place(subject, line))?;
            script_lines(out, &line.scripts, if counted { 33 } else { 24 })?;
        }
        if let Some(again) = stretch.again() {
            let more = stretch.more(shown);
            let bytes: u64 = more.iter().map(Line::bytes).sum();
            all += bytes;
            write!(out, "{:>9} {:>10}", grouped(bytes), grouped(all))?;
            if counted {
                let objects = more.iter().filter_map(|line| line.objects).sum();
                write!(out, " {:>8}", grouped(objects))?;
            }
            writeln!(out, "  … {again}")?;
        }
    }
    if stack.lines.len() > rows {
        writeln!(
            out,
            "{:>9} … and {} frames more",
            "",
            stack.lines.len() - rows
        )?;
    }
    if stack.lines.is_empty() {
        script_lines(out, &stack.homeless, 24)?;
    } else if !stack.homeless.is_empty() {
        writeln!(out, "      and, whose native frames were not found:")?;
        script_lines(out, &stack.homeless, 24)?;
    }
    if let End::Lost(at) = stack.end {
        writeln!(
            out,
            "      the caller of {at:#x} could not be found; the rest is not known"
        )?;
    }
    Ok(())
}

fn script_lines(out: &mut dyn Write, scripts: &[Script], indent: usize) -> std::io::Result<()> {
    for stretch in stretches(scripts, |one, other| one == other) {
        for script in stretch.first(scripts) {
            writeln!(out, "{:indent$}{}", "", printable(&script.to_string()))?;
        }
        if let Some(again) = stretch.again() {
            writeln!(out, "{:indent$}… {again}", "")?;
        }
    }
    Ok(())
}

fn scripts(scripts: &[Script]) -> Vec<serde_json::Value> {
    let script =
        |script: &Script| json!({ "path": script.path, "line": script.line, "name": script.name });
    scripts.iter().map(script).collect()
}

/// Bytes of it in use: of a greenlet all it spans, wherever that lies now.
fn used(stack: &Stack) -> u64 {
    match stack.lines.is_empty() {
        true => stack
            .thread
            .mapping
            .end
            .saturating_sub(stack.thread.mapping.start),
        false => stack.used(),
    }
}

/// Whose stack it is.
pub fn whose(stack: &Stack) -> String {
    match &stack.parked {
        // A core has no names of threads.
        None if stack.thread.name.is_empty() => stack.thread.tid.to_string(),
        None => format!("{} {}", stack.thread.tid, printable(&stack.thread.name)),
        Some(one) if one.object == 0 => format!("{}, parked", one.kind),
        Some(one) => format!("{} {:#x}, parked", one.kind, one.object),
    }
}

/// The thread's id for programs; null of what no thread runs.
pub fn tid(stack: &Stack) -> Option<i32> {
    stack.parked.is_none().then_some(stack.thread.tid)
}

/// What is parked, for programs.
pub fn parked(stack: &Stack) -> Option<serde_json::Value> {
    let one = stack.parked.as_ref()?;
    Some(json!({ "kind": one.kind, "object": one.object }))
}

/// `libc.so.6: read+0x1a`, or what is known of a function without a name.
pub fn place(subject: &Subject, line: &Line) -> String {
    let Some(loaded) = line.module.and_then(|module| subject.modules.get(module)) else {
        return format!("{:#x}, in no file", line.native.ip);
    };
    let Some(function) = &line.function else {
        return loaded.name().to_owned();
    };
    let text = match &function.name {
        Some(name) if line.native.made_at_run_time() => format!(
            "{}: {name}, in code made at run time at {:#x}",
            loaded.name(),
            line.native.ip
        ),
        Some(name) => format!("{}: {name}+{:#x}", loaded.name(), function.offset),
        None => {
            let hints = loaded.hints(subject.memory, function.start);
            let calls = match hints.calls.is_empty() {
                true => String::new(),
                false => format!(", calls {}", hints.calls.join(", ")),
            };
            let address = function.start.wrapping_sub(loaded.bias);
            format!(
                "{}: {address:#x}+{:#x}{calls}",
                loaded.name(),
                function.offset
            )
        }
    };
    printable(&text).into_owned()
}

/// Writes it for programs: a `process`, and for each thread a `stack` and its `frame`s.
pub fn json(out: &mut dyn Write, subject: &Subject) -> std::io::Result<()> {
    let line = json!({
        "record": "process",
        "pid": subject.pid,
        "command": subject.command,
        "languages": subject.languages,
        "stopped_us": subject.look.stopped.as_secs_f64() * 1e6,
        "copied": subject.look.copied,
    });
    writeln!(out, "{line}")?;
    for (stack, room) in subject.look.stacks.iter().zip(&subject.look.rooms) {
        let line = json!({
            "record": "stack",
            "pid": subject.pid,
            "tid": tid(stack),
            "thread": stack.thread.name,
            "parked": parked(stack),
            "language": stack.language,
            "frames": stack.lines.len(),
            "whole": stack.end == End::Whole && (stack.homeless.is_empty() || stack.lines.is_empty()),
            "used": used(stack),
            "mapped": room.mapped,
            "guard": room.guard,
            "high_water": room.high_water,
            "scanned": stack.scanned(),
            "copied": stack.copied,
            "scripts": scripts(&stack.homeless),
        });
        writeln!(out, "{line}")?;
        for frame in &stack.lines {
            let loaded = frame.module.and_then(|module| subject.modules.get(module));
            let line = json!({
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
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}
