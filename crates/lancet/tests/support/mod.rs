//! What the tests share.

mod agent;
mod database;
pub mod fastcgi;
mod group;
mod guest;
mod interpreters;
mod load;
mod machine;
mod others;
mod patience;
mod program;
mod redmine;
mod rows;
pub mod schema;
mod screen;
mod shown;
mod snapshot;
mod standing;
mod tool;
mod turn;

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

pub use agent::{Door, Spoilt, unreserved};
pub use database::{Database, database};
pub use group::Group;
pub use guest::Guest;
pub use interpreters::{
    Interpreter, all, bears_no_ractors, chosen, rubies, rubies_without_ractors,
};
pub use load::{Load, ask, get};
pub use machine::Ticks;
pub use others::{
    Killed, as_nobody, assembled_for_32_bits, built_for_32_bits, copy_for_all, program_of_32_bits,
};
pub use patience::Patience;
pub use program::{Output, await_handler, children, refused, refused_to_itself, run, wait};
pub use redmine::Redmine;
pub use rows::{Report, born, live, losses};
pub use screen::Screen;
pub use shown::assert_shown;
pub use snapshot::Snapshot;
use standing::standing;
pub use tool::{Opened, Watch, can_fail, failing, is_release, lancet, mem, tool, without_table};
pub use turn::{alone, join};

/// No wait of these tests is longer, unless it says so; on a busy machine it is ([`Patience`]).
pub const LIMIT: Duration = Duration::from_secs(60);

/// Says something even if the test succeeds: libtest captures only what goes through its macros.
pub fn say(text: impl std::fmt::Display) {
    print(format_args!("test: {text}"));
}

fn print(line: std::fmt::Arguments) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Says that a test, or the rest of it, is skipped, and why.
pub fn skip(test: &str, why: impl std::fmt::Display) {
    say(format_args!("SKIPPED {test}: {why}"));
}

/// Whether the long forms are asked for.
pub fn soak() -> bool {
    is_set("LANCET_SOAK")
}

/// How often a test repeats what it tries at random instants: `long` in the long forms, otherwise `short`. Where several versions of a
/// language run it, `LANCET_PART=N` says that each makes one part of N: the instants are others each time, and the time that it takes does
/// not grow with the number of versions.
pub fn rounds<N: TryFrom<u32>>(short: u32, long: u32) -> N {
    let parts = std::env::var("LANCET_PART").map_or(1, |parts| {
        let parts = parts.parse::<u32>().ok().filter(|parts| *parts > 0);
        parts.expect("LANCET_PART is a number of parts")
    });
    let rounds = if soak() { long } else { short.div_ceil(parts) };
    N::try_from(rounds)
        .ok()
        .expect("rounds fit into any number")
}

/// Whether an environment variable is there and not `0`.
fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value != "0")
}

/// A program that `.ci/rival` has installed, if it is here; says so if it is not.
pub fn rival(test: &str, name: &str) -> Option<PathBuf> {
    let rivals = std::env::var_os("LANCET_RIVALS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/lancet/rivals"),
        PathBuf::from,
    );
    let program = rivals.join("bin").join(name);
    if !program.exists() {
        let place = rivals.display();
        skip(
            test,
            format_args!("there is no {name} in {place}: .ci/rival {name}"),
        );
    }
    program.exists().then_some(program)
}

/// `fixtures/`.
pub fn fixtures() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("crates/lancet has a workspace")
        .join("fixtures")
}

/// Looks until `found` says something, for at most `limit`. For conditions that nobody announces.
pub fn until<T>(limit: Duration, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let mut patience = Patience::of(limit);
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(!patience.is_over(), "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Watches for `first`, and for twice as long each time after that, until `watch` has seen enough. On a busy machine looks come late and samples are
/// few: how many there must be is a condition, how long it takes until there are so many is none.
pub fn until_seen<T>(first: Duration, what: &str, mut watch: impl FnMut(&str) -> Option<T>) -> T {
    for times in [1, 2, 4, 8] {
        let length = format!("{}ms", (first * times).as_millis());
        if let Some(seen) = watch(&length) {
            return seen;
        }
        say(format_args!("{length} were too short to see {what}"));
    }
    panic!("{what} was not seen, however long it was watched");
}

/// Waits until another tracer that was started, as strace, traces a process.
pub fn until_traced(pid: i32) {
    until(LIMIT, "another tracer traces it", || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        (!status.contains("TracerPid:\t0\n")).then_some(())
    });
}

/// Whether a program is in the PATH.
pub fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether we are root.
pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A folder that goes away with the test, which no other test has: tests run beside one another in one process.
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one that everybody may read.
    pub fn new(name: &str) -> Self {
        join();
        use std::os::unix::fs::PermissionsExt;
        use std::sync::atomic::{AtomicU64, Ordering};
        static MADE: AtomicU64 = AtomicU64::new(0);
        let path = loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("lancet-test-{name}-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => break path,
                // A process that had our id was ended before it could remove its own.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("a folder for the test: {error}"),
            }
        };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))
            .expect("its permissions");
        TempDir(path)
    }

    /// A name in it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Numbers that look random and come again with the same seed (SplitMix64).
pub struct Random(u64);

impl Random {
    /// From `LANCET_SEED`, or another one each time. Printed, so that a failure can be run again.
    pub fn new(test: &str) -> Self {
        let seed = std::env::var("LANCET_SEED")
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or_else(|| {
                let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
                now.as_nanos() as u64
            });
        say(format_args!("{test}: LANCET_SEED={seed}"));
        Random(seed)
    }

    /// The next number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}
