//! `mem --native` of interpreters, with the line of the script (`--lines`) and without.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{native, started};
use crate::killed::spin;
use crate::support::{
    Guest, LIMIT, Random, Snapshot, TempDir, Watch, installed, rounds, run, skip,
};

/// Programs that keep 100 blocks of 10,000 bytes each round, at their seventh line. That in Perl calls a function a few thousand deep, and
/// comparisons of `sort` in one another, so that `realloc` moves what its VM notes of frames.
const KEEPING: [(&str, &str, &str); 4] = [
    (
        "python3",
        "keeps.py",
        "import sys\nkept = []\nprint('ready', flush=True)\nfor line in sys.stdin:\n    if line == '\\n': break\n    for i in range(100):\n        kept.append(bytes(10000))\n    print('done', flush=True)\nprint('answer 42')\n",
    ),
    (
        "ruby",
        "keeps.rb",
        "$stdout.sync = true\nkept = []\nputs 'ready'\nwhile line = $stdin.gets\n  break if line == \"\\n\"\n  100.times do\n    kept << 'x' * 10_000\n  end\n  puts 'done'\nend\nputs 'answer 42'\n",
    ),
    (
        "perl",
        "keeps.pl",
        "$| = 1;\nmy @kept;\nprint \"ready\\n\";\nwhile (my $line = <STDIN>) {\n  last if $line eq \"\\n\";\n  for my $i (1..100) {\n    push @kept, 'x' x (10000 + $i);\n  }\n  eval 'sub deep { my $n = shift; $n ? 1 + deep($n - 1) : 0 } deep(4000) == 4000 or die; sub nest { my $n = shift; my @s = sort { nest($n - 1) if $n; deep(60); $a <=> $b } 2, 1 } nest(12)';\n  die $@ if $@;\n  print \"done\\n\";\n}\nprint \"answer 42\\n\";\n",
    ),
    (
        "php",
        "keeps.php",
        "<?php\n$kept = [];\necho \"ready\\n\";\nwhile (($line = fgets(STDIN)) !== false) {\n  if ($line == \"\\n\") break;\n  for ($i = 0; $i < 100; $i++) {\n    $kept[] = str_repeat('x', 10000 + $i);\n  }\n  echo \"done\\n\";\n}\necho \"answer 42\\n\";\n",
    ),
];

/// All blocks and bytes that were taken, and those of them that were taken while this line of the script ran.
fn taken(report: &str, script: &str, line: i64) -> [[i64; 2]; 2] {
    let [mut all, mut there] = [[0; 2]; 2];
    for record in report.lines() {
        let record: Value = serde_json::from_str(record).expect("JSON");
        if record["record"] != "row" {
            continue;
        }
        let figures = ["born", "allocated"].map(|key| record[key].as_i64().expect("a number"));
        let place = &record["script"];
        let path = place["path"].as_str().unwrap_or_default();
        let sums: &mut [&mut [i64; 2]] = match path.ends_with(script) && place["line"] == line {
            true => &mut [&mut all, &mut there],
            false => &mut [&mut all],
        };
        for sum in sums {
            sum[0] += figures[0];
            sum[1] += figures[1];
        }
    }
    [all, there]
}

/// The program with its script, at its `ready`.
fn keeps(mut command: Command, script: &Path) -> Guest {
    // PHP takes small blocks from chunks of its own, unless it is told not to.
    let command = command.arg(script).env("USE_ZEND_ALLOC", "0");
    let guest = Guest::start("keeps", command);
    guest.expect("ready");
    guest
}

/// It does one round.
fn round(guest: &mut Guest) {
    guest.tell("round");
    guest.expect("done");
}

/// Calls `each` with the interpreters that are there, and their scripts.
fn keeping(each: impl Fn(&TempDir, &str, &str, &Path)) {
    let folder = TempDir::new("native-scripts");
    for (interpreter, name, text) in KEEPING {
        if !installed(interpreter) {
            skip("native", format!("no {interpreter}"));
            continue;
        }
        let script = folder.join(name);
        std::fs::write(&script, text).expect("a file");
        each(&folder, interpreter, name, &script);
    }
}

