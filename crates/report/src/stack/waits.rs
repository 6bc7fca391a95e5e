//! Whose lock a thread waits for, and which other processes have what it waits for: in words and for programs. Used by
//! `states`, `folded::table`, `listing::json` and others.

use std::io::{self, Write};

use answer::stack::{Circle, Gathered, Lock, Record};
use frames::live::circles::deadlocks;
use frames::live::gathered::gathered;
use frames::live::state::{Held, Owner, What};
use process::wait::Wait;
use process::wait::others::{Other, Others, Role};

use super::Subject;
use super::states::place;
use crate::figures::{grouped, plural};
use crate::json::line;
use crate::text::printable;

/// Returns what a call waits for, behind its name: `: tcp to 10.0.0.7:3306, whose other end process 812 mariadbd has, and 2 more`.
pub(super) fn on(wait: &Wait) -> String {
    let mut texts = Vec::new();
    let without = wait.others.iter().filter(|others| others.on.is_none());
    texts.extend(without.map(|others| match others.role {
        Role::LockedMeanwhile => locked_meanwhile(others),
        _ => children_of(others),
    }));
    // What is said again and again is said once, as of a hundred descriptors of one socket.
    for (at, on) in wait.on.iter().enumerate() {
        let others = wait.others.iter().filter(|others| others.on == Some(at));
        let text = format!("{on}{}", others.map(behind).collect::<String>());
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let mut text = texts.join(", ");
    if wait.more > 0 {
        // The text of a locked file ends with a clause.
        let mut roles = wait.others.iter().map(|others| others.role);
        let comma = match roles.any(|role| role == Role::LockedMeanwhile) {
            true => ",",
            false => "",
        };
        text += &format!("{comma} and {} more", grouped(wait.more as u64));
    }
    if !text.is_empty() {
        text.insert_str(0, ": ");
    }
    if wait.uninterruptible {
        text += " (state D, which nothing interrupts)";
    }
    printable(&text).into_owned()
}

/// `meanwhile process 812 python3 has locked /srv/jobs.db, which this process has open`.
fn locked_meanwhile(others: &Others) -> String {
    let (who, is_one) = who(others);
    let has = if is_one { "has" } else { "have" };
    let path = others.path.as_deref().unwrap_or_default();
    format!("meanwhile {who} {has} locked {path}, which this process has open")
}

fn children_of(others: &Others) -> String {
    let names: Vec<String> = others.known.iter().map(name).collect();
    let word = plural(names.len() as u64, "child", "children");
    match names.is_empty() {
        true => "no child is there".to_owned(),
        false => {
            let turn = in_turn(others);
            format!("{word} {}{}{turn}", names.join(", "), more(others))
        }
    }
}

/// `, which waits in turn for this process (write: pipe, descriptor 1)`; empty if it does not.
fn in_turn(others: &Others) -> String {
    let what = others.in_turn_for.as_ref();
    let text = what.map(|what| format!(", which waits in turn for this process ({what})"));
    text.unwrap_or_default()
}

/// `, whose other end process 812 mariadbd has`.
fn behind(others: &Others) -> String {
    let (who, is_one) = who(others);
    let has = if is_one { "has" } else { "have" };
    let path = others.path.as_ref();
    let path = path.map_or(String::new(), |path| format!(" ({path})"));
    let nobody = match others.whole {
        true => "no process",
        false => "no process that lancet could look at",
    };
    match (others.role, who.is_empty()) {
        (Role::Lock, true) => format!(", which an open file description of {nobody} has locked"),
        (Role::Lock, false) if others.description => {
            format!(", which an open file description of {who} has locked")
        }
        (Role::Lock, false) if others.in_turn => {
            format!(
                ", which {who} {has} locked, waiting in turn for a file that this process has locked"
            )
        }
        (Role::Lock, false) => format!(", which {who} {has} locked"),
        (Role::OtherEnd, true) => format!(", whose other end{path} {nobody} has"),
        (Role::OtherEnd, false) => {
            format!(", whose other end{path} {who} {has}{}", in_turn(others))
        }
        (Role::NotAccepted, true) => ", which nobody has accepted yet".to_owned(),
        (Role::NotAccepted, false) => format!(", which {who} {has} not accepted yet"),
        (Role::Listens, true) => String::new(),
        (Role::Listens, false) => {
            let listens = if is_one { "listens" } else { "listen" };
            format!(", though {who} {listens} there")
        }
        (Role::Child | Role::Children | Role::LockedMeanwhile, _) => String::new(),
    }
}

/// Returns the processes, and whether it is a single one; empty for none.
fn who(others: &Others) -> (String, bool) {
    let own = others.own.then(|| "this process itself".to_owned());
    let rest = others.known.iter();
    let rest = rest.map(|other| format!("process {}", name(other)));
    let all: Vec<String> = own.into_iter().chain(rest).collect();
    let is_one = all.len() == 1 && others.more == 0;
    let text = match all.split_last() {
        Some((last, first)) if !first.is_empty() && others.more == 0 => {
            format!("{} and {last}", first.join(", "))
        }
        _ => all.join(", ") + &more(others),
    };
    (text, is_one)
}

fn more(others: &Others) -> String {
    match others.more {
        0 => String::new(),
        more => format!(" and {} more", grouped(more as u64)),
    }
}

/// `812 mariadbd (stopped)`.
fn name(other: &Other) -> String {
    let state = match other.state {
        Some('T' | 't') => " (stopped)",
        Some('Z' | 'X') => " (ended)",
        Some('D') => " (in state D)",
        _ => "",
    };
    format!("{} {}{state}", other.pid, other.name)
}

/// What a lock of the C library is called.
pub(super) fn lock(what: What) -> &'static str {
    match what {
        What::Mutex => "a pthread mutex",
        What::ReadWrite => "a pthread read-write lock",
        What::Stream => "the lock of a stdio stream",
        What::End => "the end of a thread",
    }
}

