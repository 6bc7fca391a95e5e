//! Remedies that change settings from outside, and `trim`: what each gains on a stock interpreter, listed and set back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::programs::{done, tried};
use crate::support::{Guest, LIMIT, Snapshot, installed, say, skip, until};

/// A server that keeps each connection, and says how many it has when it is asked; its limit is 64 files.
const SERVER: &str = r#"
import resource, select, socket, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
kept = []
def serve():
    while True:
        try:
            kept.append(server.accept()[0])
        except OSError:
            pass
threading.Thread(target=serve, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    if line == "close\n":
        kept.clear()
    print(server.getsockname()[1] if line == "port\n" else len(kept), flush=True)
print("answer 0", flush=True)
"#;

#[test]
fn a_server_at_its_limit_of_files_takes_connections_again() {
    if !installed("python3") {
        return skip("nofile", "no python3");
    }
    let mut guest = Guest::ready(Command::new("python3").args(["-c", SERVER]));
    let before = Snapshot::take(guest.pid);
    let port: u16 = guest.answer_to("port").parse().expect("a port");
    let clients: Vec<TcpStream> = (0..200)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a connection"))
        .collect();
    let kept = |guest: &mut Guest| guest.answer_to("kept").parse::<usize>().expect("a number");
    until(LIMIT, "the limit", || (kept(&mut guest) > 50).then_some(()));
    let at_limit = kept(&mut guest);
    assert!(at_limit < 64, "{at_limit}");
    let shown = done(guest.pid, &["--dry-run", "--remedy", "nofile=1000"]);
    assert!(shown.contains("64 4096 to 1000 4096"), "{shown}");
    assert!(kept(&mut guest) == at_limit);
    done(guest.pid, &["--remedy", "nofile=1000"]);
    until(LIMIT, "all connections", || {
        (kept(&mut guest) == clients.len()).then_some(())
    });
    say(format_args!(
        "{at_limit} of 200 connections were taken, 200 with the remedy"
    ));
    let list = done(guest.pid, &["--list"]);
    assert!(
        list.starts_with("patch 1: in force: limit of open files"),
        "{list}"
    );
    let full = tried(guest.pid, &["--undo", "1"]);
    assert!(
        full.code() == 1 && full.stderr.contains("more than the old limit"),
        "{full:?}"
    );
    assert_eq!(guest.answer_to("close"), "0");
    done(guest.pid, &["--undo", "1"]);
    let list = done(guest.pid, &["--list"]);
    assert!(list.starts_with("patch 1: undone: "), "{list}");
    let again = tried(guest.pid, &["--undo", "1"]);
    assert!(
        again.code() == 1 && again.stderr.contains("not in force"),
        "{again:?}"
    );
    before.text_holds(guest.pid, "undone");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", guest.pid)).expect("limits");
    assert!(
        limits.lines().any(|line| {
            line.starts_with("Max open files") && line.split_whitespace().nth(3) == Some("64")
        }),
        "{limits}"
    );
    // It imports select, which has room for 1024.
    let output = tried(guest.pid, &["--remedy", "nofile=4000"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("may call select"), "{output:?}");
    done(guest.pid, &["--remedy", "nofile=4000,select"]);
    done(guest.pid, &["--undo"]);
    for (bad, why) in [
        ("nofile=64", "its limit is 64 already"),
        ("nofile=x", "nofile=N"),
        ("nofile", "nofile=N"),
    ] {
        let output = tried(guest.pid, &["--remedy", bad]);
        assert!(
            output.code() == 1 && output.stderr.contains(why),
            "{bad}: {output:?}"
        );
    }
    let output = tried(guest.pid, &["--for", "1s", "--remedy", "nofile=100"]);
    assert!(
        output.code() == 1 && output.stderr.contains("--for is for functions"),
        "{output:?}"
    );
    drop(clients);
    guest.ends_with("answer 0");
}

/// One request over a connection that is kept; it takes as long as the answer's last byte does.
fn asked(connection: &mut TcpStream, length: usize) -> Duration {
    let began = Instant::now();
    connection
        .write_all(b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n")
        .expect("a request");
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let read = connection.read(&mut piece).expect("an answer");
        assert!(read > 0, "the server has closed");
        answer.extend_from_slice(&piece[..read]);
        let body = answer.windows(4).position(|four| four == b"\r\n\r\n");
        if body.is_some_and(|at| answer.len() - at - 4 >= length) {
            return began.elapsed();
        }
    }
}

fn median(connection: &mut TcpStream, length: usize) -> Duration {
    let mut all: Vec<Duration> = (0..41).map(|_| asked(connection, length)).collect();
    all.sort();
    all[all.len() / 2]
}

/// Python's own server writes head and body apart: the body waits for an acknowledgement that the client's kernel delays.
#[test]
fn answers_in_two_pieces_wait_no_longer() {
    if !installed("python3") {
        return skip("nodelay", "no python3");
    }
    const SCRIPT: &str = r#"
import http.server, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "300")
        self.end_headers()
        self.wfile.write(b"x" * 300)
    def log_message(self, *arguments):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    print(server.server_port, flush=True)
print("answer 0", flush=True)
"#;
    let mut guest = Guest::ready(Command::new("python3").args(["-c", SCRIPT]));
    let port: u16 = guest.answer_to("port").parse().expect("a port");
    let mut old = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let slow = median(&mut old, 300);
    done(guest.pid, &["--remedy", &format!("nodelay={port}")]);
    let fast = median(&mut old, 300);
    // One that was accepted since has the option from the socket that listens.
    let mut new = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
    let inherited = median(&mut new, 300);
    let list = done(guest.pid, &["--list"]);
    assert!(
        list.contains("listening at 127.0.0.1") && list.contains(" to 127.0.0.1:"),
        "{list}"
    );
    done(guest.pid, &["--undo"]);
    let undone = median(&mut old, 300);
    say(format_args!(
        "an answer: {slow:?} before, {fast:?} with the remedy, {inherited:?} on a new connection, {undone:?} undone"
    ));
    assert!(
        fast * 8 < slow && inherited * 8 < slow,
        "{slow:?}, {fast:?}, {inherited:?}"
    );
    assert!(undone * 2 > slow, "{undone:?}");
    // A socket that is closed is not set, and its number may be another file's by then.
    done(guest.pid, &["--remedy", "nodelay"]);
    drop(old);
    until(LIMIT, "the end of the connection", || {
        done(guest.pid, &["--list"])
            .contains("closed, or changed")
            .then_some(())
    });
    done(guest.pid, &["--undo"]);
    drop(new);
    guest.ends_with("answer 0");
}

/// One command has room for 512 sockets. It says how many it leaves, and the next one sets those.
#[test]
fn sockets_that_are_left_are_said() {
    if !installed("python3") {
        return skip("nodelay of many", "no python3");
    }
    const SCRIPT: &str = r#"
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1000), hard))
all = [socket.socket() for _ in range(600)]
print("ready", flush=True)
for line in sys.stdin:
    print(sum(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0 for one in all), flush=True)
