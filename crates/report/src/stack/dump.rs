//! What the threads of a process do and where, for people: one block a thread, script frames first. Used by `now` and
//! `conclusions`, and by `lancet::commands::stack::live`.
//!
//! ```text
//! ruby app.rb (PID 4242), Ruby 3.1.2: 3 threads, 1 running; stood still for 38 µs
//!
//! deadlock: these 2 threads wait for each other, and none goes on unless it is interrupted
//!     thread 4250 writer (app.rb:12) waits for a mutex that thread 4251 reader (app.rb:20) holds
//!     thread 4251 reader (app.rb:20) waits for a mutex that thread 4250 writer (app.rb:12) holds
//!
//! thread 4242 main: running with the VM lock
//!     app.rb:30 in block in Worker#serve
//! ```
//!
//! What follows from all of it (`conclusions`) comes before them.
//! Threads that do the same at the same place are one block: of a pool of fifty that wait for work the reader wants one.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use frames::live::repeats::stretches;
use frames::live::scripts::Script;
use frames::live::stack::{Line, Stack};
use frames::live::unwind::End;

use super::conclusions;
use super::listing::text::{switches, warnings};
use super::names::{location, whose};
use super::states::{Words, at, slept, time, words};
use super::{BROKEN, Subject};
use crate::Style;
use crate::figures::{grouped, pause, plural, size};
use crate::text::printable;

/// Threads of one block that are named; of more the number is told.
const NAMED: usize = 4;

/// Parameters of SGR (ECMA-48, 8.3.117).
const BOLD: &str = "1";
pub(super) const DIM: &str = "2";
pub(super) const RED: &str = "1;31";
pub(super) const GREEN: &str = "32";
pub(super) const YELLOW: &str = "33";

/// How a dump looks.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Show native frames between the script frames.
    pub native: bool,
    /// Show how much of each stack is in use.
    pub bytes: bool,
    /// Rows of each stack, at most.
    pub rows: usize,
    /// Whether colour is welcome.
    pub style: Style,
}

/// A row of a stack.
#[derive(Clone, PartialEq, Eq)]
struct Row {
    text: String,
    /// Something other than the program itself: a library, native code.
    beside: bool,
}

/// Threads that do the same at the same place.
struct Block<'a> {
    stacks: Vec<&'a Stack>,
    words: Option<Words>,
    rows: Vec<Row>,
    end: String,
}

/// Writes one look.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, subject: &Subject, layout: Layout) -> io::Result<()> {
    head(out, subject)?;
    if layout.bytes {
        warnings(out, subject)?;
    }
    switches(out, subject)?;
    conclusions::stuck(out, subject, layout.style)?;
    conclusions::held_up(out, subject, layout.style, conclusions::LONG)?;
    conclusions::event_loop(out, subject)?;
    // Of a process without a script, the native frames are all there is.
    let scripted = |stack: &Stack| stack.scripts().next().is_some();
    let layout = Layout {
        native: layout.native || !subject.look.stacks.iter().any(scripted),
        ..layout
    };
    let (blocks, without) = blocks(subject, layout);
    for block in &blocks {
        writeln!(out)?;
        write_block(out, block, layout)?;
    }
    if without.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let count = without.len() as u64;
    writeln!(
        out,
        "{} {} no script (--native shows {} frames):",
        grouped(count),
        plural(count, "thread runs", "threads run"),
        plural(count, "its", "their"),
    )?;
    for number in without {
        let stack = &subject.look.stacks[number];
        let words = words(&subject.look.stacks, number).unwrap_or_default();
        let state = state(&words, &[stack], layout.style);
        writeln!(out, "    {}: {state}", whose(stack))?;
    }
    Ok(())
}

pub(super) fn head(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    let look = subject.look;
    let threads = || look.stacks.iter().filter(|stack| stack.parked.is_none());
    let count = threads().count() as u64;
    let mut text = format!(
        "{} (PID {})",
        printable(&subject.command.join(" ")),
        subject.pid
    );
    if !subject.languages.is_empty() {
        text += &format!(", {}", printable(&subject.languages.join(", ")));
    }
    text += &format!(
        ": {} {}",
        grouped(count),
        plural(count, "thread", "threads")
    );
    if subject.from_core {
        return writeln!(out, "{text}, as they were when the core was written");
    }
    let runs = |stack: &&Stack| {
        stack
            .state
            .as_ref()
            .is_some_and(|state| state.wait.is_none() && !state.stopped)
    };
    let running = threads().filter(runs).count() as u64;
    writeln!(
        out,
        "{text}, {} running; stood still for {}",
        grouped(running),
        pause(look.stopped)
    )
}

