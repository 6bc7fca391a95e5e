//! A library that a script loads after the attach is traced from its first call, the one by which the VM enters it.

use crate::lines::{of, shown};
use crate::support::{Snapshot, TempDir, chosen};
use crate::watch::{calls, hooked, left, text_holds};

/// The function by which the VM enters the library, which it calls once, and one that the script calls three times.
fn traced(language: &'static str, first: &str, later: &str) {
    for interpreter in chosen(language, "late") {
        let folder = TempDir::new(&format!("late-{interpreter}").replace(' ', "-"));
        let out = folder.join("out").display().to_string();
        // PHP: without the extensions that its php.ini names.
        let options: &[&str] = if language == "php" { &["-n"] } else { &[] };
        let mut guest = interpreter.start_with(options, "late", &[]);
        let before = Snapshot::take(guest.pid);
        let arguments = ["-ttT", "-o", &out, "-x", first, "-x", later];
        let watch = hooked(calls(guest.pid, &arguments));
        guest.tell("");
        assert_eq!(guest.find("answer "), "3", "{interpreter}");
        let output = left(watch, "late");
        text_holds(&before, guest.pid, "late", &output);
        guest.tell("");
        guest.ends_with_nothing("late");

        let text = std::fs::read_to_string(&out).expect("what was told");
        let told = shown(&text);
        for (filter, count) in [(first, 1), (later, 3)] {
            let (name, _) = filter.split_once('@').expect("a library");
            let seen = of(&told, name);
            assert_eq!(
                seen.len(),
                count,
                "{interpreter}: {name}: {text}{}",
                output.stderr
            );
            assert!(
                seen.iter().all(|call| !call.line.is_empty()),
                "{interpreter}: {text}"
            );
        }
        let (name, _) = first.split_once('@').expect("a library");
        let unknown = format!("has no function {name} yet");
        assert!(output.stderr.contains(&unknown), "{}", output.stderr);
        assert!(
            output.stderr.contains("has loaded a library"),
            "{interpreter}: {}",
            output.stderr
        );
    }
}

#[test]
fn a_library_that_a_ruby_requires() {
    traced(
        "ruby",
        "Init_psych@psych.so",
        "yaml_parser_set_input_string@libyaml*",
    );
}

#[test]
fn a_library_that_a_python_imports() {
    traced(
        "python",
        "PyInit__sqlite3@_sqlite3*",
        "sqlite3_open_v2@libsqlite3*",
    );
}

#[test]
fn a_library_that_a_perl_uses() {
    traced("perl", "boot_Compress__Raw__Zlib@Zlib.so", "crc32@libz*");
}

/// By dl(), and by FFI.
#[test]
fn libraries_that_a_php_loads() {
    traced(
        "php",
        "get_module@mysqlnd.so",
        "__ctype_get_mb_cur_max@libBrokenLocale*",
    );
}

/// A function by its name in the script's language, which that language does not have when lancet comes.
fn named(language: &'static str, pattern: &str, count: usize) {
    for interpreter in chosen(language, "late") {
        let folder = TempDir::new(&format!("named-{interpreter}").replace(' ', "-"));
        let out = folder.join("out").display().to_string();
        let options: &[&str] = if language == "php" { &["-n"] } else { &[] };
        let mut guest = interpreter.start_with(options, "late", &[]);
        let before = Snapshot::take(guest.pid);
        let watch = hooked(calls(guest.pid, &["-ttT", "-o", &out, "-x", pattern]));
        guest.tell("");
        assert_eq!(guest.find("answer "), "3", "{interpreter}");
        let output = left(watch, "named");
        text_holds(&before, guest.pid, "named", &output);
        guest.tell("");
        guest.ends_with_nothing("named");
        let text = std::fs::read_to_string(&out).expect("what was told");
        // Calls that call others stand on two lines.
        let begun = text.lines().filter(|line| !line.contains("<... "));
        let said = &output.stderr;
        assert_eq!(begun.count(), count, "{interpreter}: {text}{said}");
        assert!(said.contains(&format!("has no {pattern} yet")), "{said}");
        assert!(said.contains("1 more functions hooked"), "{said}");
    }
}

#[test]
fn a_method_that_a_ruby_gets_with_a_library() {
    named("ruby", "ruby:Psych::Parser#*parse", 3);
}

#[test]
fn a_method_that_a_python_gets_with_a_module() {
    named("python", "python:_sqlite3.Connection.execute", 3);
}

#[test]
fn a_sub_that_a_perl_gets_with_a_library() {
    named("perl", "perl:Compress::Raw::Zlib::crc32", 3);
}

#[test]
fn a_method_that_a_php_gets_with_an_extension() {
    named("php", "php:FFI::cdef", 1);
}
