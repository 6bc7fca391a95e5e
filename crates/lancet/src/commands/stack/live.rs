//! The stacks of running processes and in core files. Used by `run`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;

use frames::live::core::Core;
use frames::live::loaded::Modules;
use frames::live::open::{Live, Look, Wanted};
use frames::live::stack::Stack;
use frames::live::unwind::End;
use process::guest;
use report::Style;
use report::figures::plural;
use report::losses::{Loss, What};
use report::stack::folded::{Head, Stacks};
use report::stack::gc::{self, Collections};
use report::stack::{Subject, dump, listing};
use vm::Language;

use super::{StackArgs, measure};
use crate::agent;
use crate::exit::EXCEEDED;
use crate::looks::{self, Written, some_missed};
use crate::losses::Losses;
use crate::sampling;
use crate::ui::sink::{Sink, require_room};
use crate::ui::terminal::Stream;

/// Shows the stacks of running processes.
pub fn run(args: &StackArgs) -> anyhow::Result<u8> {
    let sink = Sink::open(args.output.as_deref(), Stream::beside(&args.program))?;
    let mut sink = sink.in_form(args.chosen().records());
    if args.looks_again() {
        require_room(
            args.chosen().is_text(),
            args.output.as_deref(),
            Stream::beside(&args.program),
        )?;
        return again(args, &mut sink);
    }
    let (mut larger, mut losses) = (0, Losses::default());
    let wanted = Wanted {
        count: args.bytes || args.gc || args.has_records(),
        fibers: wants_fibers(args),
        states: !args.gc,
        others: !args.gc,
        running: false,
    };
    let pids = guest::family(&args.pids, args.children);
    for pid in &pids {
        if let Err(error) = agent::mend(*pid) {
            losses.leaving(error);
        }
    }
    let mut written = Written::default();
    let looked = looks::each(&pids, wanted, &mut losses, |subject, losses| {
        let timed = args
            .measure
            .map(|length| measure::time(subject.pid, length, args.collect))
            .transpose()?;
        if args.has_records() {
            larger += show(&mut sink.out, subject, args, sink.style, timed.as_ref())?;
            sink.out.flush()?;
        } else {
            let mut text = Vec::new();
            larger += show(&mut text, subject, args, sink.style, timed.as_ref())?;
            written.add(subject, text);
        }
        if !subject.look.all {
            losses.say(some_missed(subject.pid));
        }
        note_cut(losses, subject.pid, subject.look, args);
        Ok(())
    });
    // What was seen before something failed is told too.
    written.write(&mut sink.out)?;
    looked?;
    verdict(&mut sink, args, larger, &losses)
}

/// Looks at processes again and again, and writes what threads did where.
fn again(args: &StackArgs, sink: &mut Sink) -> anyhow::Result<u8> {
    let request = sampling::Request {
        pids: &args.pids,
        children: args.children,
        program: &args.program,
        fibers: args.fibers,
        running: false,
        length: args.look_for,
        every: args.every,
    };
    let mut stacks = Stacks::default();
    let sampled = sampling::run(&request, &mut |pid: i32, live: &Live, look: &Look| {
        stacks.add_look(pid, live.modules(), look);
    })?;
    stacks.looks = sampled.rounds;
    stacks.processes = sampled.processes();
    let title = sampled.title(sampled.rounds);
    let head = Head {
        title: &title,
        began: sampled.began,
        took: sampled.took,
        stacks: args.chosen().stacks(),
    };
    let format = args.chosen().format;
    format.write(&stacks, &mut sink.out, &head)?;
    sampled.finish(sink)
}

