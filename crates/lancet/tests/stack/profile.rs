//! `lancet profile`: the shares that it tells are those that programs know of themselves, and the dear caller is named.

use std::process::Command;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Guest, LIMIT, Output, chosen, lancet, run};

/// Runs `lancet profile` with these arguments.
fn profile(args: &[&str]) -> Output {
    let output = run(lancet().arg("profile").args(args), LIMIT);
    // On a machine that is busy some looks do not take place, which is said.
    assert!(matches!(output.code(), 0 | 4), "{output:?}");
    output
}

/// The records that it wrote with `--json`.
fn records(output: &Output) -> Vec<Value> {
    let lines = output.stdout.lines();
    let records = lines.map(|line| serde_json::from_str(line).expect("JSON"));
    records.collect()
}

#[test]
fn what_sleeps_is_no_sample() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", SLEEPS]));
    let pid = guest.pid.to_string();
    let output = profile(&["-p", &pid, "--for", "300ms"]);
    assert!(
        output.stdout.starts_with("no thread ran in any look: "),
        "{output:?}"
    );
    let all = records(&profile(&["-p", &pid, "--for", "300ms", "--json"]));
    assert_eq!(
        (&all[0]["samples"], &all[1]["record"]),
        (&0.into(), &"losses".into())
    );
    assert!(
        all[0]["slept"].as_u64() >= all[0]["looks"].as_u64(),
        "{all:?}"
    );
}

const SLEEPS: &str = "puts 'ready'; STDOUT.flush; STDIN.read";

#[test]
fn a_program_that_is_started_keeps_its_output_and_its_exit_code() {
    let mut command = lancet();
    command.args([
        "profile",
        "--",
        "ruby",
        "-e",
        "n = 0; n += 1 while n < 9_000_000; puts n; exit 3",
    ]);
    let output = run(&mut command, LIMIT);
    assert_eq!(
        (output.code(), &*output.stdout),
        (3, "9000000\n"),
        "{output:?}"
    );
    assert!(
        output
            .stderr
            .contains(" of the time in which threads ran is at <main> (-e:1)"),
        "{output:?}"
    );
}

/// Programs that measure themselves how much processor time each of two callers of one function takes: a language, the option for a program in the command line, and a program that calls `work` for so many seconds from `dear` and from
/// `cheap`, and then writes the processor time of each.
const PROGRAMS: [(&str, &str, &str); 4] = [
    (
        "ruby",
        "-e",
        "def work(n)
           s = i = 0
           while i < n; s += i * i % 7; i += 1; end
           s
         end
         def dear = work(60_000)
         def cheap = work(20_000)
         def now = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
         puts 'ready'; STDOUT.flush
         d = c = 0
         stop = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 5
         while Process.clock_gettime(Process::CLOCK_MONOTONIC) < stop
           a = now; dear; b = now; cheap; d += b - a; c += now - b
         end
         puts \"shares #{d} #{c}\"; STDOUT.flush; STDIN.read",
    ),
    (
        "python",
        "-c",
        "import sys, time
def work(n):
    s = i = 0
    while i < n:
        s += i * i % 7
        i += 1
    return s
def dear(): return work(60_000)
def cheap(): return work(20_000)
now = time.process_time
print('ready', flush=True)
d = c = 0
stop = time.monotonic() + 5
while time.monotonic() < stop:
    a = now(); dear(); b = now(); cheap(); d += b - a; c += now() - b
print('shares', d, c, flush=True)
sys.stdin.read()",
    ),
    (
        "perl",
        "-e",
        "sub work { my $s = 0; my $i = 0; while ($i < $_[0]) { $s += $i * $i % 7; $i++ } return $s }
         sub dear { my $n = work(60_000); return $n }
         sub cheap { my $n = work(20_000); return $n }
         use Time::HiRes qw(time clock); $| = 1;
         print \"ready\\n\";
         my ($d, $c, $stop) = (0, 0, time + 5);
         while (time < $stop) { my $a = clock; dear(); my $b = clock; cheap(); $d += $b - $a; $c += clock() - $b }
         print \"shares $d $c\\n\"; <STDIN>",
    ),
    (
        "php",
        "-r",
        "function work($n) { $s = 0; $i = 0; while ($i < $n) { $s += $i * $i % 7; $i++; } return $s; }
         function dear() { $n = work(60000); return $n; }
         function cheap() { $n = work(20000); return $n; }
         function now() { $u = getrusage(); return $u['ru_utime.tv_sec'] + $u['ru_utime.tv_usec'] / 1e6; }
         echo \"ready\\n\";
         $d = $c = 0; $stop = microtime(true) + 5;
         while (microtime(true) < $stop) { $a = now(); dear(); $b = now(); cheap(); $d += $b - $a; $c += now() - $b; }
         echo \"shares $d $c\\n\"; fgets(STDIN);",
    ),
];

