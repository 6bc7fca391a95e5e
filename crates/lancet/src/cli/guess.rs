//! What was probably meant by a command line that could not be understood, or that named a file or program that is not
//! there.
//!
//! It is asked only when lancet is about to fail, so it may guess; it changes nothing about what is done.

use std::env;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Commands that open a process.
const OPENERS: [&str; 8] = [
    "mem", "calls", "syscalls", "stack", "profile", "heap", "patch", "tune",
];
/// Those that look on for a time.
const LOOK_ON: [&str; 5] = ["mem", "calls", "syscalls", "stack", "profile"];
/// The words that may stand first on a command line.
const COMMANDS: [&str; 15] = [
    "mem",
    "calls",
    "syscalls",
    "stack",
    "profile",
    "heap",
    "patch",
    "tune",
    "demo",
    "export",
    "fleet",
    "mcp",
    "man",
    "completions",
    "help",
];

/// First words of other tools' command lines (py-spy, rbspy, perf, memray, strace, ltrace), and what answers the same question here; `WHO`
/// stands for the process.
const OF_OTHERS: [(&[&str], &str); 7] = [
    (
        &["top", "live", "watch"],
        "at which lines its threads run and wait: `lancet stack WHO --for 10s`; what its memory comes to hold, on a screen: `lancet mem WHO --live`",
    ),
    (
        &[
            "record",
            "flame",
            "flamegraph",
            "sample",
            "perf",
            "py-spy",
            "rbspy",
        ],
        "in which functions it runs: `lancet profile WHO`, as a page to look at `lancet profile WHO --format html -o profile.html`; where its threads wait: `lancet stack WHO --for 10s`; calls in a file: `lancet calls -x NAME --record FILE WHO`",
    ),
    (
        &["dump", "backtrace", "bt", "pstack", "gdb"],
        "what each thread does: `lancet stack WHO`; a snapshot of its objects: `lancet heap WHO --save FILE`",
    ),
    (
        &["trace", "strace"],
        "its system calls: `lancet syscalls WHO`; calls of functions: `lancet calls -x NAME WHO`",
    ),
    (
        &["ltrace", "uftrace"],
        "calls of library functions: `lancet calls -x 'NAME*' WHO`",
    ),
    (
        &["memory", "memray", "memprof", "leaks", "objects"],
        "which line holds the memory: `lancet mem WHO`; who keeps objects alive, in any language: `lancet heap WHO`; what else is resident: `lancet heap --rss WHO`",
    ),
    (
        &["attach", "open", "inspect"],
        "what it does now: `lancet stack WHO`; what holds its memory: `lancet mem WHO`; who calls what: `lancet calls -x NAME WHO`",
    ),
];
/// Other tools' options for the time that they look.
const FOR_HOW_LONG: [&str; 5] = ["-d", "--duration", "--seconds", "--time", "--timeout"];

/// Returns what was probably meant, in one line. `args` are the words behind the name of the program.
pub fn meant(args: &[String]) -> Option<String> {
    let (first, rest) = args.split_first()?;
    if let Some(pid) = pid_of(args) {
        return Some(format!(
            "say what about process {pid}: `lancet stack -p {pid}` what it does now, `lancet mem -p {pid}` what holds its memory, `lancet calls -p {pid} …` who calls what, `lancet tune -p {pid}` the machine for it"
        ));
    }
    if let Some(answer) = of_others(first, rest) {
        return Some(answer);
    }
    if !COMMANDS.contains(&first.as_str()) {
        return is_program(first).then(|| {
            let line: Vec<String> = args.iter().map(|word| quoted(word)).collect();
            let line = line.join(" ");
            format!(
                "to start a program: `lancet mem -- {line}` or `lancet calls -c -- {line}`; to look at one that runs: `lancet stack -p PID`"
            )
        });
    }
    let command = OPENERS.into_iter().find(|command| command == first)?;
    of_command(command, rest)
}

/// Returns the answer to a first word of another tool.
fn of_others(first: &str, rest: &[String]) -> Option<String> {
    let (_, answer) = OF_OTHERS.iter().find(|(words, _)| words.contains(&first))?;
    let named = (0..rest.len()).find_map(|at| pid_of(&rest[at..]).filter(|_| !is_pid(&rest[at])));
    let bare = || {
        let number = (0..rest.len()).find(|&at| is_pid(&rest[at]) && is_bare(rest, at));
        number.map(|at| rest[at].as_str())
    };
    let pid = named.or_else(bare);
    let who = pid.map_or_else(|| "-p PID".to_owned(), |pid| format!("-p {pid}"));
    Some(answer.replace("WHO", &who))
}

