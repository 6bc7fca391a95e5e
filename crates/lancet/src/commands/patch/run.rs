//! Applying, listing and undoing, in one process after the other. Used by `commands` and `script`.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use patch::{Applied, Error, Guest, Limits, Plan, Prepared, SettingsPlan, State, Which};
use process::programs;
use report::losses::{Loss, What};
use report::patch::{Answers, Language};

use super::args::{Replaced, TakenBack};
use super::explained::explained;
use super::new::new;
use super::plan_file::{self, PlanFile};
use super::{PatchArgs, script};
use crate::agent;
use crate::exit::LOST;
use crate::losses::Losses;
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
    pub losses: Losses,
    /// What is to be undone when the time is over, from the moment it is applied: also where it could not be told.
    pub staying: Vec<(Guest, TakenBack)>,
}

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
    let sink = Sink::open(None, Stream::Stdout)?.in_form(args.chosen().records());
    let mut run = Run {
        args,
        file,
        sink,
        losses: Losses::default(),
        staying: Vec::new(),
    };
    if run.args.remedies {
        run.answer(|to| to.remedies())?;
        return run.end(0);
    }
    interrupt::catch();
    let pids = run.args.pids.clone();
    let mut code = 0;
    for pid in &pids {
        code = worse(code, mended(*pid, &mut run.losses));
        let done = programs::at_present(*pid, || run.process(*pid));
        code = worse(code, run.told(*pid, done)?);
    }
    let left = run.stay()?;
    run.end(worse(code, left))
}

/// Takes out what an earlier lancet has left in a process. If it must stay, that is said.
fn mended(pid: i32, losses: &mut Losses) -> u8 {
    match agent::mend(pid) {
        Ok(()) => 0,
        Err(error) => {
            losses.leaving(error);
            LOST
        }
    }
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
            json: self.args.has_records(),
        };
        write(&mut answers)?;
        Ok(self.sink.out.flush()?)
    }

    /// Ends the answer: with what was lost, where it is made of records.
    fn end(&mut self, code: u8) -> anyhow::Result<u8> {
        self.losses.end(&mut self.sink)?;
        Ok(code)
    }

    /// The exit code of what was done in one process. What went wrong there is told where there are others, or where something is still to be undone:
    /// those are done all the same. Otherwise it is the answer of the command.
    fn told(&mut self, pid: i32, done: anyhow::Result<u8>) -> anyhow::Result<u8> {
        match done {
            Err(error) if self.args.pids.len() > 1 || !self.staying.is_empty() => {
                let text = format!("process {pid}: {error:#}");
                self.losses
                    .say(Loss::new(Some(pid), What::Process, None, text));
                Ok(crate::exit::FAILED)
            }
            done => done,
        }
    }

    /// What is asked for, in one process.
    fn process(&mut self, pid: i32) -> anyhow::Result<u8> {
        let guest = Guest::open(pid).map_err(explained)?;
        if self.args.new.is_none() {
            self.answer(|to| to.process(pid))?;
        }
        if self.args.list {
            let all = patch::list(&guest).map_err(explained)?;
            let settings = patch::list_settings(&guest).map_err(explained)?;
            let scripts = script::seen(&guest, &mut self.losses);
            self.answer(|to| to.list(pid, &all, &settings, &scripts.all))?;
            let unsearched = code_of_unsearched(&guest, &mut self.losses)?;
            return Ok(worse(scripts.code, unsearched));
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
            return Ok(0);
        }
        if let Some(which) = self.args.undo.clone() {
            return self.undo(&guest, &which);
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
            Prepared::Settings(plan) => self.set(&guest, &plan),
        }
    }

    /// Replaces functions, or shows what would be done.
    fn replace(&mut self, guest: Guest, plan: &Plan) -> anyhow::Result<u8> {
        if self.args.dry_run {
            return self.show(&guest, plan);
        }
        let before = guest.resident();
        let applied = self.apply(&guest, plan)?;
        let ids: Vec<u64> = applied.records.iter().map(|record| record.id).collect();
        if plan.is_once() {
            // It is taken back whatever comes: nobody would look for it.
            let answer = once(&guest, plan, &applied);
            let undone = patch::undo(&guest, &Which::These(ids.clone())).map_err(explained);
            let took = undone.with_context(|| stays(guest.pid(), &ids))?;
            let answer = answer?;
            let stood = applied.stood.max(took.stood);
            let resident = [before, guest.resident()];
            self.answer(|to| to.once(guest.pid(), answer, resident, stood))?;
            return Ok(u8::from(answer.is_none()));
        }
        let pid = guest.pid();
        self.remember(guest, TakenBack::Native(ids));
        self.answer(|to| to.applied(pid, &applied))?;
        Ok(0)
    }

    /// Remembers what was applied if it is only for a time.
    pub fn remember(&mut self, guest: Guest, applied: TakenBack) {
        if self.args.lasts.is_some() {
            self.staying.push((guest, applied));
        }
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
            return Ok(code_of_left(guest.pid(), plan, &mut self.losses));
        }
        let (settings, stood) = patch::apply_settings(guest, plan).map_err(explained)?;
        self.answer(|to| to.settings_applied(guest.pid(), &settings, plan.note, stood))?;
        Ok(code_of_left(guest.pid(), plan, &mut self.losses))
    }

    /// Stays until the time is over or somebody asks lancet to end, and takes the patches back.
    fn stay(&mut self) -> anyhow::Result<u8> {
        let until = Instant::now() + self.args.lasts.unwrap_or_default();
        while !self.staying.is_empty() && Instant::now() < until && !interrupt::asked() {
            self.staying.retain(|(guest, _)| {
                let alive = guest.is_alive();
                if !alive {
                    tell!("process {} has ended", guest.pid());
                }
                alive
            });
            sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
        }
        let mut code = 0;
        for (guest, which) in std::mem::take(&mut self.staying) {
            let done = self.undo(&guest, &which);
            code = worse(code, self.told(guest.pid(), done)?);
        }
        Ok(code)
    }

    fn undo(&mut self, guest: &Guest, which: &TakenBack) -> anyhow::Result<u8> {
        match which {
            TakenBack::Script(ids) => self.undo_in_script(guest, ids),
            TakenBack::Native(ids) => self.undo_native(guest, &Which::These(ids.clone())),
            TakenBack::All => {
                let scripts = script::seen(guest, &mut self.losses);
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
            Which::All if is_anything_left(guest, &mut self.losses)? => LOST,
            Which::All => code_of_unsearched(guest, &mut self.losses)?,
            Which::These(_) => 0,
        })
    }
}

