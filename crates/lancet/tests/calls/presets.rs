//! Presets on real guests: what they are about is seen, told apart, and counted as often as it happened.

use std::process::Command;

use crate::support::{
    Guest, LIMIT, TempDir, assert_shown, chosen, database, fixtures, installed, lancet, run, skip,
};
use crate::watch::{calls, ended_well, hooked, left};

const ROUNDS: usize = 20;

/// A row of `-c`: how often, and what stands behind that.
fn rows(table: &str) -> Vec<(usize, String)> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let share: f64 = words.next()?.parse().ok()?;
        let (_, rest) = line.split_at_checked(68)?;
        let (count, rest) = rest.trim_start().split_once(' ')?;
        (share <= 100.0).then_some((count.parse().ok()?, rest.trim().to_owned()))
    };
    table
        .lines()
        .filter_map(row)
        .filter(|(_, what)| what != "total")
        .collect()
}

/// The words of a text, a space between them.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What a guest does in so many rounds, as a preset counts it.
fn counted(guest: Guest, preset: &str) -> Vec<(usize, String)> {
    counted_with(guest, preset, &[])
}

fn counted_with(guest: Guest, preset: &str, options: &[&str]) -> Vec<(usize, String)> {
    let rows = counted_or_refused(guest, preset, options);
    rows.unwrap_or_else(|refused| panic!("{refused}"))
}

/// The same, or what lancet says where functions are not hooked.
fn counted_or_refused(
    mut guest: Guest,
    preset: &str,
    options: &[&str],
) -> Result<Vec<(usize, String)>, String> {
    let mut arguments = vec!["-c", "--preset", preset, "--max-wait", "30s"];
    arguments.extend(options);
    let watch = hooked(calls(guest.pid, &arguments));
    guest.tell(&ROUNDS.to_string());
    guest.find("answer");
    let output = left(watch, preset);
    guest.tell("");
    guest.ends_with_nothing(preset);
    if output.stderr.contains("not hooked") {
        return Err(output.stderr);
    }
    let rows = rows(&output.stdout);
    assert!(!rows.is_empty(), "{preset}: {output:?}");
    Ok(rows)
}

/// How often the rows that hold all these words count.
fn sum(rows: &[(usize, String)], words: &[&str]) -> usize {
    let fitting = rows
        .iter()
        .filter(|(_, what)| words.iter().all(|word| what.contains(word)));
    fitting.map(|(count, _)| count).sum()
}

/// Two kinds of statements, one of them prepared; the driver sends and waits by itself.
#[test]
fn sql_of_a_ruby_with_mysql2() {
    let Some(server) = database("presets") else {
        return;
    };
    let socket = server.socket().display().to_string();
    for ruby in chosen("ruby", "presets") {
        if !ruby.runs("presets", "require 'mysql2'") {
            continue;
        }
        let guest = ruby.start("statements", &[&socket]);
        let rows = counted(guest, "sql");
        let plain = "mysql_send_query SELECT sleep(?), ? IN (…) ← ";
        let of_plain: Vec<_> = rows
            .iter()
            .filter(|(_, what)| what.starts_with(plain))
            .collect();
        assert!(matches!(of_plain[..], [(ROUNDS, _)]), "{rows:#?}");
        assert_eq!(
            sum(&rows, &["mysql_stmt_prepare SELECT ? + ? ← "]),
            1,
            "{rows:#?}"
        );
        assert_eq!(
            sum(&rows, &["mysql_stmt_execute SELECT ? + ? ← "]),
            ROUNDS,
            "{rows:#?}"
        );
        assert!(sum(&rows, &["mysql_read_query_result"]) == 0, "{rows:#?}");
    }
}

/// PHP speaks the protocol itself: the statement is an argument of its own function.
#[test]
fn sql_of_a_php_with_mysqli() {
    let Some(server) = database("presets") else {
        return;
    };
    let socket = server.socket().display().to_string();
    for php in chosen("php", "presets") {
        if !php.runs("presets", "new ReflectionFunction('mysqli_query');") {
            continue;
        }
        let mut guest = php.start("query", &[&socket]);
        // It asks once a second.
        let watch = hooked(calls(guest.pid, &["-c", "--preset", "sql", "--for", "5s"]));
        let output = ended_well(watch.end(), &php.to_string());
        let rows = rows(&output.stdout);
        let asked = sum(
            &rows,
            &["mysqli_query SELECT sleep(?) ← ", "query.php:10 in 'show'"],
        );
        assert!((2..=6).contains(&asked), "{php}: {rows:#?}");
        guest.tell("");
        guest.find("answer ");
    }
}