/// Returns the blocks, in the order of their first threads, and the threads without a row to show.
fn blocks<'a>(subject: &'a Subject, layout: Layout) -> (Vec<Block<'a>>, Vec<usize>) {
    let mut blocks: Vec<Block> = Vec::new();
    let mut known: HashMap<(String, Option<Words>), usize> = HashMap::new();
    let mut without = Vec::new();
    for (number, stack) in subject.look.stacks.iter().enumerate() {
        let rows = rows(subject, stack, layout.native);
        if rows.is_empty() {
            without.push(number);
            continue;
        }
        let words = words(&subject.look.stacks, number);
        let texts: Vec<&str> = rows.iter().map(|row| row.text.as_str()).collect();
        let kind = stack.parked.as_ref().map_or("", |one| one.kind);
        let key = (format!("{kind}\n{}", texts.join("\n")), words.clone());
        let at = *known.entry(key).or_insert(blocks.len());
        match blocks.get_mut(at) {
            // Stacks differ in size; where sizes are wanted each has a block of its own.
            Some(block) if !layout.bytes => block.stacks.push(stack),
            _ => blocks.push(Block {
                stacks: vec![stack],
                words,
                rows,
                end: end(stack, layout.native),
            }),
        }
    }
    (blocks, without)
}

fn rows(subject: &Subject, stack: &Stack, native: bool) -> Vec<Row> {
    if !native {
        return stack.scripts().map(script_row).collect();
    }
    let native_row = |line: &Line| Row {
        text: format!("    {}", location(subject, line)),
        beside: true,
    };
    let lines = stack.lines.iter();
    let placed = lines.flat_map(|line| {
        std::iter::once(native_row(line)).chain(line.scripts.iter().map(script_row))
    });
    placed
        .chain(stack.unplaced.iter().map(script_row))
        .collect()
}

fn script_row(script: &Script) -> Row {
    let name = printable(script.full_name());
    Row {
        text: match script.path.as_str() {
            "" => name.into_owned(),
            _ => format!("{} in {name}", at(script)),
        },
        beside: script.is_library(),
    }
}

/// What is to be said behind the rows.
fn end(stack: &Stack, native: bool) -> String {
    match stack.end {
        End::Lost(at) if native => {
            format!("the caller of {at:#x} could not be found; the rest is not known")
        }
        _ if stack.is_broken => BROKEN.to_owned(),
        _ => String::new(),
    }
}

fn write_block(out: &mut dyn Write, block: &Block, layout: Layout) -> io::Result<()> {
    let style = layout.style;
    let names: Vec<String> = block
        .stacks
        .iter()
        .take(NAMED)
        .map(|stack| whose(stack))
        .collect();
    let kind = match (&block.stacks[0].parked, block.stacks.len()) {
        (Some(_), _) => "",
        (None, 1) => "thread ",
        (None, _) => "threads ",
    };
    let more = match block.stacks.len() - names.len() {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    };
    let name = format!("{kind}{}{more}", names.join(", "));
    write!(out, "{}", style.painted(&name, BOLD))?;
    if let Some(words) = &block.words {
        write!(out, ": {}", state(words, &block.stacks, style))?;
    }
    if layout.bytes {
        let stack = block.stacks[0];
        let mapped = stack.thread.mapping.end - stack.thread.mapping.start;
        write!(
            out,
            "; {} of stack in use of {}",
            size(stack.used()),
            size(mapped)
        )?;
    }
    writeln!(out)?;
    let shown = &block.rows[..block.rows.len().min(layout.rows)];
    for stretch in stretches(shown, |one, other| one == other) {
        for row in stretch.first(shown) {
            let text = if row.beside {
                style.painted(&row.text, DIM)
            } else {
                row.text.as_str().into()
            };
            writeln!(out, "    {text}")?;
        }
        if let Some(again) = super::again(&stretch) {
            writeln!(out, "    … {again}")?;
        }
    }
    match block.rows.len() - shown.len() {
        0 => {}
        more => writeln!(out, "    … and {} more", grouped(more as u64))?,
    }
    if !block.end.is_empty() {
        writeln!(out, "    {}", block.end)?;
    }
    Ok(())
}

/// `waits 12.3 s for a mutex …`; of several threads from the shortest to the longest time.
fn state(words: &Words, stacks: &[&Stack], style: Style) -> String {
    let times: Vec<Duration> = stacks.iter().filter_map(|stack| slept(stack)).collect();
    let times = match (times.iter().min(), times.iter().max()) {
        (Some(least), Some(most)) if time(*least) != time(*most) => {
            format!(" {} to {}", time(*least), time(*most))
        }
        (Some(least), _) => format!(" {}", time(*least)),
        _ => String::new(),
    };
    let verb = match words.verb {
        "running" => style.painted(words.verb, GREEN),
        _ if words.for_another => style.painted(words.verb, YELLOW),
        verb => verb.into(),
    };
    let rest = if words.rest.is_empty() {
        String::new()
    } else {
        format!(" {}", words.rest)
    };
    format!("{verb}{times}{rest}")
}
