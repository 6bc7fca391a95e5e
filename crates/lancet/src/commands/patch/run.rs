//! Applying, listing and undoing, in one process after the other.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use patch::{Applied, Error, Guest, Limits, Plan, Prepared, SettingsPlan, State, Which};
use report::patch::{Answers, Language};

use super::args::{Replaced, TakenBack};
use super::explained::explained;
use super::new::new;
use super::plan_file::{self, PlanFile};
use super::{PatchArgs, script};
use crate::exit::LOST;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Between two tries while a thread is inside of a function.
const AGAIN: Duration = Duration::from_millis(20);
/// How long something that is done once is waited for.
const ONCE: Duration = Duration::from_secs(10);
/// Between two looks whether the time is over.
const LOOK: Duration = Duration::from_millis(50);

/// What is asked for, and where answers go.
pub(super) struct Run {
    pub args: PatchArgs,
    file: PlanFile,
    sink: Sink,
}

/// What was done in a process: the exit code, and what is to be undone when the time is over.
pub(super) type Done = (u8, Option<(Guest, TakenBack)>);

/// Runs `lancet patch` and returns the exit code.
pub fn run(mut args: PatchArgs) -> anyhow::Result<u8> {
    let mut file = PlanFile::default();
    if let Some(path) = &args.plan {
        file = plan_file::read(path)?;
        let of_file = file.requests.drain(..).map(Replaced::Native);
        args.requests.extend(of_file);
        args.wait = args.wait.or(file.wait);
        args.lasts = args.lasts.or(file.lasts);
    }
    let sink = Sink::open(None, Stream::Stdout)?;
    let mut run = Run { args, file, sink };
    if run.args.remedies {
        run.answer(|to| to.remedies())?;
        return Ok(0);
    }
    interrupt::catch();
    let (mut code, mut staying) = (0, Vec::new());
    let pids = run.args.pids.clone();
    for pid in &pids {
        match run.process(*pid) {
            Ok((one, stays)) => {
                code = worse(code, one);
                staying.extend(stays);
            }
            // The others are done all the same; with one process, the line is the answer.
            Err(error) if pids.len() > 1 => {
                tell!("process {pid}: {error:#}");
                code = worse(code, crate::exit::FAILED);
            }
            Err(error) => return Err(error),
        }
    }
    let left = run.stay(staying)?;
    Ok(worse(code, left))
}

/// Of two exit codes the one that says more: that something could not be done, then that something was lost.
fn worse(one: u8, other: u8) -> u8 {
    if one == crate::exit::FAILED || other == 0 {
        one
    } else {
        other
    }
}

impl Run {
    /// Writes an answer in the format that was asked for, and hands it on at once.
    pub fn answer(
        &mut self,
        write: impl FnOnce(&mut Answers) -> std::io::Result<()>,
    ) -> anyhow::Result<()> {
        let mut answers = Answers {
            out: &mut self.sink.out,
            json: self.args.json,
        };
        write(&mut answers)?;
        Ok(self.sink.out.flush()?)
    }

    /// What is asked for, in one process.
    fn process(&mut self, pid: i32) -> anyhow::Result<Done> {
        let guest = Guest::open(pid).map_err(explained)?;
        if self.args.list {
            let all = patch::list(&guest).map_err(explained)?;
            let settings = patch::list_settings(&guest).map_err(explained)?;
            let scripts = script::seen(&guest);
            self.answer(|to| to.list(pid, &all, &settings, &scripts.all))?;
            return Ok((scripts.code, None));
        }
        if let Some(function) = &self.args.new {
            let rust = self.args.rust;
            let path = new(
                &guest,
                function,
                if rust { Language::Rust } else { Language::C },
            )?;
            let out = &mut self.sink.out;
            writeln!(
                out,
                "{path}: its first lines say how it is compiled and applied"
            )?;
            out.flush()?;
            return Ok((0, None));
        }
        if let Some(which) = self.args.undo.clone() {
            return Ok((self.undo(&guest, &which)?, None));
        }
        let (requests, scripts) = script::apart(&self.args.requests)?;
        if !scripts.is_empty() {
            return self.replace_in_script(guest, &scripts);
        }
        let limits = Limits {
            lasts: self.args.lasts,
        };
        let prepared = match &self.args.remedy {
            Some(remedy) => patch::plan_remedy(&guest, remedy, limits),
            None => patch::plan(&guest, &requests, limits)
                .map(|plan| Prepared::Functions(Box::new(plan))),
        };
        match prepared.map_err(explained)? {
            Prepared::Functions(plan) => {
                plan_file::check(&self.file, &plan)?;
                self.replace(guest, &plan)
            }
            Prepared::Settings(plan) => Ok((self.set(&guest, &plan)?, None)),
        }
    }

