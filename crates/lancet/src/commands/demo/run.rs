//! What is shown, one command after the other.

use std::io::Write;
use std::time::Duration;

use anyhow::anyhow;
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
/// What holds what the leak makes, by its name in each language.
const HOLDER: &str = "visits";
/// How long one command may take.
const MOST: Duration = Duration::from_secs(60);

/// A command, and what its answer shows.
struct Step {
    words: Vec<String>,
    shows: String,
    /// What must be in its answer for that.
    needs: Vec<String>,
}

/// Runs `lancet demo` and returns the exit code.
pub fn run(args: DemoArgs) -> anyhow::Result<u8> {
    interrupt::catch();
    let mut sink = Sink::open(None, Stream::Stdout)?;
    let (entry, server) = started(&args)?;
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
        code = code.max(show(&mut sink, &server, &step)?);
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

/// Starts the server in the language that was asked for, or in the first whose interpreter runs it: those whose births can be counted come first.
fn started(args: &DemoArgs) -> anyhow::Result<(&'static Entry, Server)> {
    let mut all: Vec<&Entry> = languages::ALL.iter().collect();
    all.sort_by_key(|entry| !enter::counts_births(entry.language));
    all.retain(|entry| {
        args.language
            .is_none_or(|language| language == entry.language)
    });
    let names: Vec<&str> = all.iter().map(|entry| entry.demo.interpreter).collect();
    let mut why = anyhow!(
        "no {} is in the PATH: the server of the demonstration is written in that",
        names.join(", ")
    );
    // An interpreter may be there by its name alone, as one of rbenv's without a version.
    for entry in all {
        if is_in_path(entry.demo.interpreter) && !interrupt::asked() {
            match Server::start(&entry.demo) {
                Ok(server) => return Ok((entry, server)),
                Err(error) => why = error,
            }
        }
    }
    Err(why)
}

fn steps(entry: &Entry, server: &Server) -> Vec<Step> {
    let demo = &entry.demo;
    let (pid, waits) = (server.pid, server.waits);
    let step = |line: String, shows: String, needs: Vec<String>| Step {
        words: line.split(' ').map(str::to_owned).collect(),
        shows,
        needs,
    };
    let hangs = match pid == waits {
        true => "It hangs: each of the two has the lock that the other waits for",
        false => "It hangs: the worker waits for a lock that the server has",
    };
    let mut all = vec![
        step(
            format!("stack -p {waits}"),
            format!("{hangs}: {}", place(demo, LOCK)),
            lines(demo, LOCK),
        ),
        step(
            format!("stack -p {pid} --for 5s"),
            format!(
                "It is slow: most of the time the server waits here: {}",
                place(demo, QUERY)
            ),
            lines(demo, QUERY),
        ),
        step(
            format!("{} -p {pid} --for 5s", demo.slow.join(" ")),
            "How often it does that, and how long each takes; the last column is the line".into(),
            lines(demo, QUERY),
        ),
    ];
    let leak = place(demo, LEAK);
    match enter::counts_births(entry.language) {
        true => {
            let shows = format!("It grows: what this line makes is kept: {leak}");
            let line = format!("mem -p {pid} --for 12s --top 3");
            all.insert(0, step(line, shows, lines(demo, LEAK)));
        }
        // What was kept until now is to be seen among all that there is.
        false => {
            let shows = format!("It grows: who holds what this line has made: {leak}");
            let line = format!("heap -p {pid} --top 3");
            all.push(step(line, shows, vec![HOLDER.into()]));
        }
    }
    all
}

/// The lines with this mark, as an answer names them.
fn lines(demo: &Demo, mark: &str) -> Vec<String> {
    let lines = demo.marked(mark).into_iter();
    lines
        .map(|(number, _)| format!("{}:{number}", demo.file))
        .collect()
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
fn show(sink: &mut Sink, server: &Server, step: &Step) -> anyhow::Result<u8> {
    writeln!(sink.out, "$ lancet {}", step.words.join(" "))?;
    sink.out.flush()?;
    let answer = itself::run(itself::Run {
        words: &step.words,
        out: None,
        most: MOST,
        is_over: &|_| interrupt::asked(),
    })?;
    let folder = server
        .script
        .parent()
        .map(|folder| folder.display().to_string());
    let folder = folder.unwrap_or_default();
    let mut lines = answer.out.text.lines();
    for line in lines.by_ref().take(SCREEN) {
        writeln!(
            sink.out,
            "{}",
            folded(&line.replace(&folder, "…"), sink.style.width)
        )?;
    }
    if lines.next().is_some() {
        writeln!(sink.out, "…")?;
    }
    let has_lost = answer.code == Some(LOST.into());
    let is_shown = step.needs.iter().all(|text| answer.out.text.contains(text));
    let is_shown = is_shown && (has_lost || answer.code == Some(0));
    if has_lost || !is_shown {
        // It says what is missing, or why it could do nothing.
        writeln!(sink.out, "{}", answer.said.text.trim_end())?;
    }
    match is_shown {
        true => writeln!(sink.out, "\n→ {}\n", step.shows)?,
        false => writeln!(
            sink.out,
            "\n→ It was to name {}, and does not.\n",
            step.needs.join(", ")
        )?,
    }
    sink.out.flush()?;
    Ok(if is_shown { 0 } else { FAILED })
}

/// A line as a terminal of this width shows it: broken at spaces, because the line of the script stands at the end of a row.
fn folded(line: &str, width: Option<usize>) -> String {
    let mut rest = line.to_owned();
    let mut folded = String::new();
    while let Some((end, _)) = width.and_then(|width| rest.char_indices().nth(width)) {
        let space = match rest[end..].starts_with(' ') {
            true => Some(end),
            false => rest[..end].rfind(' '),
        };
        let Some(space) = space.filter(|at| !rest[..*at].trim().is_empty()) else {
            break;
        };
        folded += rest[..space].trim_end();
        folded.push('\n');
        rest = format!("    {}", rest[space..].trim_start());
    }
    folded + &rest
}

#[cfg(test)]
mod tests {
    use super::folded;

    #[test]
    fn the_line_of_the_script_is_not_cut_off() {
        let row = "  100.00    4.839706     20.11 ms     20.02 ms     22.31 ms       240          ruby:Kernel#sleep ← …/shop.rb:19 in 'orders'";
        let said = folded(row, Some(80));
        assert!(said.contains("shop.rb:19"), "{said}");
        assert!(said.lines().count() > 1);
        assert!(
            said.lines().all(|line| line.chars().count() <= 80),
            "{said}"
        );
        assert_eq!(folded(row, None), row);
        assert_eq!(folded(row, Some(200)), row);
        let long = "x".repeat(100);
        assert_eq!(folded(&long, Some(80)), long);
        assert_eq!(folded("ab cd", Some(2)), "ab\n    cd");
    }
}
