//! What is refused, each with one line, and nothing has changed then; and guests that look hard and are not.

use std::path::PathBuf;
use std::process::Command;

use crate::programs::{
    FIX, PLAIN, done, guest, library, library_in, program, refused, request, tried,
};
use crate::support::{Guest, Snapshot, TempDir, Watch, children, is_root, lancet, skip};

#[test]
fn files_that_cannot_be_loaded() {
    let mut guest = guest("files", 2);
    let mut refuse = |name: &str, source: &str, flags: &[&str], wanted: &str| {
        let file = library(name, source, flags);
        refused(&mut guest, &[&request("total", &file, "total")], wanted);
    };
    let body = "long total(long a, long b) { return a + b; }";
    let with = |more: &str| format!("{more}\n{body}");
    refuse("plain", body, &[], "it has constructors");
    refuse(
        "constructor",
        &with(
            "__attribute__((constructor)) static void begin(void) { *(volatile char *)0x10 = 0; }",
        ),
        PLAIN,
        "it has constructors",
    );
    refuse(
        "destructor",
        &with("__attribute__((destructor)) static void end(void) { *(volatile char *)0x10 = 0; }"),
        PLAIN,
        "it has destructors",
    );
    refuse(
        "tls",
        "static __thread long seen; long total(long a, long b) { return seen += a + b; }",
        PLAIN,
        "thread-local",
    );
    refuse(
        "others_tls",
        "extern __thread long theirs; long total(long a, long b) { return theirs + a + b; }",
        PLAIN,
        "thread-local",
    );
    refuse(
        "unresolved",
        "long nobody_has(long); long total(long a, long b) { return nobody_has(a + b); }",
        PLAIN,
        "it needs nobody_has, which nothing that the process has loaded shows",
    );
    refuse(
        "other",
        "long other(void) { return 0; }",
        PLAIN,
        "it shows no function total",
    );
    refuse(
        "data",
        "long total = 5;",
        PLAIN,
        "it shows no function total",
    );
    refuse(
        "execstack",
        body,
        &["-nostdlib", "-Wl,-N"],
        "both writable and executable",
    );
    refuse(
        "whose_original",
        "long lancet_original_sum(long); long total(long a, long b) { return lancet_original_sum(a); }",
        PLAIN,
        "it calls lancet_original_sum, and replaces no sum",
    );
    let throws = "extern \"C\" long total(long a, long b) { if (a == 4) throw b; return a; }";
    let file = library_in("cc", "throws", throws, PLAIN);
    let request = request("total", &file, "total");
    refused(&mut guest, &[&request], "it needs _");
    guest.ends_with("answer 0");
}

#[test]
fn files_that_are_no_libraries() {
    let mut guest = guest("libraries", 0);
    let folder = TempDir::new("patch-files");
    let refuse = |guest: &mut Guest, path: &PathBuf, wanted: &str| {
        refused(guest, &[&request("total", path, "total")], wanted);
    };
    refuse(&mut guest, &folder.join("nothing.so"), "No such file");
    let text = folder.join("text.so");
    std::fs::write(&text, "int main;").expect("a file");
    refuse(&mut guest, &text, "it is not a shared library");
    refuse(
        &mut guest,
        &PathBuf::from("/dev/null"),
        "not a regular file",
    );
    // Cut off anywhere, or with a byte changed: refused or loaded, never a fault of lancet's, and never one of the guest's.
    let whole = std::fs::read(library("whole", FIX, PLAIN)).expect("a library");
    for part in 1..16 {
        let cut = folder.join("cut.so");
        std::fs::write(&cut, &whole[..whole.len() * part / 16]).expect("a file");
        let output = tried(guest.pid, &["--dry-run", &request("total", &cut, "total")]);
        assert!(matches!(output.code(), 0 | 1), "{output:?}");
        assert!(!output.stderr.contains("fault of lancet's"), "{output:?}");
    }
    for at in (0..whole.len().min(4096)).step_by(37) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0xff;
        let path = folder.join("damaged.so");
        std::fs::write(&path, &damaged).expect("a file");
        let output = tried(guest.pid, &["--dry-run", &request("total", &path, "total")]);
        assert!(matches!(output.code(), 0 | 1), "byte {at}: {output:?}");
        assert!(
            !output.stderr.contains("fault of lancet's"),
            "byte {at}: {output:?}"
        );
    }
    guest.ends_with("answer 0");
}

