//! The wheel, on each Python that is chosen.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::made;
use crate::support::{Interpreter, TempDir, alone, chosen, database, skip, tool};
use crate::{folder, succeeds};

/// The wheel, in a folder of the test's own.
fn built(place: &TempDir) -> PathBuf {
    made("python", "wheel", place, |into| {
        let mut build = Command::new("/usr/bin/python3");
        build.arg(folder("python").join("backend.py"));
        succeeds(build.arg(tool()).arg(into)).trim().into()
    })
}

/// The Python of a fresh environment of this one, in which its own pip has installed the wheel, and nothing else. `None`, and it is said, where it has no pip.
fn alone_in(python: &Interpreter, place: &TempDir) -> Option<PathBuf> {
    if !python.runs("wheel", "import ensurepip, venv") {
        return None;
    }
    let venv = place.join(&format!("venv-{}", python.version));
    succeeds(python.command().args(["-m", "venv"]).arg(&venv));
    let program = venv.join("bin/python");
    let mut pip = python.command_of(&program);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index"]);
    succeeds(pip.arg(built(place)));
    // The command that it installs is the program that the wheel brings: a root has no other, and on this machine
    // LANCET_BIN would name the one that was built.
    let mut version = python.command_of(&venv.join("bin/lancet"));
    version.arg("--version").env_remove("LANCET_BIN");
    assert!(succeeds(&mut version).starts_with("lancet "));
    Some(program)
}

/// A folder of packages in which the wheel, and nothing else, was installed by pip.
fn installed(place: &TempDir) -> PathBuf {
    made("python", "packages", place, |into| {
        let venv = TempDir::new("wheel-packages");
        let python = alone_in(&Interpreter::system("python"), &venv).expect("python3-venv");
        let packages = into.join("packages");
        let _ = fs::remove_dir_all(&packages);
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--target"]);
        succeeds(pip.arg(&packages).arg(built(&venv)));
        packages
    })
}

/// A Python that finds those packages.
fn command(python: &Interpreter, packages: &Path) -> Command {
    let mut command = python.command();
    command.current_dir(folder("python"));
    command
        .env("PYTHONPATH", packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("LANCET_BIN");
    command
}

/// Installed by each Python's own pip, and nothing of this folder is on the way.
#[test]
fn what_blocks_call_and_what_becomes_of_the_companion() {
    let place = TempDir::new("wheel");
    for python in chosen("python", "wheel") {
        let Some(program) = alone_in(&python, &place) else {
            continue;
        };
        let mut tests = python.command_of(&program);
        tests.current_dir(folder("python"));
        tests.env("PYTHONDONTWRITEBYTECODE", "1");
        tests.env_remove("LANCET_BIN").env_remove("PYTHONPATH");
        succeeds(tests.arg("tests/test_lancet.py"));
    }
}

#[test]
fn what_threads_and_requests_do() {
    let place = TempDir::new("wheel-trace");
    let packages = installed(&place);
    for python in chosen("python", "wheel trace") {
        succeeds(command(&python, &packages).arg("tests/test_trace.py"));
        succeeds(command(&python, &packages).arg("tests/test_turns.py"));
        succeeds(command(&python, &packages).arg("tests/test_middleware.py"));
        succeeds(command(&python, &packages).arg("tests/test_page.py"));
    }
}

/// The middleware in a real ASGI server.
#[test]
fn what_requests_of_a_server_do() {
    let place = TempDir::new("wheel-server");
    let packages = installed(&place);
    for python in chosen("python", "wheel server") {
        if python.runs("wheel server", "import uvicorn, websockets") {
            succeeds(command(&python, &packages).arg("tests/test_server.py"));
        }
    }
}

/// The middleware as `MIDDLEWARE` names it, sync and async.
#[test]
fn what_requests_of_django_do() {
    let place = TempDir::new("wheel-django-middleware");
    let packages = installed(&place);
    for python in chosen("python", "wheel django middleware") {
        if python.runs("wheel django middleware", "import django, asgiref") {
            succeeds(command(&python, &packages).arg("tests/test_django_middleware.py"));
        }
    }
}

/// What `backend.py` builds, and what pip builds by it.
#[test]
fn what_it_is_built_of() {
    // It is built where the repository is.
    let sources = folder("python").join("src");
    let python = Interpreter::system("python");
    succeeds(command(&python, &sources).arg("tests/test_package.py"));
}

/// The middleware in a real WSGI server, beside a database that counts what it is asked.
#[test]
fn what_requests_of_django_ask() {
    let Some(database) = database("django") else {
        return;
    };
    // What others ask of the database counts, too.
    alone();
    let place = TempDir::new("wheel-django");
    let packages = installed(&place);
    for python in chosen("python", "wheel django") {
        if python.runs("wheel django", "import django, gunicorn, MySQLdb") {
            let mut tests = command(&python, &packages);
            tests.env("LANCET_DATABASE", database.socket());
            succeeds(tests.arg("tests/test_django.py"));
        }
    }
}

#[test]
fn the_examples_of_its_page() {
    let place = TempDir::new("wheel-readme");
    let packages = installed(&place);
    for python in chosen("python", "wheel readme") {
        succeeds(command(&python, &packages).arg("tests/test_readme.py"));
    }
}

/// The plugin that pytest finds by itself: the marks hold.
#[test]
fn tests_may_make_only_so_many_calls() {
    let place = TempDir::new("wheel-pytest");
    let packages = installed(&place);
    for python in chosen("python", "pytest") {
        if !python.runs("pytest", "import pytest") {
            continue;
        }
        succeeds(command(&python, &packages).arg("tests/test_plugin.py"));
    }
    if !Path::new("/usr/lib/python3/dist-packages/pytest").exists() {
        skip("pytest", "python3-pytest is not installed");
    }
}
