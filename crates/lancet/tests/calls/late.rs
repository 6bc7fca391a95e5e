//! A library that a script loads after the attach is traced from its first call, the one by which the VM enters it.

use crate::lines::{of, shown};
use crate::support::fastcgi::{asked, fpm};
use crate::support::{Snapshot, TempDir, chosen, skip};
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

/// A php-fpm has all functions written in C before it runs a script, and no `dl`: what it has not is refused once, in one sentence, also
/// where a request defines a function of that name in PHP.
#[test]
fn what_a_php_fpm_cannot_get_is_refused_in_one_sentence() {
    let folder = TempDir::new("late-fpm");
    let Some((_manager, socket, workers)) = fpm(&folder, 1) else {
        return skip("what a php-fpm cannot get", "there is no php-fpm8.2");
    };
    let script = folder.join("late.php");
    let text = "<?php class wpdb { function query($n) { return $n; } } \
                for ($i = 0; $i < 40; $i++) usleep(25000); echo (new wpdb)->query($_SERVER['QUERY_STRING']);";
    std::fs::write(&script, text).expect("a file");
    // Before its first request it has no table of classes.
    let first = folder.join("first.php");
    std::fs::write(&first, "<?php echo $_SERVER['QUERY_STRING'];").expect("a file");
    assert_eq!(asked(&socket, &first, 6), "6");
    let patterns = ["-c", "-x", "php:wpdb::query", "-x", "php:usleep"];
    let watch = hooked(calls(workers[0], &patterns));
    assert_eq!(asked(&socket, &script, 7), "7");
    let output = watch.interrupt();
    let said = &output.stderr;
    let about: Vec<&str> = said.lines().filter(|line| line.contains("wpdb")).collect();
    assert_eq!(about.len(), 1, "{said}");
    assert!(about[0].contains("not hooked: php:wpdb::query: "), "{said}");
    assert_eq!(output.code(), 4, "{said}");
}

/// A worker that has served no request yet has all functions of its extensions: the executor takes them over from the compiler when a request
/// begins.
#[test]
fn a_function_of_a_php_fpm_before_its_first_request() {
    let folder = TempDir::new("fresh-fpm");
    let Some((_manager, socket, workers)) = fpm(&folder, 1) else {
        return skip("a fresh php-fpm", "there is no php-fpm8.2");
    };
    let script = folder.join("first.php");
    let text = "<?php usleep(1000); echo (new DateTime('2020-01-01'))->format('Y');";
    std::fs::write(&script, text).expect("a file");
    let patterns = ["-c", "-x", "php:usleep", "-x", "php:DateTime::format"];
    let watch = hooked(calls(workers[0], &patterns));
    for _ in 0..3 {
        assert_eq!(asked(&socket, &script, 7), "2020");
    }
    let output = watch.interrupt();
    let said = &output.stderr;
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(said.contains("2 of 2 functions hooked"), "{said}");
    assert!(!said.contains("not readable"), "{said}");
    for name in ["usleep", "DateTime::format"] {
        let row = output.stdout.lines().find(|row| row.contains(name));
        let calls = row.and_then(|row| row.split_whitespace().find(|word| *word == "3"));
        assert!(calls.is_some(), "{name}: {output:?}");
    }
}
