//! `lancet mcp`: what an assistant is told, by messages written here and by the published client.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::support::{LIMIT, fixtures, lancet, rival, run, tool, until, wait};
use super::{first, scenario};

/// A server, and how it is spoken to.
struct Served {
    child: Child,
    to: Option<ChildStdin>,
    /// The lines that it says.
    from: Receiver<String>,
    last: u64,
}

impl Served {
    fn start(words: &[&str]) -> Self {
        let mut command = lancet();
        command.arg("mcp").args(words);
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = streams.spawn().expect("lancet");
        let to = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (send, from) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // The test may be over.
                let _ = send.send(line);
            }
        });
        Served {
            child,
            to,
            from,
            last: 0,
        }
    }

    fn say(&mut self, message: &Value) {
        let to = self.to.as_mut().expect("it was not ended");
        writeln!(to, "{message}").expect("it listens");
    }

    /// Asks, without waiting for the answer; returns the id.
    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let id = self.last;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    fn answer(&mut self) -> Value {
        let line = self.from.recv_timeout(LIMIT).expect("it answers");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The text of a tool's answer, and whether it is an error.
    fn call(&mut self, name: &str, arguments: Value) -> (String, bool) {
        let answer = self.ask("tools/call", json!({"name": name, "arguments": arguments}));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}"));
        (text.to_owned(), result["isError"] == true)
    }

    /// Ends its input; it ends with 0. Returns what it has said until then.
    fn end(mut self) -> Vec<String> {
        drop(self.to.take());
        let status = wait(&mut self.child, LIMIT).expect("it ends");
        assert!(status.success(), "{status}");
        self.from.iter().collect()
    }
}

#[test]
fn a_deadlock_is_told_to_an_assistant_and_no_other_process_is_opened() {
    let Some(guest) = scenario("deadlock.rb", &[]) else {
        return;
    };
    let pid = guest.pid.to_string();
    let mut served = Served::start(&["-p", &pid, "--for", "2s"]);
    let greeting = served.ask(
        "initialize",
        json!({"protocolVersion": "2025-06-18", "capabilities": {}}),
    );
    assert_eq!(
        greeting["result"]["protocolVersion"], "2025-06-18",
        "{greeting}"
    );
    served.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));

    let tools = served.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let names: Vec<_> = tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    for name in [
        "processes",
        "mem",
        "heap",
        "rss",
        "stack",
        "profile",
        "calls",
        "syscalls",
        "tune",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    assert!(
        !names.contains(&"patch") && !names.contains(&"inject"),
        "{names:?}"
    );

    let (listed, _) = served.call("processes", json!({}));
    assert!(
        listed.contains(&format!("\n{pid} ")) && listed.contains("deadlock.rb"),
        "{listed}"
    );
    let (stack, failed) = served.call("stack", json!({"pid": guest.pid}));
    assert!(
        !failed && stack.contains("deadlock: these 2 threads"),
        "{stack}"
    );
    let data = format!("What follows is about process {pid}; ");
    assert!(stack.starts_with(&data), "{stack}");
    assert!(stack.contains("deadlock.rb:10"), "{stack}");
    let (waits, failed) = served.call("waits", json!({"pid": guest.pid, "seconds": 1, "top": 3}));
    assert!(!failed && waits.contains("deadlock.rb:"), "{waits}");

    let (why, failed) = served.call("stack", json!({"pid": 1}));
    let other = format!("process 1 may not be opened here; these may: {pid}");
    assert!(failed && why == other, "{why}");
    let (why, failed) = served.call("waits", json!({"pid": guest.pid, "seconds": 3}));
    assert!(
        failed && why == "seconds is a number above 0, and at most 2 here",
        "{why}"
    );
    let (why, failed) = served.call("stack", json!({"pid": guest.pid, "output": "/tmp/x"}));
    assert!(failed && why == "stack has no argument `output`", "{why}");
    let (why, failed) = served.call("calls", json!({"pid": guest.pid, "presets": ["/dev/zero"]}));
    assert!(failed && why.starts_with("presets is a list of "), "{why}");
    let text = served.ask(
        "tools/call",
        json!({"name": "stack", "arguments": format!("{{\"pid\": {pid}}}")}),
    );
    assert_eq!(text["error"]["code"], -32602, "{text}");
    let patch = served.ask(
        "tools/call",
        json!({"name": "patch", "arguments": {"pid": guest.pid}}),
    );
    assert_eq!(patch["error"]["code"], -32602, "{patch}");
    let unknown = served.ask("resources/list", json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    served.end();
    assert!(guest.ends_well());
}

/// How many lancets look at processes: each is a child of a thread of the server.
fn watchers(served: &Served) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", served.child.id()));
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.map(|task| std::fs::read_to_string(task.path().join("children")));
    let children = children.map(|list| list.unwrap_or_default().split_whitespace().count());
    children.sum()
}