/// An execution of a statement is one call: what it took to prepare it and all its steps; its rows and failures are counted.
#[test]
fn sql_of_a_python_with_sqlite() {
    for python in chosen("python", "presets") {
        let rows = counted(python.start("statements", &[]), "sql");
        for (statement, figures) in [
            ("sqlite INSERT INTO t VALUES (…) ← ", ""),
            ("sqlite SELECT a FROM t WHERE a IN (…) ← ", "210 "),
            ("sqlite INSERT INTO u VALUES (…) ← ", "100.00 "),
            ("sqlite SELEC ? ← ", "100.00 "),
        ] {
            let of: Vec<_> = rows
                .iter()
                .filter(|(_, what)| what.contains(statement))
                .collect();
            let [(ROUNDS, what)] = of[..] else {
                panic!("{python}: {statement}: {rows:#?}");
            };
            let what = words(what);
            assert!(
                what.starts_with(&format!("{figures}{statement}")),
                "{python}: {what}"
            );
            assert!(what.contains("statements.py:"), "{python}: {what}");
        }
        assert_eq!(rows.len(), 4, "{python}: {rows:#?}");
    }
}

/// The same driver of Ruby, whose statements are prepared once and run often.
#[test]
fn sql_of_a_ruby_with_sqlite() {
    for ruby in chosen("ruby", "presets") {
        if !ruby.runs("presets", "require 'sqlite3'") {
            continue;
        }
        let rows = counted(ruby.start("sqlite", &[]), "sql");
        let statement = "sqlite SELECT a FROM t WHERE a < ? ← ";
        let of: Vec<_> = rows
            .iter()
            .filter(|(_, what)| what.contains(statement))
            .collect();
        assert!(
            matches!(of[..], [(ROUNDS, what)] if words(what).starts_with("60 ")),
            "{ruby}: {rows:#?}"
        );
    }
}

/// Whose driver calls no function that could be hooked is told so, with what shows the statements instead.
#[test]
fn a_driver_without_a_function_is_named() {
    let Some(server) = database("presets") else {
        return;
    };
    let socket = server.socket().display().to_string();
    let folder = TempDir::new("presets-driver");
    let file = folder.join("mine.preset").display().to_string();
    for python in chosen("python", "presets") {
        if !python.runs("presets", "import pymysql") {
            continue;
        }
        let mut guest = python.start("pure_driver", &[&socket]);
        let port = guest.find("port ");
        let preset = format!("about mine\nmysql_real_query mysql arg2\npeer :{port} mysql_\n");
        std::fs::write(&file, preset).expect("a file");
        let output = run(
            &mut calls(guest.pid, &["-c", "--preset", &file, "--for", "1s"]),
            LIMIT,
        );
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        let said = format!("is connected to a server (tcp to 127.0.0.1:{port})");
        assert_eq!(
            output.stderr.matches(&said).count(),
            1,
            "{python}: {output:?}"
        );
        // What it says is the answer.
        let (_, command) = output
            .stderr
            .split_once("from which line: lancet ")
            .expect("a command");
        let command = command.lines().next().unwrap_or_default();
        let mut shows = lancet();
        shows.args(command.split(' '));
        let watch = hooked(shows);
        guest.tell("go");
        guest.find("asked");
        // Ten statements, each sent by the line that asked, and then by a thread that hands it on. Where that runs before the
        // first send has returned, its line is cut in two, and the place stands in the second half.
        let output = watch.interrupt();
        let count = |parts: &[&str]| {
            let lines = output.stdout.lines();
            lines
                .filter(|line| parts.iter().all(|part| line.contains(part)))
                .count()
        };
        let sent = count(&["sendto(", "SELECT 40 + 2"]);
        let asked = count(&["sendto", "pure_driver.py:", "'ask'"]);
        assert_eq!((sent, asked), (20, 10), "{python}: {output:?}");
        guest.tell("");
        guest.find("answer");
    }
}

/// What calls returned is in the table where it is asked for.
#[test]
fn a_table_by_bytes_and_one_by_failures() {
    let script = fixtures().join("python/calls/results.py");
    let mut guest = Guest::ready(Command::new("/usr/bin/python3").arg(script));
    for (sort, name, expected) in [
        ("bytes", "write", format!("{} B write ← ", 7 * ROUNDS)),
        ("failed", "rmdir", "100.00 rmdir ← ".into()),
    ] {
        let watch = hooked(calls(
            guest.pid,
            &[
                "-c", "--sort", sort, "-x", "write", "-x", "rmdir", "-x", "getppid",
            ],
        ));
        guest.tell(&ROUNDS.to_string());
        guest.find("answer");
        let table = left(watch, sort).stdout;
        let shown = words(&table);
        let first = rows(&table).into_iter().next().unwrap_or_default();
        assert!(
            first.1.contains(name) && shown.contains(&expected),
            "{sort}: {table}"
        );
    }
    let output = run(
        &mut calls(guest.pid, &["-c", "--sort", "size", "-x", "write"]),
        LIMIT,
    );
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(
        output.stderr.contains("the orders are time, wall, calls"),
        "{output:?}"
    );
}