/// Says how much of the process's memory was not searched for patches, and returns the exit code for it.
fn code_of_unsearched(guest: &Guest, losses: &mut Losses) -> anyhow::Result<u8> {
    match patch::unsearched(guest).map_err(explained)? {
        0 => Ok(0),
        bytes => {
            let mebibytes = bytes.div_ceil(1 << 20);
            let text = format!(
                "{mebibytes} MiB of its read-only memory were not searched for patches: it has too much of it"
            );
            losses.say(Loss::new(Some(guest.pid()), What::Patches, None, text));
            Ok(LOST)
        }
    }
}

/// Says how many a remedy of settings leaves as they are, and returns the exit code for it.
fn code_of_left(pid: i32, plan: &SettingsPlan, losses: &mut Losses) -> u8 {
    match plan.left {
        0 => 0,
        left => {
            let room = plan.settings.len();
            let text = format!(
                "{left} more are left as they are, because one command sets {room} at most: run it again for the next"
            );
            losses.say(Loss::new(
                Some(pid),
                What::Settings,
                Some(left as u64),
                text,
            ));
            LOST
        }
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

/// What is said of a patch that was there to be used once and could not be taken back.
fn stays(pid: i32, ids: &[u64]) -> String {
    let undo: Vec<String> = ids
        .iter()
        .map(|id| format!("lancet patch -p {pid} --undo {id}"))
        .collect();
    format!("the patch is still in force: {}", undo.join("; "))
}

/// Says which patches could not be taken back because something else has changed their functions since.
fn is_anything_left(guest: &Guest, losses: &mut Losses) -> anyhow::Result<bool> {
    let mut left = false;
    for listed in patch::list(guest).map_err(explained)? {
        let id = listed.record.id;
        if listed.state == State::Covered {
            let text = format!(
                "patch {id} was not undone: its function was changed by something else since"
            );
            losses.say(Loss::new(Some(guest.pid()), What::Patches, Some(1), text));
            left = true;
        }
    }
    Ok(left)
}
