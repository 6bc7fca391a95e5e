//! `-x gc`: every collection of a VM's garbage is told, as often as the VM says that it collected.

use std::io::{Read, Write};

use crate::lines::{Shown, of, shown};
use crate::support::{Guest, Snapshot, TempDir, chosen, installed, skip};
use crate::watch::{calls, hooked, left, text_holds};

/// Collections that were told, and from where to where the VM counted.
fn told(language: &'static str, each: impl Fn(&str, &[&Shown], u64, u64)) {
    for interpreter in chosen(language, "gc") {
        let folder = TempDir::new(&format!("gc-{interpreter}").replace(' ', "-"));
        let out = folder.join("out").display().to_string();
        let mut guest = interpreter.start("gc", &[]);
        let before = Snapshot::take(guest.pid);
        let watch = hooked(calls(guest.pid, &["-ttT", "-o", &out, "-x", "gc"]));
        guest.tell("");
        let answer = guest.find("answer ");
        let output = left(watch, "gc");
        text_holds(&before, guest.pid, "gc", &output);
        guest.tell("");
        guest.ends_with_nothing("gc");
        let (from, to) = answer.split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        let text = std::fs::read_to_string(&out).expect("what was told");
        let all = shown(&text);
        let name = interpreter.to_string();
        each(&name, &of(&all, "gc"), number(from), number(to));
    }
}

/// Each is told once, with the number that `GC.count` has then, and with what asked for it.
#[test]
fn collections_of_a_ruby() {
    told("ruby", |ruby, told, from, to| {
        let numbers = told
            .iter()
            .map(|call| call.result.parse().expect("a number"));
        let numbers: Vec<u64> = numbers
            .filter(|number| (from + 1..=to).contains(number))
            .collect();
        assert_eq!(
            numbers,
            (from + 1..=to).collect::<Vec<u64>>(),
            "{ruby}: {told:?}"
        );
        let because = |cause: &str| {
            let calls = told.iter().filter(|call| call.arguments.starts_with(cause));
            calls.count()
        };
        assert_eq!(because("method"), 10, "{ruby}: {told:?}");
        assert!(because("newobj") >= 1, "{ruby}: {told:?}");
        assert!(
            told.iter().all(|call| !call.line.is_empty()),
            "{ruby}: {told:?}"
        );
    });
}

/// So many as `gc.get_stats()` says, with their generation.
#[test]
fn collections_of_a_python() {
    told("python", |python, told, _, count| {
        assert_eq!(told.len() as u64, count, "{python}: {told:?}");
        let of = |generation: &str| {
            let calls = told.iter().filter(|call| call.arguments == generation);
            calls.count()
        };
        assert!(of("0") >= 5, "{python}: {told:?}");
        assert!(of("2") >= 5, "{python}: {told:?}");
    });
}

/// So many as `gc_status()` says, with how many were freed.
#[test]
fn collections_of_a_php() {
    told("php", |php, told, _, count| {
        assert_eq!(told.len() as u64, count, "{php}: {told:?}");
        let freed = told
            .iter()
            .map(|call| call.result.parse::<u64>().expect("a number"));
        // The last of each round is still referred to.
        assert!(
            (5 * 11_000 - 10..=5 * 11_000).contains(&freed.sum::<u64>()),
            "{php}: {told:?}"
        );
    });
}

/// A Python that is a library of another program: its compiler has made other code for the probe by which the collector is found.
#[test]
fn the_collector_of_a_uwsgi_is_found() {
    const APPLICATION: &str = r#"
import gc

def application(environ, start_response):
    gc.collect()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"ok"]
"#;
    let plugin = "/usr/lib/uwsgi/plugins/python3_plugin.so";
    if !installed("uwsgi") || !std::path::Path::new(plugin).exists() {
        return skip("gc uwsgi", "no uwsgi-core or no uwsgi-plugin-python3");
    }
    let folder = TempDir::new("gc-uwsgi");
    std::fs::write(folder.join("shop.py"), APPLICATION).expect("a file");
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "exec uwsgi --plugin python3 --http-socket 127.0.0.1:0 --disable-logging --wsgi-file shop.py 2>&1"])
        .current_dir(folder.join(""));
    let guest = Guest::start("uwsgi", command);
    let said = guest.find_within("bound to TCP address 127.0.0.1:");
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    guest.find_within("spawned uWSGI worker 1");
    let watch = hooked(calls(guest.pid, &["--preset", "gc"]));
    let address = format!("127.0.0.1:{digits}");
    for _ in 0..3 {
        let mut stream = std::net::TcpStream::connect(&address).expect("it listens");
        stream
            .write_all(b"GET / HTTP/1.0\r\n\r\n")
            .expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        assert!(answer.ends_with("ok"), "{answer}");
    }
    let output = left(watch, "gc uwsgi");
    let lines = output.stdout.lines();
    let seen = lines.filter(|line| line.contains("gc(") && line.contains("shop.py:5"));
    assert!(seen.count() >= 3, "{output:?}");
}