fn of_command(command: &str, rest: &[String]) -> Option<String> {
    let has = |option: &str| rest.iter().any(|word| word == option);
    if command == "tune"
        && let Some(id) = rest.iter().find(|word| is_rule(word))
    {
        let id = id.to_uppercase();
        return Some(format!(
            "`lancet tune --explain {id}` says everything about it, `lancet tune --apply {id} --dry-run` what it would change"
        ));
    }
    if command == "heap" && (has("--children") || has("-f")) {
        let pid = (0..rest.len()).find_map(|at| pid_of(&rest[at..]).filter(|_| !is_pid(&rest[at])));
        return pid.and_then(|pid| pid.parse().ok()).map(one_of_family);
    }
    if has("-p") || has("--pid") {
        // No program is started, so every option is meant for lancet.
        return for_how_long(rest)
            .filter(|_| LOOK_ON.contains(&command))
            .map(|line| format!("for how long: `lancet {command} {line}`"));
    }
    let at = (0..rest.len()).find(|&at| is_pid(&rest[at]) && is_bare(rest, at))?;
    let mut words: Vec<&str> = rest
        .iter()
        .map(String::as_str)
        .filter(|word| *word != "--")
        .collect();
    let at = words.iter().position(|word| *word == rest[at])?;
    words.insert(at, "-p");
    Some(format!(
        "for the process: `lancet {command} {}`",
        words.join(" ")
    ))
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Returns the commands for a process and its children, of which `heap` takes one: those with most in memory first.
fn one_of_family(pid: i32) -> String {
    /// So many are named.
    const MOST: usize = 4;
    if process::guest::Status::read(pid).is_err() {
        return format!("there is no process {pid}");
    }
    let family = process::guest::family(&[pid], true).into_iter();
    let resident = |pid| process::rss::resident_now(pid).unwrap_or_default();
    let mut sized: Vec<(u64, i32)> = family.map(|pid| (resident(pid), pid)).collect();
    sized.sort_unstable_by(|one, other| other.cmp(one));
    let named = sized.iter().take(MOST).map(|(bytes, pid)| {
        let size = report::figures::size(*bytes);
        format!("`lancet heap -p {pid}` ({size} in memory)")
    });
    let named: Vec<String> = named.collect();
    format!("heap looks at one process at a time: {}", named.join(", "))
}

/// Returns the line with lancet's option in the place of another tool's for the time that it looks, if it has one.
fn for_how_long(rest: &[String]) -> Option<String> {
    let at = rest
        .iter()
        .position(|word| FOR_HOW_LONG.contains(&word.as_str()))?;
    let (before, behind) = (&rest[..at], &rest[at + 1..]);
    let time = behind
        .first()
        .filter(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    let behind = if time.is_some() { &behind[1..] } else { behind };
    let time = match time {
        None => "10s".to_owned(),
        Some(seconds) if is_pid(seconds) => format!("{seconds}s"),
        Some(time) => time.clone(),
    };
    let own = ["--for".to_owned(), time];
    let words: Vec<&str> = before
        .iter()
        .chain(&own)
        .chain(behind)
        .map(String::as_str)
        .collect();
    Some(words.join(" "))
}

/// Whether a word is no option's: a number behind an option is the option's, but for those that take none.
fn is_bare(words: &[String], at: usize) -> bool {
    at == 0
        || !words[at - 1].starts_with('-')
        || ["--", "-c", "-f"].contains(&words[at - 1].as_str())
}

/// Returns the process of a command line that begins with one: `-p 42`, `--pid=42`, `42`.
fn pid_of(args: &[String]) -> Option<&str> {
    let first = args.first()?.as_str();
    let behind = match first {
        "-p" | "--pid" => args.get(1)?.as_str(),
        _ => ["--pid=", "-p", ""]
            .iter()
            .find_map(|option| first.strip_prefix(option).filter(|rest| is_pid(rest)))?,
    };
    is_pid(behind).then_some(behind)
}

fn is_pid(word: &str) -> bool {
    word.parse::<i32>().is_ok_and(|pid| pid > 0) && word.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_rule(word: &str) -> bool {
    tune::rules::Rule::find(word).is_some()
}

/// Returns whether a word names a program: a file, or one that `PATH` leads to.
fn is_program(word: &str) -> bool {
    if word.starts_with('-') {
        return false;
    }
    if word.contains('/') {
        return Path::new(word).is_file();
    }
    Path::new(word).is_file() || is_in_path(word)
}

/// Returns whether `PATH` leads to a program of this name.
pub fn is_in_path(name: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |of: std::fs::Metadata| of.is_file() && of.permissions().mode() & 0o111 != 0;
    env::split_paths(&path).any(|folder| folder.join(name).metadata().is_ok_and(is_program))
}

#[cfg(test)]
mod tests {
    use super::meant;

    fn guess(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        meant(&words).unwrap_or_default()
    }

    #[test]
    fn wrong_usages_are_answered_with_the_right_one() {
        for (line, answer) in [
            ("-p 123", "`lancet stack -p 123`"),
            ("-p123", "`lancet stack -p 123`"),
            ("--pid=123", "`lancet stack -p 123`"),
            ("123", "`lancet stack -p 123`"),
            ("sh app.sh", "`lancet mem -- sh app.sh`"),
            ("mem 25970", "`lancet mem -p 25970`"),
            ("mem --every 5s 25970", "`lancet mem --every 5s -p 25970`"),
            ("stack 25970", "`lancet stack -p 25970`"),
            ("calls -c 25970", "`lancet calls -c -p 25970`"),
            ("syscalls -c 25970", "`lancet syscalls -c -p 25970`"),
            ("top -p 7", "`lancet stack -p 7 --for 10s`"),
            ("top --pid 7", "`lancet mem -p 7 --live`"),
            (
                "record -o flame.svg --pid=7",
                "`lancet profile -p 7 --format html -o profile.html`",
            ),
            ("dump 7", "`lancet heap -p 7 --save FILE`"),
            ("attach 7", "`lancet mem -p 7`"),
            ("trace sleep 7s", "`lancet syscalls -p PID`"),
            ("memray attach 7", "`lancet heap --rss -p 7`"),
            ("stack -p 7 -d 5", "`lancet stack -p 7 --for 5s`"),
            ("stack -d 5m -p 7", "`lancet stack --for 5m -p 7`"),
            ("mem -p 7 --duration", "`lancet mem -p 7 --for 10s`"),
            (
                "syscalls -c --seconds 30 -p 7",
                "`lancet syscalls -c --for 30s -p 7`",
            ),
            ("record -d 30 -o flame.svg -p 7", "`lancet profile -p 7`"),
            ("record -r 100 7", "`lancet profile -p 7`"),
            ("calls 25970 -c", "`lancet calls -p 25970 -c`"),
            ("tune T21", "`lancet tune --explain T21`"),
            ("tune -p 7 t21", "`lancet tune --explain T21`"),
            ("syscalls 25970", "`lancet syscalls -p 25970`"),
            ("heap 25970", "`lancet heap -p 25970`"),
            ("heap --rss 25970", ""),
            (
                "heap -p 999999999 --children",
                "there is no process 999999999",
            ),
            (
                "heap -p 1 --children",
                "one process at a time: `lancet heap -p ",
            ),
            ("patch 25970 --list", "`lancet patch -p 25970 --list`"),
        ] {
            let said = guess(line);
            assert!(said.contains(answer), "{line}: {said}");
        }
    }

    #[test]
    fn a_program_is_named_as_a_shell_takes_it() {
        let words = ["sh", "-c", "echo 'a'; rm b"].map(str::to_owned);
        let said = meant(&words).unwrap_or_default();
        let line = r"`lancet mem -- sh -c 'echo '\''a'\''; rm b'`";
        assert!(said.contains(line), "{said}");
    }

    #[test]
    fn what_is_not_understood_is_not_guessed_at() {
        for line in [
            "",
            "--nonsense",
            "nonsense",
            "mem",
            "mem -p 7 8",
            "stack --top 5",
            "calls -c -- ./missing --timeout 30",
            "tune",
        ] {
            assert_eq!(guess(line), "", "{line}");
        }
    }
}
