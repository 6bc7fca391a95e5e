//! Guests that scribble over everything that lancet puts into them or reads of them, while root's lancet opens them: nothing
//! outside of lancet's own report changes, lancet takes bounded time and memory, and it ends with a code that is documented.
//!
//! `fixtures/c/scribbler.c` says what is scribbled over. Some seconds, and an hour in `make soak`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::machine::built;
use crate::support::{
    Door, Guest, Killed, Output, Random, TempDir, Watch, as_nobody, installed, is_release, is_root,
    lancet, say, skip, soak,
};

/// What `scribbler.c` can do. Those behind [`OF_ANY`] are done by its own program only.
const ATTACKS: [&str; 20] = [
    "control",
    "notices",
    "books",
    "session",
    "rings",
    "areas",
    "patches",
    "gone",
    "heap",
    "descriptors",
    "files",
    "loader",
    "libraries",
    "mappings",
    "stops",
    "tracer",
    "answers",
    "threads",
    "forks",
    "execs",
];
const OF_ANY: u64 = 16;

/// Interpreters, and a script that makes calls and objects until it is killed.
const SCRIPTS: [(&str, &str, &str); 4] = [
    (
        "ruby",
        "-e",
        "$stdout.sync = true; def told(n) = [n.to_s, { n => [n] }]; Thread.new { loop { told(2) } }; puts 'ready'; \
         loop { told(1); Process.clock_gettime(1) }",
    ),
    (
        "python3",
        "-c",
        "import os\ndef told(n): return [str(n), {n: [n]}]\nprint('ready', flush=True)\nwhile True: told(1); os.getppid()",
    ),
    (
        "perl",
        "-e",
        "$| = 1; sub told { return [\"$_[0]\", { $_[0] => [1] }] } print \"ready\\n\"; while (1) { told(1); -e '/none' }",
    ),
    (
        "php",
        "-r",
        "function told($n) { return [\"$n\", [$n => [$n]]]; } echo \"ready\\n\"; while (true) { told(1); file_exists('/none'); }",
    ),
];

/// What is asked of each guest, some of them in turn; the last three of a Ruby only.
const COMMANDS: [&[&str]; 13] = [
    &["calls", "-c", "-x", "*@libc*", "--for", "200ms"],
    &[
        "calls", "-T", "-w", "4", "-x", "write", "-x", "m*", "--for", "100ms",
    ],
    &[
        "calls", "-S", "-f", "-x", "write", "-x", "free", "--for", "200ms",
    ],
    &["calls", "-L", "-S", "-c", "--for", "100ms"],
    &[
        "calls", "-c", "-x", "*@MAIN", "-x", "gc", "--json", "--for", "100ms",
    ],
    &[
        "calls",
        "-x",
        "*@/lib[0-9]/",
        "-x",
        "malloc",
        "--for",
        "50ms",
    ],
    &["stack"],
    &["stack", "--json"],
    &["stack", "--for", "200ms"],
    &["tune"],
    &["mem", "--for", "100ms"],
    &["stack", "--gc", "--measure=200ms"],
    &["mem", "--no-gc", "--stacks", "8", "--for", "200ms"],
];

/// How long lancet may take, the time that it was told to watch included.
const MOST_TIME: Duration = Duration::from_secs(5);

/// How long it waits for a Ruby that has begun a job of its, or says so (`LONGEST_WORK` in `enter::languages::ruby`).
const VM: Duration = Duration::from_secs(30);

/// KiB that lancet may take.
const MOST_MEMORY: u64 = 200 * 1024;

/// Root's files and a process of root's, which nobody may touch.
struct Canary {
    folder: TempDir,
    before: BTreeMap<PathBuf, (Vec<u8>, [i64; 5])>,
    process: Killed,
    touched: Arc<AtomicBool>,
    done: Arc<AtomicBool>,
    looks: Option<JoinHandle<()>>,
}

