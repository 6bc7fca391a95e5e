//! What is in progress in a process: a row for each thread that is in a call now, however long before we came it began.
//! Used by `lancet::watching::now`.
//!
//! ```text
//! ruby app.rb (PID 4242), Ruby 3.1.2: 9 threads, 1 running; stood still for 38 µs
//!
//!  asleep for  thread        in
//!      65.2 s  4254 worker   Addrinfo.getaddrinfo (getaddrinfo, poll): udp to 10.0.0.2:53, asking for api.example.com ← /srv/app.rb:12 in 'fetch' (net/http.rb:987)
//!           -  4242 main     running with the VM lock ← /srv/app.rb:30 in 'serve'
//!       3.0 s  5 threads     Thread::Queue#pop ← /srv/pool.rb:8 in 'start'
//! ```
//!
//! Threads that wait for something in particular come first (a lock that another thread holds, a peer, a file), then
//! those that run, then those that wait for work; the longest first in each. Who holds others up is said at the end, with what it does
//! itself. The facts and their words are those of [`dump`](super::dump).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use answer::calls::Record;
use frames::live::activity::{Until, waits_for};
use frames::live::circles::held_up;
use frames::live::scripts::Script;
use frames::live::stack::Stack;
use process::wait::Wait;
use process::wait::others::Role;

use super::Subject;
use super::conclusions::{self, stuck};
use super::dump::head;
use super::names::{name, native, whose};
use super::states::{self, Words, at, for_programs, slept, time, words};
use super::waits;
use crate::Style;
use crate::calls::short;
use crate::figures::grouped;
use crate::json::line;
use crate::text::printable;

/// Columns of a thread's name; longer ones are cut.
const NAME: usize = 24;
/// Timeouts from here on are told. Shorter ones are how a thread looks around now and then.
const SHORTEST: Duration = Duration::from_secs(1);

/// What a thread is about, in the order in which rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// It waits for a lock that another thread holds, or for what a descriptor of its own brings.
    Held,
    /// It runs, or is about to.
    Runs,
    /// It waits for work: for whoever connects, for the end of a time, for what another thread puts into a queue.
    Idle,
}

/// Threads that do the same at the same place.
struct Row<'a> {
    kind: Kind,
    stacks: Vec<&'a Stack>,
    words: Words,
    line: String,
}

impl Row<'_> {
    fn longest(&self) -> Option<Duration> {
        self.stacks.iter().filter_map(|stack| slept(stack)).max()
    }

    /// `, for 29.3 s more at most`, where all of them end by a timeout.
    fn ends(&self) -> String {
        let end = |stack: &&Stack| stack.state.as_ref()?.wait.as_ref()?.ends_in;
        let all: Option<Vec<Duration>> = self.stacks.iter().map(end).collect();
        let last = all.and_then(|all| all.into_iter().max());
        match last.filter(|last| *last >= SHORTEST) {
            Some(last) => format!(", for {} more at most", time(last)),
            None => String::new(),
        }
    }
}

/// Writes one look as a table.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write(out: &mut dyn Write, subject: &Subject, style: Style) -> io::Result<()> {
    head(out, subject)?;
    stuck(out, subject, style)?;
    writeln!(out, "\n asleep for  {:NAME$}  in", "thread")?;
    for row in rows(subject) {
        let since = row.longest().map_or("-".into(), time);
        let thread = match &row.stacks[..] {
            [one] => cut(&whose(one)),
            several => format!("{} threads", grouped(several.len() as u64)),
        };
        let does = match row.words.verb {
            "asleep" => row
                .words
                .rest
                .strip_prefix("in ")
                .unwrap_or_default()
                .into(),
            verb => format!("{verb} {}", row.words.rest),
        };
        let text = format!(
            "{since:>11}  {thread:NAME$}  {}{}{}",
            does.trim_end(),
            row.ends(),
            row.line
        );
        let color = match row.kind {
            Kind::Held => super::dump::YELLOW,
            Kind::Runs => super::dump::GREEN,
            Kind::Idle => super::dump::DIM,
        };
        writeln!(out, "{}", style.painted(&text, color))?;
    }
    conclusions::held_up(out, subject, style, Duration::ZERO)
}