/// How long the first thread of a process has been on a processor.
fn processor_time(pid: i32) -> Duration {
    let line = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).expect("it lives");
    let first = line.split(' ').next().expect("a number");
    Duration::from_nanos(first.parse().expect("nanoseconds"))
}

/// The samples of `work` that one caller has.
fn samples(work: &Value, caller: &str) -> f64 {
    let callers = work["callers"].as_array().expect("a list").iter();
    let is_it = |one: &&Value| one["name"].as_str().expect("a name").ends_with(caller);
    let found = callers.filter(is_it);
    let samples = found.map(|one| one["samples"].as_f64().expect("a number"));
    samples.sum()
}

#[test]
fn shares_are_those_that_the_program_knows() {
    for (language, option, program) in PROGRAMS {
        for interpreter in chosen(language, "profile") {
            let mut command: Command = interpreter.command();
            let guest = Guest::ready(command.args([option, program]));
            let pid = guest.pid.to_string();
            let (asked, before) = (Instant::now(), processor_time(guest.pid));
            let output = profile(&["-p", &pid, "--for", "4s", "--every", "5ms", "--json"]);
            let (took, after) = (asked.elapsed(), processor_time(guest.pid));
            let shares = guest.find_within("shares ");
            let own: Vec<f64> = shares
                .split_whitespace()
                .map(|part| part.parse().expect("seconds"))
                .collect();
            let all = records(&output);
            let is_work = |row: &&Value| {
                row["name"]
                    .as_str()
                    .is_some_and(|name| name.ends_with("work"))
            };
            let work = all.iter().find(is_work).expect("work is seen");
            let (dear, cheap) = (samples(work, "dear"), samples(work, "cheap"));
            let count = dear + cheap;
            assert!(count >= 40.0, "{interpreter}: {work}");
            let (seen, known) = (100.0 * dear / count, 100.0 * own[0] / (own[0] + own[1]));
            // Three and a half standard deviations of a share of three quarters: one run of 2,000 is farther off.
            let error = 350.0 * (0.75f64 * 0.25 / count).sqrt();
            assert!(
                (seen - known).abs() < error,
                "{interpreter}: {seen:.1} % of {count} samples, and {known:.1} % of the time"
            );
            // What was seen on a processor is what the kernel says of it.
            let looks = all[0]["looks"].as_f64().expect("a number");
            let share = (after - before).as_secs_f64() / took.as_secs_f64();
            let ran = all[0]["samples"].as_f64().expect("a number") / looks;
            let several = available_parallelism().is_ok_and(|count| count.get() > 1);
            assert!(
                !several || (ran - share).abs() < 0.15 + 1.75 / looks.sqrt(),
                "{interpreter}: {ran:.2} threads, and {share:.2} of a processor"
            );
            // All of the time is there, but for what the interpreter does at the top.
            let total = all[0]["samples"].as_f64().expect("a number");
            assert!(count > 0.9 * total, "{interpreter}: {count} of {total}");
        }
    }
}