/// Returns for which lock a thread waits, and whose it is where the owner is none of the threads that are shown: `for a pthread mutex` and
/// ` that thread 12 of process 11 worker holds`.
pub(super) fn for_whom(held: &Held) -> (String, String) {
    let whose = match &held.owner {
        Owner::Elsewhere { pid, tid, name } => {
            let name = printable(name);
            format!(" that thread {tid} {name} of process {pid} holds")
        }
        Owner::Readers => " that others hold for reading".to_owned(),
        Owner::Thread(tid) => format!(" that thread {tid} holds, which has ended"),
        Owner::Unknown => " whose owner is not to be found".to_owned(),
    };
    (format!("for {}", lock(held.what)), whose)
}

/// The lock for programs.
pub(super) fn lock_for_programs(held: &Held) -> Lock {
    let (pid, tid) = match held.owner {
        Owner::Thread(tid) => (None, Some(tid)),
        Owner::Elsewhere { pid, tid, .. } => (Some(pid), Some(tid)),
        Owner::Readers | Owner::Unknown => (None, None),
    };
    Lock {
        kind: match held.what {
            What::Mutex => "mutex",
            What::ReadWrite => "read_write",
            What::Stream => "stream",
            What::End => "thread",
        },
        owner: tid,
        owner_pid: pid,
        readers: held.owner == Owner::Readers,
    }
}

/// Writes a record `deadlock` for each circle of threads in which each waits for the next, `standstill` where no thread goes on, and
/// `gathered` for each function in which threads wait together.
///
/// # Errors
///
/// Returns the errors of `out`.
pub(super) fn conclusions(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    let stacks = &subject.look.stacks;
    let pid = subject.pid;
    let tids = |numbers: &[usize]| -> Vec<i32> {
        numbers.iter().map(|&at| stacks[at].thread.tid).collect()
    };
    for circle in deadlocks(stacks) {
        let tids = tids(&circle);
        line(out, &Record::Deadlock(Circle { pid, tids }))?;
    }
    if subject.look.standstill {
        let threads = stacks.iter().filter(|stack| stack.parked.is_none());
        let tids = threads.map(|stack| stack.thread.tid).collect();
        line(out, &Record::Standstill(Circle { pid, tids }))?;
    }
    for group in gathered(stacks) {
        let record = Gathered {
            pid,
            tids: tids(&group.waiting),
            within: place(&group.within),
            caller: place(&group.caller),
            further: tids(&group.further),
        };
        line(out, &Record::Gathered(record))?;
    }
    Ok(())
}

/// Who else has to do with a wait, for programs.
pub(super) fn others_for_programs(wait: &Wait) -> Vec<answer::stack::Others<'_>> {
    fn of(others: &Others) -> answer::stack::Others<'_> {
        let processes = others.known.iter().map(|other| answer::stack::Other {
            pid: other.pid,
            name: &other.name,
            state: other.state,
        });
        answer::stack::Others {
            on: others.on,
            role: match others.role {
                Role::Lock => "lock",
                Role::LockedMeanwhile => "locked_meanwhile",
                Role::OtherEnd => "other_end",
                Role::NotAccepted => "not_accepted",
                Role::Listens => "listens",
                Role::Child => "child",
                Role::Children => "children",
            },
            processes: processes.collect(),
            more: others.more,
            own: others.own,
            description: others.description,
            in_turn: others.in_turn,
            in_turn_for: others.in_turn_for.as_deref(),
            stands: others.stands.as_ref().map(|other| other.pid),
            path: others.path.as_deref(),
            all: others.whole,
        }
    }
    wait.others.iter().map(of).collect()
}
