//! What `lancet profile` says of waits: their shares are those that programs know of themselves, and the holder of a lock is named.

use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::support::{Guest, LIMIT, TempDir, chosen, lancet, run, schema};

/// Programs that know for how long they wait: a language, the option for a program in the command line, and a program that, while there is a file,
/// sleeps in `naps`, waits in `locks` for a lock that `hold` has, in `asks` for a peer, and runs in `work`, and then writes the time of each. What
/// has a single thread does not lock.
const PROGRAMS: [(&str, &str, &str); 4] = [
    (
        "ruby",
        "-e",
        "require 'socket'
         def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
         LOCK = Mutex.new
         ASKED, HELD = Queue.new, Queue.new
         def hold = LOCK.synchronize { HELD << 1; sleep 0.03 }
         def naps = sleep(0.03)
         def locks = LOCK.synchronize { }
         def asks(peer) = peer.read(1)
         def work
           since = now
           nil while now - since < 0.02
         end
         peer, other = UNIXSocket.pair
         Thread.new { loop { ASKED.pop; hold } }
         Thread.new { loop { other.read(1); sleep 0.02; other.write('x') } }
         puts 'ready'; STDOUT.flush
         n = l = a = w = 0
         while File.exist?(ENV['GOES_ON'])
           t = now; naps; n += now - t
           ASKED << 1; HELD.pop
           t = now; locks; l += now - t
           peer.write('x')
           t = now; asks(peer); a += now - t
           t = now; work; w += now - t
         end
         puts \"times #{n} #{l} #{a} #{w}\"; STDOUT.flush; STDIN.read",
    ),
    (
        "python",
        "-c",
        "import os, queue, socket, sys, threading, time
now = time.monotonic
lock = threading.Lock()
asked, held = queue.SimpleQueue(), queue.SimpleQueue()
def hold():
    with lock:
        held.put(1)
        time.sleep(0.03)
def naps(): time.sleep(0.03)
def locks():
    with lock: pass
def asks(peer): peer.recv(1)
def work():
    since = now()
    while now() - since < 0.02: pass
def holder():
    while True:
        asked.get()
        hold()
def answers(peer):
    while True:
        peer.recv(1)
        time.sleep(0.02)
        peer.send(b'x')
peer, other = socket.socketpair()
threading.Thread(target=holder, daemon=True).start()
threading.Thread(target=answers, args=(other,), daemon=True).start()
print('ready', flush=True)
n = l = a = w = 0
while os.path.exists(os.environ['GOES_ON']):
    t = now(); naps(); n += now() - t
    asked.put(1); held.get()
    t = now(); locks(); l += now() - t
    peer.send(b'x')
    t = now(); asks(peer); a += now() - t
    t = now(); work(); w += now() - t
print('times', n, l, a, w, flush=True)
sys.stdin.read()",
    ),
    (
        "perl",
        "-e",
        "use Socket; use Time::HiRes qw(sleep clock_gettime CLOCK_MONOTONIC); $| = 1;
         sub now { return clock_gettime(CLOCK_MONOTONIC) }
         sub naps { sleep(0.03); return }
         sub asks { sysread($_[0], my $byte, 1); return }
         sub work { my $since = now(); 1 while now() - $since < 0.02; return }
         socketpair(my $peer, my $other, AF_UNIX, SOCK_STREAM, PF_UNSPEC);
         if (!fork) { close $peer; while (sysread($other, my $byte, 1)) { sleep(0.02); syswrite($other, 'x') } exit }
         close $other;
         print \"ready\\n\";
         my ($n, $a, $w) = (0, 0, 0);
         while (-e $ENV{GOES_ON}) {
           my $t = now(); naps(); $n += now() - $t;
           syswrite($peer, 'x');
           $t = now(); asks($peer); $a += now() - $t;
           $t = now(); work(); $w += now() - $t;
         }
         print \"times $n 0 $a $w\\n\"; <STDIN>",
    ),
    (
        "php",
        "-r",
        "function now() { return hrtime(true) / 1e9; }
         function naps() { usleep(30000); }
         function asks($peer) { fread($peer, 1); }
         function work() { $since = now(); while (now() - $since < 0.02) { } }
         [$peer, $other] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
         if (!pcntl_fork()) { fclose($peer); while (fread($other, 1) !== '') { usleep(20000); fwrite($other, 'x'); } exit; }
         fclose($other);
         echo \"ready\\n\";
         $n = $a = $w = 0;
         while (file_exists(getenv('GOES_ON'))) {
           clearstatcache();
           $t = now(); naps(); $n += now() - $t;
           fwrite($peer, 'x');
           $t = now(); asks($peer); $a += now() - $t;
           $t = now(); work(); $w += now() - $t;
         }
         echo \"times $n 0 $a $w\\n\"; fgets(STDIN);",
    ),
];

