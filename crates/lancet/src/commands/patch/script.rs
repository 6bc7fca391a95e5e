//! Functions of the script: applying, listing and undoing.

use anyhow::bail;
use inject::Image;
use patch::{Guest, Request, Script, ScriptPatch, ScriptRequest};
use vm::Language;

use super::args::{Replaced, TakenBack};
use super::explained::explained;
use super::run::{Done, Run};
use crate::agent::AGENT;
use crate::exit::LOST;

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
    ) -> anyhow::Result<Done> {
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
            return Ok((0, None));
        }
        let mut applied: Vec<ScriptPatch> = Vec::new();
        for request in requests {
            match script.apply(request) {
                Ok(one) => applied.push(one),
                Err(error) => {
                    for one in applied.iter().rev() {
                        script.undo(one.id).map_err(explained)?;
                    }
                    return Err(explained(error));
                }
            }
        }
        script.leave().map_err(explained)?;
        self.answer(|to| to.scripts_applied(guest.pid(), &applied))?;
        let ids = applied.iter().rev().map(|one| one.id).collect();
        let stays = self.args.lasts.is_some();
        Ok((0, stays.then_some((guest, TakenBack::Script(ids)))))
    }

    /// Takes these back, in this order; says which cannot be, if there are several.
    pub fn undo_in_script(&mut self, guest: &Guest, ids: &[u64]) -> anyhow::Result<u8> {
        if ids.is_empty() {
            return Ok(0);
        }
        let Some(language) = guest.language() else {
            bail!("process {} runs no script", guest.pid());
        };
        let mut script = open(guest, language)?;
        let (mut done, mut code) = (Vec::new(), 0);
        for id in ids {
            match script.undo(*id) {
                Ok(one) => done.push(one),
                Err(error) if ids.len() == 1 => return Err(explained(error)),
                Err(error) => {
                    tell!("{error}");
                    code = LOST;
                }
            }
        }
        script.leave().map_err(explained)?;
        self.answer(|to| to.scripts_undone(guest.pid(), &done))?;
        Ok(code)
    }
}

fn open(guest: &Guest, language: Language) -> anyhow::Result<Script> {
    let image = Image::parse(AGENT)?;
    Script::open(guest.pid(), &image, language).map_err(explained)
}

/// The patches of the script's functions, none where there is no VM that could have any. Where the VM does not answer that is said, with
/// the exit code for it: what else there is can be shown and undone all the same.
pub fn seen(guest: &Guest) -> (Vec<ScriptPatch>, u8) {
    let Some(language) = guest.language() else {
        return (Vec::new(), 0);
    };
    let list = || {
        let mut script = open(guest, language)?;
        let all = script.list().map_err(explained)?;
        script.leave().map_err(explained)?;
        anyhow::Ok(all)
    };
    match list() {
        Ok(all) => (all, 0),
        Err(error) => {
            tell!("whether functions of the script were replaced is not known: {error:#}");
            (Vec::new(), LOST)
        }
    }
}

/// Whether nothing but functions of the script was ever replaced.
pub fn is_alone(guest: &Guest) -> anyhow::Result<bool> {
    let functions = patch::list(guest).map_err(explained)?;
    let settings = patch::list_settings(guest).map_err(explained)?;
    Ok(functions.is_empty() && settings.is_empty())
}
