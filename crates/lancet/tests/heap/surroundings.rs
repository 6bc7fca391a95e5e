//! What is around the program of which a snapshot is made: it is the first process of a namespace, its parent takes in orphans, a filter
//! forbids it to make processes.

use std::process::Command;

use crate::support::{
    Guest, Interpreter, TempDir, children, fixtures, installed, is_root, rubies, skip,
};

use super::taken::{save, taken};
use super::unseen;

/// The command of a fixture of Ruby's.
fn waits(ruby: &Interpreter) -> Command {
    let mut command = ruby.command();
    command.arg(fixtures().join("ruby/heap/waits.rb"));
    command
}

/// A command that starts another one.
fn within(mut outer: Command, inner: &Command) -> Command {
    outer
        .arg(inner.get_program())
        .args(inner.get_args())
        .current_dir("/tmp");
    outer
}

/// Every orphan of its namespace is handed to it, and it asks for children all the time.
#[test]
fn the_first_process_of_a_namespace_sees_no_child() {
    if !is_root() || !installed("unshare") {
        return skip("heap surroundings", "it needs root and unshare");
    }
    for ruby in rubies("surroundings") {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        let guest = Guest::start(&format!("{ruby} as PID 1"), within(command, &waits(&ruby)));
        guest.expect("ready");
        let first = children(guest.pid)[0];
        let folder = TempDir::new(&format!("first-{}", ruby.version));
        for round in 0..3 {
            taken(first, &folder.join(&format!("{round}")));
            assert_eq!(
                unseen::children(first),
                "",
                "{ruby}: nothing is left of the copy"
            );
        }
        unseen::waited(&ruby, guest);
    }
}

/// A parent that takes in orphans waits for the program alone.
#[test]
fn a_parent_that_takes_in_orphans_gets_none() {
    for ruby in rubies("surroundings") {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(fixtures().join("python/heap/subreaper.py"));
        let mut guest = Guest::start(&format!("{ruby} below"), within(command, &waits(&ruby)));
        let told = guest.find("child ");
        let child: i32 = told
            .rsplit(' ')
            .next()
            .and_then(|pid| pid.parse().ok())
            .expect("its id");
        guest.expect("ready");
        let folder = TempDir::new(&format!("orphans-{}", ruby.version));
        for round in 0..3 {
            taken(child, &folder.join(&format!("{round}")));
            assert_eq!(
                unseen::children(child),
                "",
                "{ruby}: nothing is left of the copy"
            );
        }
        assert_eq!(
            children(guest.pid),
            [child],
            "{ruby}: no copy has gone to the parent"
        );
        guest.tell("");
        let told = guest.find("waited ");
        assert!(told.ends_with("found 0 signals 0"), "{ruby}: {told}");
        assert_eq!(
            guest.find("reaped "),
            "1",
            "{ruby}: it has waited for the program alone"
        );
        guest.ends_with_nothing("the parent");
    }
}

/// The filter would kill it for the clone, so that is not tried.
#[test]
fn a_program_that_may_make_no_process_is_refused_and_lives_on() {
    let folder = TempDir::new("no-clone");
    let program = folder.join("no_clone");
    let mut compiler = Command::new("cc");
    compiler
        .arg("-o")
        .arg(&program)
        .arg(fixtures().join("c/no_clone.c"));
    assert!(compiler.status().expect("a compiler").success());
    for ruby in rubies("surroundings")
        .into_iter()
        .filter(Interpreter::is_system)
    {
        let command = within(Command::new(&program), &waits(&ruby));
        let mut guest = Guest::start(&format!("{ruby} filtered"), command);
        guest.expect("ready");
        let output = save(guest.pid, &folder.join("heap"));
        assert_eq!(output.code(), 1, "{output:?}");
        let lines: Vec<&str> = output.stderr.lines().collect();
        assert!(
            lines.len() == 1 && lines[0].contains("seccomp"),
            "{output:?}"
        );
        guest.tell("");
        let told = guest.find("waited ");
        assert!(told.ends_with("found 0 signals 0"), "{ruby}: {told}");
        guest.ends_with_nothing("waits");
    }
}
