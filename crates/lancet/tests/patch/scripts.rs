//! Functions of the script: replaced, listed and put back in Ruby and Python, wherever the main thread stands; under load; and
//! what is refused.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::programs::{done, patch, tried};
use crate::support::{
    Guest, Interpreter, LIMIT, Random, TempDir, Watch, chosen, lancet, rounds, rubies, run, say,
    skip, until,
};

/// Where the main thread of a guest stands.
const STATES: [&str; 8] = [
    "read", "sleep", "long", "select", "join", "pop", "busy", "others",
];

/// A language, with files that replace what is in its `fixtures/LANGUAGE/calls/shop`.
struct Shop {
    interpreter: Interpreter,
    folder: TempDir,
    /// What the file of a function is called.
    extension: &'static str,
}

impl Shop {
    /// Of Ruby and of Python, each in the versions asked for.
    fn all(test: &str) -> Vec<Self> {
        let rubies = rubies(test).into_iter().map(|ruby| (ruby, "rb"));
        let pythons = chosen("python", test).into_iter();
        rubies
            .chain(pythons.map(|python| (python, "py")))
            .map(|(interpreter, extension)| Shop {
                folder: TempDir::new(&format!(
                    "scripts-{test}-{extension}-{}",
                    interpreter.version
                )),
                interpreter,
                extension,
            })
            .collect()
    }

    fn is_ruby(&self) -> bool {
        self.extension == "rb"
    }

