//! Functions of the script: applying, listing and undoing.

use anyhow::bail;
use inject::Image;
use patch::{Guest, Request, Script, ScriptPatch, ScriptRequest};
use report::patch::Answers;
use vm::Language;

use super::PatchArgs;
use super::args::Replaced;
use super::guests::{explained, outlasts};
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
        .any(|two| two[0].language != two[1].language);
    if mixed || !native.is_empty() && !scripts.is_empty() {
        bail!(
            "functions of libraries, of Ruby and of Python are replaced in different ways: write one command for each"
        );
    }
    Ok((native, scripts))
}

/// Replaces functions of the script, all or none.
pub fn run(
    args: &PatchArgs,
    guest: &Guest,
    requests: &[ScriptRequest],
    to: &mut Answers,
) -> anyhow::Result<u8> {
    let pid = guest.pid();
    if args.lasts.is_some() && args.pids.len() > 1 {
        bail!("--for with functions of the script takes one process: write one command for each");
    }
    if args.wait.is_some() {
        bail!(
            "--wait is for functions of libraries: calls that run in a function of the script go on in the old one"
        );
    }
    let mut script = open(guest, requests[0].language)?;
    if args.dry_run {
        for request in requests {
            let one = script.check(request).map_err(explained)?;
            to.script_checked(pid, &one)?;
        }
        to.out.flush()?;
        tell!("nothing was changed");
        return Ok(0);
    }
    let mut applied: Vec<ScriptPatch> = Vec::new();
    for request in requests {
        match script.apply(request) {
            Ok(one) => applied.push(one),
            Err(error) => {
                take_back(&mut script, &applied)?;
                return Err(explained(error));
            }
        }
    }
    for one in &applied {
        to.script_applied(pid, one)?;
    }
    to.out.flush()?;
    let Some(lasts) = args.lasts else {
        script.leave().map_err(explained)?;
        return Ok(0);
    };
    if !outlasts(std::iter::once(guest), lasts).is_empty() {
        for one in take_back(&mut script, &applied)? {
            to.script_undone(pid, &one)?;
        }
        to.out.flush()?;
    }
    Ok(0)
}

/// Takes patches back, the last one first.
fn take_back(script: &mut Script, patches: &[ScriptPatch]) -> anyhow::Result<Vec<ScriptPatch>> {
    let back = patches.iter().rev().map(|one| script.undo(one.id));
    back.collect::<patch::Result<_>>().map_err(explained)
}

fn open(guest: &Guest, language: Language) -> anyhow::Result<Script> {
    let image = Image::parse(AGENT)?;
    Script::open(guest.pid(), &image, language).map_err(explained)
}

/// The patches of the script's functions; none where there is no VM that could have any.
pub fn list(guest: &Guest) -> anyhow::Result<Vec<ScriptPatch>> {
    match guest.language() {
        Some(language @ (Language::Ruby | Language::Python)) => {
            let mut script = open(guest, language)?;
            let all = script.list().map_err(explained)?;
            script.leave().map_err(explained)?;
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}

/// Takes one back.
pub fn undo(guest: &Guest, id: u64) -> anyhow::Result<ScriptPatch> {
    let Some(language) = guest.language() else {
        bail!("process {} runs no script", guest.pid());
    };
    let mut script = open(guest, language)?;
    let one = script.undo(id).map_err(explained)?;
    script.leave().map_err(explained)?;
    Ok(one)
}

/// Takes all back, the last one first, and says which could not be; what was taken back, and the exit code, `None` if there was nothing.
pub fn undo_all(guest: &Guest) -> anyhow::Result<(Vec<ScriptPatch>, Option<u8>)> {
    let all = list(guest)?;
    let (Some(language), false) = (guest.language(), all.is_empty()) else {
        return Ok((Vec::new(), None));
    };
    let mut script = open(guest, language)?;
    let (mut undone, mut code) = (Vec::new(), 0);
    for one in all.iter().rev() {
        match script.undo(one.id) {
            Ok(one) => undone.push(one),
            Err(error) => {
                tell!("{error}");
                code = LOST;
            }
        }
    }
    script.leave().map_err(explained)?;
    Ok((undone, Some(code)))
}
