//! `lancet mem -- PROGRAM`: watched from its first line, and otherwise as if lancet were not there.

use std::process::Command;

use crate::support::{Interpreter, LIMIT, Output, TempDir, fixtures, lancet, rubies, run, skip};

/// `lancet mem OPTIONS -- RUBY ARGUMENTS`.
fn started(ruby: &Interpreter, options: &[&str], arguments: &[&str]) -> Output {
    let program = ruby.command();
    let mut command = lancet();
    command.arg("mem").args(options).arg("--");
    command.arg(program.get_program()).args(program.get_args());
    command.args(arguments).current_dir("/tmp");
    run(&mut command, LIMIT)
}

fn script(name: &str) -> String {
    let path = fixtures().join("ruby").join(name);
    path.to_string_lossy().into_owned()
}

/// Lines of the memprof format that are about this place: `1000 …/post2009.rb:11:String`.
fn rows(output: &Output, place: &str) -> Vec<(u64, String)> {
    let text = output.stderr.lines().chain(output.stdout.lines());
    text.filter_map(|line| {
        let (count, row) = line.trim_start().split_once(' ')?;
        let (_, row) = row.rsplit_once('/').unwrap_or(("", row));
        let kind = row.strip_prefix(place)?;
        Some((count.parse().ok()?, kind.into()))
    })
    .collect()
}

/// The post that introduced memprof in 2009, example 1: its very rows.
#[test]
fn the_example_of_2009_gives_its_rows() {
    for ruby in rubies("post 2009") {
        let output = started(&ruby, &["--format", "memprof"], &[&script("post2009.rb")]);
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        for (place, count) in [("post2009.rb:11:", 1000), ("post2009.rb:7:", 100)] {
            let mut found = rows(&output, place);
            found.retain(|(_, kind)| kind == "String");
            assert_eq!(found, [(count, "String".into())], "{ruby}: {output:?}");
        }
    }
}

/// Example 2, with the counts of each version, without gems.
#[test]
fn the_example_with_stringio_gives_its_rows() {
    for ruby in rubies("stringio") {
        let file = script("stringio.rb");
        // Nothing is kept, so a collection would leave nothing to show.
        let options = ["--no-gc", "--format", "memprof"];
        let output = started(&ruby, &options, &["--disable-gems", &file]);
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        let count = |place: &str, kind: &str| -> u64 {
            rows(&output, place)
                .iter()
                .filter(|(_, found)| found == kind)
                .map(|(count, _)| count)
                .sum()
        };
        assert_eq!(count("stringio.rb:4:", "StringIO"), 1, "{ruby}: {output:?}");
        assert_eq!(count("stringio.rb:4:", "String"), 1, "{ruby}: {output:?}");
        assert_eq!(count("stringio.so:0:", "Module"), 2, "{ruby}: {output:?}");
        assert_eq!(count("stringio.so:0:", "Class"), 1, "{ruby}: {output:?}");
        let (required, arrays, loaded, integers) = match ruby.numbers() {
            (2, 7) => (4, 1, 17, 0),
            (3, 1) => (4, 1, 13, 0),
            (3, 3) => (6, 1, 13, 0),
            (3, 4) => (6, 1, 14, 1),
            (4, 0) => (5, 2, 13, 1),
            version => return skip("stringio", format_args!("counts of {version:?} not known")),
        };
        let counts = (
            count("stringio.rb:3:", "String"),
            count("stringio.rb:3:", "Array"),
            count("stringio.so:0:", "String"),
            count("stringio.so:0:", "Integer"),
        );
        let wanted = (required, arrays, loaded, integers);
        assert_eq!(counts, wanted, "{ruby}: {output:?}");
    }
}

/// Exit codes are the program's own.
#[test]
fn the_exit_code_is_the_programs() {
    for ruby in rubies("exit codes") {
        let cases = [
            ("exit 0", 0),
            ("exit 7", 7),
            ("exit! 9", 9),
            ("abort", 1),
            ("raise 'uncaught'", 1),
            ("at_exit { exit 5 }; exit 6", 5),
            ("Thread.new { exit 8 }.join", 8),
        ];
        for (code, wanted) in cases {
            let output = started(&ruby, &[], &["-e", code]);
            assert_eq!(output.code(), wanted, "{ruby}, {code}: {output:?}");
        }
        let output = started(&ruby, &[], &["-e", "raise 'uncaught'"]);
        assert!(
            output.stderr.contains("uncaught (RuntimeError)"),
            "{output:?}"
        );
    }
}

