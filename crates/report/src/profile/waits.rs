//! What threads waited for, for people: the cause of most waits in a sentence, and a list. Used by `table`, and by crate `lancet`.
//!
//! ```text
//!  waited  at which line, and what for (100 % is the time of threads at work)
//!   31.2%  Cart#pay (cart.rb:20): waits for a mutex that thread 4243 worker (cart.rb:31) holds and 2 others
//!
//!  one lock, all lines together
//!   45.0%  mutex 0x7f5c5c012a40: at 2 lines, most at Cart#pay (cart.rb:20), held at Cart#audit (cart.rb:31)
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use frames::profile::waits::{Cause, Row};
use frames::profile::{Frame, Profile};

use super::words::{TENTH, at};
use crate::figures::{grouped, plural};
use crate::stack::folded::table::most;
use crate::text::printable;

/// Rows with a smaller share, in percent, are left out where what threads wait for was not asked for.
const SMALLEST: f64 = 1.0;

/// Returns how often a thread was seen that ran, that waited for a processor, or for something that it had begun: the time of threads at work.
pub(super) fn at_work(profile: &Profile) -> u64 {
    profile.ran + profile.queued + profile.waits.counts().0
}

/// Returns a share of that in percent.
fn share(count: u64, of: u64) -> f64 {
    100.0 * count as f64 / of.max(1) as f64
}

/// Whom threads waited for most, if that is worth a sentence: `threads waited 31 % of their time for a mutex at Cart#pay (cart.rb:20), held at
/// Cart#audit (cart.rb:31)`.
pub(super) fn verdict(profile: &Profile) -> Option<String> {
    let causes = profile.waits.causes();
    let cause = causes.iter().find(|cause| is_for_another(cause))?;
    let part = share(cause.count, at_work(profile));
    if part < TENTH {
        return None;
    }
    let doing = printable(cause.doing);
    let (verb, what) = match (doing.strip_prefix("waits "), cause.lock) {
        (Some(what), _) => ("waited", what),
        (None, Some(_)) => ("waited", "for a lock"),
        (None, None) => (
            "were asleep",
            doing.strip_prefix("asleep ").unwrap_or(&doing),
        ),
    };
    Some(format!(
        "threads {verb} {part:.0} % of their time {what} at {}{}",
        lines(&cause.at),
        held(cause)
    ))
}

/// Whether it is another thread or a peer that is waited for. A timer, a queue or a condition may be all that a thread has to do: that is in the
/// table alone.
fn is_for_another(cause: &Cause) -> bool {
    let named = cause.on.iter().filter(|(on, _)| names_peer(on));
    cause.lock.is_some() || 2 * named.map(|(_, count)| count).sum::<u64>() >= cause.count
}

/// Whether what is waited for, as [`Wait::on`](frames::profile::waits::Wait::on) says it, is another process or machine.
fn names_peer(on: &str) -> bool {
    const PEERS: [&str; 6] = [
        "tcp to ",
        "udp to ",
        "unix socket /",
        "whose other end process ",
        ": child ",
        ", asking for ",
    ];
    // What wakes up a thread of the same process.
    let is_own = on.contains("this process itself has");
    !is_own && PEERS.iter().any(|peer| on.contains(peer))
}

/// `Cart#pay (cart.rb:20) and 2 other lines`.
fn lines(all: &BTreeMap<&Frame, u64>) -> String {
    let most = all.iter().max_by_key(|(_, count)| **count);
    let most = most.map_or_else(String::new, |(frame, _)| at(frame));
    match all.len().saturating_sub(1) as u64 {
        0 => most,
        more => {
            let what = plural(more, "other line", "other lines");
            format!("{most} and {} {what}", grouped(more))
        }
    }
}

/// Where the thread was that had the lock: `, held at Cart#audit (cart.rb:31) in 80 % of it`.
fn held(cause: &Cause) -> String {
    let most = cause.holders.iter().max_by_key(|(_, count)| **count);
    let Some((holder, count)) = most else {
        return String::new();
    };
    let part = share(*count, cause.count);
    let of = match part >= 99.5 {
        true => String::new(),
        false => format!(" in {part:.0} % of it"),
    };
    format!(", held at {}{of}", at(holder))
}

/// Writes what threads waited for, at most so many rows; small shares as well if it was `asked` for.
///
/// # Errors
/// Those of `out`.
pub(super) fn write(
    out: &mut dyn Write,
    profile: &Profile,
    rows: usize,
    asked: bool,
) -> io::Result<()> {
    let mut shown = listed(profile);
    shown.retain(|(part, _)| asked || *part >= SMALLEST);
    if !shown.is_empty() {
        writeln!(
            out,
            "\n{:>7}  at which line, and what for (100 % is the time of threads at work)",
            "waited"
        )?;
    }
    for (part, text) in shown.iter().take(rows) {
        writeln!(out, "{part:>6.1}%  {text}")?;
    }
    let left = shown.get(rows..).unwrap_or_default();
    if !left.is_empty() {
        let part: f64 = left.iter().map(|(part, _)| part).sum();
        let more = left.len() as u64;
        let what = plural(more, "row", "rows");
        writeln!(out, "{part:>6.1}%  in {} more {what}", grouped(more))?;
    }
    locks(out, profile, rows)?;
    idle(out, profile)
}

/// Returns what threads waited for at which line, with its share of the time of threads at work in percent.
pub fn listed(profile: &Profile) -> Vec<(f64, String)> {
    let (all, at_work) = (profile.waits.rows(), at_work(profile));
    let shown = all.iter().filter(|row| !row.is_idle);
    shown
        .map(|one| (share(one.count, at_work), row(one)))
        .collect()
}

fn row(row: &Row) -> String {
    let on = row.on.iter().map(|(on, count)| (*on, *count));
    let what = format!("{}{}", row.doing, most(on));
    format!("{}: {}", at(row.place), printable(&what))
}

/// Writes the locks for which threads waited at more than one line.
fn locks(out: &mut dyn Write, profile: &Profile, rows: usize) -> io::Result<()> {
    let (causes, at_work) = (profile.waits.causes(), at_work(profile));
    let of_several = |cause: &&Cause| cause.lock.is_some() && cause.at.len() > 1;
    let locks = causes.iter().filter_map(|cause| cause.lock);
    let mut pids: Vec<u32> = locks.map(|lock| lock.pid).collect();
    pids.dedup();
    for (number, cause) in causes.iter().filter(of_several).take(rows).enumerate() {
        if number == 0 {
            writeln!(out, "\n{:>7}  for one lock, all lines together", "waited")?;
        }
        let Some(lock) = cause.lock else {
            continue;
        };
        let of = match pids.len() {
            1 => String::new(),
            _ => format!(" of process {}", lock.pid),
        };
        let (name, part) = (printable(&lock.name), share(cause.count, at_work));
        let lines = lines(&cause.at);
        writeln!(out, "{part:>6.1}%  {name}{of}: at {lines}{}", held(cause))?;
    }
    Ok(())
}

/// Says how many threads had nothing to do.
fn idle(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let (_, count) = profile.waits.counts();
    if let Some(most) = profile.waits.rows().iter().find(|row| row.is_idle) {
        let threads = count as f64 / profile.rounds.max(1) as f64;
        writeln!(
            out,
            "\nwithout work: {threads:.1} threads on average, most at {}",
            row(most)
        )?;
    }
    Ok(())
}
