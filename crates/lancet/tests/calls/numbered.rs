//! `lancet syscalls` by hooks, beside the kernel's own count: in programs of every form, what is seen and what is a loss with its number
//! are together what strace counts; and where nothing is missing, nothing is said.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::every_place::rows;
use crate::support::{
    Guest, LIMIT, Output, TempDir, Watch, fixtures, installed, lancet, run, schema, skip,
    until_traced,
};
use crate::watch::hooked;

/// What the programs do a fixed number of times, and geteuid, by which they wait.
const CALLS: &str = "trace=getppid,getpid,dup,close,io_uring_enter,vfork,geteuid";

/// How lancet must see a program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// By hooks, all of it.
    Whole,
    /// By hooks, and what they do not see is numbered.
    Numbered,
    /// Without hooks, of which the reason is said.
    Otherwise,
}
use Seen::{Numbered, Otherwise, Whole};

/// A program: how it is built, what it is told, whether it has threads, how it is seen.
type Form = (
    &'static str,
    &'static [&'static str],
    [&'static str; 2],
    bool,
    Seen,
);

const DYNAMIC: &[&str] = &["-O1"];
const STRIPPED: &[&str] = &["-O1", "-s"];
const STATIC: &[&str] = &["-O1", "-static"];
const STATIC_PIE: &[&str] = &["-O1", "-static-pie", "-s"];
const STATIC_STRIPPED: &[&str] = &["-O1", "-static", "-s"];
const NO_RULES: &[&str] = &["-O1", "-static", "-s", "-Wl,--no-eh-frame-hdr"];

/// Programs of one thread.
const ALONE: [Form; 18] = [
    ("gcc", DYNAMIC, ["libc", "plain"], false, Whole),
    ("gcc", STRIPPED, ["libc", "plain"], false, Whole),
    ("gcc", STATIC, ["libc", "plain"], false, Whole),
    ("gcc", STATIC_PIE, ["libc", "plain"], false, Whole),
    ("gcc", NO_RULES, ["libc", "plain"], false, Whole),
    ("musl-gcc", DYNAMIC, ["libc", "plain"], false, Whole),
    ("musl-gcc", STATIC_STRIPPED, ["libc", "plain"], false, Whole),
    ("gcc", DYNAMIC, ["libc", "forks"], false, Whole),
    ("gcc", DYNAMIC, ["libc", "vforks"], false, Whole),
    ("gcc", DYNAMIC, ["libc", "clones"], false, Whole),
    ("gcc", DYNAMIC, ["libc", "ring"], false, Whole),
    ("gcc", DYNAMIC, ["libc", "filter"], false, Whole),
    ("gcc", DYNAMIC, ["jump", "plain"], false, Otherwise),
    ("gcc", DYNAMIC, ["int80", "plain"], false, Otherwise),
    ("gcc", STATIC_STRIPPED, ["jump", "plain"], false, Numbered),
    ("gcc", STATIC_STRIPPED, ["int80", "forks"], false, Numbered),
    ("gcc", STATIC, ["made", "vforks"], false, Numbered),
    (
        "musl-gcc",
        STATIC_STRIPPED,
        ["later", "plain"],
        false,
        Numbered,
    ),
];

/// Programs with threads.
const THREADED: [Form; 10] = [
    ("gcc", DYNAMIC, ["libc", "threads"], true, Whole),
    ("gcc", DYNAMIC, ["libc", "many"], true, Whole),
    ("gcc", DYNAMIC, ["libc", "signals"], true, Whole),
    ("musl-gcc", DYNAMIC, ["libc", "threads"], true, Whole),
    // Threads end all the time, and others take their rings.
    ("musl-gcc", DYNAMIC, ["libc", "many"], true, Whole),
    ("musl-gcc", STATIC_STRIPPED, ["libc", "many"], true, Whole),
    ("gcc", STATIC_STRIPPED, ["int80", "signals"], true, Numbered),
    ("gcc", STATIC_STRIPPED, ["jump", "threads"], true, Numbered),
    ("gcc", STRIPPED, ["later", "many"], true, Numbered),
    ("gcc", STRIPPED, ["made", "filter"], true, Numbered),
];

/// Builds the fixture; `None` if there is no such compiler.
fn built(folder: &TempDir, compiler: &str, options: &[&str], way: &str) -> Option<PathBuf> {
    if !installed(compiler) {
        skip("numbered", format!("no {compiler}"));
        return None;
    }
    // Without what it does not use, which lancet would find in it.
    let own = match way {
        "jump" => "-DJUMP",
        "int80" => "-DINT80",
        _ => "-DPLAIN",
    };
    let path = folder.join(&format!("{compiler}{}{own}", options.concat()));
    if path.exists() {
        return Some(path);
    }
    let mut command = Command::new(compiler);
    command
        .args(options)
        .args([own, "-pthread"])
        .arg("-o")
        .arg(&path);
    if compiler == "musl-gcc" {
        // It brings no headers of the kernel.
        command.args(["-idirafter", "/usr/include", "-idirafter"]);
        command.arg("/usr/include/x86_64-linux-gnu");
    }
    let output = command.arg(fixtures().join("c/unhooked.c")).output();
    let output = output.expect("a compiler");
    assert!(
        output.status.success(),
        "{compiler} {options:?}: {output:?}"
    );
    Some(path)
}