/// Killed from within: what a shell would say, 128 + signal, and a word about what is not known.
#[test]
fn a_program_that_is_killed_is_reported_as_far_as_possible() {
    for ruby in rubies("killed program") {
        for (signal, wanted) in [("KILL", 128 + 9), ("TERM", 128 + 15)] {
            let code = format!("$stdout.puts 1; $stdout.flush; Process.kill(:{signal}, $$); sleep");
            let output = started(&ruby, &[], &["-e", &code]);
            assert_eq!(output.code(), wanted, "{ruby}, {signal}: {output:?}");
            // TERM is an exception to Ruby, so its end procedures run; KILL leaves only the view from
            // outside.
            let outside = output.stderr.contains("from outside");
            assert_eq!(outside, signal == "KILL", "{ruby}, {signal}: {output:?}");
            assert_eq!(output.stdout, "1\n", "{ruby}, {signal}");
        }
        // The same for a program, and in formats that have no place for it.
        let code = "Process.kill(:KILL, $$); sleep";
        let output = started(&ruby, &["--format", "json"], &["-e", code]);
        let last = crate::support::losses(&output.stderr);
        assert_eq!(last, [("heap".to_owned(), None)], "{output:?}");
        let output = started(&ruby, &["--format", "memprof"], &["-e", code]);
        assert!(output.stderr.contains(" lost: "), "{output:?}");
    }
}

/// Standard output is the program's, byte for byte; the report goes to standard error or a file.
#[test]
fn the_programs_output_is_untouched() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new("started");
    for ruby in rubies("output") {
        let code = "1000.times { |i| puts \"line #{i}\" }; print $stdin.read.inspect";
        let plain = run(ruby.command().args(["-e", code]), LIMIT);
        let output = started(&ruby, &[], &["-e", code]);
        assert_eq!(output.stdout, plain.stdout, "{ruby}");
        let file = folder.join(&format!("{}.report", ruby.version));
        let path = file.to_string_lossy().into_owned();
        let output = started(&ruby, &["-o", &path, "--format", "json"], &["-e", code]);
        assert_eq!(output.stdout, plain.stdout, "{ruby}");
        let text = std::fs::read_to_string(&file).expect("a report");
        assert!(text.contains("\"row\""), "{ruby}: {text}");
        let mode = std::fs::metadata(&file)
            .expect("a report")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{ruby}");
        std::fs::remove_file(&file).expect("a report");
    }
}

/// Nasty programs compute the same when they are started by lancet.
#[test]
fn started_guests_compute_the_same() {
    for ruby in rubies("started nasty") {
        for (name, rounds) in [
            ("malloc", "500"),
            ("fork", "10"),
            ("fibers", "40"),
            ("exec", "5"),
        ] {
            let file = script(&format!("nasty/{name}.rb"));
            let plain = run(ruby.command().args([&file, rounds]), LIMIT);
            let output = started(&ruby, &["--no-gc"], &[&file, rounds]);
            assert_eq!(output.code(), 0, "{ruby}, {name}: {output:?}");
            assert_eq!(output.stdout, plain.stdout, "{ruby}, {name}");
        }
    }
}

