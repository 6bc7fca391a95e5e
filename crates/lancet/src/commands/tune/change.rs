//! `--apply` and `--undo`: makes changes and takes them back, a line of output for each. Used by `run`.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use report::losses::{Loss, What};
use report::tune::changes;
use tune::apply::{self, ApplyError, Wish};
use tune::journal::{JournalError, Journals};
use tune::machine::{Machine, in_network};
use tune::owners;
use tune::rules::{Finding, Rule};
use tune::setting::{Setting, is_setting, sysctl_path};
use tune::tree::Tree;
use tune::verdict::Change;

use super::TuneArgs;
use super::run::{audit, explained, find};
use crate::exit::Usage;
use crate::losses::Losses;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Where root keeps journals; with `--root`, below that directory.
const JOURNALS: &str = "/var/lib/lancet/tune";

/// Makes the changes that `--apply` names, each journalled before it is made.
pub fn apply(args: &TuneArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(None, Stream::Stdout)?;
    let (machine, findings, wishes) = wishes(args, &mut sink)?;
    if args.dry_run {
        return rehearse(&mut sink, &machine, &wishes);
    }
    if !args.force {
        apply::check_owners(&machine, &wishes).map_err(advised)?;
    }
    if wishes.is_empty() {
        sink.out.flush()?;
        return Ok(0);
    }
    apply::check_readable(&machine.tree, &wishes).map_err(|error| {
        let advised = advised(error);
        anyhow::anyhow!("{advised:#}; nothing was changed")
    })?;
    let undo = write(args, &mut sink, &machine.tree, &wishes)?;
    for finding in &findings {
        if let Some(then) = finding.outcome.then {
            writeln!(sink.out, "{}  then: {then}", finding.id)?;
        }
    }
    writeln!(sink.out, "to take it back: {undo}")?;
    sink.out.flush()?;
    Ok(0)
}

/// What the rules and the keys of `--apply` want changed, on which machine; says of which rules there is nothing to change.
fn wishes(args: &TuneArgs, sink: &mut Sink) -> anyhow::Result<(Machine, Vec<Finding>, Vec<Wish>)> {
    let (named, keys): (Vec<&String>, Vec<&String>) =
        args.apply.iter().partition(|word| !word.contains('='));
    let rules: Vec<&'static Rule> = named
        .into_iter()
        .map(|id| find(id))
        .collect::<Result<_, _>>()?;
    let (machine, findings) = audit(args, &rules)?;
    let mut wishes = Vec::new();
    for finding in &findings {
        if finding.outcome.changes.is_empty() {
            changes::nothing(&mut sink.out, finding)?;
        }
        wishes.extend(
            finding
                .outcome
                .changes
                .iter()
                .map(|Change { setting, value }| Wish {
                    rule: finding.id.into(),
                    setting: setting.clone(),
                    value: value.clone(),
                }),
        );
    }
    for word in keys {
        wishes.push(sysctl(word)?);
    }
    Ok((machine, findings, wishes))
}

/// Writes the wishes, each journalled first and told when it is done. Returns the command that takes them back.
fn write(args: &TuneArgs, sink: &mut Sink, tree: &Tree, wishes: &[Wish]) -> anyhow::Result<String> {
    interrupt::catch();
    let journals = open(args)?;
    let begun = journals.begin(apply::origin(tree));
    let mut journal = begun.map_err(|error| advised(error.into()))?;
    let mut said = Ok(());
    let go_on = || !interrupt::asked();
    let result = apply::apply(tree, &mut journal, wishes, go_on, |wish, applied| {
        let written = changes::applied(&mut sink.out, wish, applied);
        said = std::mem::replace(&mut said, Ok(())).and(written);
    });
    let undo = format!("{} --undo {}", args.same_machine(), journal.path.display());
    if let Err(error) = result {
        sink.out.flush()?;
        let advised = advised(error);
        if apply::left_changes(tree, &journal.path).unwrap_or(true) {
            bail!("{advised:#}; what was changed until then is taken back by {undo}");
        }
        journals.retire(&journal.path)?;
        bail!("{advised:#}; nothing was changed");
    }
    said?;
    Ok(undo)
}

