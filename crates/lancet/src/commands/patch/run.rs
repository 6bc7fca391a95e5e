//! Applying, listing and undoing.

use std::thread::sleep;
use std::time::{Duration, Instant};

use patch::{Applied, Error, Guest, Limits, Plan, State, Which};
use report::patch as text;

use super::args::TakenBack;
use super::{PatchArgs, script};
use crate::exit::LOST;
use crate::ui::advice::explain;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Between two tries while a thread is inside of a function.
const AGAIN: Duration = Duration::from_millis(20);
/// Between two looks whether the time is over.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `lancet patch` and returns the exit code.
pub fn run(args: PatchArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(None, Stream::Stdout)?;
    let Some(pid) = args.pid else {
        text::remedies(&mut sink.out)?;
        sink.out.flush()?;
        return Ok(0);
    };
    let guest = Guest::open(pid).map_err(explained)?;
    if args.list {
        let all = patch::list(&guest).map_err(explained)?;
        let scripts = script::list(&guest)?;
        text::list(&mut sink.out, pid, (&all, &scripts))?;
        sink.out.flush()?;
        return Ok(0);
    }
    match &args.undo {
        Some(TakenBack::Script(id)) => return script::undo(&guest, *id, &mut sink),
        Some(TakenBack::Native(Which::All)) => return undo_all(&guest, &mut sink),
        Some(TakenBack::Native(which)) => return undo(&guest, which, &mut sink),
        None => {}
    }
    interrupt::catch();
    let (native, scripts) = script::apart(&args.requests)?;
    if !scripts.is_empty() {
        return script::run(&args, &guest, &scripts, &mut sink);
    }
    let limits = Limits { lasts: args.lasts };
    let plan = match &args.remedy {
        Some(remedy) => patch::plan_remedy(&guest, remedy, limits),
        None => patch::plan(&guest, &native, limits),
    };
    let plan = plan.map_err(explained)?;
    if args.dry_run {
        return show(&guest, &plan, &mut sink);
    }
    let applied = apply(&args, &guest, &plan)?;
    let ids = applied.records.iter().map(|record| record.id).collect();
    text::applied(&mut sink.out, pid, &applied)?;
    sink.out.flush()?;
    match args.lasts {
        Some(lasts) => stay(&guest, lasts, &Which::These(ids), &mut sink),
        None => Ok(0),
    }
}

/// The error as one line, with the next step.
pub(super) fn explained(error: Error) -> anyhow::Error {
    match error {
        Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}

/// Shows what would be done.
fn show(guest: &Guest, plan: &Plan, sink: &mut Sink) -> anyhow::Result<u8> {
    let (inside, stood) = patch::check(guest, plan).map_err(explained)?;
    text::plan(&mut sink.out, (guest.pid(), guest.name()), plan, &inside)?;
    sink.out.flush()?;
    tell!(
        "nothing was written; the process stood still for {:.2} ms",
        stood.as_secs_f64() * 1e3
    );
    Ok(0)
}

/// Applies the plan, again and again for as long as may be waited.
fn apply(args: &PatchArgs, guest: &Guest, plan: &Plan) -> anyhow::Result<Applied> {
    let deadline = Instant::now() + args.wait.unwrap_or_default();
    loop {
        match patch::apply(guest, plan) {
            Err(Error::Inside { .. }) if Instant::now() < deadline && !interrupt::asked() => {
                sleep(AGAIN);
            }
            done => return done.map_err(explained),
        }
    }
}

/// Stays until the time is over or somebody asks lancet to end, and takes the patches back.
fn stay(guest: &Guest, lasts: Duration, which: &Which, sink: &mut Sink) -> anyhow::Result<u8> {
    if outlasts(guest, lasts) {
        undo(guest, which, sink)
    } else {
        Ok(0)
    }
}

/// Waits until the time is over or somebody asks lancet to end; false if the process has ended.
pub(super) fn outlasts(guest: &Guest, lasts: Duration) -> bool {
    let until = Instant::now() + lasts;
    while Instant::now() < until && !interrupt::asked() {
        if !guest.is_alive() {
            tell!("process {} has ended", guest.pid());
            return false;
        }
        sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    true
}

fn undo(guest: &Guest, which: &Which, sink: &mut Sink) -> anyhow::Result<u8> {
    let took = patch::undo(guest, which).map_err(explained)?;
    text::undone(&mut sink.out, guest.pid(), &took)?;
    sink.out.flush()?;
    Ok(match which {
        Which::All if is_anything_left(guest)? => LOST,
        _ => 0,
    })
}

/// Takes back what was replaced in the script, and in the program and its libraries.
fn undo_all(guest: &Guest, sink: &mut Sink) -> anyhow::Result<u8> {
    let scripts = script::undo_all(guest, sink)?;
    let has_others = !patch::list(guest).map_err(explained)?.is_empty();
    match scripts {
        Some(code) if !has_others => Ok(code),
        scripts => Ok(scripts.unwrap_or(0).max(undo(guest, &Which::All, sink)?)),
    }
}

/// Says which patches could not be taken back because something else has changed their functions since.
fn is_anything_left(guest: &Guest) -> anyhow::Result<bool> {
    let mut left = false;
    for listed in patch::list(guest).map_err(explained)? {
        let id = listed.record.id;
        if listed.state == State::Covered {
            tell!("patch {id} was not undone: its function was changed by something else since");
            left = true;
        }
    }
    Ok(left)
}
