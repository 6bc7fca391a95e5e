//! `lancet profile`: collections of garbage are frames of their own, with the share that programs know of themselves.

use std::process::Command;
use std::time::Instant;

use crate::support::{Guest, LIMIT, TempDir, chosen, lancet, run, schema};

/// Programs that measure themselves how much processor time they take for collections, which are made in `collects` alone, and for `work`: a
/// language, the option for a program in the command line, and the program, which goes on while there is a file and then writes both.
const PROGRAMS: [(&str, &str, &str); 3] = [
    (
        "ruby",
        "-e",
        "def work
           s = i = 0
           while i < 200_000; s += i * i % 7; i += 1; end
         end
         def collects = GC.start
         def now = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
         GC.disable
         kept = Array.new(60_000) { |n| [n] }
         puts 'ready'; STDOUT.flush
         g = w = 0
         while File.exist?(ENV['GOES_ON'])
           a = now; collects; b = now; work; g += b - a; w += now - b
         end
         puts \"shares #{g} #{w}\"; STDOUT.flush; STDIN.read; kept",
    ),
    (
        "python",
        "-c",
        "import gc, os, sys, time
def work():
    s = i = 0
    while i < 100_000:
        s += i * i % 7
        i += 1
def collects(): gc.collect()
gc.disable()
kept = [[n] for n in range(150_000)]
now = time.process_time
print('ready', flush=True)
g = w = 0
while os.path.exists(os.environ['GOES_ON']):
    a = now(); collects(); b = now(); work(); g += b - a; w += now() - b
print('shares', g, w, flush=True)
sys.stdin.read()",
    ),
    (
        "php",
        "-r",
        "class Node { public $self; }
         function work() { $s = 0; for ($i = 0; $i < 300000; $i++) { $s += $i * $i % 7; } }
         function makes() { for ($i = 0; $i < 30000; $i++) { $n = new Node; $n->self = $n; } }
         function collects() { gc_collect_cycles(); }
         function now() { $u = getrusage(); return $u['ru_utime.tv_sec'] + $u['ru_utime.tv_usec'] / 1e6 + $u['ru_stime.tv_sec'] + $u['ru_stime.tv_usec'] / 1e6; }
         gc_disable();
         echo \"ready\\n\";
         $g = $w = 0;
         while (file_exists(getenv('GOES_ON'))) {
           clearstatcache();
           makes();
           $a = now(); collects(); $b = now(); work(); $g += $b - $a; $w += now() - $b;
         }
         echo \"shares $g $w\\n\"; fgets(STDIN);",
    ),
];

/// Enough for a share of a half to be known to within four points.
const ENOUGH: f64 = 600.0;

/// The samples of a collection and of `work` in two seconds.
fn looked_at(pid: i32) -> [f64; 2] {
    let pid = pid.to_string();
    let args = [
        "profile", "-p", &pid, "--for", "2s", "--every", "4ms", "--json",
    ];
    let output = run(lancet().args(args), LIMIT);
    // On a machine that is busy some looks do not take place, which is said.
    assert!(matches!(output.code(), 0 | 4), "{output:?}");
    let mut samples = [0.0; 2];
    for record in schema::records(&["profile"], &output.stdout) {
        let name = record["place"]["function"].as_str().unwrap_or_default();
        let is_work = name == "work" || name.ends_with("#work");
        if record["record"] == "function" && (is_work || name == "(garbage collection)") {
            let total = record["total"].as_f64().expect("a number");
            samples[usize::from(is_work)] += total;
        }
    }
    samples
}

#[test]
fn collections_have_the_share_that_the_program_knows() {
    let folder = TempDir::new("profile-collects");
    let goes_on = folder.join("goes-on");
    for (language, option, program) in PROGRAMS {
        for interpreter in chosen(language, "collections of a profile") {
            std::fs::write(&goes_on, "").expect("a file");
            let mut command: Command = interpreter.command();
            command.env("GOES_ON", &goes_on);
            let guest = Guest::ready(command.args([option, program]));
            let (mut samples, started) = ([0.0; 2], Instant::now());
            while samples.iter().sum::<f64>() < ENOUGH {
                assert!(started.elapsed() < LIMIT, "{interpreter}: {samples:?}");
                let more = looked_at(guest.pid);
                samples = [samples[0] + more[0], samples[1] + more[1]];
            }
            std::fs::remove_file(&goes_on).expect("ours");
            let times = guest.find_within("shares ");
            let times: Vec<f64> = times
                .split_whitespace()
                .map(|part| part.parse().expect("seconds"))
                .collect();
            let share = |both: &[f64]| 100.0 * both[0] / both.iter().sum::<f64>();
            let (told, known) = (share(&samples), share(&times));
            assert!(
                (told - known).abs() < 6.0 && (10.0..90.0).contains(&known),
                "{interpreter}: {told:.1} % of {samples:?} samples, and {known:.1} % of the time"
            );
        }
    }
}
