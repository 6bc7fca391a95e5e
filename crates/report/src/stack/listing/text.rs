//! The stacks of a process or core file, frame by frame, for people. Used by `dump`, and by
//! `lancet::commands::stack::live`.
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
use std::io::{self, Write};

use frames::live::repeats::stretches;
use frames::live::scripts::Script;
use frames::live::stack::{Line, Stack};
use frames::live::unwind::End;
use process::room::Room;

use super::used;
use crate::figures::{grouped, pause, plural, size};
use crate::stack::names::{location, whose};
use crate::stack::{BROKEN, Subject, again};
use crate::text::printable;

/// Frames of this many bytes and more are warned of: a few of them fill a fiber's stack, and each collection scans
/// them.
const BIG: u64 = 16 << 10;

/// Writes at most `rows` frames of each stack, the warnings first.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, subject: &Subject, rows: usize) -> io::Result<()> {
    let languages = &subject.languages;
    let language = if languages.is_empty() {
        String::new()
    } else {
        format!(", {}", printable(&languages.join(", ")))
    };
    let how = if subject.from_core {
        "as it was when the core was written".to_owned()
    } else {
        let (stopped, copied) = (pause(subject.look.stopped), size(subject.look.copied));
        format!("stood still for {stopped} while {copied} were copied")
    };
    writeln!(
        out,
        "{} (PID {}){language}; {how}",
        printable(&subject.command.join(" ")),
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
pub(crate) fn warnings(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    let mut big: BTreeMap<(Reverse<u64>, String, bool), Vec<&Stack>> = BTreeMap::new();
    for stack in &subject.look.stacks {
        for line in stack.lines.iter().filter(|line| line.bytes() >= BIG) {
            let key = (
                Reverse(line.bytes()),
                location(subject, line),
                line.objects.is_some() && stack.scanned_of(line) >= BIG,
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
pub(crate) fn switches(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
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

fn head(out: &mut dyn Write, stack: &Stack, room: &Room) -> io::Result<()> {
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
    match (stack.lines.len(), stack.unplaced.len()) {
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
        writeln!(
            out,
            "the collector scans {} of it, with {} words like references to objects",
            size(scanned),
            grouped(stack.references())
        )?;
    }
    Ok(())
}

fn frames(out: &mut dyn Write, subject: &Subject, stack: &Stack, rows: usize) -> io::Result<()> {
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
            writeln!(out, "  {}", location(subject, line))?;
            script_lines(out, &line.scripts, if counted { 33 } else { 24 })?;
        }
        if let Some(again) = again(&stretch) {
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
        script_lines(out, &stack.unplaced, 24)?;
    } else if !stack.unplaced.is_empty() {
        writeln!(out, "      and, whose native frames were not found:")?;
        script_lines(out, &stack.unplaced, 24)?;
    }
    if stack.is_broken {
        writeln!(out, "      {BROKEN}")?;
    }
    if let End::Lost(at) = stack.end {
        writeln!(
            out,
            "      the caller of {at:#x} could not be found; the rest is not known"
        )?;
    }
    Ok(())
}

fn script_lines(out: &mut dyn Write, scripts: &[Script], indent: usize) -> io::Result<()> {
    for stretch in stretches(scripts, |one, other| one == other) {
        for script in stretch.first(scripts) {
            writeln!(out, "{:indent$}{}", "", printable(&script.to_string()))?;
        }
        if let Some(again) = again(&stretch) {
            writeln!(out, "{:indent$}… {again}", "")?;
        }
    }
    Ok(())
}