/// A statement that is told is shown whole, where a string of another function would be cut.
#[test]
fn a_statement_is_shown_whole() {
    for python in chosen("python", "presets") {
        let mut guest = python.start("statements", &[]);
        let folder = TempDir::new("presets-shown");
        let out = folder.join("out").display().to_string();
        let watch = hooked(calls(guest.pid, &["--preset", "sql", "-o", &out]));
        guest.tell("40");
        guest.find("answer");
        left(watch, "shown");
        let text = std::fs::read_to_string(&out).expect("what was told");
        let whole = format!(
            "\"SELECT a FROM t WHERE a IN ({})\"",
            vec!["?"; 40].join(",")
        );
        assert!(text.contains(&whole), "{whole}: {text}");
        guest.tell("");
        guest.ends_with_nothing("shown");
    }
}

/// Whether a Python's C library is a glibc of up to 2.33.
fn has_old_glibc(mut python: Command) -> bool {
    let asks = "import os; print(os.confstr('CS_GNU_LIBC_VERSION'))";
    let output = python.args(["-c", asks]).output().expect("a version");
    let said = String::from_utf8_lossy(&output.stdout);
    let minor = said.trim().strip_prefix("glibc 2.").map(str::parse::<u32>);
    matches!(minor, Some(Ok(..=33)))
}

#[test]
fn the_other_presets_of_a_python() {
    for python in chosen("python", "presets") {
        let counts = |preset: &str, words: &[&str]| {
            let rows = counted(python.start("presets", &[]), preset);
            let count = sum(&rows, words);
            (count, rows)
        };
        let (count, rows) = counts("tls", &["SSL_do_handshake", "'secure'"]);
        // Up to 3.10 a function's name is not its qualified one; the line is of ssl.py, which calls.
        let of_ssl = sum(&rows, &["SSL_do_handshake"]);
        assert_eq!(count.max(of_ssl), ROUNDS, "{python}: {rows:#?}");
        for name in ["\"127.0.0.1\"", "\"127.0.0.2\""] {
            let (count, rows) = counts("dns", &["getaddrinfo", name]);
            assert_eq!(count, ROUNDS, "{python}: {rows:#?}");
        }
        match counted_or_refused(python.start("presets", &[]), "alloc", &[]) {
            Ok(rows) => {
                let count = sum(&rows, &["malloc", "presets.py:", "'allocate'"]);
                assert!(count >= ROUNDS, "{python}: {rows:#?}");
            }
            // Up to glibc 2.33.
            Err(refused) => {
                let why = "malloc, free, realloc, memalign, valloc, pvalloc, calloc, posix_memalign: it works on its own return address";
                assert!(refused.contains(why), "{python}: {refused}");
                assert!(has_old_glibc(python.command()), "{python}: {refused}");
            }
        }
        let (count, rows) = counts("locks", &["presets.py:", "'wait'"]);
        assert!(count >= ROUNDS, "{python}: {rows:#?}");
        // Up to 3.12 a lock is this function, which waits in one of the C library: that is one wait.
        if sum(&rows, &["PyThread_acquire_lock_timed", "'wait'"]) != 0 {
            assert_eq!(sum(&rows, &["sem_", "'wait'"]), 0, "{python}: {rows:#?}");
        }
    }
}

/// `malloc` is another library's: the preset follows the name, whoever has it.
#[test]
fn memory_of_another_allocator() {
    const OTHER: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    if !std::path::Path::new(OTHER).exists() {
        return skip("another allocator", format_args!("no {OTHER}"));
    }
    let script = fixtures().join("python/calls/presets.py");
    let mut python = Command::new("/usr/bin/python3");
    python.arg(script).env("LD_PRELOAD", OTHER);
    let rows = counted(Guest::ready(&mut python), "alloc");
    let count = sum(&rows, &["malloc", "presets.py:", "'allocate'"]);
    assert!(count >= ROUNDS, "{rows:#?}");
}

#[test]
fn a_preset_of_ones_own() {
    let folder = TempDir::new("presets-own");
    let file = folder.join("mine.preset");
    std::fs::write(&file, "about mine\ngetaddrinfo text arg1\n").expect("a file");
    for python in chosen("python", "presets") {
        let guest = python.start("presets", &[]);
        let rows = counted(guest, &file.display().to_string());
        assert_eq!(
            sum(&rows, &["getaddrinfo \"127.0.0.1\""]),
            ROUNDS,
            "{rows:#?}"
        );
    }
}