/// Writes one look for programs: a `thread` for each.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write_json(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    line(out, &Record::Process(subject.process()))?;
    waits::conclusions(out, subject)?;
    let counts = held_up(&subject.look.stacks);
    let stacks = &subject.look.stacks;
    let mut threads: Vec<_> = threads(subject).collect();
    // As in the table.
    threads.sort_by_key(|(number, stack)| (kind(stacks, *number), Reverse(slept(stack))));
    for (number, stack) in threads {
        let (own, library) = places(stack);
        let record = Record::Thread {
            pid: subject.pid,
            tid: stack.thread.tid,
            thread: name(stack),
            state: for_programs(&subject.look.stacks, number).map(Box::new),
            holds_up: counts[number].count,
            native: native(subject, stack),
            place: own.map(states::place),
            library: library.map(states::place),
        };
        line(out, &record)?;
    }
    Ok(())
}

fn threads<'a>(subject: &'a Subject) -> impl Iterator<Item = (usize, &'a Stack)> {
    let all = subject.look.stacks.iter().enumerate();
    all.filter(|(_, stack)| stack.parked.is_none())
}

fn rows<'a>(subject: &'a Subject) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = Vec::new();
    let mut known: HashMap<(Words, String), usize> = HashMap::new();
    for (number, stack) in threads(subject) {
        let stacks = &subject.look.stacks;
        let Some(words) = words(stacks, number) else {
            continue;
        };
        let line = place(subject, stack);
        let key = (words.clone(), line.clone());
        let row = *known.entry(key).or_insert(rows.len());
        match rows.get_mut(row) {
            Some(row) => row.stacks.push(stack),
            None => rows.push(Row {
                kind: kind(stacks, number),
                stacks: vec![stack],
                words,
                line,
            }),
        }
    }
    rows.sort_by_key(|row| (row.kind, Reverse(row.longest())));
    rows
}

fn kind(stacks: &[Stack], number: usize) -> Kind {
    let state = stacks[number].state.as_ref();
    let Some(wait) = state.and_then(|state| state.wait.as_ref()) else {
        return Kind::Runs;
    };
    let wants_mutex =
        state.is_some_and(|state| state.vm.as_ref().is_some_and(|vm| vm.wants.is_some()));
    let is_held = state.is_some_and(|state| state.held.is_some());
    match waits_for(stacks, number) {
        Some((Until::Unlocked | Until::Released(_), _)) => Kind::Held,
        Some((Until::Turn, _)) => Kind::Runs,
        Some((Until::Ended, _)) => Kind::Idle,
        None if wants_mutex || is_held || awaits(wait) => Kind::Held,
        None => Kind::Idle,
    }
}

/// Whether a wait is for a peer, a file or a child, and not for whatever may come: an epoll is a server's loop, a listening
/// socket brings new work, a parent of many waits for any of them, and pipes and eventfds are how threads wake each other, unless it is
/// other processes alone that have the other end.
fn awaits(wait: &Wait) -> bool {
    let is_loop = wait.call.is_some_and(|call| call.starts_with("epoll"));
    let is_anothers = |on: usize| {
        let mut others = wait.others.iter().filter(|others| others.on == Some(on));
        others.any(|others| !others.own && !others.known.is_empty())
    };
    let wakes = |(number, on): (usize, &String)| {
        let wakes = on.starts_with("pipe,") && !is_anothers(number);
        on.contains(" listening on ") || wakes || on.starts_with("eventfd,")
    };
    // In a library that tries again to lock a database.
    let alone = [Role::Child, Role::LockedMeanwhile];
    let is_one = wait
        .others
        .iter()
        .any(|others| alone.contains(&others.role));
    is_one || !is_loop && !wait.on.is_empty() && !wait.on.iter().enumerate().any(wakes)
}