/// Reads a word such as `net.core.somaxconn=4096`.
fn sysctl(word: &str) -> anyhow::Result<Wish> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let (key, value) = (key.trim(), value.trim());
    if value.is_empty() || !is_setting(&sysctl_path(key)) {
        let says = format!("`{word}` is not KEY=VALUE, as net.core.somaxconn=4096 is");
        return Err(Usage(says).into());
    }
    Ok(Wish {
        rule: key.into(),
        setting: Setting::sysctl(key),
        value: value.into(),
    })
}

fn rehearse(sink: &mut Sink, machine: &Machine, wishes: &[Wish]) -> anyhow::Result<u8> {
    for wish in wishes {
        let before = match wish.setting.read(&machine.tree) {
            Ok(before) => before.trim().to_owned(),
            Err(cannot) => cannot.to_string(),
        };
        let command = wish.setting.command_in(machine.network_of(), &wish.value);
        let owner = owners::of(machine, &wish.setting, &wish.value);
        changes::rehearsed(&mut sink.out, wish, &before, &command, owner.as_ref())?;
    }
    writeln!(sink.out, "nothing was written")?;
    sink.out.flush()?;
    Ok(0)
}

/// Takes back what a journal says.
pub fn undo(args: &TuneArgs) -> anyhow::Result<u8> {
    let tree = match &args.root {
        Some(root) => Tree::below(root).map_err(explained)?,
        None => Tree::live(),
    };
    let (tree, _) = in_network(tree, args.pids.first().copied()).map_err(explained)?;
    let mut sink = Sink::open(None, Stream::Stdout)?;
    // It takes milliseconds; half of it helps nobody.
    interrupt::catch();
    let journals = open(args)?;
    let asked = args.undo.as_deref().unwrap_or(Path::new("last"));
    let path = if asked == Path::new("last") {
        let Some(path) = journals.last().map_err(|error| advised(error.into()))? else {
            writeln!(sink.out, "nothing to take back")?;
            sink.out.flush()?;
            return Ok(0);
        };
        path
    } else {
        asked.to_owned()
    };
    let results = apply::undo(&tree, &journals, &path, args.force).map_err(advised)?;
    let left = results.iter().filter(|(_, undone)| !undone.is_settled());
    let left = left.count();
    changes::undone(&mut sink.out, &results, left, &path)?;
    sink.out.flush()?;
    let mut losses = Losses::default();
    if left != 0 {
        let text = format!("{left} settings were not taken back");
        losses.note(Loss::new(None, What::Settings, Some(left as u64), text));
    }
    Ok(losses.exit_code(0))
}

fn open(args: &TuneArgs) -> anyhow::Result<Journals> {
    Journals::open(&directory(args)?).map_err(|error| advised(error.into()))
}

fn directory(args: &TuneArgs) -> anyhow::Result<PathBuf> {
    if let Some(directory) = &args.journals {
        return Ok(directory.clone());
    }
    if let Some(root) = &args.root {
        return Ok(root.join(JOURNALS.trim_start_matches('/')));
    }
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return Ok(JOURNALS.into());
    }
    let state = env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    match state.or_else(home) {
        Some(state) => Ok(state.join("lancet/tune")),
        None => bail!("there is no place for a journal: set HOME, or give --journals DIR"),
    }
}

/// Returns the error with the next step.
fn advised(error: ApplyError) -> anyhow::Error {
    match &error {
        ApplyError::Owned { owner, .. } => {
            anyhow::anyhow!("{error}: {}, or use --force", owner.instead)
        }
        ApplyError::OtherBoot(_) => {
            anyhow::anyhow!("{error}: there is nothing left to take back, delete it")
        }
        ApplyError::OtherNetwork { .. } => {
            anyhow::anyhow!("{error}: name a process of that network with -p PID, or use --force")
        }
        ApplyError::NotTaken { .. } => {
            anyhow::anyhow!("{error}: the kernel or driver has the last word")
        }
        ApplyError::Journal(JournalError::Io { .. }) => {
            anyhow::anyhow!("{error}: the journal can be elsewhere with --journals DIR")
        }
        ApplyError::Journal(JournalError::Busy(_)) => {
            anyhow::anyhow!("{error}: wait until it has ended")
        }
        ApplyError::Cannot(_) | ApplyError::Interrupted | ApplyError::Journal(_) => {
            anyhow::Error::new(error)
        }
    }
}
