//! Functions of the script: applying, listing and undoing.

use anyhow::bail;
use inject::Image;
use patch::{Guest, Request, Script, ScriptPatch, ScriptRequest};
use report::patch as text;
use vm::Language;

use super::PatchArgs;
use super::args::Replaced;
use super::run::{explained, outlasts};
use crate::agent::AGENT;
use crate::exit::LOST;
use crate::ui::sink::Sink;

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
    sink: &mut Sink,
) -> anyhow::Result<u8> {
    if args.wait.is_some() {
        bail!(
            "--wait is for functions of libraries: calls that run in a function of the script go on in the old one"
        );
    }
    let mut script = open(guest, requests[0].language)?;
    if args.dry_run {
        for request in requests {
            let one = script.check(request).map_err(explained)?;
            text::script_checked(&mut sink.out, &one)?;
        }
        sink.out.flush()?;
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
        text::script_applied(&mut sink.out, guest.pid(), one)?;
    }
    sink.out.flush()?;
    let Some(lasts) = args.lasts else {
        script.leave().map_err(explained)?;
        return Ok(0);
    };
    if outlasts(guest, lasts) {
        for one in take_back(&mut script, &applied)? {
            text::script_undone(&mut sink.out, &one)?;
        }
        sink.out.flush()?;
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
pub fn undo(guest: &Guest, id: u64, sink: &mut Sink) -> anyhow::Result<u8> {
    let Some(language) = guest.language() else {
        bail!("process {} runs no script", guest.pid());
    };
    let mut script = open(guest, language)?;
    let one = script.undo(id).map_err(explained)?;
    script.leave().map_err(explained)?;
    text::script_undone(&mut sink.out, &one)?;
    sink.out.flush()?;
    Ok(0)
}

/// Takes all back, the last one first, and says which could not be; `None` if there are none.
pub fn undo_all(guest: &Guest, sink: &mut Sink) -> anyhow::Result<Option<u8>> {
    let all = list(guest)?;
    let (Some(language), false) = (guest.language(), all.is_empty()) else {
        return Ok(None);
    };
    let mut script = open(guest, language)?;
    let mut code = 0;
    for one in all.iter().rev() {
        match script.undo(one.id) {
            Ok(one) => text::script_undone(&mut sink.out, &one)?,
            Err(error) => {
                tell!("{error}");
                code = LOST;
            }
        }
    }
    script.leave().map_err(explained)?;
    sink.out.flush()?;
    Ok(Some(code))
}
