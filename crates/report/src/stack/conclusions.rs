//! What follows from all threads of a process together, before the threads themselves: who does not go on, who holds others up, and in which
//! function many wait. Used by `dump` and `now`.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::Duration;

use frames::live::activity::{Until, waits_for};
use frames::live::circles::{self, HeldUp, deadlocks};
use frames::live::gathered::{Gathered, gathered};
use frames::live::scripts::Script;
use frames::live::stack::Stack;

use super::Subject;
use super::dump::{RED, YELLOW};
use super::states::{at, slept, thread_at, time, words};
use crate::Style;
use crate::figures::{grouped, plural};
use crate::text::printable;

/// Threads of one circle, and of those that are further in a function, that are told, at most; of more the number is told.
const TOLD: usize = 16;
/// Threads that hold others up, and functions in which threads wait, that are told, at most.
const MOST: usize = 5;
/// From when on a wait for a lock is told before the threads.
pub(super) const LONG: Duration = Duration::from_secs(1);

/// The threads that will never go on, before everything else, and the children that will not.
pub(super) fn stuck(out: &mut dyn Write, subject: &Subject, style: Style) -> io::Result<()> {
    let stacks = &subject.look.stacks;
    for circle in deadlocks(stacks) {
        writeln!(out)?;
        // What waits for a lock of the C library goes on waiting after a signal.
        let is_native =
            |at: &usize| matches!(waits_for(stacks, *at), Some((Until::Released(_), _)));
        let unless = match circle.iter().any(is_native) {
            true => "",
            false => " unless it is interrupted",
        };
        let text = match circle.len() {
            1 => format!("deadlock: this thread waits for itself, and does not go on{unless}"),
            count => format!(
                "deadlock: these {} threads wait for each other, and none goes on{unless}",
                grouped(count as u64)
            ),
        };
        writeln!(out, "{}", style.painted(&text, RED))?;
        let more = circle.len().saturating_sub(TOLD);
        for number in circle.into_iter().take(TOLD) {
            let words = words(stacks, number).unwrap_or_default();
            writeln!(
                out,
                "    {} {} {}",
                thread_at(&stacks[number]),
                words.verb,
                words.rest
            )?;
        }
        if more > 0 {
            writeln!(out, "    … and {} more", grouped(more as u64))?;
        }
    }
    standstill(out, subject, style)?;
    standing_child(out, subject, style)
}

/// Says that no thread of the process goes on, where that is so though nobody knows who waits for whom.
fn standstill(out: &mut dyn Write, subject: &Subject, style: Style) -> io::Result<()> {
    let stacks = &subject.look.stacks;
    if !subject.look.standstill || !deadlocks(stacks).is_empty() {
        return Ok(());
    }
    let count = stacks.iter().filter(|stack| stack.parked.is_none()).count();
    let text = match count {
        1 => "no thread goes on: the only one waits without a time limit for what another thread of this process would have to give; only a signal changes that".to_owned(),
        count => format!(
            "no thread goes on: all {} wait without a time limit for what one of them would have to give; only a signal changes that",
            grouped(count as u64)
        ),
    };
    writeln!(out, "\n{}", style.painted(&text, RED))
}

/// Says which children do not go on whose end a thread waits for.
fn standing_child(out: &mut dyn Write, subject: &Subject, style: Style) -> io::Result<()> {
    let mut told = Vec::new();
    for stack in &subject.look.stacks {
        let wait = stack.state.as_ref().and_then(|state| state.wait.as_ref());
        let others = wait.iter().flat_map(|wait| &wait.others);
        for child in others.filter_map(|others| others.stands.as_ref()) {
            if told.contains(&child.pid) || told.len() >= MOST {
                continue;
            }
            told.push(child.pid);
            let text = format!(
                "{} waits for the end of process {} {}, and that does not go on: each of its threads waits without a time limit for what one of them would have to give, and only a signal changes that: lancet stack -p {}",
                thread_at(stack),
                child.pid,
                printable(&child.name),
                child.pid
            );
            writeln!(out, "\n{}", style.painted(&text, RED))?;
        }
    }
    Ok(())
}

