//! The stacks of running processes.

use std::collections::BTreeSet;
use std::path::Path;

use export::figures::plural;
use frames::live::core::Core;
use frames::live::loaded::Modules;
use frames::live::open::{Live, Look};
use process::guest::{self, Status};

use super::super::{EXCEEDED, LOST};
use super::advice;
use super::fold;
use super::listing::{self, Subject};
use super::measure::{self, Marked};
use crate::cli::StackArgs;
use crate::ui::advice::explain;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Shows them. A single process that cannot be opened is an error; of several, those that can be are shown.
pub fn run(args: &StackArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    if let Some(interval) = args.interval() {
        return fold::run(args, interval, &mut sink);
    }
    let (mut larger, mut lost) = (0, false);
    for &pid in &args.pids {
        let (live, look) = match open(pid, wants_fibers(args)) {
            Ok(opened) => opened,
            Err(error) if args.pids.len() == 1 => return Err(error),
            Err(error) => {
                eprintln!("lancet: {error:#}");
                lost = true;
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
            dead: false,
            look: &look,
        };
        let marked = args
            .measure
            .map(|length| measure::time(pid, length, args.collect))
            .transpose()?;
        larger += show(&mut sink, &subject, args, marked.as_ref())?;
        if !look.all {
            eprintln!("lancet: {}", some_missed(pid));
            lost = true;
        }
    }
    verdict(args, larger, lost)
}

/// The stacks in core files: of several, those that can be read.
pub fn cores(args: &StackArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    let (mut larger, mut lost) = (0, false);
    for path in &args.files {
        let mut core = match Core::open(path) {
            Ok(core) => core,
            Err(error) if args.files.len() == 1 => return Err(error.into()),
            Err(error) => {
                eprintln!("lancet: {error}");
                lost = true;
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
            dead: true,
            look: &look,
        };
        larger += show(&mut sink, &subject, args, None)?;
        for lack in core.lacks() {
            eprintln!("lancet: {}: {lack}", path.display());
            lost = true;
        }
        for gone in without_file(&modules, &core, &look) {
            eprintln!(
                "lancet: {}: {} is not there, or is another file than then: its functions have no names, and what called them is a guess; put it back, or look where the core was written",
                path.display(),
                gone.display()
            );
            lost = true;
        }
    }
    verdict(args, larger, lost)
}

/// Files that frames of the core lie in and that cannot be read now.
fn without_file<'a>(modules: &'a Modules, core: &Core, look: &Look) -> BTreeSet<&'a Path> {
    look.stacks
        .iter()
        .flat_map(|stack| &stack.lines)
        .filter_map(|line| modules.get(line.module?))
        .filter(|loaded| loaded.image(core).is_none())
        .map(|loaded| loaded.path.as_path())
        .collect()
}

/// Writes one; how many frames are larger than `--max`.
fn show(
    sink: &mut Sink,
    subject: &Subject,
    args: &StackArgs,
    marked: Option<&Marked>,
) -> anyhow::Result<u64> {
    match args.json {
        _ if args.gc => advice::write(&mut sink.out, subject, args, marked)?,
        true => listing::json(&mut sink.out, subject)?,
        false => listing::text(&mut sink.out, subject, args.rows_of_stack())?,
    }
    sink.out.flush()?;
    let all = subject.look.stacks.iter().flat_map(|stack| &stack.lines);
    Ok(all
        .filter(|line| args.max.is_some_and(|max| line.bytes() > max))
        .count() as u64)
}

fn verdict(args: &StackArgs, larger: u64, lost: bool) -> anyhow::Result<u8> {
    if let Some(max) = args.max
        && larger > 0
    {
        eprintln!(
            "lancet: {larger} {} larger than {max} bytes",
            plural(larger, "frame is", "frames are")
        );
        return Ok(EXCEEDED);
    }
    Ok(if lost { LOST } else { 0 })
}

/// Said where the list of what is parked was not read to its end.
pub fn some_missed(pid: i32) -> String {
    format!(
        "process {pid}: its list of objects changed while it was read, some that are parked may be missing; try again when it is less busy"
    )
}

/// A collector scans those that are parked, too.
fn wants_fibers(args: &StackArgs) -> bool {
    args.fibers || args.gc
}

fn open(pid: i32, fibers: bool) -> anyhow::Result<(Live, Look)> {
    let mut live = attach(pid)?;
    let look = live.look(true, fibers).map_err(plain)?;
    Ok((live, look))
}

/// Finds out what there is to know before a stop.
pub fn attach(pid: i32) -> anyhow::Result<Live> {
    Status::read(pid)
        .and_then(|status| status.check_to_look())
        .map_err(explain)?;
    Live::open(pid).map_err(plain)
}

/// The error with what to do about it.
pub fn plain(error: frames::Error) -> anyhow::Error {
    match error {
        frames::Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}
