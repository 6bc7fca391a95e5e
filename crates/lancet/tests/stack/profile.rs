//! `lancet profile`: the shares that it tells are those that programs know of themselves, and the dear caller is named.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Guest, LIMIT, Output, TempDir, chosen, lancet, run, schema, until_seen};

/// Runs `lancet profile` with these arguments.
fn profile(args: &[&str]) -> Output {
    let output = run(lancet().arg("profile").args(args), LIMIT);
    // On a machine that is busy some looks do not take place, which is said.
    assert!(matches!(output.code(), 0 | 4), "{output:?}");
    output
}

/// The records that it wrote with `--json`.
fn records(output: &Output) -> Vec<Value> {
    schema::records(&["profile"], &output.stdout)
}

#[test]
fn what_sleeps_is_no_sample() {
    let guest = Guest::asleep(Command::new("ruby").args(["-e", SLEEPS]));
    let pid = guest.pid.to_string();
    let output = profile(&["-p", &pid, "--for", "300ms"]);
    // The plain verdict names locks and peers; what else is waited for is in the table.
    let told = output.stdout.starts_with("no thread ran in any look\n");
    assert!(
        told && output.stdout.contains("asleep in IO#read"),
        "{output:?}"
    );
    let all = records(&profile(&["-p", &pid, "--for", "300ms", "--json"]));
    let kinds: Vec<&str> = all
        .iter()
        .filter_map(|one| one["record"].as_str())
        .collect();
    assert_eq!(kinds, ["process", "verdict", "profile", "wait", "losses"]);
    assert_eq!(all[0]["pid"], guest.pid, "{all:?}");
    assert_eq!(all[0]["command"], serde_json::json!(["ruby", "-e", SLEEPS]));
    let of_all = &all[2];
    assert_eq!(of_all["samples"], 0);
    assert!(
        of_all["slept"].as_u64() >= of_all["looks"].as_u64(),
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
        "n = 0; n += 1 while n < 60_000_000; puts n; exit 3",
    ]);
    let output = run(&mut command, LIMIT);
    assert_eq!(
        (output.code(), &*output.stdout),
        (3, "60000000\n"),
        "{output:?}"
    );
    assert!(
        output
            .stderr
            .contains(" of the time in which threads ran is at <main> (-e:1)"),
        "{output:?}"
    );
}

/// Programs that measure themselves how much processor time each of two callers of one function takes: a language, the option for a program in the command line, and a program that calls `work` from `dear` and from
/// `cheap` while there is a file, and then writes the processor time of each.
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
         while File.exist?(ENV['GOES_ON'])
           a = now; dear; b = now; cheap; d += b - a; c += now - b
         end
         puts \"shares #{d} #{c}\"; STDOUT.flush; STDIN.read",
    ),
    (
        "python",
        "-c",
        "import os, sys, time
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
while os.path.exists(os.environ['GOES_ON']):
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
         use Time::HiRes qw(clock); $| = 1;
         print \"ready\\n\";
         my ($d, $c) = (0, 0);
         while (-e $ENV{GOES_ON}) { my $a = clock; dear(); my $b = clock; cheap(); $d += $b - $a; $c += clock() - $b }
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
         $d = $c = 0;
         while (file_exists(getenv('GOES_ON'))) { clearstatcache(); $a = now(); dear(); $b = now(); cheap(); $d += $b - $a; $c += now() - $b; }
         echo \"shares $d $c\\n\"; fgets(STDIN);",
    ),
];

/// What several runs have seen of a program, together.
#[derive(Default)]
struct Seen {
    samples: f64,
    /// Samples of `work`, by who called it.
    dear: f64,
    cheap: f64,
}

impl Seen {
    /// Looks for a second more.
    fn look(&mut self, pid: i32) {
        let output = profile(&["-p", &pid.to_string(), "--for", "1s", "--json"]);
        for record in records(&output) {
            let number = |name: &str| record[name].as_f64().expect("a number");
            let is_work = record["place"]["function"]
                .as_str()
                .is_some_and(|name| name.ends_with("work"));
            match record["record"].as_str() {
                Some("profile") => self.samples += number("samples"),
                Some("function") if is_work => {
                    self.dear += samples(&record, "dear");
                    self.cheap += samples(&record, "cheap");
                }
                _ => {}
            }
        }
    }
}

/// The samples of a function that one caller has.
fn samples(function: &Value, caller: &str) -> f64 {
    let callers = function["callers"].as_array().expect("a list").iter();
    let is_it = |one: &&Value| {
        one["place"]["function"]
            .as_str()
            .expect("a name")
            .ends_with(caller)
    };
    let found = callers.filter(is_it);
    let samples = found.map(|one| one["samples"].as_f64().expect("a number"));
    samples.sum()
}

/// Enough for a share of three quarters to be known to within six points, 19 times of 20.
const ENOUGH: f64 = 200.0;

