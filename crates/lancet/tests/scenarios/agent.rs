//! `lancet agent`: what it chooses, keeps and sheds, and what is left of it when it is killed.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;

use super::parquet::engine;
use super::scenario;
use super::support::{Guest, LIMIT, TempDir, Watch, is_root, lancet, run, skip, until};

/// A choice of these processes, whose functions are looked at.
fn watch(name: &str, guest: &Guest, profile: &str) -> String {
    let pid = guest.pid;
    let line = fs::read(format!("/proc/{pid}/cmdline")).expect("it lives");
    let line: Vec<String> = line
        .split(|byte| *byte == 0)
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    format!(
        "[[watch]]\nname = '{name}'\nrelease = 'B'\nchoose = {{ command = '{}' }}\n[watch.profile]\n{profile}\n",
        line.join(" ").trim()
    )
}

struct Config {
    folder: TempDir,
}

impl Config {
    fn new(name: &str) -> Self {
        Config {
            folder: TempDir::new(name),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("lancet.toml")
    }

    fn tables(&self) -> PathBuf {
        self.folder.join("fleet")
    }

    /// Writes it, with what all have.
    fn write(&self, text: &str) {
        let text = format!("folder = '{}'\n{text}", self.tables().display());
        fs::write(self.path(), text).expect("it can be written");
    }

    fn agent(&self) -> Command {
        let mut command = lancet();
        command.arg("agent").arg("--config").arg(self.path());
        command
    }

    fn start(&self) -> Watch {
        let mut agent = Watch::start(self.agent());
        agent.until("lancet: looks at ");
        agent
    }
}

/// The files of a table.
fn files(tables: &Path, table: &str) -> Vec<PathBuf> {
    let days = fs::read_dir(tables.join(table)).into_iter().flatten();
    let days = days.flatten().map(|day| day.path());
    let files = days.filter_map(|day| fs::read_dir(day).ok()).flatten();
    let files = files.flatten().map(|file| file.path());
    // One that is being written, or was when it was killed, has a longer name.
    let is_whole = |path: &PathBuf| path.extension().is_some_and(|of| of == "parquet");
    let mut files: Vec<PathBuf> = files.filter(is_whole).collect();
    files.sort();
    files
}

/// Waits until a table has more files than that.
fn more(tables: &Path, table: &str, than: usize) -> usize {
    until(LIMIT, "there is another answer", || {
        let count = files(tables, table).len();
        (count > than).then_some(count)
    })
}

/// What is in the spool.
fn spooled(tables: &Path) -> Vec<String> {
    let names = fs::read_dir(tables.join(".agent/spool"))
        .into_iter()
        .flatten();
    let names = names.flatten().map(|entry| entry.file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// A number that the agent remembers of a task.
fn counted(tables: &Path, task: &str, what: &str) -> u64 {
    let text = fs::read_to_string(tables.join(".agent/state.json")).expect("a state");
    let state: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    state["sums"][task][what].as_u64().unwrap_or_default()
}

/// What the agent says of its health.
fn asked(socket: &Path) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it answers");
    text
}

#[test]
fn processes_are_looked_at_as_they_come_and_go() {
    let (Some(one), Some(two)) = (scenario("grows.py", &["1"]), scenario("busy.rb", &["2"])) else {
        return;
    };
    let config = Config::new("agent");
    let tables = config.tables();
    let often = "every = '1s'\nfor = '1s'\n";
    let heap = format!("{often}[watch.heap]\nwhen = 'rss>1M'");
    let text = [watch("one", &one, &heap), watch("two", &two, often)].concat();
    let socket = config.folder.join("health");
    config.write(&format!(
        "cpu = '100%'\nmemory = '200M'\nhealth = 'unix:{}'\n{text}",
        socket.display()
    ));
    let checked = run(config.agent().arg("--check"), LIMIT);
    assert_eq!(checked.code(), 0, "{checked:?}");
    let says = |pid: i32| checked.stdout.contains(&format!("\n    {pid} "));
    assert!(says(one.pid) && says(two.pid), "{checked:?}");
    assert!(!tables.exists(), "it only says it");
    let agent = config.start();
    more(&tables, "sample", 2);
    let lines = [
        "HTTP/1.1 200 OK\r\n",
        "\nlancet_agent_processes{watch=\"one\"} 1\n",
        "\nlancet_agent_captures_total{watch=\"one\",command=\"heap\",result=\"done\"} 1\n",
    ];
    until(LIMIT, "it tells of a heap", || {
        let health = asked(&socket);
        lines.iter().all(|line| health.contains(line)).then_some(())
    });
    assert!(one.ends_well());
    // Another one of this choice.
    let Some(three) = scenario("grows.py", &["1"]) else {
        return;
    };
    let marked = counted(&tables, "one/profile", "done");
    until(LIMIT, "the new one is looked at", || {
        let is_new = counted(&tables, "one/profile", "done") > marked + 1;
        (is_new && counted(&tables, "one/heap", "done") > 1).then_some(())
    });
    agent.ask(Signal::SIGTERM);
    let output = agent.end();
    assert_eq!(output.code(), 0, "{output:?}");
    assert_eq!(spooled(&tables), Vec::<String>::new(), "{output:?}");
    assert_eq!(files(&tables, "agent").len(), 1, "{output:?}");
    assert!(!socket.exists(), "{output:?}");
    // The memory of each is looked at once.
    let heaps = [
        counted(&tables, "one/heap", "done"),
        files(&tables, "heap_class").len() as u64,
    ];
    assert_eq!(heaps, [2, 2], "{output:?}");
    assert!(two.ends_well() && three.ends_well());
    let Some(engine) = engine() else {
        return;
    };
    let mut ask = lancet();
    ask.args(["fleet", "hot", "--release", "B", "--from"]);
    let hot = run(ask.arg(&tables).env("PATH", engine), LIMIT);
    assert_eq!(hot.code(), 0, "{hot:?}");
    assert!(hot.stdout.starts_with("threads of two run in "), "{hot:?}");
}

#[test]
fn an_agent_that_is_killed_loses_no_answer_and_tells_none_twice() {
    let Some(guest) = scenario("grows.py", &["killed"]) else {
        return;
    };
    let config = Config::new("killed");
    let tables = config.tables();
    let text = watch("shop", &guest, "every = '1s'\nfor = '1s'\n");
    config.write(&format!("cpu = '100%'\n{text}"));
    for round in 0..3 {
        let agent = config.start();
        more(&tables, "sample", round);
        // In the midst of a capture, or of what follows it.
        until(LIMIT, "something is under way", || spooled(&tables).pop());
        agent.kill();
    }
    let agent = config.start();
    more(&tables, "sample", 3);
    agent.ask(Signal::SIGTERM);
    let output = agent.end();
    assert_eq!(output.code(), 0, "{output:?}");
    assert_eq!(spooled(&tables), Vec::<String>::new(), "{output:?}");
    let (samples, captures) = (files(&tables, "sample"), files(&tables, "capture"));
    let done = counted(&tables, "shop/profile", "done");
    // What was counted and not noted when it was killed is counted at the next export.
    assert!(
        samples.len() as u64 >= done && done > 0,
        "{done} {samples:?}"
    );
    let names = |all: &[PathBuf]| -> Vec<String> {
        let names = all.iter().filter_map(|path| path.file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    };
    let captures = names(&captures);
    for name in names(&samples) {
        assert!(captures.contains(&name), "{name} has no capture");
    }
    for path in samples {
        let bytes = fs::read(&path).expect("a file");
        assert!(bytes.ends_with(b"PAR1"), "{path:?} is half a file");
    }
    assert!(guest.ends_well());
}

#[test]
fn what_is_wrong_with_a_configuration_is_said_and_the_old_one_stays() {
    let Some(guest) = scenario("grows.py", &["read again"]) else {
        return;
    };
    let config = Config::new("read-again");
    let tables = config.tables();
    let text = watch("shop", &guest, "every = '1s'\nfor = '1s'\n");
    // It can pay for one in hours.
    config.write(&format!("cpu = '0.01%'\n{text}"));
    let mut agent = config.start();
    agent.until("lancet: captures of shop/profile are shed for want of processor time");
    assert_eq!(files(&tables, "sample"), Vec::<PathBuf>::new());
    config.write(&format!("cpu = '100%'\nevry = '1s'\n{text}"));
    let refused = run(&mut config.agent(), LIMIT);
    assert_eq!(refused.code(), 2, "{refused:?}");
    let wrong = format!(
        "lancet: {}:3: unknown field `evry`",
        config.path().display()
    );
    assert!(refused.stderr.starts_with(&wrong), "{refused:?}");
    agent.ask(Signal::SIGHUP);
    let said = agent.until(&wrong);
    assert!(
        said.ends_with("; the configuration stays as it was"),
        "{said}"
    );
    config.write(&format!("cpu = '100%'\n{text}"));
    // Another one would write the same files.
    let second = run(&mut config.agent(), LIMIT);
    assert_eq!(second.code(), 1, "{second:?}");
    let taken = format!("another agent has it, process {}", agent.pid());
    assert!(second.stderr.contains(&taken), "{second:?}");
    agent.ask(Signal::SIGHUP);
    agent.until(&format!(
        "lancet: {} was read again",
        config.path().display()
    ));
    more(&tables, "sample", 0);
    agent.ask(Signal::SIGTERM);
    let output = agent.end();
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(
        counted(&tables, "shop/profile", "shed_for_cpu") > 0,
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn once_keeps_to_the_bounds_and_ends_when_it_is_asked_to() {
    let Some(guest) = scenario("grows.py", &["once"]) else {
        return;
    };
    let config = Config::new("once");
    let tables = config.tables();
    let mut once = config.agent();
    once.arg("--once");
    // All tables have more than that.
    let text = watch("shop", &guest, "for = '1s'\n");
    config.write(&format!("keep-size = '1K'\n{text}"));
    let output = run(&mut once, LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stderr.contains("the oldest, of "), "{output:?}");
    assert_eq!(files(&tables, "sample"), Vec::<PathBuf>::new());
    assert_eq!(files(&tables, "agent").len(), 1, "{output:?}");
    config.write(&watch("shop", &guest, "for = '1h'\n"));
    let agent = Watch::start(once);
    until(LIMIT, "it looks at it", || spooled(&tables).pop());
    agent.ask(Signal::SIGTERM);
    let output = agent.end();
    // Where it had just begun there is no answer.
    assert!([0, 4].contains(&output.code()), "{output:?}");
    assert_eq!(spooled(&tables), Vec::<String>::new(), "{output:?}");
    assert!(guest.ends_well());
}

#[test]
fn a_full_disk_sheds_and_is_waited_for() {
    if !is_root() {
        return skip("agent", "a file system of its own takes root");
    }
    let Some(guest) = scenario("grows.py", &["full"]) else {
        return;
    };
    let config = Config::new("full");
    fs::create_dir(config.tables()).expect("a folder");
    let text = watch("shop", &guest, "every = '1s'\nfor = '1s'\n");
    config.write(&format!("cpu = '100%'\n{text}"));
    let mut command = Command::new("unshare");
    let script = "mount -t tmpfs -o size=24m none \"$0\" && exec \"$@\"";
    command
        .args(["-m", "sh", "-c", script])
        .arg(config.tables());
    command
        .arg(config.agent().get_program())
        .args(config.agent().get_args());
    let mut agent = Watch::start(command);
    agent.until("lancet: looks at ");
    let tables = PathBuf::from(format!(
        "/proc/{}/root{}",
        agent.pid(),
        config.tables().display()
    ));
    more(&tables, "sample", 0);
    let fill = tables.join("fill");
    fs::write(&fill, vec![1; 20 << 20]).expect("there is room for it");
    agent.until("lancet: there is no room in ");
    fs::remove_file(&fill).expect("it is there");
    agent.until("lancet: there is room in ");
    more(&tables, "sample", files(&tables, "sample").len());
    agent.ask(Signal::SIGTERM);
    let output = agent.end();
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(guest.ends_well());
}
