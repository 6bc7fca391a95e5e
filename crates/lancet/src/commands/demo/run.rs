//! What is shown, one command after the other.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use inject::lifecycle::INTERRUPTED;
use languages::Entry;
use languages::demo::{Demo, LEAK, LOCK, QUERY};

use super::DemoArgs;
use super::server::Server;
use crate::cli::guess::is_in_path;
use crate::exit::{FAILED, LOST};
use crate::itself;
use crate::ui::interrupt;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Lines of an answer that are shown.
const SCREEN: usize = 14;
/// How long one command may take.
const MOST: Duration = Duration::from_secs(60);

/// A command, and what its answer shows.
struct Step {
    words: Vec<String>,
    shows: String,
}

/// Runs `lancet demo` and returns the exit code.
pub fn run(args: DemoArgs) -> anyhow::Result<u8> {
    let entry = chosen(&args)?;
    interrupt::catch();
    let mut sink = Sink::open(None, Stream::Stdout)?;
    let server = Server::start(&entry.demo)?;
    let hangs = match server.pid == server.waits {
        true => "two of its threads hang",
        false => "a worker of it hangs",
    };
    writeln!(
        sink.out,
        "A server in {} runs as process {} ({}). It keeps too much, {hangs}, and it is slow: at which lines?\n",
        entry.language,
        server.pid,
        server.script.display()
    )?;
    let mut code = 0;
    for step in steps(entry, &server) {
        code = code.max(show(&mut sink, &step)?);
        if interrupt::asked() {
            return Ok(INTERRUPTED);
        }
    }
    drop(server);
    writeln!(
        sink.out,
        "The server has ended, and nothing of it is left. With a process of your own: lancet mem -p PID --for 20s, and what else there is: lancet --help"
    )?;
    sink.out.flush()?;
    Ok(code)
}

/// The language that was asked for, or the first whose interpreter is there: one whose births can be counted, if there is one.
fn chosen(args: &DemoArgs) -> anyhow::Result<&'static Entry> {
    let mut all: Vec<&Entry> = languages::ALL.iter().collect();
    all.sort_by_key(|entry| !enter::counts_births(entry.language));
    all.retain(|entry| {
        args.language
            .is_none_or(|language| language == entry.language)
    });
    let names: Vec<&str> = all.iter().map(|entry| entry.demo.interpreter).collect();
    let found = all
        .into_iter()
        .find(|entry| is_in_path(entry.demo.interpreter));
    match found {
        Some(entry) => Ok(entry),
        None => bail!(
            "no {} is in the PATH: the server of the demonstration is written in that",
            names.join(", ")
        ),
    }
}

fn steps(entry: &Entry, server: &Server) -> Vec<Step> {
    let demo = &entry.demo;
    let (pid, waits) = (server.pid, server.waits);
    let step = |line: String, shows: String| Step {
        words: line.split(' ').map(str::to_owned).collect(),
        shows,
    };
    let hangs = match pid == waits {
        true => "It hangs: each of the two has the lock that the other waits for",
        false => "It hangs: the worker waits for a lock that the server has",
    };
    let mut all = vec![
        step(
            format!("stack -p {waits}"),
            format!("{hangs}: {}", place(demo, LOCK)),
        ),
        step(
            format!("stack -p {pid} --for 5s"),
            format!(
                "It is slow: most of the time the server waits here: {}",
                place(demo, QUERY)
            ),
        ),
        step(
            format!("{} -p {pid} --for 5s", demo.slow.join(" ")),
            "How often it does that, and how long each takes; the last column is the line".into(),
        ),
    ];
    let leak = place(demo, LEAK);
    match enter::counts_births(entry.language) {
        true => {
            let shows = format!("It grows: what this line makes is kept: {leak}");
            all.insert(0, step(format!("mem -p {pid} --for 12s --top 3"), shows));
        }
        // What was kept until now is to be seen among all that there is.
        false => {
            let shows = format!("It grows: who holds what this line has made: {leak}");
            all.push(step(format!("heap -p {pid} --top 3"), shows));
        }
    }
    all
}

/// The lines with this mark, as they stand in the file.
fn place(demo: &Demo, mark: &str) -> String {
    let lines = demo.marked(mark).into_iter();
    let lines: Vec<String> = lines
        .map(|(number, code)| format!("{}:{number} `{code}`", demo.file))
        .collect();
    lines.join(", ")
}

/// Runs one command, shows the beginning of its answer and what it means, and returns an exit code.
fn show(sink: &mut Sink, step: &Step) -> anyhow::Result<u8> {
    writeln!(sink.out, "$ lancet {}", step.words.join(" "))?;
    sink.out.flush()?;
    let answer = itself::run(&step.words, MOST, &interrupt::asked)?;
    let is_done = matches!(answer.code, Some(0)) || answer.code == Some(LOST.into());
    if !is_done {
        // It says why.
        write!(sink.out, "{}\n\n", answer.said.trim_end())?;
        sink.out.flush()?;
        return Ok(FAILED);
    }
    let mut lines = answer.out.lines();
    for line in lines.by_ref().take(SCREEN) {
        writeln!(sink.out, "{}", cut(line, sink.style.width))?;
    }
    if lines.next().is_some() {
        writeln!(sink.out, "…")?;
    }
    writeln!(sink.out, "\n→ {}\n", step.shows)?;
    sink.out.flush()?;
    Ok(0)
}

/// A line as far as a terminal of this width shows it.
fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            let kept: String = line.chars().take(width.saturating_sub(1)).collect();
            kept + "…"
        }
        _ => line.to_owned(),
    }
}
