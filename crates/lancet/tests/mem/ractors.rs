//! A program that makes its first Ractor while births are counted: what was counted until then is reported, that is said,
//! and the program notices nothing.

use crate::support::{
    Guest, Interpreter, LIMIT, Output, Report, TempDir, Watch, born, fixtures, lancet, live, mem,
    rubies_without_ractors, run,
};

const SAID: &str = "the program made a Ractor, beside which births cannot be watched";

/// The counts of the strings made before the Ractor; of those made after it nothing is known.
fn holds(ruby: &Interpreter, output: &Output, report: &Report, pid: i32) {
    let rows = report.of(pid);
    assert_eq!(born(rows, "ractor.rb:9:String"), 1000, "{ruby}: {output:?}");
    // Garbage is included.
    let living = live(rows, "ractor.rb:9:String");
    assert!((700..=1000).contains(&living), "{ruby}: {living}");
    assert_eq!(born(rows, "ractor.rb:16:String"), 0, "{ruby}: {output:?}");
    assert!(
        report.losses.iter().any(|loss| loss.starts_with(SAID)) || output.stderr.contains(SAID),
        "{ruby}: {output:?}"
    );
}

#[test]
fn a_started_program_that_makes_a_ractor() {
    for ruby in rubies_without_ractors("started, ractor") {
        let folder = TempDir::new("ractor");
        let file = folder.join("report");
        let program = ruby.command();
        let mut command = lancet();
        command.args(["mem", "--format", "json", "-o"]).arg(&file);
        command.arg("--").arg(program.get_program());
        command.args(program.get_args()).arg("-W0");
        command.arg(fixtures().join("ruby/live/ractor.rb"));
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 4, "{ruby}: {output:?}");
        assert_eq!(output.stdout, "ready\nanswer 42 700 300\n", "{ruby}");
        let report = Report::parse(&std::fs::read_to_string(&file).expect("a report"));
        let pid = report.guests.keys().next().expect("one guest");
        holds(&ruby, &output, &report, *pid as i32);
    }
}

#[test]
fn a_running_program_that_makes_a_ractor() {
    for ruby in rubies_without_ractors("attached, ractor") {
        let mut guest = Guest::script(&ruby, "live/ractor.rb", &["wait"]);
        guest.expect("ready");
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        let output = watch.end();
        assert_eq!(output.code(), 4, "{ruby}: {output:?}");
        let report = Report::parse(&output.stdout);
        holds(&ruby, &output, &report, guest.pid);
        guest.ends_with("answer 42 700 300");
    }
}
