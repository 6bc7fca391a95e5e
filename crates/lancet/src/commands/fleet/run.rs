//! Asks an engine, and shows what it has found. Used by `commands`.

use std::io::Write;
use std::time::SystemTime;

use anyhow::{Context, bail};
use report::fleet;

use super::FleetArgs;
use super::engine::{Engine, plain, script};
use super::questions::Part;
use crate::exit::Usage;
use crate::ui::sink::{Sink, print};
use crate::ui::terminal::Stream;

/// Runs `lancet fleet` and returns the exit code.
pub fn run(args: FleetArgs) -> anyhow::Result<u8> {
    let question = args.question;
    if question.compares && args.release.is_some() {
        return Err(Usage(format!(
            "{} compares releases: leave --release away",
            question.name
        ))
        .into());
    }
    let engine = match &args.spark {
        Some(url) => Engine::Spark(url),
        None if args.clickhouse => Engine::ClickHouse,
        None => Engine::DuckDb,
    };
    let folder = std::path::absolute(&args.from)?;
    let folder = folder
        .to_str()
        .context("the name of --from is no UTF-8: name another")?;
    let (folder, only) = (plain("--from", folder)?, only(&args)?);
    let there = |part: &&Part| args.from.join(part.table).is_dir();
    let parts: Vec<&Part> = question.parts.iter().filter(there).collect();
    if parts.is_empty() {
        let commands: Vec<String> = question
            .parts
            .iter()
            .map(|part| format!("`lancet {} --json`", part.command))
            .collect();
        bail!(
            "{} has no answers to ask: {} on each host, then lancet export",
            args.from.display(),
            commands.join(" or ")
        );
    }
    let mut sink = Sink::open(None, Stream::Stdout)?;
    for (number, part) in parts.into_iter().enumerate() {
        let mut statements = engine.view(folder, part.table, &only);
        statements.push(part.sql.to_owned());
        if args.sql {
            print(script(&statements).as_bytes())?;
            continue;
        }
        let rows = engine.ask(&statements)?;
        if number > 0 {
            writeln!(sink.out)?;
        }
        fleet::write(&mut sink.out, &part.words, &rows, &sink.style)?;
        sink.out.flush()?;
    }
    Ok(0)
}

/// Which rows are asked, as the end of a statement.
fn only(args: &FleetArgs) -> anyhow::Result<String> {
    let mut all = Vec::new();
    for (flag, column, value) in [
        ("--host", "host", &args.host),
        ("--release", "release", &args.release),
    ] {
        if let Some(value) = value {
            all.push(format!("{column} = '{}'", plain(flag, value)?));
        }
    }
    if let Some(since) = args.since {
        let begin = SystemTime::now().checked_sub(since);
        let begin = begin.and_then(|begin| begin.duration_since(SystemTime::UNIX_EPOCH).ok());
        all.push(format!(
            "end_ns >= {}",
            begin.map_or(0, |begin| begin.as_nanos())
        ));
    }
    Ok(match all.is_empty() {
        true => String::new(),
        false => format!(" where {}", all.join(" and ")),
    })
}
