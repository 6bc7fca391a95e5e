//! What is in progress in a process: a row for each thread that is in a call now, however long before we came it began.
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
//! those that run, then those that wait for work; the longest first in each. The facts and their words are those of
//! [`dump`](super::dump).

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::Duration;

use frames::live::scripts::Script;
use frames::live::stack::Stack;
use frames::live::ties::{Until, waits_for};
use process::wait::Wait;
use serde_json::{Value, json};

use super::Subject;
use super::dump::{head, stuck};
use super::names::{name, whose};
use super::states::{Words, at, for_programs, slept, time, words};
use crate::Style;
use crate::calls::short;
use crate::figures::grouped;
use crate::json::line;
use crate::text::printable;

/// Columns of a thread's name; longer ones are cut.
const NAME: usize = 24;

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
            "{since:>11}  {thread:NAME$}  {}{}",
            does.trim_end(),
            row.line
        );
        let color = match row.kind {
            Kind::Held => super::dump::YELLOW,
            Kind::Runs => super::dump::GREEN,
            Kind::Idle => super::dump::DIM,
        };
        writeln!(out, "{}", style.painted(&text, color))?;
    }
    Ok(())
}

/// Writes one look for programs: a `thread` for each.
///
/// # Errors
///
/// Returns the errors of `out`.
pub fn write_json(out: &mut dyn Write, subject: &Subject) -> io::Result<()> {
    for (number, stack) in threads(subject) {
        let script = |script: &Script| json!({ "path": script.path, "line": script.line, "name": script.qualified.as_ref().unwrap_or(&script.name) });
        let (own, library) = places(stack);
        let record = json!({
            "record": "thread",
            "pid": subject.pid,
            "tid": stack.thread.tid,
            "thread": name(stack),
            "state": for_programs(&subject.look.stacks, number),
            "line": own.map_or(Value::Null, script),
            "library": library.map_or(Value::Null, script),
        });
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
        let line = place(stack);
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
    rows.sort_by_key(|row| (row.kind, std::cmp::Reverse(row.longest())));
    rows
}

fn kind(stacks: &[Stack], number: usize) -> Kind {
    let state = stacks[number].state.as_ref();
    let Some(wait) = state.and_then(|state| state.wait.as_ref()) else {
        return Kind::Runs;
    };
    let wants_mutex =
        state.is_some_and(|state| state.vm.as_ref().is_some_and(|vm| vm.wants.is_some()));
    match waits_for(stacks, number) {
        Some((Until::Unlocked, _)) => Kind::Held,
        Some((Until::Turn, _)) => Kind::Runs,
        Some((Until::Ended, _)) => Kind::Idle,
        None if wants_mutex || awaits(wait) => Kind::Held,
        None => Kind::Idle,
    }
}

/// Whether a wait is for a peer or a file, and not for whatever may come: an epoll is a server's loop, a listening
/// socket brings new work, and pipes and eventfds are how threads wake each other.
fn awaits(wait: &Wait) -> bool {
    let is_loop = wait.call.is_some_and(|call| call.starts_with("epoll"));
    let wakes = |on: &String| {
        on.contains(" listening on ") || on.starts_with("pipe,") || on.starts_with("eventfd,")
    };
    !is_loop && !wait.on.is_empty() && !wait.on.iter().any(wakes)
}

/// Returns the application's innermost frame, and the innermost one if that is a library's.
fn places(stack: &Stack) -> (Option<&Script>, Option<&Script>) {
    let of_file = |script: &&Script| !script.path.is_empty() && !script.path.starts_with('<');
    let own = stack.scripts().find(|script| !script.is_library());
    let inner = stack.scripts().find(of_file);
    (own, inner.filter(|script| script.is_library()))
}

/// ` ← app.rb:12 in 'fetch' (net/http.rb:987)`; nothing for a thread that runs no script.
fn place(stack: &Stack) -> String {
    let (own, library) = places(stack);
    let library = library.map(|one| short(&one.path, one.line));
    let library = library.map(|text| format!(" ({})", printable(&text)));
    match (own, library) {
        (None, None) => String::new(),
        (None, Some(library)) => format!(" ← {}{library}", crate::calls::NO_APPLICATION),
        (Some(own), library) => {
            let name = own.qualified.as_ref().unwrap_or(&own.name);
            let library = library.unwrap_or_default();
            format!(" ← {} in '{}'{library}", at(own), printable(name))
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

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(cut("4242 worker"), "4242 worker");
        let long = cut("4242 a name that is much too long");
        assert_eq!((long.chars().count(), long.ends_with('…')), (NAME, true));
    }
}