/// Blocks of interpreters are counted, of one that runs and of one that is started, and none notices. With `--lines` those of a line are told
/// with it.
#[test]
fn blocks_are_told_with_the_line_of_the_script() {
    keeping(|folder, interpreter, name, script| {
        for lines in [false, true] {
            let options: &[&str] = if lines { &["--lines"] } else { &[] };
            let mut guest = keeps(Command::new(interpreter), script);
            let mut command = native(guest.pid);
            let watch = Watch::open({
                command.args(options);
                command
            });
            round(&mut guest);
            let output = watch.interrupt();
            assert_eq!(output.code(), 0, "{name}: {}", output.stderr);
            guest.tell("");
            guest.ends_with("answer 42");
            let report = folder.join("report");
            let mut command = started(&report, options);
            command.arg(interpreter);
            let mut started = keeps(command, script);
            round(&mut started);
            started.tell("");
            started.ends_with("answer 42");
            let report = std::fs::read_to_string(&report).expect("a report");
            for (how, report) in [("running", &output.stdout), ("started", &report)] {
                let [all, there] = taken(report, name, 7);
                let what = format!("{name}, {how}, {all:?}, {there:?}: {report}");
                assert!(all[0] >= 100 && all[1] >= 1_000_000, "{what}");
                let is_whole =
                    (100..400).contains(&there[0]) && (1_000_000..4_000_000).contains(&there[1]);
                assert!(is_whole == lines, "{what}");
            }
        }
    });
}

/// Lines are read while their programs work, by one that is killed at random instants, and leave nothing behind.
#[test]
fn lines_are_read_of_a_program_at_work() {
    keeping(|_, interpreter, name, script| {
        let mut guest = keeps(Command::new(interpreter), script);
        round(&mut guest);
        let before = Snapshot::take(guest.pid);
        let mut random = Random::new("native-lines");
        let with_lines = |pid| {
            let mut command = native(pid);
            command.arg("--lines");
            command
        };
        for _ in 0..rounds(3, 100) {
            let watch = Watch::start(with_lines(guest.pid));
            guest.tell("round");
            spin(random.below(60_000));
            watch.kill();
            guest.expect("done");
        }
        let output = run(with_lines(guest.pid).args(["--for", "5ms"]), LIMIT);
        assert_eq!(output.code(), 0, "{name}: {}", output.stderr);
        before.text_holds(guest.pid, name);
        guest.tell("");
        guest.ends_with("answer 42");
    });
}

/// Of a program in which no script runs, the blocks are told all the same, and that there is no line.
#[test]
fn a_program_without_a_script_has_no_lines() {
    let mut command = started(Path::new("/dev/stdout"), &["--lines"]);
    let output = run(command.args(["sort", "/dev/null"]), LIMIT);
    assert_eq!(output.code(), 4, "{}", output.stderr);
    assert!(
        output
            .stdout
            .contains("blocks are told without the line of a script: "),
        "{}",
        output.stdout
    );
}

/// A library whose destructor runs when `perl_free` has given the interpreter back, which the key of the thread still leads to. It takes all
/// memory that is free, and writes what is no address wherever the interpreter's pointers were.
const LATE: &str = r"
#include <stdlib.h>
#include <string.h>
__attribute__((destructor)) void late(void) {
    for (int i = 0; i < 20000; i++) {
        char *block = malloc(16 + i % 200);
        if (block) memset(block, 'A', 16 + i % 200);
    }
}
";

/// What a library takes after its Perl has ended is counted without a line, and nothing is followed that was the interpreter's.
#[test]
fn what_is_taken_after_its_perl_has_no_line() {
    if !installed("gcc") || !installed("perl") {
        skip("native", "no gcc or no perl");
        return;
    }
    let folder = TempDir::new("native-late");
    let [source, library, script, report] =
        ["late.c", "late.so", "ends.pl", "report"].map(|name| folder.join(name));
    std::fs::write(&source, LATE).expect("a file");
    let text = "$| = 1;\nprint \"ready\\n\";\n<STDIN>;\nour @kept = map {\n  'x' x (10000 + $_) } 1..100;\nprint \"answer 42\\n\";\n";
    std::fs::write(&script, text).expect("a file");
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(compiler.arg(&source).status().expect("gcc").success());
    let mut command = started(&report, &["--lines"]);
    command.env("LD_PRELOAD", &library).arg("perl");
    let mut guest = keeps(command, &script);
    guest.tell("");
    guest.ends_with("answer 42");
    let report = std::fs::read_to_string(&report).expect("a report");
    let records = report
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let late: Vec<Value> = records
        .filter(|record| record["place"]["function"] == "late")
        .collect();
    let born: i64 = late.iter().filter_map(|row| row["born"].as_i64()).sum();
    assert_eq!(born, 20_000, "{report}");
    assert!(
        late.iter().all(|row| row["script"]["path"].is_null()),
        "{report}"
    );
    assert!(report.contains("ends.pl"), "{report}");
}