fn started(path: &Path, words: [&str; 2]) -> Guest {
    Guest::ready(Command::new(path).args(words))
}

/// Works, and waits until the call by which it has said so has returned.
fn works(guest: &mut Guest) {
    guest.tell("");
    guest.expect("answer 0");
    guest.settle('S');
}

/// What strace counts.
fn by_strace(path: &Path, form: &Form, folder: &TempDir) -> BTreeMap<String, u64> {
    let mut guest = started(path, form.2);
    let out = folder.join("strace");
    let mut strace = Command::new("strace");
    strace.args(form.3.then_some("-f"));
    strace.args(["-c", "-U", "calls,name", "-e", CALLS, "-o"]);
    strace.arg(&out).args(["-p", &guest.pid.to_string()]);
    let watch = Watch::start(strace);
    until_traced(guest.pid);
    works(&mut guest);
    watch.interrupt();
    guest.tell("");
    let mut counted = rows(&std::fs::read_to_string(&out).expect("a table"));
    counted.remove("geteuid");
    counted
}

fn syscalls(guest: &Guest, options: &[&str]) -> Command {
    let mut command = lancet();
    command.args(["syscalls", "-e", CALLS]).args(options);
    command.args(["-p", &guest.pid.to_string()]);
    command
}

/// The beginning of what is said of calls that no hook sees.
fn unseen(guest: &Guest) -> String {
    format!("lancet: process {}: not seen by hooks: ", guest.pid)
}

/// The records of a JSON output, and the losses in the last of them.
fn records(output: &Output) -> (Vec<Value>, Vec<Value>) {
    let mut records = schema::records(&["syscalls"], &output.stdout);
    let last = records.pop().expect("a last record");
    assert_eq!(last["record"], "losses", "{output:?}");
    (records, last["losses"].as_array().expect("a list").clone())
}

/// What lancet counts, and the losses with a number, by call; geteuid is in neither.
fn counted(output: &Output) -> [BTreeMap<String, u64>; 2] {
    let (records, losses) = records(output);
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for count in records.iter().filter(|one| one["record"] == "count") {
        let name = count["name"].as_str().expect("a name").to_owned();
        *seen.entry(name).or_default() += count["calls"].as_u64().expect("a number");
    }
    let mut numbered: BTreeMap<String, u64> = BTreeMap::new();
    for loss in losses {
        let (count, text) = (loss["count"].as_u64(), loss["text"].as_str().expect("text"));
        let Some(count) = count else {
            // Code that was made meanwhile: what it does is numbered as well.
            assert!(text.contains("made at run time"), "{output:?}");
            continue;
        };
        assert_eq!(loss["what"], "unseen", "{output:?}");
        let words = text.split_once(&format!(": {count} ")).expect(text).1;
        let name = words.split(',').next().expect("a name").to_owned();
        *numbered.entry(name).or_default() += count;
    }
    seen.remove("geteuid");
    numbered.remove("geteuid");
    [seen, numbered]
}

fn by_lancet(path: &Path, form: &Form) -> Output {
    let mut guest = started(path, form.2);
    let mut watch = hooked(syscalls(&guest, &["--json", "-c", "-U", "calls,name"]));
    if form.4 == Numbered {
        watch.until(&unseen(&guest));
    }
    works(&mut guest);
    let output = watch.interrupt();
    guest.tell("");
    output
}

fn is_as_strace(form: &Form, folder: &TempDir) {
    let (compiler, options, words, _, how) = *form;
    let name = format!("{compiler} {options:?} {words:?}");
    let Some(path) = built(folder, compiler, options, words[0]) else {
        return;
    };
    let expected = by_strace(&path, form, folder);
    assert!(
        expected.values().sum::<u64>() >= 1200,
        "{name}: {expected:?}"
    );
    let output = by_lancet(&path, form);
    let [mut all, numbered] = counted(&output);
    for (call, count) in &numbered {
        *all.entry(call.clone()).or_default() += count;
    }
    assert_eq!(all, expected, "{name}: {output:?}");
    assert_eq!(numbered.is_empty(), how != Numbered, "{name}: {output:?}");
    let code = if how == Numbered { 4 } else { 0 };
    assert_eq!(output.code(), code, "{name}: {}", output.stderr);
    let by_hooks = output.stderr.contains(" places hooked in ");
    let why = output.stderr.contains(" cannot be hooked (");
    assert_eq!(
        [by_hooks, why],
        [how != Otherwise, how == Otherwise],
        "{name}: {output:?}"
    );
}