#[test]
fn a_program_that_is_not_there_is_one_line() {
    let output = run(lancet().args(["mem", "--", "/no/such/program"]), LIMIT);
    assert_eq!(output.code(), 1, "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
    assert!(output.stderr.starts_with("lancet: "), "{output:?}");
}

/// A program without Ruby runs as it would, and lancet says that it saw no Ruby.
#[test]
fn a_program_without_ruby_runs_as_it_would() {
    let mut command: Command = lancet();
    command.args(["mem", "--", "sh", "-c", "echo out; exit 3"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.stdout, "out\n", "{output:?}");
    assert_eq!(output.code(), 3, "{output:?}");
    assert!(output.stderr.contains("lancet: "), "{output:?}");
}

/// A Ruby is led to its script by two hooks, not from system call to system call: of those it makes thousands before its
/// first line, and each would be a stop.
#[test]
fn a_started_ruby_is_not_stopped_at_its_system_calls() {
    const MOST_STOPS: usize = 200;
    // The shells that enter a root, and what they run, are programs of their own.
    const MOST_STOPS_OF_ROOTS: usize = 2000;
    if !Command::new("strace")
        .arg("-V")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        return skip("stops of a start", format_args!("there is no strace"));
    }
    let folder = TempDir::new("stops");
    for ruby in rubies("stops of a start") {
        let file = folder.join(&ruby.version.replace('/', "_"));
        let lancet = lancet();
        let program = ruby.command();
        let mut command = Command::new("strace");
        // Of lancet alone: its children are not followed.
        command
            .args(["-e", "trace=ptrace", "-e", "signal=none", "-o"])
            .arg(&file);
        command
            .arg(lancet.get_program())
            .args(["mem", "--no-gc", "--"]);
        command.arg(program.get_program()).args(program.get_args());
        let output = run(command.args(["-e", "1"]).current_dir("/tmp"), LIMIT);
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        let text = std::fs::read_to_string(&file).expect("what strace saw");
        let of = |request: &str| text.lines().filter(|line| line.contains(request)).count();
        let most = if ruby.is_system() {
            MOST_STOPS
        } else {
            MOST_STOPS_OF_ROOTS
        };
        // Each stop is ended by one of these.
        let stops =
            of("PTRACE_CONT") + of("PTRACE_SYSCALL,") + of("PTRACE_DETACH") + of("PTRACE_LISTEN");
        assert!((2..most).contains(&stops), "{ruby}: {stops} stops\n{text}");
    }
}

/// A path of 512 frames is kept, and one that was cut says so at its outer end.
#[test]
fn deep_call_paths_are_kept_and_a_cut_is_marked() {
    for ruby in rubies("deep call paths") {
        let output = started(&ruby, &["--stacks", "512"], &[&script("live/deep.rb")]);
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        let paths: Vec<Vec<&str>> = output
            .stderr
            .lines()
            .filter(|line| line.contains("deep.rb:5);String 1"))
            .map(|line| line.split(';').collect())
            .collect();
        assert_eq!(paths.len(), 2, "{ruby}: {}", output.stderr);
        let whole = paths.iter().find(|path| path[0].starts_with("<main>"));
        // `<main>`, 101 calls, and the type.
        assert_eq!(whole.map(Vec::len), Some(103), "{ruby}");
        let cut = paths
            .iter()
            .find(|path| path[0] == "(more frames, cut by --stacks)");
        assert_eq!(cut.map(Vec::len), Some(514), "{ruby}");
    }
}

/// What is born in a method that the VM has written in Ruby itself (`Time.now`, `clone`) counts at the line that calls it.
#[test]
fn the_vms_own_methods_are_no_place() {
    for ruby in rubies("the VM's own methods") {
        let options = ["--no-gc", "--format", "memprof"];
        let output = started(&ruby, &options, &[&script("live/internal.rb")]);
        assert_eq!(output.code(), 0, "{ruby}: {output:?}");
        let count = |place: &str, wanted: &str| -> u64 {
            let found = rows(&output, place);
            let of_kind = found.iter().filter(|(_, kind)| kind == wanted);
            of_kind.map(|(count, _)| count).sum()
        };
        assert_eq!(count("internal.rb:6:", "Time"), 100, "{ruby}: {output:?}");
        // The literals, of which `+` makes copies since 4.0; and copies by a method of the VM's.
        let literals = if ruby.numbers() >= (4, 0) { 100 } else { 50 };
        for (place, wanted) in [("internal.rb:11:", literals), ("internal.rb:12:", 50)] {
            assert_eq!(count(place, "String"), wanted, "{ruby}: {output:?}");
        }
        assert!(
            !output.stderr.contains("<internal:"),
            "{ruby}: {}",
            output.stderr
        );
    }
}