#[test]
fn a_preset_that_is_not_there_or_not_right() {
    let folder = TempDir::new("presets-wrong");
    let file = folder.join("wrong.preset");
    std::fs::write(&file, "about wrong\n\nmalloc so\n").expect("a file");
    let file = file.display().to_string();
    let names = ::calls::preset::Preset::names()
        .collect::<Vec<_>>()
        .join(", ");
    for (preset, expected) in [
        (
            "nosuch",
            "lancet: invalid value 'nosuch' for '--preset <NAME>': there is no preset nosuch: NAMES, or a file of your own (./nosuch)",
        ),
        (
            "./nosuch",
            "lancet: invalid value './nosuch' for '--preset <NAME>': cannot read the preset ./nosuch: No such file or directory (os error 2)",
        ),
        (
            &file,
            "lancet: invalid value 'FILE' for '--preset <NAME>': FILE:3: so: whole, mysql, postgresql, sqlite, value, text, as, names, until, adds or ends was expected",
        ),
    ] {
        let output = run(
            lancet().args(["calls", "--preset", preset, "-p", "1"]),
            LIMIT,
        );
        assert_eq!(output.code(), 2, "{output:?}");
        let expected = format!("{expected}\n");
        assert_shown(
            &output.stderr,
            &[(&file, "FILE"), (&names, "NAMES")],
            &expected,
        );
    }
}

/// libpq's PQexec sends and asks for the result by functions that are in the preset too: one statement, one row.
#[test]
fn sql_that_is_sent_within_another_call_counts_once() {
    if !installed("gcc") {
        return skip("presets", "no gcc");
    }
    let folder = TempDir::new("presets-nested");
    let (source, program) = (folder.join("nested.c"), folder.join("nested"));
    std::fs::write(&source, NESTED).expect("a source");
    let compiled = Command::new("gcc")
        .args(["-O2", "-rdynamic", "-o"])
        .args([&program, &source])
        .output()
        .expect("gcc runs");
    assert!(compiled.status.success(), "{compiled:?}");
    let guest = Guest::start("nested", Command::new(&program));
    guest.expect("ready");
    let conf = folder.join("nested.conf");
    let prototypes = "int PQsendQuery(addr, string); addr PQexec(addr, string);";
    std::fs::write(&conf, prototypes.replace("; ", ";\n")).expect("a .conf");
    let rows = counted_with(guest, "sql", &["-F", &conf.display().to_string()]);
    assert_eq!(sum(&rows, &["PQexec SELECT ?"]), ROUNDS, "{rows:#?}");
    assert_eq!(sum(&rows, &["PQsendQuery SELECT $tag$"]), 0, "{rows:#?}");
    assert_eq!(
        sum(&rows, &["PQsendQuery UPDATE t SET a = ?"]),
        ROUNDS,
        "{rows:#?}"
    );
    assert_eq!(sum(&rows, &["PQ"]), 2 * ROUNDS, "{rows:#?}");
}

/// Functions with the names and arguments of libpq's.
const NESTED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
__attribute__((noipa)) int PQsendQuery(void *connection, const char *text) { return text[0]; }
__attribute__((noipa)) void *PQgetResult(void *connection) { return connection; }
__attribute__((noipa)) void *PQexec(void *connection, const char *text) {
  if (PQsendQuery(connection, text)) return PQgetResult(connection);
  return 0;
}
int main(void) {
  char line[32], text[64];
  puts("ready"); fflush(stdout);
  int rounds = atoi(fgets(line, sizeof line, stdin));
  for (int n = 0; n < rounds; n++) {
    snprintf(text, sizeof text, "SELECT $tag$ %d", n);
    PQexec(line, text);
    snprintf(text, sizeof text, "UPDATE t SET a = %d", n);
    PQsendQuery(line, text);
    PQgetResult(line);
    PQgetResult(line);
  }
  puts("answer"); fflush(stdout);
  fgets(line, sizeof line, stdin);
}
"#;

/// A client of HTTP whose library is libcurl is seen, by the duration of its requests.
#[test]
fn requests_of_libcurl_are_counted() {
    if !installed("curl") {
        return skip("presets http", "no curl");
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server = std::thread::spawn(move || {
        use std::io::{BufRead, BufReader, Write};
        let (mut stream, _) = listener.accept().expect("a client");
        let asked = BufReader::new(stream.try_clone().expect("a copy"));
        let head = asked.lines().map_while(Result::ok);
        head.take_while(|line| !line.is_empty()).for_each(drop);
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            .expect("it reads");
    });
    let mut command = lancet();
    command.args(["calls", "-c", "--preset", "http", "--", "curl", "-s"]);
    command.arg(format!("http://127.0.0.1:{port}/"));
    let output = run(&mut command, LIMIT);
    server.join().expect("it was asked");
    let found = rows(&output.stderr);
    let has = |name: &str| {
        found
            .iter()
            .any(|(count, what)| *count > 0 && what.starts_with(name))
    };
    assert!(
        has("curl_easy_perform") || has("curl_multi_perform"),
        "{output:?}"
    );
}