    /// A file with this text, of both languages' one.
    fn file(&self, name: &str, ruby: &str, python: &str) -> PathBuf {
        let path = self.folder.join(&format!("{name}.{}", self.extension));
        let text = if self.is_ruby() { ruby } else { python };
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// `ruby:Shop::Order#total=FILE`, `python:shop.Order.total=FILE`.
    fn request(&self, ruby: &str, python: &str, file: &std::path::Path) -> String {
        let target = if self.is_ruby() {
            format!("ruby:Shop::{ruby}")
        } else {
            format!("python:shop.{python}")
        };
        format!("{target}={}", file.display())
    }

    fn total(&self) -> String {
        let file = self.file(
            "total",
            "# A new one.\ndef total(more = 1)\n  @number * RATE + more + 500\nend\n",
            "# A new one.\ndef total(self, more=1):\n    return self.__number * RATE + more + 500\n",
        );
        self.request("Order#total", "Order.total", &file)
    }
}

#[test]
fn wherever_the_main_thread_stands() {
    for shop in Shop::all("states") {
        let request = shop.total();
        for state in STATES {
            let what = format!("{}, {state}", shop.interpreter);
            let mut guest = shop.interpreter.start("shop", &[state]);
            let old = guest.answer_to("total");
            assert_eq!(old, "21 41 3 1003", "{what}");
            for turn in 0..if state == "others" { 1 } else { 2 } {
                let said = done(guest.pid, &[&request]);
                assert!(said.starts_with("patch s1: "), "{what}: {said}");
                assert_eq!(
                    guest.answer_to("total"),
                    "521 41 503 1503",
                    "{what}, turn {turn}"
                );
                let list = done(guest.pid, &["--list"]);
                assert!(list.starts_with("patch s1: in force: "), "{what}: {list}");
                let said = done(guest.pid, &["--undo"]);
                assert!(said.contains(" is as it was ("), "{what}: {said}");
                assert_eq!(guest.answer_to("total"), old, "{what}, turn {turn}");
            }
            if state == "long" {
                continue;
            }
            assert!(guest.ends_well(), "{what}");
        }
    }
}

/// Inline caches, specialised and compiled code: a thread that calls the function again and again sees the new one at once, and then
/// the old one again. With YJIT where it is built in, and with the Ruby that `LANCET_YJIT` names: Debian's 3.3 and 3.4 have none.
#[test]
fn a_hot_caller_sees_each_change() {
    for shop in Shop::all("hot") {
        let has_yjit = shop.is_ruby() && yjit(&mut shop.interpreter.command());
        if shop.is_ruby() && !has_yjit {
            let why = format_args!("{}: it has no YJIT", shop.interpreter);
            skip("a hot caller with YJIT", why);
        }
        let options: &[&str] = if has_yjit { &["--yjit"] } else { &[] };
        let guest = shop.interpreter.start_with(options, "shop", &["busy"]);
        each_change_is_seen(guest, &shop.total(), &shop.interpreter.to_string());
    }
    let Some(program) = std::env::var_os("LANCET_YJIT") else {
        let why = "LANCET_YJIT names no Ruby 3.3 or 3.4 with YJIT";
        return skip("a hot caller with YJIT", why);
    };
    assert!(yjit(&mut Command::new(&program)), "{program:?} has no YJIT");
    let shop = Shop {
        interpreter: Interpreter::system("ruby"),
        folder: TempDir::new("scripts-hot-yjit"),
        extension: "rb",
    };
    let mut command = Command::new(&program);
    command.arg("--yjit").arg(shop.interpreter.fixture("shop"));
    let guest = Guest::ready(command.arg("busy"));
    each_change_is_seen(guest, &shop.total(), "LANCET_YJIT");
}

/// A main thread that has been told to let Python's lock go waits until another has taken it, and is not entered there: it would
/// wait for itself, with the lock, for ever.
#[test]
fn a_main_thread_that_gives_its_lock_away() {
    for shop in Shop::all("gives")
        .into_iter()
        .filter(|shop| !shop.is_ruby())
    {
        let mut guest = shop.interpreter.start("shop", &["gives"]);
        let what = format!("{}, gives", shop.interpreter);
        for turn in 0..rounds(2, 100) {
            done(guest.pid, &[&shop.total()]);
            assert_eq!(guest.answer_to("seen"), "521", "{what} {turn}");
            done(guest.pid, &["--undo"]);
            assert_eq!(guest.answer_to("seen"), "21", "{what} {turn}");
        }
        assert!(guest.ends_well(), "{what}");
    }
}

/// Children that are made meanwhile have a copy of the program as it stands at that moment, its locks and a thread in a door included; and
/// interpreters beside the first one share its locks, or have their own.
#[test]
fn children_and_interpreters_that_are_made_meanwhile() {
    for shop in Shop::all("meanwhile") {
        for beside in ["forks", "interpreters"] {
            let what = format!("{}, {beside}", shop.interpreter);
            if shop.is_ruby() && beside == "interpreters" {
                continue;
            }
            let mut guest = shop.interpreter.start("shop", &["busy", beside]);
            for turn in 0..rounds(5, 1_000) {
                done(guest.pid, &[&shop.total()]);
                assert_eq!(guest.answer_to("seen"), "521", "{what} {turn}");
                let mut heap = lancet();
                // Several interpreters are refused where each may have a lock of its own.
                let heap = run(heap.args(["heap", "-p", &guest.pid.to_string()]), LIMIT);
                let is_refused = heap.stderr.contains("it runs several interpreters");
                assert!(heap.code() == 0 || is_refused, "{what} {turn}: {heap:?}");
                done(guest.pid, &["--undo"]);
                assert_eq!(guest.answer_to("seen"), "21", "{what} {turn}");
            }
            let answer = guest.answer_to("wrong");
            let (made, wrong) = answer.split_once(' ').expect("two numbers");
            assert_ne!(made, "0", "{what}");
            assert_eq!(wrong, "0", "{what}: {made} were made");
            assert!(guest.ends_well(), "{what}");
        }
    }
}

fn each_change_is_seen(mut guest: Guest, request: &str, what: &str) {
    let turns = rounds(20, 500);
    for turn in 0..turns {
        done(guest.pid, &[request]);
        assert_eq!(guest.answer_to("seen"), "521", "{what} {turn}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("seen"), "21", "{what} {turn}");
    }
    assert!(guest.ends_well());
    say(format_args!("{what}: {turns} changes, each seen"));
}

fn yjit(ruby: &mut Command) -> bool {
    let asked = "RubyVM::YJIT.enabled? and print RUBY_VERSION";
    let output = ruby.args(["--yjit", "-e", asked]).output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}

/// Private methods, methods of classes, decorated ones, what the file defines besides, and one over the other.
#[test]
fn functions_of_every_kind() {
    for shop in Shop::all("kinds") {
        let what = shop.interpreter.to_string();
        let mut guest = shop.interpreter.start("shop", &["read"]);
        let secret = shop.file(
            "secret",
            "def secret\n  helper * 2\nend\n\ndef helper\n  40\nend\n",
            "import math\n\ndef show(self):\n    return math.floor(80.5)\n",
        );
        let make = shop.file(
            "make",
            "def self.make(number)\n  new(number + 100)\nend\n",
            "@classmethod\ndef make(cls, number):\n    return cls(number + 100)\n",
        );
        let large = shop.file(
            "large",
            "def total(more = 1)\n  super + 7000\nend\n",
            "def total(self, more=1):\n    return super().total(more) + 7000\n",
        );
        let requests = [
            shop.request("Order#secret", "Order.show", &secret),
            shop.request("Order.make", "Order.make", &make),
            shop.request("Large#total", "Large.total", &large),
            shop.total(),
        ];
        let requests: Vec<&str> = requests.iter().map(String::as_str).collect();
        let shown = done(guest.pid, &[&["--dry-run"], &requests[..]].concat());
        assert_eq!(shown.lines().count(), 4, "{what}: {shown}");
        assert_eq!(guest.answer_to("total"), "21 41 3 1003", "{what}");
        let applied = done(guest.pid, &requests);
        assert!(
            applied.contains("with 1 more that the file defines"),
            "{what}: {applied}"
        );
        assert_eq!(guest.answer_to("total"), "521 80 703 7703", "{what}");
        // The same function again: only the last one can be taken back.
        done(guest.pid, &[requests[3]]);
        let output = tried(guest.pid, &["--undo", "s4"]);
        let why = "was changed since, by patch s5: take that back first";
        assert!(
            output.code() == 1 && output.stderr.contains(why),
            "{what}: {output:?}"
        );
        done(guest.pid, &["--undo", "s5"]);
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "21 41 3 1003", "{what}");
        let list = done(guest.pid, &["--list"]);
        assert_eq!(
            list,
            format!("process {} has no patches\n", guest.pid),
            "{what}"
        );
        // For a time.
        let said = done(guest.pid, &["--for", "10ms", requests[3]]);
        assert_eq!(said.lines().count(), 2, "{what}: {said}");
        assert_eq!(guest.answer_to("total"), "21 41 3 1003", "{what}");
        assert!(guest.ends_well(), "{what}");
    }
}

/// The new function calls the old one and a helper of its file, and a call of it still runs when it is taken back: what that needs
/// stays until it has ended.
#[test]
fn a_call_that_runs_ends_well_after_the_function_is_taken_back() {
    for shop in Shop::all("wraps") {
        let what = shop.interpreter.to_string();
        let mut guest = shop.interpreter.start("shop", &["read"]);
        let file = shop.file(
            "wraps",
            "def total(more = 1)\n  was = lancet_original(more)\n  Shop.pause\n  lancet_original(more) + was + after\nend\n\ndef after\n  500\nend\n",
            "def total(self, more=1):\n    was = lancet_original(self, more)\n    pause()\n    return lancet_original(self, more) + was + after()\n\n\ndef after():\n    return 500\n",
        );
        let request = shop.request("Order#total", "Order.total", &file);
        for turn in 0..2 {
            let what = format!("{what}, turn {turn}");
            let applied = done(guest.pid, &[&request]);
            assert!(applied.contains("with 1 more that"), "{what}: {applied}");
            assert_eq!(guest.answer_to("total"), "542 41 506 1506", "{what}");
            assert_eq!(guest.answer_to("begin"), "begun", "{what}");
            let said = done(guest.pid, &["--undo"]);
            assert!(said.contains("still run"), "{what}: {said}");
            assert_eq!(guest.answer_to("total"), "21 41 3 1003", "{what}");
            let list = done(guest.pid, &["--list"]);
            assert!(list.contains(": taken back, and "), "{what}: {list}");
            let output = tried(guest.pid, &["--undo", "s1"]);
            assert!(output.stderr.contains("taken back already"), "{output:?}");
            // The same once more beside it.
            done(guest.pid, &[&request]);
            assert_eq!(guest.answer_to("total"), "542 41 506 1506", "{what}");
            done(guest.pid, &["--undo", "s2"]);
            assert_eq!(guest.answer_to("end"), "542", "{what}");
            let list = done(guest.pid, &["--list"]);
            assert!(list.ends_with(" has no patches\n"), "{what}: {list}");
        }
        assert!(guest.ends_well(), "{what}");
    }
}

#[test]
fn what_cannot_be_done_changes_nothing() {
    for shop in Shop::all("refused") {
        let what = shop.interpreter.to_string();
        let mut guest = shop.interpreter.start("shop", &["read"]);
        let mut refuse = |request: &str, wanted: &str| {
            let output = tried(guest.pid, &[request]);
            assert_eq!(output.code(), 1, "{what}: {request}: {output:?}");
            assert!(output.stderr.contains(wanted), "{what}: {}", output.stderr);
            assert_eq!(
                output.stderr.lines().count(),
                1,
                "{what}: {}",
                output.stderr
            );
            assert_eq!(guest.answer_to("total"), "21 41 3 1003", "{what}: {wanted}");
        };
        let syntax = shop.file("syntax", "def total(\n", "def total(\n");
        refuse(
            &shop.request("Order#total", "Order.total", &syntax),
            "syntax.",
        );
        let raises = shop.file(
            "raises",
            "def total; 1; end\ndef show; 2; end\nraise 'oops'\n",
            "def total(self):\n    return 1\nraise ValueError('oops')\n",
        );
        refuse(
            &shop.request("Order#total", "Order.total", &raises),
            ":3: oops",
        );
        let exits = shop.file(
            "leaves",
            "throw :nothing\n",
            "import nothing_of_this_name\ndef total(self): return 1\n",
        );
        refuse(
            &shop.request("Order#total", "Order.total", &exits),
            "nothing",
        );
        let other = shop.file(
            "other",
            "def other; 1; end\n",
            "def other(self): return 1\n",
        );
        refuse(
            &shop.request("Order#total", "Order.total", &other),
            "does not define it",
        );
        let total = shop.file("good", "def total; 1; end\n", "def total(self): return 1\n");
        refuse(
            &shop.request("Order#nothing", "Order.nothing", &total),
            "has no ",
        );
        refuse(
            &shop.request("Nobody#total", "Nobody.total", &total),
            "obody",
        );
        refuse(
            &shop.request("RATE#total", "RATE.total", &total),
            "RATE is no ",
        );
        let file = total.display();
        if shop.is_ruby() {
            refuse(&format!("ruby:Array#sum={file}"), "is written in C");
            refuse(&format!("ruby:total={file}"), "write it as Class#method");
            refuse(&format!("python:shop.total={file}"), "no Python is loaded");
        } else {
            refuse(&format!("python:os.getpid={file}"), "is written in C");
            refuse(
                &format!("python:nobody.total={file}"),
                "no module of this name",
            );
            refuse(&format!("ruby:Shop#total={file}"), "no Ruby is loaded");
        }
        let absent = shop.folder.join("absent");
        refuse(
            &shop.request("Order#total", "Order.total", &absent),
            "No such file",
        );
        let long = shop.file(
            "long",
            &"# long\n".repeat(20_000),
            &"# long\n".repeat(20_000),
        );
        refuse(
            &shop.request("Order#total", "Order.total", &long),
            "too long",
        );
        assert!(guest.ends_well(), "{what}");
    }
}

/// Whatever instant lancet is killed at, the next one sees how it stands and takes it back.
#[test]
fn killed_at_any_instant() {
    let kills = rounds(20, 500);
    let mut random = Random::new("scripts killed");
    for shop in Shop::all("killed") {
        let request = shop.total();
        let states = ["read", "busy"];
        let mut guests: Vec<Guest> = states
            .iter()
            .map(|state| shop.interpreter.start("shop", &[state]))
            .collect();
        let began = Instant::now();
        done(guests[0].pid, &[&request]);
        let whole = began.elapsed().as_micros() as u64;
        done(guests[0].pid, &["--undo"]);
        for kill in 0..kills {
            let guest = &mut guests[kill % states.len()];
            let watch = Watch::start(patch(guest.pid, &[&request]));
            std::thread::sleep(Duration::from_micros(random.below(whole)));
            watch.kill();
            until(LIMIT, "the guest goes on", || {
                (!matches!(guest.state(), Some('t' | 'T'))).then_some(())
            });
            // What was asked for may still be done, before the list is.
            let list = done(guest.pid, &["--list"]);
            let wanted = if list.contains(": in force: ") {
                "521 "
            } else {
                "21 "
            };
            let said = guest.answer_to("total");
            assert!(said.starts_with(wanted), "kill {kill}: {list}: {said}");
            done(guest.pid, &["--undo"]);
            assert!(guest.answer_to("total").starts_with("21 "), "kill {kill}");
        }
        for guest in guests {
            assert!(guest.ends_well(), "{}", shop.interpreter);
        }
    }
}

/// A file whose text still runs when lancet is killed: the next lancet waits for its end, at a safe point of the same thread, and does not
/// read the list in the middle of the change.
#[test]
fn killed_while_the_file_runs() {
    for shop in Shop::all("runs") {
        for state in ["read", "busy"] {
            let what = format!("{}, {state}", shop.interpreter);
            let [begun, go] =
                ["begun", "go"].map(|name| shop.folder.join(&format!("{name}-{state}")));
            let (begins, goes) = (begun.display(), go.display());
            let file = shop.file(
                "waits",
                &format!(
                    "File.write('{begins}', '')\nsleep 0.01 until File.exist?('{goes}')\n\
                     def total(more = 1)\n  @number * RATE + more + 500\nend\n"
                ),
                &format!(
                    "import os, time\nopen('{begins}', 'w').close()\n\
                     while not os.path.exists('{goes}'): time.sleep(0.01)\n\
                     def total(self, more=1):\n    return self.__number * RATE + more + 500\n"
                ),
            );
            let mut guest = shop.interpreter.start("shop", &[state]);
            let request = shop.request("Order#total", "Order.total", &file);
            let applies = Watch::start(patch(guest.pid, &[&request]));
            until(LIMIT, "the file runs", || begun.exists().then_some(()));
            applies.kill();
            let list = Watch::start(patch(guest.pid, &["--list"]));
            until(LIMIT, "it waits for an answer, or has ended", || {
                has_waited(list.pid()).then_some(())
            });
            std::fs::write(&go, "").expect("a file");
            let list = list.end();
            assert!(list.stdout.contains("in force: "), "{what}: {list:?}");
            assert!(guest.answer_to("total").starts_with("521 "), "{what}");
            done(guest.pid, &["--undo"]);
            assert!(guest.answer_to("total").starts_with("21 "), "{what}");
            assert!(guest.ends_well(), "{what}");
        }
    }
}

/// Whether a lancet has looked for an answer some thousand times (each look ends with a wait of 200 µs), or has ended.
fn has_waited(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let waits = field("voluntary_ctxt_switches:").and_then(|text| text.trim().parse().ok());
    field("State:").is_none_or(|state| state.contains('Z'))
        || waits.is_none_or(|waits: u64| waits > 1_000)
}