/// Says of each thread that waits for no other and for which others have waited `least`, what it does, and of the functions in which many wait,
/// who is further in their callers.
pub(super) fn held_up(
    out: &mut dyn Write,
    subject: &Subject,
    style: Style,
    least: Duration,
) -> io::Result<()> {
    let stacks = &subject.look.stacks;
    let held = circles::held_up(stacks);
    let is_told = |at: &usize| {
        let HeldUp { count, longest } = held[*at];
        count > 0 && longest.unwrap_or_default() >= least && waits_for(stacks, *at).is_none()
    };
    let mut holders: Vec<usize> = (0..stacks.len()).filter(is_told).collect();
    holders.sort_by_key(|&at| std::cmp::Reverse(held[at].count));
    let holders = holders
        .iter()
        .take(MOST)
        .map(|&at| holder(stacks, at, held[at]));
    // Where no thread goes on, that has been said.
    let groups = match subject.look.standstill {
        true => Vec::new(),
        false => gathered(stacks),
    };
    let groups = groups.iter().take(MOST).map(|group| told(stacks, group));
    for (nth, text) in holders.chain(groups).enumerate() {
        if nth == 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", style.painted(&text, YELLOW))?;
    }
    Ok(())
}

/// `thread 4242 main (app.rb:4) holds up 3 threads (for the VM lock), one of them for 7.6 s; it is asleep 7.6 s in sleep`.
fn holder(stacks: &[Stack], at: usize, held: HeldUp) -> String {
    let count = held.count as u64;
    // What those wait for that wait for it itself, if it is the same for all.
    let waiting = (0..stacks.len()).filter(|&one| {
        waits_for(stacks, one).is_some_and(|(until, other)| other == at && until != Until::Ended)
    });
    let wanted = waiting.filter_map(|one| {
        let words = words(stacks, one)?;
        Some(words.rest[..words.whom].to_owned())
    });
    let wanted: BTreeSet<String> = wanted.collect();
    let what = match (wanted.first(), wanted.len()) {
        (Some(what), 1) => format!(" ({what})"),
        _ => String::new(),
    };
    let longest = match (held.longest, count) {
        (None, _) => String::new(),
        (Some(longest), 1) => format!(" for {}", time(longest)),
        (Some(longest), _) => format!(", one of them for {}", time(longest)),
    };
    let words = words(stacks, at).unwrap_or_default();
    let since = slept(&stacks[at]).map_or(String::new(), |since| format!(" {}", time(since)));
    let text = format!(
        "{} holds up {} {}{what}{longest}; it {} {}{since} {}",
        thread_at(&stacks[at]),
        grouped(count),
        plural(count, "thread", "threads"),
        if words.verb == "waits" { "" } else { "is" },
        words.verb,
        words.rest
    );
    let text: Vec<&str> = text.split_whitespace().collect();
    text.join(" ")
}

/// `8 threads wait without a time limit in Pool#checkout (pool.rb:12), one of them for 9.1 s, and no other thread is in Object#pay, …`.
fn told(stacks: &[Stack], group: &Gathered) -> String {
    let count = group.waiting.len() as u64;
    let longest = group.waiting.iter().filter_map(|&at| slept(&stacks[at]));
    let longest = longest.max().unwrap_or_default();
    let place = |script: &Script| format!("{} ({})", printable(script.full_name()), at(script));
    let caller = place(&group.caller);
    let waits = format!(
        "{} threads wait without a time limit in {}, one of them for {}",
        grouped(count),
        place(&group.within),
        time(longest)
    );
    if group.further.is_empty() {
        return format!(
            "{waits}, and no other thread is in {caller}, which called it: they wait for work, for a result, or for what was taken there and not given back"
        );
    }
    let more = group.further.len().saturating_sub(TOLD);
    let further = group.further.iter().take(TOLD);
    let further: Vec<String> = further.map(|&at| thread_at(&stacks[at])).collect();
    let more = match more {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    };
    format!(
        "{waits}; in {caller}, which called it, {} further and may have what they wait for: {}{more}",
        match group.further.len() {
            1 => "another thread is",
            _ => "other threads are",
        },
        further.join(", ")
    )
}

/// Says how what waits in an event loop of Python is shown.
pub(super) fn event_loop(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    let stacks = &subject.look.stacks;
    let runs_tasks = |stack: &Stack| {
        let mut scripts = stack.scripts();
        scripts.any(|script| script.path.ends_with("/asyncio/base_events.py"))
    };
    let is_shown = stacks.iter().any(|stack| stack.parked.is_some());
    if is_shown || subject.from_core || !stacks.iter().any(runs_tasks) {
        return Ok(());
    }
    let pid = subject.pid;
    writeln!(
        out,
        "\nan event loop runs tasks here, and those that wait are on no thread: lancet stack -p {pid} --fibers"
    )
}
