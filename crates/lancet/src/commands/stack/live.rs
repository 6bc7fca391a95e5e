//! The stacks of running processes and in core files.

use std::collections::BTreeSet;
use std::path::Path;

use frames::live::core::Core;
use frames::live::loaded::Modules;
use frames::live::open::{Live, Look, Wanted};
use frames::live::stack::Stack;
use frames::live::unwind::End;
use process::guest::{self, Status};
use report::figures::plural;
use report::losses::{Loss, What};
use report::stack::gc::{self, Collections};
use report::stack::{Subject, dump, listing};

use super::{StackArgs, measure, sample};
use crate::exit::EXCEEDED;
use crate::losses::Losses;
use crate::ui::advice::explain;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Shows the stacks of running processes. A single process that cannot be opened is an error; of several, those that
/// can be are shown.
pub fn run(args: &StackArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    if let Some(interval) = args.interval() {
        return sample::run(args, interval, &mut sink);
    }
    let (mut larger, mut losses) = (0, Losses::default());
    for &pid in &args.pids {
        let (live, look) = match open(pid, args) {
            Ok(opened) => opened,
            Err(error) if args.pids.len() == 1 => return Err(error),
            Err(error) => {
                losses.say(Loss::new(
                    Some(pid),
                    What::Process,
                    None,
                    format!("{error:#}"),
                ));
                continue;
            }
        };
        let command = guest::command_line(pid);
        let subject = Subject {
            pid,
            command: &command,
            modules: live.modules(),
            memory: live.memory(),
            languages: live.languages(),
            from_core: false,
            look: &look,
        };
        let timed = args
            .measure
            .map(|length| measure::time(pid, length, args.collect))
            .transpose()?;
        larger += show(&mut sink, &subject, args, timed.as_ref())?;
        if !look.all {
            losses.say(some_missed(pid));
        }
        note_cut(&mut losses, pid, &look);
    }
    verdict(&mut sink, args, larger, &losses)
}

/// Shows the stacks in core files. A single file that cannot be read is an error; of several, those that can be read
/// are shown.
pub fn cores(args: &StackArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
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
        let command = core.command().to_owned();
        let subject = Subject {
            pid: core.pid(),
            command: &command,
            modules: &modules,
            memory: &core,
            languages,
            from_core: true,
            look: &look,
        };
        larger += show(&mut sink, &subject, args, None)?;
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
        note_cut(&mut losses, core.pid(), &look);
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
    sink: &mut Sink,
    subject: &Subject,
    args: &StackArgs,
    timed: Option<&Collections>,
) -> anyhow::Result<u64> {
    if args.gc {
        let scanned = gc::scanned(subject);
        if scanned.is_empty() {
            anyhow::bail!(
                "process {}: no stack of it is scanned by a collector that lancet knows (Ruby's is); --gc has nothing to say",
                subject.pid
            );
        }
        if args.json {
            gc::json::write(&mut sink.out, subject, &scanned, timed)?;
        } else {
            gc::text::write(&mut sink.out, subject, scanned, timed)?;
        }
    } else if args.json {
        listing::json::write(&mut sink.out, subject)?;
    } else if args.native && args.bytes {
        listing::text::write(&mut sink.out, subject, args.rows_of_stack())?;
    } else {
        let layout = dump::Layout {
            native: args.native,
            bytes: args.bytes,
            rows: args.rows_of_stack(),
            style: sink.style,
        };
        dump::write(&mut sink.out, subject, layout)?;
    }
    sink.out.flush()?;
    let all = subject.look.stacks.iter().flat_map(|stack| &stack.lines);
    Ok(all
        .filter(|line| args.max.is_some_and(|max| line.bytes() > max))
        .count() as u64)
}

/// Notes stacks whose outer frames could not be found. Each listing says so where it ends.
fn note_cut(losses: &mut Losses, pid: i32, look: &Look) {
    let cut = |stack: &&Stack| !stack.lines.is_empty() && stack.end != End::Whole;
    let count = look.stacks.iter().filter(cut).count() as u64;
    if count != 0 {
        let text = format!(
            "process {pid}: the outer frames of {count} {} could not be found",
            plural(count, "stack", "stacks")
        );
        losses.note(Loss::new(Some(pid), What::Frames, Some(count), text));
    }
}

fn verdict(sink: &mut Sink, args: &StackArgs, larger: u64, losses: &Losses) -> anyhow::Result<u8> {
    if args.json {
        losses.write(&mut sink.out)?;
        sink.out.flush()?;
    }
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

/// Returns the loss of a process whose list of parked stacks was not read to its end.
pub fn some_missed(pid: i32) -> Loss {
    let text = format!(
        "process {pid}: its list of objects changed while it was read, some that are parked may be missing; try again when it is less busy"
    );
    Loss::new(Some(pid), What::Stacks, None, text)
}

/// Whether parked stacks are wanted: a collector scans them too.
fn wants_fibers(args: &StackArgs) -> bool {
    args.fibers || args.gc
}

fn open(pid: i32, args: &StackArgs) -> anyhow::Result<(Live, Look)> {
    let mut live = attach(pid)?;
    let wanted = Wanted {
        count: args.bytes || args.gc || args.json,
        fibers: wants_fibers(args),
        states: !args.gc,
    };
    let look = live.look(wanted).map_err(plain)?;
    Ok((live, look))
}

/// Opens a process as far as that is possible without stopping it.
pub fn attach(pid: i32) -> anyhow::Result<Live> {
    Status::read(pid)
        .and_then(|status| status.check_to_look())
        .map_err(explain)?;
    Live::open(pid).map_err(plain)
}

/// Returns the error with what to do about it.
pub fn plain(error: frames::Error) -> anyhow::Error {
    match error {
        frames::Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}