impl Canary {
    fn new() -> Self {
        let folder = TempDir::new("canary");
        for number in 0..4 {
            let path = folder.join(&format!("secret{number}"));
            fs::write(&path, vec![b'a' + number; 5000]).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
        }
        let process = Killed::start(Command::new("sleep").arg("100000")).expect("sleep");
        let (touched, done) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicBool::new(false)),
        );
        let status = format!("/proc/{}/status", process.pid());
        let (tell, over) = (touched.clone(), done.clone());
        let looks = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let text = fs::read_to_string(&status).unwrap_or_default();
                if !text.contains("TracerPid:\t0\n") {
                    tell.store(true, Ordering::Relaxed);
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        let mut canary = Canary {
            before: BTreeMap::new(),
            folder,
            process,
            touched,
            done,
            looks: Some(looks),
        };
        canary.before = canary.look();
        canary
    }

    fn look(&self) -> BTreeMap<PathBuf, (Vec<u8>, [i64; 5])> {
        let entries = fs::read_dir(self.folder.join("")).expect("the folder");
        let files = entries.map(|entry| {
            let path = entry.expect("a file").path();
            let facts = fs::metadata(&path).expect("its facts");
            let facts = [
                i64::from(facts.mode()),
                i64::from(facts.uid()),
                facts.mtime(),
                facts.mtime_nsec(),
                facts.ctime_nsec(),
            ];
            (path.clone(), (fs::read(&path).expect("its bytes"), facts))
        });
        files.collect()
    }

    fn holds(&mut self, what: &str) {
        assert!(self.look() == self.before, "{what}: root's files changed");
        assert!(
            !self.touched.load(Ordering::Relaxed),
            "{what}: a process of root's was traced"
        );
        assert!(self.process.runs(), "{what}: a process of root's ended");
        let opened = Door::find(self.process.pid()).is_some();
        assert!(!opened, "{what}: a process of root's was opened");
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(looks) = self.looks.take() {
            let _ = looks.join();
        }
    }
}

/// What the kernel says of a process as long as it lives.
#[derive(Default)]
struct Seen {
    /// The most memory that it has used, KiB.
    memory: u64,
    /// How long its main thread has run.
    ran: Duration,
    /// How long it has waited for a processor.
    queued: Duration,
}

fn seen(pid: i32) -> JoinHandle<Seen> {
    thread::spawn(move || {
        let mut seen = Seen::default();
        let (status, times) = (
            format!("/proc/{pid}/status"),
            format!("/proc/{pid}/schedstat"),
        );
        while let (Ok(status), Ok(times)) =
            (fs::read_to_string(&status), fs::read_to_string(&times))
        {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(word) = line.and_then(|line| line.split_whitespace().next()) else {
                // It has ended.
                return seen;
            };
            seen.memory = seen.memory.max(word.parse().expect("a number"));
            let mut times = times.split_whitespace().map(|word| {
                let nanoseconds = word.parse().unwrap_or_default();
                Duration::from_nanos(nanoseconds)
            });
            seen.ran = times.next().unwrap_or_default();
            seen.queued = times.next().unwrap_or_default();
            thread::sleep(Duration::from_millis(2));
        }
        seen
    })
}

/// How one run of lancet ended.
struct Run {
    took: Duration,
    /// How long it may neither run nor want to.
    patience: Duration,
    seen: Seen,
    output: Output,
}

impl Run {
    /// Runs lancet on a guest.
    fn of(pid: i32, arguments: &[&str]) -> Self {
        let mut command = lancet();
        command.args(arguments).args(["-p", &pid.to_string()]);
        let started = Instant::now();
        let watch = Watch::start(command);
        let seen = seen(watch.pid());
        let output = watch.end();
        let asks_the_vm = arguments[0] == "mem" || arguments.contains(&"--gc");
        Run {
            took: started.elapsed(),
            patience: MOST_TIME + if asks_the_vm { VM } else { Duration::ZERO },
            seen: seen.join().expect("it only reads"),
            output,
        }
    }