    /// Replaces functions, or shows what would be done.
    fn replace(&mut self, guest: Guest, plan: &Plan) -> anyhow::Result<Done> {
        if self.args.dry_run {
            return Ok((self.show(&guest, plan)?, None));
        }
        let before = guest.resident();
        let applied = self.apply(&guest, plan)?;
        let ids: Vec<u64> = applied.records.iter().map(|record| record.id).collect();
        if plan.is_once() {
            let answer = once(&guest, plan, &applied)?;
            let took = patch::undo(&guest, &Which::These(ids)).map_err(explained)?;
            let stood = applied.stood.max(took.stood);
            let resident = [before, guest.resident()];
            self.answer(|to| to.once(guest.pid(), answer, resident, stood))?;
            return Ok((u8::from(answer.is_none()), None));
        }
        self.answer(|to| to.applied(guest.pid(), &applied))?;
        let stays = self.args.lasts.is_some();
        Ok((0, stays.then_some((guest, TakenBack::Native(ids)))))
    }

    /// Shows what would be done.
    fn show(&mut self, guest: &Guest, plan: &Plan) -> anyhow::Result<u8> {
        let (inside, stood) = patch::check(guest, plan).map_err(explained)?;
        self.answer(|to| to.plan((guest.pid(), guest.name()), plan, &inside))?;
        tell!(
            "nothing was written; the process stood still for {:.2} ms",
            stood.as_secs_f64() * 1e3
        );
        Ok(0)
    }

    /// Applies the plan, again and again for as long as may be waited.
    fn apply(&self, guest: &Guest, plan: &Plan) -> anyhow::Result<Applied> {
        let deadline = Instant::now() + self.args.wait.unwrap_or_default();
        loop {
            match patch::apply(guest, plan) {
                Err(Error::Inside { .. }) if Instant::now() < deadline && !interrupt::asked() => {
                    sleep(AGAIN);
                }
                done => return done.map_err(explained),
            }
        }
    }

    /// Changes settings, or shows what would be changed.
    fn set(&mut self, guest: &Guest, plan: &SettingsPlan) -> anyhow::Result<u8> {
        if self.args.dry_run {
            self.answer(|to| to.settings_plan((guest.pid(), guest.name()), plan))?;
            tell!("nothing was set");
            return Ok(0);
        }
        let (settings, stood) = patch::apply_settings(guest, plan).map_err(explained)?;
        self.answer(|to| to.settings_applied(guest.pid(), &settings, plan.note, stood))?;
        Ok(0)
    }

    /// Stays until the time is over or somebody asks lancet to end, and takes the patches back.
    fn stay(&mut self, mut staying: Vec<(Guest, TakenBack)>) -> anyhow::Result<u8> {
        let until = Instant::now() + self.args.lasts.unwrap_or_default();
        while !staying.is_empty() && Instant::now() < until && !interrupt::asked() {
            staying.retain(|(guest, _)| {
                let alive = guest.is_alive();
                if !alive {
                    tell!("process {} has ended", guest.pid());
                }
                alive
            });
            sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        let mut code = 0;
        for (guest, which) in staying {
            code = worse(code, self.undo(&guest, &which)?);
        }
        Ok(code)
    }

    fn undo(&mut self, guest: &Guest, which: &TakenBack) -> anyhow::Result<u8> {
        match which {
            TakenBack::Script(ids) => self.undo_in_script(guest, ids),
            TakenBack::Native(ids) => self.undo_native(guest, &Which::These(ids.clone())),
            TakenBack::All => {
                let scripts = script::seen(guest);
                let is_any = !scripts.all.is_empty();
                let code = worse(scripts.code, self.undo_seen(guest.pid(), scripts)?);
                // Where only functions of the script were replaced there is nothing more to say.
                if is_any && script::is_alone(guest)? {
                    return Ok(code);
                }
                Ok(worse(code, self.undo_native(guest, &Which::All)?))
            }
        }
    }

    fn undo_native(&mut self, guest: &Guest, which: &Which) -> anyhow::Result<u8> {
        let took = patch::undo(guest, which).map_err(explained)?;
        self.answer(|to| to.undone(guest.pid(), &took))?;
        Ok(match which {
            Which::All if is_anything_left(guest)? => LOST,
            _ => 0,
        })
    }
}

/// Has the new code do what it is there for, and waits for it.
fn once(guest: &Guest, plan: &Plan, applied: &Applied) -> anyhow::Result<Option<&'static str>> {
    plan.ask(guest, &applied.records).map_err(explained)?;
    let deadline = Instant::now() + ONCE;
    loop {
        let answer = plan.answer(guest, &applied.records);
        let is_over = Instant::now() >= deadline || interrupt::asked() || !guest.is_alive();
        if answer.is_some() || is_over {
            return Ok(answer);
        }
        sleep(AGAIN);
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