#[test]
fn a_call_that_is_taken_back_leaves_the_process_and_others_are_answered_meanwhile() {
    let Some(guest) = scenario("busy.rb", &[]) else {
        return;
    };
    let mut served = Served::start(&["--any-process", "--for", "1h", "--allow-changes"]);
    let long = served.request(
        "tools/call",
        json!({"name": "profile", "arguments": {"pid": guest.pid, "seconds": 3600}}),
    );
    until(LIMIT, "the call has begun", || {
        (watchers(&served) == 1).then_some(())
    });
    let ping = served.ask("ping", json!({}));
    assert_eq!(ping["result"], json!({}), "{ping}");
    // One with its id is another call, of which nobody could say to which an answer belongs.
    served.say(&json!({
        "jsonrpc": "2.0", "id": long, "method": "tools/call",
        "params": {"name": "profile", "arguments": {"pid": guest.pid, "seconds": 3600}},
    }));
    let again = served.answer();
    assert_eq!(again["error"]["code"], -32600, "{again}");
    assert_eq!(watchers(&served), 1);
    served.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": long}}));
    until(LIMIT, "the call has ended", || {
        (watchers(&served) == 0).then_some(())
    });

    // The end of the input ends what is being done, and the process computes on.
    served.request(
        "tools/call",
        json!({"name": "profile", "arguments": {"pid": guest.pid, "seconds": 3600}}),
    );
    until(LIMIT, "the call has begun", || {
        (watchers(&served) == 1).then_some(())
    });
    // Neither has an answer: one was taken back, and of the other nobody waits for it.
    let said = served.end();
    assert!(said.is_empty(), "{said:?}");
    assert!(guest.ends_well());
}

#[test]
fn the_published_client_understands_it() {
    let Some(client) = rival("mcp", "mcp") else {
        return;
    };
    let Some(guest) = scenario("deadlock.rb", &[]) else {
        return;
    };
    let mut command = Command::new(client);
    command
        .arg(fixtures().join("readers/assistant.py"))
        .arg(tool());
    command.arg(guest.pid.to_string()).arg("stack");
    let output = run(&mut command, LIMIT + Duration::from_secs(60));
    assert_eq!(output.code(), 0, "{output:?}");
    let said = first(&output.stdout, 40);
    assert!(
        said[0].starts_with("tools processes mem heap "),
        "{output:?}"
    );
    assert!(
        output.stdout.contains("deadlock: these 2 threads"),
        "{output:?}"
    );
    let refused = said.last().copied().unwrap_or_default();
    assert!(
        refused.starts_with("refused process 1 may not be opened here"),
        "{output:?}"
    );
    assert!(guest.ends_well());
}

#[test]
fn it_says_which_processes_it_needs_to_know() {
    let output = run(lancet().arg("mcp"), LIMIT);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("--pid <PID>"), "{output:?}");
    let output = run(lancet().args(["mcp", "-p", "999999999"]), LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("process 999999999 cannot be served"),
        "{output:?}"
    );
}
