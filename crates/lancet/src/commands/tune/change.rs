//! `--apply` and `--undo`: what is written, said line by line.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::bail;
use export::text::printable;
use tune::apply::{self, Applied, ApplyError, Undone, Wish};
use tune::journal::{JournalError, Journals};
use tune::machine::{Machine, in_network};
use tune::owners;
use tune::rules::Rule;
use tune::setting::{Setting, is_setting, sysctl_path};
use tune::tree::Tree;
use tune::verdict::Change;

use super::super::LOST;
use super::{audit, explained, find};
use crate::cli::TuneArgs;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Where a journal is kept, below the root if there is one.
const JOURNALS: &str = "/var/lib/lancet/tune";

/// Makes the changes that were asked for.
pub fn apply(args: &TuneArgs) -> anyhow::Result<u8> {
    let mut sink = Sink::open(None, Stream::Stdout)?;
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
            let (words, says) = (
                finding.outcome.verdict.words(),
                printable(&finding.outcome.says),
            );
            writeln!(
                sink.out,
                "{}  nothing to change: {words}: {says}",
                finding.id
            )?;
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
    interrupt::catch();
    let journals = open(args)?;
    let begun = journals.begin(apply::place(&machine.tree));
    let mut journal = begun.map_err(|error| advised(error.into()))?;
    let mut said = Ok(());
    let go_on = || !interrupt::asked();
    let result = apply::apply(
        &machine.tree,
        &mut journal,
        &wishes,
        go_on,
        |wish, applied| {
            let line = match applied {
                Applied::Already => {
                    format!("{}  {}: {} already", wish.rule, wish.setting, wish.value)
                }
                Applied::From(before) => {
                    format!(
                        "{}  {}: {} → {}",
                        wish.rule,
                        wish.setting,
                        before.trim(),
                        wish.value
                    )
                }
            };
            let written = writeln!(sink.out, "{}", printable(&line));
            said = std::mem::replace(&mut said, Ok(())).and(written);
        },
    );
    let undo = format!("{} --undo {}", args.same_place(), journal.path.display());
    if let Err(error) = result {
        sink.out.flush()?;
        let advised = advised(error);
        if apply::left_changes(&machine.tree, &journal.path).unwrap_or(true) {
            bail!("{advised:#}; what was changed until then is taken back by {undo}");
        }
        journals.retire(&journal.path)?;
        bail!("{advised:#}; nothing was changed");
    }
    said?;
    for finding in &findings {
        if let Some(then) = finding.outcome.then {
            writeln!(sink.out, "{}  then: {then}", finding.id)?;
        }
    }
    writeln!(sink.out, "to take it back: {undo}")?;
    sink.out.flush()?;
    Ok(0)
}

/// `net.core.somaxconn=4096`
fn sysctl(word: &str) -> anyhow::Result<Wish> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let (key, value) = (key.trim(), value.trim());
    if value.is_empty() || !is_setting(&sysctl_path(key)) {
        bail!("`{word}` is not KEY=VALUE, as net.core.somaxconn=4096 is");
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
        let line = format!(
            "{}  {}: {before} → {}    {command}",
            wish.rule, wish.setting, wish.value
        );
        writeln!(sink.out, "{}", printable(&line))?;
        if let Some(owner) = owners::of(machine, &wish.setting, &wish.value) {
            let line = format!(
                "     would be refused: it belongs to {}; {}",
                owner.who, owner.instead
            );
            writeln!(sink.out, "{}", printable(&line))?;
        }
    }
    writeln!(sink.out, "nothing was written")?;
    sink.out.flush()?;
    Ok(0)
}

/// Takes a journal back.
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
    let path = match asked == Path::new("last") {
        false => asked.to_owned(),
        true => match journals.last().map_err(|error| advised(error.into()))? {
            Some(path) => path,
            None => {
                writeln!(sink.out, "nothing to take back")?;
                sink.out.flush()?;
                return Ok(0);
            }
        },
    };
    let results = apply::undo(&tree, &journals, &path, args.force).map_err(advised)?;
    let mut left = 0;
    for (step, undone) in &results {
        let intent = &step.intent;
        left += usize::from(!undone.is_settled());
        let what = match undone {
            Undone::Restored => format!("back to {}", intent.before.trim()),
            Undone::Untouched => format!("reads {} as before", intent.before.trim()),
            Undone::Gone(why) => format!("left alone: {why}"),
            Undone::Foreign { reads } => {
                format!(
                    "left alone: somebody else made it {reads}; --force sets it to {}",
                    intent.before.trim()
                )
            }
            Undone::Failed(why) => format!("NOT back to {}: {why}", intent.before.trim()),
        };
        writeln!(
            sink.out,
            "{}",
            printable(&format!("{}  {}: {what}", intent.rule, intent.setting))
        )?;
    }
    match left {
        0 => writeln!(sink.out, "all {} as before", results.len())?,
        left => writeln!(
            sink.out,
            "{left} of {} not as before; the journal stays: {}",
            results.len(),
            path.display()
        )?,
    }
    sink.out.flush()?;
    Ok(if left == 0 { 0 } else { LOST })
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

/// The error with the next step.
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
