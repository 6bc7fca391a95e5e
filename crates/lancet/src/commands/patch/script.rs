//! Functions of the script: applying, listing and undoing. Used by `run`.

use anyhow::bail;
use inject::Image;
use patch::{Guest, Request, Script, ScriptPatch, ScriptRequest};
use report::losses::{Loss, What};
use vm::Language;

use super::args::{Replaced, TakenBack};
use super::explained::explained;
use super::run::Run;
use crate::agent::AGENT;
use crate::exit::LOST;
use crate::losses::Losses;

/// The functions of the program and its libraries, and those of the script.
///
/// # Errors
/// There are both, or those of two languages.
pub fn apart(requests: &[Replaced]) -> anyhow::Result<(Vec<Request>, Vec<ScriptRequest>)> {
    let (mut native, mut scripts) = (Vec::new(), Vec::new());
    for one in requests {
        match one {
            Replaced::Native(one) => native.push(one.clone()),
            Replaced::Script(one) => scripts.push(one.clone()),
        }
    }
    let mixed = scripts
        .windows(2)
        .any(|two: &[ScriptRequest]| two[0].language != two[1].language);
    if mixed || !native.is_empty() && !scripts.is_empty() {
        bail!(
            "functions of libraries, and of scripts in each language, are replaced in different ways: write one command for each"
        );
    }
    Ok((native, scripts))
}

impl Run {
    /// Replaces functions of the script, all or none.
    pub fn replace_in_script(
        &mut self,
        guest: Guest,
        requests: &[ScriptRequest],
    ) -> anyhow::Result<u8> {
        if self.args.wait.is_some() {
            bail!(
                "--wait is for functions of libraries: calls that run in a function of the script go on in the old one"
            );
        }
        let mut script = open(&guest, requests[0].language)?;
        if self.args.dry_run {
            let all = requests.iter().map(|one| script.check(one));
            let all = all.collect::<patch::Result<Vec<_>>>().map_err(explained)?;
            self.answer(|to| to.scripts_checked(guest.pid(), &all))?;
            tell!("nothing was changed");
            return Ok(0);
        }
        let mut applied: Vec<ScriptPatch> = Vec::new();
        for request in requests {
            match script.apply(request) {
                Ok(one) => applied.push(one),
                Err(error) => {
                    for one in applied.iter().rev() {
                        if let Err(error) = script.undo(one.id) {
                            self.losses.say(left(guest.pid(), &error));
                        }
                    }
                    return Err(explained(error));
                }
            }
        }
        let (pid, ids) = (guest.pid(), applied.iter().rev().map(|one| one.id));
        self.remember(guest, TakenBack::Script(ids.collect()));
        let left = script.leave();
        self.answer(|to| to.scripts_applied(pid, &applied))?;
        left.map_err(explained)?;
        Ok(0)
    }

    /// Takes these back, in this order; says which cannot be, if there are several.
    pub fn undo_in_script(&mut self, guest: &Guest, ids: &[u64]) -> anyhow::Result<u8> {
        let Some(language) = guest.language() else {
            bail!(
                "process {} runs no script now (exec?), so nothing of it is replaced any more",
                guest.pid()
            );
        };
        self.undo_with(guest.pid(), open(guest, language)?, ids)
    }

    /// Takes all back that were seen, the last one first.
    pub fn undo_seen(&mut self, pid: i32, seen: Seen) -> anyhow::Result<u8> {
        let ids: Vec<u64> = seen.all.iter().rev().map(|one| one.id).collect();
        match seen.script {
            Some(script) if !ids.is_empty() => self.undo_with(pid, script, &ids),
            _ => Ok(0),
        }
    }

    fn undo_with(&mut self, pid: i32, mut script: Script, ids: &[u64]) -> anyhow::Result<u8> {
        let (mut done, mut code) = (Vec::new(), 0);
        for id in ids {
            match script.undo(*id) {
                Ok(one) => done.push(one),
                Err(error) if ids.len() == 1 => return Err(explained(error)),
                Err(error) => {
                    self.losses.say(left(pid, &error));
                    code = LOST;
                }
            }
        }
        let left = script.leave();
        self.answer(|to| to.scripts_undone(pid, &done))?;
        left.map_err(explained)?;
        Ok(code)
    }
}

/// A patch that was not taken back.
fn left(pid: i32, why: &patch::Error) -> Loss {
    Loss::new(Some(pid), What::Patches, Some(1), why.to_string())
}

fn open(guest: &Guest, language: Language) -> anyhow::Result<Script> {
    let image = Image::parse(AGENT)?;
    Script::open(guest.pid(), &image, language).map_err(explained)
}

/// The patches of a script's functions.
pub struct Seen {
    /// The patches, those that were applied first in front.
    pub all: Vec<ScriptPatch>,
    /// The exit code: [`LOST`] where the VM did not say.
    pub code: u8,
    /// The VM that was asked; it is left when this is dropped.
    script: Option<Script>,
}

/// Asks for the patches of the script's functions, where there is a VM that may have any. Where it does not answer that is said, with
/// the exit code for it: what else there is can be shown and undone all the same.
pub fn seen(guest: &Guest, losses: &mut Losses) -> Seen {
    let nothing = |code| Seen {
        all: Vec::new(),
        code,
        script: None,
    };
    let Some(language) = guest.language() else {
        return nothing(0);
    };
    if matches!(guest.has_agent(), Ok(false)) {
        return nothing(0);
    }
    let list = || {
        let mut script = open(guest, language)?;
        let all = script.list().map_err(explained)?;
        anyhow::Ok((script, all))
    };
    match list() {
        Ok((script, all)) => Seen {
            all,
            code: 0,
            script: Some(script),
        },
        Err(error) => {
            let text =
                format!("whether functions of the script were replaced is not known: {error:#}");
            losses.say(Loss::new(Some(guest.pid()), What::Patches, None, text));
            nothing(LOST)
        }
    }
}

/// Whether nothing but functions of the script was ever replaced.
pub fn is_alone(guest: &Guest) -> anyhow::Result<bool> {
    let functions = patch::list(guest).map_err(explained)?;
    let settings = patch::list_settings(guest).map_err(explained)?;
    Ok(functions.is_empty() && settings.is_empty())
}
