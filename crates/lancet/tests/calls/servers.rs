//! `lancet syscalls --strace` beside strace: a client of a database, from its first call to its last, and a Puma that answers meanwhile, by
//! hooks and by ptrace.

use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use regex::Regex;

use crate::strace::{assert_same, both_with};
use crate::support::{Guest, LIMIT, TempDir, ask, database, installed, lancet, skip, until};

/// All that it asks for of files, memory and its socket; how often it polls depends on when the server answers, and what the server sends
/// begins with random bytes.
#[test]
fn a_client_of_a_database_makes_the_calls_that_strace_sees() {
    if !installed("strace") || !installed("mariadb") {
        return skip(
            "a database's client beside strace",
            "no strace, or no mariadb",
        );
    }
    let Some(database) = database("servers") else {
        return;
    };
    let socket = format!("--socket={}", database.socket().display());
    let words = [
        "/usr/bin/mariadb",
        "--no-defaults",
        &socket,
        "-e",
        "SELECT 1",
    ];
    let options = ["-e", "trace=!poll,ppoll,recvfrom"];
    let all = both_with("servers-client", &options, &words);
    // The thread of the server that answers has a number, which the client sends to nobody, and its own id goes into what it says of itself.
    let ids = Regex::new(r#"(sendto\(3, ").*?"(\.\.\.)?"#).expect("a literal");
    let [theirs, ours] = all.map(|lines| -> Vec<String> {
        let lines = lines.iter().map(|line| ids.replace(line, "${1}…\""));
        lines.map(String::from).collect()
    });
    assert!(
        theirs
            .iter()
            .any(|line| line.starts_with("connect(3, {sa_family=AF_UNIX")),
        "{theirs:#?}"
    );
    assert!(theirs.len() > 100, "{}", theirs.len());
    assert_same(&theirs, &ours);
}

const APPLICATION: &str = r#"
run lambda { |env| [200, { "Content-Type" => "text/plain" }, ["hello #{env["QUERY_STRING"]}\n"]] }
"#;

/// What is asked for on the connections that it takes, as it answers twenty requests; thread by thread they come in this order.
#[test]
fn a_puma_is_seen_as_strace_sees_it() {
    if !installed("puma") || !installed("strace") {
        return skip("Puma beside strace", "no puma, or no strace");
    }
    let folder = TempDir::new("servers-puma");
    let application = folder.join("config.ru");
    std::fs::write(&application, APPLICATION).expect("a file");
    let mut command = Command::new("puma");
    command
        .args(["-b", "tcp://127.0.0.1:0", "-t", "1:1", "-e", "production"])
        .arg(&application)
        .current_dir("/tmp");
    let guest = Guest::start("puma", command);
    let listening = guest.find("* Listening on http://127.0.0.1:");
    let port: u16 = listening.parse().unwrap_or_else(|_| panic!("{listening}"));
    assert_eq!(ask(port, 0), "hello 0\n");
    let answers =
        || (1..=20).for_each(|number| assert_eq!(ask(port, number), format!("hello {number}\n")));
    let out = folder.join("out");
    let pid = guest.pid.to_string();
    let asked = ["-f", "-e", "trace=%network,write,close", "-o"];
    let mut strace = Command::new("strace");
    strace
        .args(asked)
        .arg(&out)
        .args(["-p", &pid])
        .stderr(Stdio::null());
    let mut strace = strace.spawn().expect("strace");
    until(LIMIT, "strace traces all threads", || {
        is_traced(guest.pid).then_some(())
    });
    answers();
    until(LIMIT, "strace has seen the end of each connection", || {
        let seen = of_connections(&out);
        let ends = seen.iter().filter(|line| line.starts_with("close("));
        (ends.count() == 20).then_some(())
    });
    kill(Pid::from_raw(strace.id() as i32), Signal::SIGINT).expect("sent");
    strace.wait().expect("its end");
    let theirs = of_connections(&out);
    assert_eq!(
        theirs
            .iter()
            .filter(|line| line.starts_with("accept4("))
            .count(),
        20,
        "{theirs:#?}"
    );
    for option in ["--hooks", "--no-modify"] {
        let mut ours = lancet();
        ours.args(["syscalls", "--strace", option, "--max-wait", "30s"]);
        let watch = crate::watch::hooked({
            ours.args(asked).arg(&out).args(["-p", &pid]);
            ours
        });
        answers();
        let output = watch.interrupt();
        let ended_by = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(
            ended_by,
            Some(Signal::SIGINT as i32),
            "{option}: {output:?}"
        );
        assert_same(&theirs, &of_connections(&out));
    }
    guest.signal(Signal::SIGTERM);
    guest.end();
}

/// Whether every thread of a process has a tracer.
fn is_traced(pid: i32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let mut threads = threads.filter_map(|thread| {
        let status = thread.ok()?.path().join("status");
        std::fs::read_to_string(status).ok()
    });
    threads.all(|status| !status.contains("TracerPid:\t0"))
}

/// The lines of calls on connections, without their threads, which take turns as they like, and what differs between two requests of ours.
fn of_connections(out: &std::path::Path) -> Vec<String> {
    let text = std::fs::read_to_string(out).expect("lines");
    let whole = crate::strace::whole(&text);
    let taken = Regex::new(r"^accept4\(.* = (\d+)$").expect("a literal");
    let mut number = None;
    let masks = [
        (r"htons\(\d+\)", "htons(PORT)"),
        (r#"TCP_INFO, ".*?"\.\.\."#, "TCP_INFO, …"),
        (r" +=", " ="),
        (r" = \d+$", " = N"),
    ];
    let masks = masks.map(|(mask, with)| (Regex::new(mask).expect("a literal"), with));
    let mut found = Vec::new();
    for (_, line) in &whole {
        if let Some(of) = taken.captures(line) {
            number = Some(of[1].to_owned());
        }
        let Some(number) = &number else {
            continue;
        };
        let is_of_it =
            line.contains(&format!("({number}, ")) || line.starts_with(&format!("close({number})"));
        if !is_of_it && !line.starts_with("accept4(") || line.contains("EAGAIN") {
            continue;
        }
        let mut line = line.replace(&format!("({number}"), "(N");
        for (mask, with) in &masks {
            line = mask.replace_all(&line, *with).into_owned();
        }
        found.push(line);
    }
    found
}