    /// What of it is wrong.
    fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !matches!(self.output.status.code(), Some(0 | 1 | 3 | 4)) {
            faults.push(format!("it ended with {}", self.output.status));
        }
        // A busy machine is no fault of lancet's.
        let waited = self.took.saturating_sub(self.seen.ran + self.seen.queued);
        if waited > self.patience || is_release() && self.seen.ran > MOST_TIME {
            let (took, ran) = (self.took, self.seen.ran);
            faults.push(format!("it took {took:?}, of which it ran {ran:?}"));
        }
        if self.seen.memory > MOST_MEMORY {
            faults.push(format!("it took {} KiB", self.seen.memory));
        }
        faults
    }
}

/// The guest of one round, the words by which it is told apart, and whether it is a Ruby.
fn scribbler(
    random: &mut Random,
    (program, library): (&Path, &Path),
    (canary, folder): (&Canary, &Path),
) -> (Guest, String, bool) {
    let script = SCRIPTS[random.below(SCRIPTS.len() as u64) as usize];
    let own = random.below(2) == 0 || !installed(script.0);
    let attack = ATTACKS[random.below(if own { ATTACKS.len() as u64 } else { OF_ANY }) as usize];
    let words = [
        attack.to_owned(),
        random.below(1 << 40).to_string(),
        canary.folder.join("secret0").display().to_string(),
        canary.process.pid().to_string(),
        folder.display().to_string(),
    ];
    let command = if own {
        let mut command = Command::new(program);
        command.args(&words);
        command
    } else {
        let mut command = Command::new("env");
        command.arg(format!("LD_PRELOAD={}", library.display()));
        command.arg(format!("SCRIBBLE={}", words.join(" ")));
        command.args([script.0, script.1, script.2]);
        command
    };
    let name = if own { "scribbler" } else { script.0 };
    let guest = Guest::ready(&mut as_nobody(&command));
    (
        guest,
        format!("{name} {attack} {}", words[1]),
        name == "ruby",
    )
}

#[test]
fn guests_that_scribble_over_all_of_it_change_nothing_outside() {
    if !is_root() || !installed("setpriv") {
        return skip("calls: scribbled", "it needs root and setpriv");
    }
    let (Some(program), Some(library)) = (
        built("scribbler.c", &[]),
        built("scribbler.c", &["-shared", "-fPIC", "-DPRELOADED"]),
    ) else {
        return;
    };
    let mut random = Random::new("scribbled");
    let mut canary = Canary::new();
    let lasts = Duration::from_secs(if soak() { 3600 } else { 8 });
    let (began, mut rounds, mut codes) = (Instant::now(), 0, BTreeMap::new());
    let (mut longest, mut largest, mut faults) = (Duration::ZERO, 0, Vec::new());
    while began.elapsed() < lasts {
        let scratch = TempDir::new("scribbled");
        let folder = scratch.join("");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("its mode");
        let (guest, name, is_ruby) =
            scribbler(&mut random, (&program, &library), (&canary, &folder));
        File::create(scratch.join("go")).expect("a file");
        for _ in 0..3 {
            let count = COMMANDS.len() as u64 - if is_ruby { 0 } else { 3 };
            let arguments = COMMANDS[random.below(count) as usize];
            let what = format!("{name}: {}", arguments.join(" "));
            let run = Run::of(guest.pid, arguments);
            for fault in run.faults() {
                let said: String = run.output.stderr.chars().take(2000).collect();
                faults.push(format!("{what}: {fault}: {said}"));
                say(faults.last().expect("pushed"));
            }
            longest = longest.max(run.took);
            largest = largest.max(run.seen.memory);
            *codes.entry(run.output.status.code()).or_insert(0) += 1;
            canary.holds(&what);
        }
        rounds += 1;
    }
    say(format_args!(
        "scribbled: {rounds} guests, exit codes {codes:?}, longest {longest:?}, most memory {largest} KiB"
    ));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