/// Shows the stacks in core files. A single file that cannot be read is an error; of several, those that can be read
/// are shown.
pub fn cores(args: &StackArgs) -> anyhow::Result<u8> {
    let mut sink =
        Sink::open(args.output.as_deref(), Stream::Stdout)?.in_form(args.chosen().records());
    let (mut larger, mut losses) = (0, Losses::default());
    for path in &args.files {
        let mut core = match Core::open(path) {
            Ok(core) => core,
            Err(error) if args.files.len() == 1 => return Err(error.into()),
            Err(error) => {
                losses.say(Loss::new(None, What::Files, None, error.to_string()));
                continue;
            }
        };
        let modules = core.modules();
        let (look, languages) = core.look(&modules, wants_fibers(args));
        let command = [core.command().to_owned()];
        let subject = Subject {
            pid: core.pid(),
            command: &command,
            modules: &modules,
            memory: &core,
            languages,
            from_core: true,
            look: &look,
        };
        larger += show(&mut sink.out, &subject, args, sink.style, None)?;
        sink.out.flush()?;
        for lack in core.lacks() {
            let text = format!("{}: {lack}", path.display());
            losses.say(Loss::new(Some(core.pid()), What::Process, None, text));
        }
        for gone in without_file(&modules, &core, &look) {
            let text = format!(
                "{}: {} is not there, or is another file than then: its functions have no names, and what called them is a guess; put it back, or look where the core was written",
                path.display(),
                gone.display()
            );
            losses.say(Loss::new(Some(core.pid()), What::Files, None, text));
        }
        note_cut(&mut losses, core.pid(), &look, args);
        looks::note_unread(&mut losses, core.pid(), &look);
    }
    verdict(&mut sink, args, larger, &losses)
}

/// Returns the files that frames of the core lie in and that cannot be read now.
fn without_file<'a>(modules: &'a Modules, core: &Core, look: &Look) -> BTreeSet<&'a Path> {
    look.stacks
        .iter()
        .flat_map(|stack| &stack.lines)
        .filter_map(|line| modules.get(line.module?))
        .filter(|loaded| loaded.image(core).is_none())
        .map(|loaded| loaded.path.as_path())
        .collect()
}

/// Writes one look, and returns how many frames are larger than `--max`.
fn show(
    out: &mut dyn Write,
    subject: &Subject,
    args: &StackArgs,
    style: Style,
    timed: Option<&Collections>,
) -> anyhow::Result<u64> {
    if args.gc {
        let scanned = gc::scanned(subject);
        if scanned.is_empty() {
            anyhow::bail!(
                "process {}: no stack of it is scanned by a collector that lancet knows ({}'s is); --gc has nothing to say",
                subject.pid,
                Language::those(|one| one.description().scans_stacks, " and ")
            );
        }
        if args.has_records() {
            gc::json::write(out, subject, &scanned, timed)?;
        } else {
            gc::text::write(out, subject, scanned, timed)?;
        }
    } else if args.has_records() {
        listing::json::write(out, subject)?;
    } else if args.native && args.bytes {
        listing::text::write(out, subject, args.rows_of_stack())?;
    } else {
        let layout = dump::Layout {
            native: args.native,
            bytes: args.bytes,
            rows: args.rows_of_stack(),
            style,
        };
        dump::write(out, subject, layout)?;
    }
    let all = subject.look.stacks.iter().flat_map(|stack| &stack.lines);
    Ok(all
        .filter(|line| args.max.is_some_and(|max| line.bytes() > max))
        .count() as u64)
}

/// Notes stacks whose outer frames could not be found. A listing of native frames says so where it ends; otherwise it is a line of its own.
fn note_cut(losses: &mut Losses, pid: i32, look: &Look, args: &StackArgs) {
    let cut = |stack: &&Stack| !stack.lines.is_empty() && stack.end != End::Whole;
    let count = look.stacks.iter().filter(cut).count() as u64;
    if count != 0 {
        let text = format!(
            "process {pid}: the outer frames of {count} {} could not be found",
            plural(count, "stack", "stacks")
        );
        let is_listed = args.native || args.gc || args.has_records();
        let text = match is_listed {
            true => text,
            false => text + ": --native shows where they end",
        };
        let loss = Loss::new(Some(pid), What::Frames, Some(count), text);
        match is_listed {
            true => losses.note_in_report(loss),
            false => losses.say(loss),
        }
    }
}

fn verdict(sink: &mut Sink, args: &StackArgs, larger: u64, losses: &Losses) -> anyhow::Result<u8> {
    losses.end(sink)?;
    if let Some(max) = args.max
        && larger > 0
    {
        tell!(
            "{larger} {} larger than {max} bytes",
            plural(larger, "frame is", "frames are")
        );
        return Ok(EXCEEDED);
    }
    Ok(losses.exit_code(0))
}

/// Whether parked stacks are wanted: a collector scans them too.
fn wants_fibers(args: &StackArgs) -> bool {
    args.fibers || args.gc
}