/// Returns the application's innermost frame, and the innermost one if that is a library's.
fn places(stack: &Stack) -> (Option<&Script>, Option<&Script>) {
    let of_file = |script: &&Script| !script.path.is_empty() && !script.path.starts_with('<');
    let own = stack.scripts().find(|script| !script.is_library());
    let inner = stack.scripts().find(of_file);
    (own, inner.filter(|script| script.is_library()))
}

/// ` ← app.rb:12 in 'fetch' (net/http.rb:987)`; of a thread that runs no script, ` ← MDL_wait::timed_wait ← open_table`.
fn place(subject: &Subject, stack: &Stack) -> String {
    let (own, library) = places(stack);
    let library = library.map(|one| short(&one.path, one.line));
    let library = library.map(|text| format!(" ({})", printable(&text)));
    match (own, library) {
        (None, None) => {
            let names = native(subject, stack);
            let names = names.iter().map(|name| format!(" ← {}", printable(name)));
            names.collect()
        }
        (None, Some(library)) => format!(" ← {}{library}", crate::calls::NO_APPLICATION),
        (Some(own), library) => {
            let library = library.unwrap_or_default();
            format!(
                " ← {} in '{}'{library}",
                at(own),
                printable(own.full_name())
            )
        }
    }
}

/// At most so many columns of a name, the end marked.
fn cut(text: &str) -> String {
    if text.chars().count() <= NAME {
        return text.to_owned();
    }
    let kept: String = text.chars().take(NAME - 1).collect();
    format!("{kept}…")
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::wait::others::{Other, Others};

    fn wait(call: &'static str, on: &[&str]) -> Wait {
        Wait {
            call: Some(call),
            on: on.iter().map(|on| (*on).to_owned()).collect(),
            ..Wait::default()
        }
    }

    #[test]
    fn who_waits_for_work_hangs_in_nothing() {
        assert!(awaits(&wait("poll", &["udp to 10.0.0.2:53"])));
        assert!(awaits(&wait("flock", &["/srv/lock"])));
        assert!(awaits(&wait("recvfrom", &["unix socket to /run/db"])));
        assert!(!awaits(&wait(
            "poll",
            &["pipe, descriptor 5", "tcp to 10.0.0.2:53"]
        )));
        assert!(!awaits(&wait("accept4", &["tcp listening on 0.0.0.0:80"])));
        assert!(!awaits(&wait("epoll_wait", &["tcp to 10.0.0.7:3306"])));
        assert!(!awaits(&wait("futex", &[])));
    }

    /// A pipe by which threads wake each other is no hang, one to another process is; a child is, any of many is not.
    #[test]
    fn who_waits_for_another_process_hangs_in_it() {
        let others = |on, role, own| Others {
            known: vec![Other {
                pid: 7,
                name: "sort".into(),
                state: Some('S'),
            }],
            own,
            ..Others::new(on, role)
        };
        let mut pipe = wait("read", &["pipe, descriptor 5"]);
        assert!(!awaits(&pipe));
        pipe.others = vec![others(Some(0), Role::OtherEnd, true)];
        assert!(!awaits(&pipe));
        pipe.others = vec![others(Some(0), Role::OtherEnd, false)];
        assert!(awaits(&pipe));
        let mut child = wait("wait4", &[]);
        child.others = vec![others(None, Role::Children, false)];
        assert!(!awaits(&child));
        child.others = vec![others(None, Role::Child, false)];
        assert!(awaits(&child));
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(cut("4242 worker"), "4242 worker");
        let long = cut("4242 a name that is much too long");
        assert_eq!((long.chars().count(), long.ends_with('…')), (NAME, true));
    }
}