/// The functions whose times a program tells, in its order.
const FUNCTIONS: [&str; 4] = ["naps", "locks", "asks", "work"];

/// Enough for a share of three tenths to be known to within four points.
const ENOUGH: f64 = 1500.0;

/// What several runs have seen of a program, together.
#[derive(Default)]
struct Seen {
    /// Samples of each of [`FUNCTIONS`].
    samples: [f64; 4],
    /// Samples of threads that waited for a lock, and of these the ones whose holder was in `hold`.
    locked: f64,
    held: f64,
}

impl Seen {
    /// Looks for two seconds more.
    fn look(&mut self, pid: i32) {
        let pid = pid.to_string();
        let args = [
            "profile", "-p", &pid, "--for", "2s", "--every", "4ms", "--json",
        ];
        let output = run(lancet().args(args), LIMIT);
        // On a machine that is busy some looks do not take place, which is said.
        assert!(matches!(output.code(), 0 | 4), "{output:?}");
        for record in schema::records(&["profile"], &output.stdout) {
            let number = |name: &str| record[name].as_f64().expect("a number");
            let name = record["place"]["function"].as_str().unwrap_or_default();
            let which = FUNCTIONS.iter().position(|one| name.ends_with(one));
            match (record["record"].as_str(), which) {
                (Some("wait"), Some(which)) => self.samples[which] += number("samples"),
                (Some("function"), Some(3)) => self.samples[3] += number("total"),
                // By its own clock a thread that waits for a processor works.
                (Some("profile"), _) => self.samples[3] += number("queued"),
                (Some("lock"), _) => {
                    self.locked += number("samples");
                    self.held += held(&record);
                }
                _ => {}
            }
        }
    }

    fn all(&self) -> f64 {
        self.samples.iter().sum()
    }
}

/// The samples in which the holder of a lock was in `hold`.
fn held(lock: &Value) -> f64 {
    let holders = lock["holders"].as_array().expect("a list").iter();
    let is_it = |one: &&Value| {
        one["place"]["function"]
            .as_str()
            .is_some_and(|name| name.ends_with("hold"))
    };
    holders
        .filter(is_it)
        .filter_map(|one| one["samples"].as_f64())
        .sum()
}

#[test]
fn shares_are_those_that_the_program_knows() {
    let folder = TempDir::new("profile-waits");
    let goes_on = folder.join("goes-on");
    for (language, option, program) in PROGRAMS {
        for interpreter in chosen(language, "waits of a profile") {
            std::fs::write(&goes_on, "").expect("a file");
            let mut command: Command = interpreter.command();
            command.env("GOES_ON", &goes_on);
            let guest = Guest::ready(command.args([option, program]));
            let mut seen = Seen::default();
            let started = Instant::now();
            while seen.all() < ENOUGH {
                assert!(
                    started.elapsed() < LIMIT,
                    "{interpreter}: {:?}",
                    seen.samples
                );
                seen.look(guest.pid);
            }
            std::fs::remove_file(&goes_on).expect("ours");
            let times = guest.find_within("times ");
            let times: Vec<f64> = times
                .split_whitespace()
                .map(|part| part.parse().expect("seconds"))
                .collect();
            let (all, told): (f64, f64) = (times.iter().sum(), seen.all());
            for ((name, time), samples) in FUNCTIONS.iter().zip(&times).zip(seen.samples) {
                let (known, told) = (100.0 * time / all, 100.0 * samples / told);
                assert!(
                    (told - known).abs() < 5.0,
                    "{interpreter}, {name}: {told:.1} % of {} samples, and {known:.1} % of the time",
                    seen.all()
                );
            }
            let has_lock = times[1] != 0.0;
            assert!(
                !has_lock || seen.held > 0.8 * seen.locked && seen.held > 0.0,
                "{interpreter}: {} of {}",
                seen.held,
                seen.locked
            );
        }
    }
}
