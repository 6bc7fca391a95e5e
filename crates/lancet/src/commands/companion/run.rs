//! Serves requests, one after the other, until the program ends. Used by `commands`.

use std::io;
use std::process::Stdio;

use process::guest::Status;
use process::priority;
use serde_json::json;

use super::CompanionArgs;
use super::blocks::Blocks;
use super::protocol::{Answer, Channel, Heard, Refusal, Request, What};
use super::watches::Watches;
use crate::itself;
use crate::ui::interrupt;

/// Runs `lancet companion`: starts a process that is not the program's child, or is that process and serves the program until
/// it ends.
pub fn run(args: CompanionArgs) -> anyhow::Result<u8> {
    if !args.detached {
        return detach();
    }
    interrupt::catch();
    // It is one more process beside a program that serves others: where memory ends, this one ends.
    priority::end_before_others();
    // A terminal's signals are not for us. We are a leader already if somebody else has seen to that.
    let _ = nix::unistd::setsid();
    // No folder is held.
    std::env::set_current_dir("/")?;
    match serve(args) {
        Ok(()) => Ok(0),
        // The program is gone.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(error.into()),
    }
}

/// Starts a companion that is not the program's child. It has our pipes to the program; where it fails it closes them, and the
/// program says so.
fn detach() -> anyhow::Result<u8> {
    itself::command()
        .args(std::env::args_os().skip(1))
        .arg("--detached")
        .stderr(Stdio::null())
        .spawn()?;
    Ok(0)
}

fn serve(args: CompanionArgs) -> io::Result<()> {
    let status = Status::read(args.pid).map_err(io::Error::other)?;
    let mut channel = Channel::new()?;
    let hidden = args.hide.map(|folder| format!("{}/", folder.display()));
    let mut blocks = Blocks::new(args.pid, hidden.clone());
    let mut watches = Watches::new(args.pid, hidden);
    channel.greet()?;
    while !interrupt::asked() && !status.is_gone() {
        match channel.hear(blocks.patience())? {
            Heard::Request(Ok(request)) if matches!(request.what, What::Leave) => break,
            Heard::Request(Ok(request)) => {
                let answer = channel.answer(request.id);
                serve_one(request, answer, &mut blocks, &mut watches)?;
                blocks.touch();
            }
            Heard::Request(Err(why)) => channel.answer(0).failed(&Refusal::Refused(why))?,
            Heard::Nothing => {}
            Heard::End => break,
        }
        blocks.rest();
    }
    blocks.leave();
    Ok(())
}

fn serve_one(
    request: Request,
    mut answer: Answer,
    blocks: &mut Blocks,
    watches: &mut Watches,
) -> io::Result<()> {
    let nothing = |()| json!({});
    let counted = |lost: Vec<String>| match &lost[..] {
        [] => json!({}),
        lost => json!({ "lost": lost }),
    };
    let done = match request.what {
        What::Leave => return Ok(()),
        What::Track { births } => blocks.track(births).map(|block| json!({"block": block})),
        What::Count { block, collect } => blocks.count(block, collect, &mut answer)?.map(counted),
        What::Objects { block, contents } => {
            blocks.objects(block, contents, &mut answer)?.map(counted)
        }
        What::Resume { block } => blocks.resume(block).map(nothing),
        What::Forget { block } => blocks.forget(block).map(nothing),
        What::End { block } => blocks.end(block).map(nothing),
        What::Account { thread } => blocks.account(thread).map(nothing),
        What::Watch { command, words } => watches
            .begin(&command, &words, &mut || blocks.let_go())
            .map(|watch| json!({"watch": watch})),
        What::Counters { groups } => watches
            .begin_counters(&groups, &mut || blocks.let_go())
            .map(|watch| json!({"watch": watch})),
        What::Between {
            watch,
            stretches,
            details,
        } => watches
            .between((watch, details), &stretches, &mut answer, &mut || {
                blocks.let_go();
            })?
            .map(counted),
        What::Page => {
            answer.record(&report::requests::page())?;
            Ok(json!({}))
        }
        What::Finish { watch } => watches.finish(watch, &mut answer, &mut || blocks.let_go())?,
        What::Run { command, words } => {
            watches.run(&command, &words, &mut answer, &mut || blocks.let_go())?
        }
    };
    match done {
        Ok(done) => answer.done(&done),
        Err(why) => answer.failed(&why),
    }
}