#[test]
fn shares_are_those_that_the_program_knows() {
    let folder = TempDir::new("profile");
    let goes_on = folder.join("goes-on");
    for (language, option, program) in PROGRAMS {
        for interpreter in chosen(language, "profile") {
            std::fs::write(&goes_on, "").expect("a file");
            let mut command: Command = interpreter.command();
            command.env("GOES_ON", &goes_on);
            let guest = Guest::ready(command.args([option, program]));
            let mut seen = Seen::default();
            let started = Instant::now();
            while seen.dear + seen.cheap < ENOUGH {
                assert!(
                    started.elapsed() < LIMIT,
                    "{interpreter}: {} samples",
                    seen.samples
                );
                seen.look(guest.pid);
            }
            std::fs::remove_file(&goes_on).expect("ours");
            let shares = guest.find_within("shares ");
            let own: Vec<f64> = shares
                .split_whitespace()
                .map(|part| part.parse().expect("seconds"))
                .collect();
            let count = seen.dear + seen.cheap;
            let (told, known) = (
                100.0 * seen.dear / count,
                100.0 * own[0] / (own[0] + own[1]),
            );
            // Three and a half standard deviations of a share of three quarters: one run of 2,000 is farther off.
            let error = 350.0 * (0.75f64 * 0.25 / count).sqrt();
            assert!(
                (told - known).abs() < error,
                "{interpreter}: {told:.1} % of {count} samples, and {known:.1} % of the time"
            );
            // All of the time is there, but for what the interpreter does at the top.
            assert!(
                count > 0.85 * seen.samples,
                "{interpreter}: {count} of {}",
                seen.samples
            );
        }
    }
}

/// A program before a change and after it.
const CHANGED: &str = r#"
def parse(n) = n.times.sum { |i| Integer(i.to_s) }
def render(n) = n.times.map { |i| "<li>#{i}</li>" }.join.size
$stdout.sync = true
puts "ready"
loop { parse(ARGV[0].to_i); render(1000) }
"#;

/// Samples of which two thirds and nearly all are told apart, with a function in each of them.
const COMPARED: u64 = 60;

fn samples_of(records: &[Value]) -> u64 {
    let samples = schema::first(records, "profile")["samples"].as_u64();
    samples.expect("a number")
}

/// A profile of this guest with samples enough, in that file.
fn saved(guest: &Guest, file: String) -> String {
    let pid = guest.pid.to_string();
    until_seen(Duration::from_secs(1), "samples enough", |length| {
        let output = profile(&["-p", &pid, "--for", length, "--save", &file]);
        assert_eq!(output.stdout, "", "{output:?}");
        let seen = samples_of(&records(&profile(&[&file, "--json"])));
        (seen >= COMPARED).then(|| file.clone())
    })
}

#[test]
fn a_saved_profile_is_shown_again_and_compared() {
    let folder = TempDir::new("profile-saved");
    let script = folder.join("changed.rb");
    std::fs::write(&script, CHANGED).expect("a script");
    let [old, new] = [("old", "100"), ("new", "4000")].map(|(name, work)| {
        let guest = Guest::ready(Command::new("ruby").arg(&script).arg(work));
        saved(&guest, folder.join(name).display().to_string())
    });
    let shown = profile(&[&new]);
    assert!(shown.stdout.contains("Object#parse"), "{shown:?}");
    assert!(!shown.stderr.contains("stood still"), "{shown:?}");
    // Whatever form it has, it is that profile.
    let all = records(&profile(&[&new, "--json"]));
    let samples = samples_of(&all);
    // Its processes are in the file, too.
    let command = ["ruby", &script.display().to_string(), "4000"];
    assert_eq!(all[0]["command"], serde_json::json!(command));
    let lines = profile(&[&new, "--format", "folded"]).stdout;
    let counts = lines
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a count").1);
    let sum: u64 = counts
        .map(|count| count.parse::<u64>().expect("a count"))
        .sum();
    assert_eq!(sum, samples);
    // All of the program's functions are in one file, which is the program's.
    let script = script.display().to_string();
    for (by, name) in [("file", script.as_str()), ("package", "app")] {
        let rows = records(&profile(&[&new, "--by", by, "--json"]));
        assert_eq!(schema::first(&rows, "profile")["by"], by, "{rows:?}");
        let is_named = |row: &&Value| {
            let place = &row["place"];
            [&place["path"], &place["function"]].contains(&&Value::from(name))
        };
        let row = rows.iter().find(is_named).expect("the program's own");
        assert_eq!(row["total"], samples, "{rows:?}");
        let table = profile(&[&new, "--by", by, "--sort", "total"]).stdout;
        assert!(table.contains(&format!("{name}\n")), "{table}");
        let same = profile(&["--diff", &new, &new, "--by", by]).stdout;
        let said = format!("no {by} has a larger or smaller share");
        assert!(same.starts_with(&said), "{same}");
    }
    let said = profile(&["--diff", &old, &new]).stdout;
    let verdict = said.lines().next().expect("a verdict");
    assert!(
        verdict.contains("Object#parse (") && verdict.contains(" has a larger share: "),
        "{said}"
    );
    let same = profile(&["--diff", &new, &new]).stdout;
    assert!(
        same.starts_with("no function has a larger or smaller share"),
        "{same}"
    );

    let bytes = std::fs::read(&new).expect("its file");
    std::fs::write(&new, &bytes[..bytes.len() / 2]).expect("half of it");
    let cut = run(lancet().args(["profile", &new]), LIMIT);
    let expected = format!("lancet: {new}: the profile is cut off or damaged\n");
    assert_eq!((cut.code(), cut.stderr), (1, expected));
}