/// Whether the kernel counts for us, and strace is there.
fn may(test: &str) -> bool {
    if let Some(why) = crate::bpf::refused() {
        skip(test, why);
        return false;
    }
    if !installed("strace") {
        skip(test, "no strace");
        return false;
    }
    true
}

#[test]
fn calls_of_one_thread_are_seen_or_numbered() {
    if !may("numbered, one thread") {
        return;
    }
    let folder = TempDir::new("numbered");
    for form in &ALONE {
        is_as_strace(form, &folder);
    }
}

#[test]
fn calls_of_threads_are_seen_or_numbered() {
    if !may("numbered, threads") {
        return;
    }
    let folder = TempDir::new("numbered-threads");
    for form in &THREADED {
        is_as_strace(form, &folder);
    }
}

/// A program that lancet starts is counted from its first own call.
#[test]
fn calls_of_a_started_program_are_numbered() {
    if !may("numbered, started") {
        return;
    }
    let folder = TempDir::new("numbered-started");
    for way in ["jump", "int80", "later"] {
        let Some(path) = built(&folder, "gcc", STATIC_STRIPPED, way) else {
            return;
        };
        let json = folder.join(way);
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '\\n\\n' | \"$@\"", "sh"]);
        shell.arg(lancet().get_program());
        shell.args(["syscalls", "--json", "-c", "-U", "calls,name", "-e", CALLS]);
        shell.arg("-o").arg(&json).arg("--").arg(&path).arg(way);
        let mut output = run(&mut shell, LIMIT);
        assert_eq!(output.code(), 4, "{way}: {output:?}");
        output.stdout = std::fs::read_to_string(&json).expect("JSON");
        let [seen, numbered] = counted(&output);
        for call in ["getppid", "getpid"] {
            let one = |of: &BTreeMap<String, u64>| of.get(call).copied().unwrap_or(0);
            assert_eq!([one(&seen), one(&numbered)], [0, 300], "{way}: {output:?}");
        }
    }
}

/// Code that is made long after the hooks were set is found by the counts that are taken now and then.
#[test]
fn code_that_comes_later_is_found() {
    if !may("numbered, later") {
        return;
    }
    let folder = TempDir::new("numbered-later");
    let Some(path) = built(&folder, "gcc", DYNAMIC, "libc") else {
        return;
    };
    let mut guest = started(&path, ["lately", "loop"]);
    let mut watch = hooked(syscalls(&guest, &["--json", "-c"]));
    guest.tell("");
    watch.until(&unseen(&guest));
    guest.tell("");
    guest.expect("answer 0");
    let output = watch.interrupt();
    assert_eq!(output.code(), 4, "{output:?}");
    let [_, numbered] = counted(&output);
    assert!(
        numbered.get("getppid").is_some_and(|calls| *calls > 0),
        "{output:?}"
    );
    guest.tell("");
}

/// Who requires all calls is told as soon as one is not seen.
#[test]
fn what_must_be_exact_ends_when_the_kernel_counts_more() {
    if !may("numbered, exact") {
        return;
    }
    let folder = TempDir::new("numbered-exact");
    let Some(path) = built(&folder, "gcc", DYNAMIC, "libc") else {
        return;
    };
    let mut guest = started(&path, ["lately", "loop"]);
    let options = ["-c", "--require", "exact", "-e", "trace=getppid"];
    let watch = hooked(syscalls(&guest, &options));
    guest.tell("");
    let output = watch.end();
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("getp"), "{output:?}");
    guest.tell("");
    guest.expect("answer 0");
    guest.tell("");
}

/// Another program runs in the process while its calls are counted: what that does is not laid to the first one, and is counted for itself.
#[test]
fn the_next_program_is_counted_for_itself() {
    if !may("numbered, exec") {
        return;
    }
    let folder = TempDir::new("numbered-exec");
    let Some(path) = built(&folder, "gcc", DYNAMIC, "libc") else {
        return;
    };
    let mut guest = started(&path, ["libc", "exec"]);
    let mut watch = hooked(syscalls(&guest, &["--json", "-c", "-U", "calls,name"]));
    guest.tell("");
    guest.expect("ready");
    watch.until(&unseen(&guest));
    works(&mut guest);
    let output = watch.interrupt();
    assert_eq!(output.code(), 4, "{output:?}");
    let [seen, numbered] = counted(&output);
    let ours = |of: &BTreeMap<String, u64>, call| of.get(call).copied().unwrap_or(0);
    for [call, whole, lost] in [["getppid", "300", "300"], ["dup", "600", "0"]] {
        let both = [ours(&seen, call), ours(&numbered, call)].map(|calls| calls.to_string());
        assert_eq!(both, [whole, lost], "{call}: {output:?}");
    }
    guest.tell("");
}