#[test]
fn functions_that_cannot_be_replaced() {
    let mut guest = guest("functions", 2);
    let file = library("functions", FIX, PLAIN);
    let mut refuse = |function: &str, wanted: &str| {
        refused(&mut guest, &[&request(function, &file, "total")], wanted);
    };
    refuse(
        "nothing_of_this_name",
        "the process has no function of this name",
    );
    refuse(
        "total@libc",
        "libc is not loaded, or has no function of this name",
    );
    refuse("tiny", "cannot be replaced");
    let twice = request("total", &file, "total");
    refused(&mut guest, &[&twice, &twice], "it is asked for twice");
    // Of several, one cannot be: none is replaced.
    let both = [
        request("total", &file, "total"),
        request("tiny", &file, "total"),
    ];
    let both = both.each_ref().map(String::as_str);
    refused(&mut guest, &both, "tiny cannot be replaced");
    refused(&mut guest, &["--undo", "7"], "has no patch 7");
    let nothing = done(guest.pid, &["--undo"]);
    assert!(nothing.contains("has no patch in force"), "{nothing}");
    for wrong in [
        &["total"][..],
        &["a=b"],
        &["--undo", "x"],
        &["--list", "--undo"],
        &[],
    ] {
        assert_eq!(tried(guest.pid, wrong).code(), 2, "{wrong:?}");
    }
    guest.ends_with("answer 0");
}

/// A function that `calls` has hooked is not replaced; one that was replaced can be hooked, and is not put back while it is.
#[test]
fn beside_hooks_of_calls() {
    let mut guest = guest("hooked", 4);
    let before = Snapshot::take(guest.pid);
    let file = library("hooked", FIX, PLAIN);
    let request = request("total", &file, "total");
    let calls = || {
        let mut command = lancet();
        command.args([
            "calls",
            "--budget",
            "100",
            "-c",
            "-x",
            "total",
            "-o",
            "/dev/null",
        ]);
        command.args(["-p", &guest.pid.to_string()]);
        let mut watch = Watch::start(command);
        watch.until("lancet: process ");
        watch
    };
    let watch = calls();
    let output = tried(guest.pid, &[&request]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output
            .stderr
            .contains("something has hooked it (lancet calls"),
        "{output:?}"
    );
    assert_eq!(watch.interrupt().code(), 0);
    before.text_holds(guest.pid, "hooked and left");

    done(guest.pid, &["--wait", "10s", &request]);
    let watch = calls();
    let output = tried(guest.pid, &["--undo", "1"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output
            .stderr
            .contains("changed by something else since (lancet calls"),
        "{output:?}"
    );
    assert_eq!(tried(guest.pid, &["--undo"]).code(), 4);
    assert_eq!(watch.interrupt().code(), 0);
    assert_eq!(guest.answer_to("total"), "1014");
    done(guest.pid, &["--undo", "1"]);
    assert_eq!(guest.answer_to("total"), "14");
    before.holds(guest.pid, "undone");
    guest.ends_with("answer 0");
}

/// Static programs have functions, but show none to others; programs hardened in every way that a compiler has.
#[test]
fn programs_of_other_kinds() {
    let alone = library(
        "alone",
        "long total(long a, long b) { return 1000 + 3 * a + b; }",
        PLAIN,
    );
    let kinds: [(&str, &[&str]); 4] = [
        ("static", &["-static"]),
        ("static-pie", &["-static-pie"]),
        ("no-pie", &["-no-pie"]),
        (
            "hardened",
            &[
                "-fPIE",
                "-pie",
                "-Wl,-z,now,-z,relro",
                "-fcf-protection=full",
                "-fstack-protector-all",
                "-fstack-clash-protection",
                "-D_FORTIFY_SOURCE=2",
            ],
        ),
    ];
    for (name, flags) in kinds {
        let mut guest = Guest::ready(Command::new(program(name, flags)).arg("4"));
        let before = Snapshot::take(guest.pid);
        let request = request("total", &alone, "total");
        done(guest.pid, &["--wait", "10s", &request]);
        assert_eq!(guest.answer_to("total"), "1014", "{name}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "14", "{name}");
        before.holds(guest.pid, name);
        guest.ends_with("answer 0");
    }
}

/// In mount and PID namespaces of its own, the guest sees another `/tmp` than the file lies in; the file is ours.
#[test]
fn a_guest_in_other_namespaces() {
    if !is_root() {
        return skip("patch namespaces", "not root");
    }
    let path = program("namespaces", &[]);
    let file = library("namespaces", FIX, PLAIN);
    let folder = path.parent().expect("a folder").display().to_string();
    let script = format!(
        "mkdir -p /tmp/lancet-patch-own && cp {0} /tmp/lancet-patch-own/ && mount -t tmpfs none {folder} && exec \
         /tmp/lancet-patch-own/namespaces 2",
        path.display()
    );
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "sh",
        "-c",
        &script,
    ]);
    let mut outer = Guest::ready(&mut command);
    let [pid] = children(outer.pid)[..] else {
        panic!("not one child");
    };
    let before = Snapshot::take(pid);
    done(pid, &["--wait", "10s", &request("total", &file, "total")]);
    assert_eq!(outer.answer_to("total"), "1014");
    done(pid, &["--undo", "all"]);
    assert_eq!(outer.answer_to("total"), "14");
    before.holds(pid, "in namespaces");
    outer.ends_with("answer 0");
    let _ = std::fs::remove_dir_all("/tmp/lancet-patch-own");
}