print("answer 0", flush=True)
"#;
    let mut guest = Guest::ready(Command::new("python3").args(["-c", SCRIPT]));
    let first = tried(guest.pid, &["--remedy", "nodelay"]);
    assert_eq!(first.code(), 4, "{}", first.stderr);
    assert!(
        first.stderr.contains("88 more are left"),
        "{}",
        first.stderr
    );
    assert_eq!(guest.answer_to("set"), "512");
    done(guest.pid, &["--remedy", "nodelay"]);
    assert_eq!(guest.answer_to("set"), "600");
    done(guest.pid, &["--undo"]);
    assert_eq!(guest.answer_to("set"), "0");
    guest.ends_with("answer 0");
}

/// Memory that was free within glibc's heap goes back to the kernel, while four threads allocate.
#[test]
fn free_memory_is_given_back() {
    if !installed("ruby") {
        return skip("trim", "no ruby");
    }
    const SCRIPT: &str = r#"
        $stdout.sync = true
        kept = []
        # In a thread of its own, so that no stack leads to them afterwards.
        Thread.new do
          400_000.times.map { |number| text = "x" * 500; kept << text if number % 1000 == 0; text }
        end.join
        3.times { GC.start }
        wrong = 0
        stop = false
        threads = 4.times.map do
          Thread.new do
            until stop
              list = Array.new(100) { |number| number.to_s * 50 }
              wrong += 1 unless list.each_with_index.all? { |text, number| text == number.to_s * 50 }
              sleep 0.001
            end
          end
        end
        puts "ready"
        while (line = $stdin.gets)
          puts kept.all? { |text| text == "x" * 500 }
        end
        stop = true
        threads.each(&:join)
        puts "answer #{wrong}"
    "#;
    let mut guest = Guest::ready(Command::new("ruby").args(["-e", SCRIPT]));
    let snapshot = Snapshot::take(guest.pid);
    let before = guest.resident();
    let said = done(guest.pid, &["--wait", "10s", "--remedy", "trim"]);
    assert!(said.starts_with("memory was given back"), "{said}");
    let after = guest.resident();
    say(format_args!(
        "{} MiB were resident, {} are",
        before >> 20,
        after >> 20
    ));
    assert!(after + (100 << 20) < before, "{before}, {after}");
    snapshot.text_holds(guest.pid, "done");
    for turn in 0..20 {
        done(guest.pid, &["--wait", "10s", "--remedy", "trim"]);
        assert_eq!(guest.answer_to("kept"), "true", "turn {turn}");
    }
    snapshot.text_holds(guest.pid, "done again");
    guest.ends_with("answer 0");
}
