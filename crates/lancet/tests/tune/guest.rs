//! `-p` on a threaded Ruby server with glibc's malloc.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::harness::{Checks, Scratch, checks, seen, text, tune, verdict};

/// Eight threads that allocate, forty files, a listener whose queue takes five, and one client who waits.
const SERVER: &str = "
  require 'socket'
  files = 40.times.map { File.open('/dev/null') }
  ready = Queue.new
  threads = 8.times.map { Thread.new { $kept = 200.times.map { 'x' * 1000 }; ready << true; sleep } }
  8.times { ready.pop }
  server = TCPServer.new('127.0.0.1', 0)
  server.listen(5)
  $stdout.puts server.addr[1]
  $stdout.flush
  sleep
";

struct Server {
    child: Child,
    pid: String,
    port: u16,
    _client: TcpStream,
}

impl Server {
    fn start(environment: &[(&str, &str)]) -> Option<Self> {
        if Command::new("ruby").arg("--version").output().is_err() {
            println!("SKIPPED the tests of -p on a server: needs ruby (package ruby)");
            return None;
        }
        let mut command = Command::new("sh");
        // A low soft limit of descriptors under a higher hard one.
        command.args(["-c", "ulimit -Sn 64; exec ruby -e \"$0\"", SERVER]);
        command
            .env_remove("MALLOC_ARENA_MAX")
            .envs(environment.iter().copied());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap();
        Some(Self {
            pid: child.id().to_string(),
            child,
            port,
            _client: TcpStream::connect(("127.0.0.1", port)).unwrap(),
        })
    }

    fn audit(&self) -> Checks {
        checks(&tune(&["--no-sample", "--json", "-p", &self.pid]))
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.pid)).unwrap()
    }

    fn soft_limit(&self) -> String {
        let limits = self.read("limits");
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"))
            .unwrap();
        line.split_whitespace().nth(3).unwrap().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_threaded_server_on_glibc() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let found = server.audit();

    assert_eq!(verdict(&found, "T30"), "consider");
    let says = found["T30"]["says"].as_str().unwrap();
    assert!(says.contains("MALLOC_ARENA_MAX"), "{says}");
    let threads = fs::read_dir(format!("/proc/{}/task", server.pid))
        .unwrap()
        .count();
    assert_eq!(seen(&found, "T30", "task"), format!("{threads} threads"));
    // Each thread that allocated made an arena of its own: 64 MiB of addresses, from a multiple of it, of which the part
    // behind what was used is a reserve. The guard of a thread's stack may lie in the same line as the reserve.
    let maps = server.read("maps");
    let lines: Vec<(u64, u64, &str)> = maps
        .lines()
        .map(|line| {
            let (range, rest) = line.split_once(' ').unwrap();
            let (from, to) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            (number(from), number(to), rest.trim_end())
        })
        .collect();
    let arenas = lines
        .windows(2)
        .filter(|pair| {
            let ((start, end, used), (from, to, reserve)) = (pair[0], pair[1]);
            start % (64 << 20) == 0
                && used == "rw-p 00000000 00:00 0"
                && (from, reserve) == (end, "---p 00000000 00:00 0")
                && to >= start + (64 << 20)
        })
        .count();
    assert!(arenas >= 8, "{arenas} arenas");
    assert_eq!(
        seen(&found, "T30", "arenas").parse::<usize>().unwrap(),
        arenas
    );

    let huge = server.read("smaps_rollup");
    let huge = huge
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))
        .unwrap();
    assert_eq!(
        seen(&found, "T26", "AnonHugePages"),
        huge.split_whitespace().collect::<Vec<_>>().join(" ")
    );

    let queue = seen(&found, "T21", &format!("127.0.0.1:{}", server.port));
    assert_eq!(queue, "1 of 5 wait");

    let open = fs::read_dir(format!("/proc/{}/fd", server.pid))
        .unwrap()
        .count();
    assert!(seen(&found, "T29", "/fd").starts_with(&format!("{open} open")));
    assert_eq!(found["T29"]["says"], format!("{open} open of 64"));
    assert_eq!(verdict(&found, "T29"), "consider", "more than 70%");
    assert_eq!(verdict(&found, "T13"), "good");
    assert!(!seen(&found, "T10", "last CPUs").is_empty());
    // The listener, which nothing arrives at but handshakes; over loopback there is no poller.
    let served = seen(&found, "T10", "sockets of ruby");
    assert!(
        served.contains("served by CPU") || served.contains("nothing arrived"),
        "{served}"
    );
}

#[test]
fn its_descriptor_limit_goes_up_and_back() {
    let Some(server) = Server::start(&[]) else {
        return;
    };
    let journals = Scratch::new();
    let applied = tune(&[
        "--journals",
        journals.arg(),
        "-p",
        &server.pid,
        "--apply",
        "T29",
    ]);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied));
    assert_eq!(server.soft_limit(), "256");
    let undone = tune(&["--journals", journals.arg(), "--undo"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert_eq!(server.soft_limit(), "64");
}

#[test]
fn with_the_variable_there_is_nothing_to_say() {
    let Some(server) = Server::start(&[("MALLOC_ARENA_MAX", "2")]) else {
        return;
    };
    let found = server.audit();
    assert_eq!(verdict(&found, "T30"), "good");
    assert_eq!(seen(&found, "T30", "environ"), "2");
}
