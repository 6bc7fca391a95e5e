//! The gem, on each Ruby that is chosen.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::package::made;
use crate::support::{
    Interpreter, Redmine, TempDir, alone, database, installed, rubies, skip, tool,
};
use crate::{folder, succeeds};

/// The gem, in a folder of the test's own.
fn built(place: &TempDir) -> PathBuf {
    made("gem", "gem", place, |into| {
        let mut rake = Command::new("rake");
        rake.arg("build").current_dir(folder("gem"));
        rake.env("PKG", into).env("LANCET_BIN", tool());
        succeeds(&mut rake);
        let version = env!("CARGO_PKG_VERSION");
        into.join(format!("lancet-{version}-x86_64-linux.gem"))
    })
}

/// A folder of gems in which it, and nothing else, was installed by this Ruby's own `gem`. It is installed once for all tests, in a folder
/// that a Ruby in a root sees.
fn installed_by(ruby: &Interpreter, place: &TempDir) -> PathBuf {
    let version = &ruby.version;
    made("gem", &format!("gems-{version}"), place, |into| {
        let (here, kept) = (
            place.join("installing"),
            into.join(format!("home-{version}")),
        );
        let mut install = command(ruby);
        install.args(["-S", "gem", "install", "--local", "--no-document"]);
        succeeds(install.env("GEM_HOME", &here).arg(built(place)));
        let _ = fs::remove_dir_all(&kept);
        succeeds(Command::new("cp").arg("-r").arg(&here).arg(&kept));
        kept
    })
}

/// Runs one of its test files on what was installed.
fn test(name: &str) {
    test_with(name, &[]);
}

/// The same with these variables.
fn test_with(name: &str, variables: &[(&str, &OsStr)]) {
    if !installed("rake") {
        return skip(name, "rake is not installed");
    }
    let place = TempDir::new(&format!("gem-{name}"));
    for ruby in rubies(name) {
        let home = installed_by(&ruby, &place);
        let mut tests = command(&ruby);
        tests.arg(format!("test/{name}_test.rb"));
        tests.envs(variables.iter().copied());
        let said = succeeds(tests.env("GEM_HOME", &home).env_remove("LANCET_BIN"));
        let ran = said.lines().find(|line| line.contains(" runs, "));
        assert!(
            ran.is_some_and(|line| !line.starts_with("0 ")),
            "{ruby}: {said}"
        );
        if said.contains("\nYou have skipped tests") {
            skip(name, format_args!("{ruby}: {}", ran.unwrap_or_default()));
        }
    }
}

fn command(ruby: &Interpreter) -> Command {
    let mut command = ruby.command();
    command.current_dir(folder("gem"));
    command
}

#[test]
fn the_examples_of_2009() {
    test("announcement");
}

#[test]
fn what_memprof_promised() {
    test("memprof");
}

#[test]
fn what_became_of_the_cases_of_memprof() {
    test("original");
}

#[test]
fn what_becomes_of_the_companion() {
    test("companion");
}

#[test]
fn what_comes_in_between() {
    test("interrupted");
}

#[test]
fn what_blocks_allocate_and_leak() {
    test("allocations");
}

#[test]
fn what_one_thread_does() {
    test("trace");
}

#[test]
fn what_becomes_of_accounts() {
    test("accounts");
}

#[test]
fn what_middleware_traces() {
    test("rack");
}

#[test]
fn what_the_page_shows() {
    test("page");
}

#[test]
fn what_jobs_are_traced() {
    test("sidekiq");
}

#[test]
fn what_it_is_built_of() {
    test("package");
}

#[test]
fn what_rails_shows() {
    test("rails");
}

#[test]
fn what_reports_hold() {
    test("report");
}

#[test]
fn what_one_thread_calls() {
    test("counters");
}

#[test]
fn what_requests_of_a_server_take() {
    if let Some(database) = database("server") {
        let socket = database.socket();
        test_with("server", &[("LANCET_DATABASE", socket.as_os_str())]);
    }
}

#[test]
fn what_requests_of_redmine_take() {
    if let Some(redmine) = Redmine::prepare("redmine") {
        // What others ask of the database counts, too.
        alone();
        let (socket, place) = (redmine.database.socket(), redmine.place());
        let variables = [
            ("LANCET_DATABASE", socket.as_os_str()),
            ("REDMINE", place.as_os_str()),
        ];
        test_with("redmine", &variables);
    }
}

#[test]
fn what_workers_of_a_server_take() {
    test("workers");
}

#[test]
fn what_blocks_call() {
    test("watch");
}

#[test]
fn the_examples_of_its_page() {
    test("readme");
}
