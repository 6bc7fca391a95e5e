//! The snapshot of a running process: made, its cost said, written to a file. Used by `run` and `args`.

use std::io::{BufWriter, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use dump::{Expected, Opened, Options, Taken};
use heap::{Memory, MemoryRow, Snapshot};
use inject::Image;
use process::priority::{beside, lower_this_thread};
use process::programs;
use report::figures::{grouped, size};
use rss::{Budget, Kind, Ledger};

use super::when::When;
use crate::agent::AGENT;
use crate::ui::advice::explain;
use crate::ui::file::WholeFile;
use crate::ui::interrupt;
use crate::ui::terminal::Stream;

/// The time between two looks at a process whose births are counted.
const LOOK: Duration = Duration::from_millis(20);

/// What is wanted of a process.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Its process id, in lancet's own PID namespace.
    pub pid: i32,
    /// What the snapshot is to hold, and how it is made.
    pub options: Options,
    /// How long births are counted before the snapshot is made; `None` = not at all.
    pub births: Option<Duration>,
    /// What resident memory is used for is kept in the snapshot.
    pub memory: bool,
}

/// Makes a snapshot of a process; of one that begins another program meanwhile, of that one.
pub fn take(wanted: &Wanted) -> anyhow::Result<Snapshot> {
    match wanted.births {
        None => programs::at_present(wanted.pid, || take_once(wanted)),
        // What was noted is of the program that is gone.
        Some(_) => take_once(wanted),
    }
}

fn take_once(wanted: &Wanted) -> anyhow::Result<Snapshot> {
    let Wanted { pid, births, .. } = *wanted;
    let image = Image::parse(AGENT)?;
    let mut opened = Opened::open(pid, &image, wanted.options).map_err(explain)?;
    if let Some(length) = births {
        interrupt::catch();
        tell!(
            "opened process {pid}; the lines of what it makes are noted for {length:?}, or until Ctrl-C"
        );
        let end = Instant::now() + length;
        while Instant::now() < end && !interrupt::asked() {
            opened.look().map_err(explain)?;
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        // It has ended this, and not what is done with the snapshot.
        interrupt::forget_obeyed();
    }
    let (taken, ledger) = match wanted.memory {
        true => beside_ledger(pid, opened),
        false => (opened.take(), None),
    };
    let mut taken = taken.map_err(explain)?;
    say_cost(pid, &taken);
    match ledger {
        Some(Ok(ledger)) => taken.snapshot.set_memory(memory(&ledger)),
        // It may have ended since.
        Some(Err(error)) => {
            tell!("what its resident memory is used for is not in the snapshot: {error}");
        }
        None => {}
    }
    Ok(taken.snapshot)
}

/// Opens a process and leaves it again, before it is waited for: what forbids a snapshot of it (no VM, a version, rights, a filter, its memory limit) is said
/// now and not hours later.
pub fn check(pid: i32, options: Options, when: When) -> anyhow::Result<()> {
    drop(Opened::open(pid, &Image::parse(AGENT)?, options).map_err(explain)?);
    if let When::Above(bytes) = when {
        let room = dump::find_room(pid, bytes, options.despite_limit).map_err(explain);
        room.with_context(|| format!("when process {pid} {when}"))?;
    }
    Ok(())
}

/// Takes the snapshot, and meanwhile another thread looks what resident memory is used for. The copy is made when that thread has been told by the
/// kernel how much there is, because the copy has the same pages.
fn beside_ledger(pid: i32, opened: Opened) -> (Taking, Option<Looking>) {
    thread::scope(|scope| {
        let (counted, wait) = channel();
        let looking = scope.spawn(move || {
            lower_this_thread();
            // Nobody waits any more where the snapshot has failed.
            rss::look_and_tell(pid, Budget::default(), || _ = counted.send(()))
        });
        // An error: there is no ledger, and nothing to wait for.
        let _ = wait.recv();
        let taken = opened.take();
        let looked = looking.join();
        let looked = looked.unwrap_or_else(|panic| resume_unwind(panic));
        (taken, Some(looked))
    })
}

type Taking = process::error::Result<Taken>;
type Looking = process::error::Result<Ledger>;

/// What resident memory is used for, as a snapshot keeps it.
fn memory(ledger: &Ledger) -> Memory {
    let rows = report::rss::summed(ledger).into_iter();
    Memory {
        findings: ledger.findings.iter().map(report::rss::sentence).collect(),
        rows: rows
            .map(|(bytes, text)| MemoryRow {
                text,
                rss: bytes.rss,
                pss: bytes.pss,
                swap: bytes.swap,
            })
            .collect(),
        malloc: ledger.malloc.is_some().then(|| malloc_in_use(ledger)),
    }
}

/// What of it the process has from glibc's malloc.
fn malloc_in_use(ledger: &Ledger) -> u64 {
    let rows = ledger.rows.iter();
    let used = rows.filter(|row| matches!(row.kind, Kind::MallocUsed | Kind::MallocMapped));
    used.map(|row| row.bytes.rss).sum()
}

/// From so many objects on, or where there may be so many references, it is said before what they take.
const MANY: u64 = 1_000_000;
const MANY_REFERENCES: u64 = 1 << 27;

/// Says what a large heap will take, before the copy of its process is read.
pub fn say_expected(pid: i32, expected: Expected) {
    if expected.objects >= MANY || expected.references >= MANY_REFERENCES {
        tell!("process {pid} has {}", expected_line(expected));
    }
}

/// Whether reading a process takes no more memory than the user allows, as far as that is known before it is stopped; otherwise that is said.
pub fn may_begin(pid: i32, most: u64) -> anyhow::Result<bool> {
    let expected = dump::expected(pid).map_err(explain)?;
    let [usual, _] = expected.memory;
    if usual > most {
        tell!("{}", too_much(pid, expected, most));
    }
    Ok(usual <= most)
}

fn too_much(pid: i32, expected: Expected, most: u64) -> String {
    format!(
        "process {pid} has {}: if each has two references they take about {} of lancet's memory, and --max-memory allows {}; it was not stopped. Allow more, or read its core file (gcore) where there is more memory",
        objects_of(expected),
        size(expected.memory[0]),
        size(most)
    )
}

/// `8,000,000 slots for objects in its heap`.
fn objects_of(expected: Expected) -> String {
    let objects = grouped(expected.objects);
    match expected.counted {
        true => format!("{objects} slots for objects in its heap"),
        false => format!("about {objects} objects by the memory it has"),
    }
}

fn expected_line(expected: Expected) -> String {
    let Expected {
        objects,
        references,
        kept,
        memory: [usual, most],
        time,
        ..
    } = expected;
    let objects_of = objects_of(expected);
    let left_out = match kept[0] < objects || kept[1] < references {
        true => format!(
            "; there is memory for {} objects with two references each, or for {} references, and others may be left out: run lancet where more memory is free",
            grouped(kept[0]),
            grouped(kept[1])
        ),
        false => String::new(),
    };
    let [usual, most] = [usual, most].map(|bytes| bytes.div_ceil(1 << 20));
    let [least_time, most_time] = time.map(|time| time.as_secs_f64().max(1.0));
    format!(
        "{objects_of}: if each has two references, lancet will take about {usual} MiB of memory and some {least_time:.0} to {most_time:.0} s to read them and to find who keeps them; if its memory is full of references, about {most} MiB{left_out}"
    )
}

/// Says on a terminal, once, why it takes so long.
pub fn say_starved(pid: i32) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if Stream::Stderr.is_terminal() {
        ONCE.call_once(|| {
            tell!("the copy of process {pid} gets no processor, because this machine is busy: it is waited for");
        });
    }
}

fn say_cost(pid: i32, taken: &Taken) {
    tell!(
        "process {pid} stood still for {:.1} ms to be copied; its copy lived for {:.2} s; {} objects, {} references, {} left out as garbage",
        milliseconds(taken.pause),
        taken.lived.as_secs_f64(),
        taken.snapshot.len(),
        taken.snapshot.edge_count(),
        taken.garbage,
    );
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Writes a snapshot to a file that only the user can read, which has its name when it is whole.
pub fn save(snapshot: &Snapshot, to: WholeFile, path: &Path) -> anyhow::Result<()> {
    let mut out = BufWriter::new(&to.file);
    let written = beside(|| snapshot.write(&mut out).and_then(|()| out.flush()));
    drop(out);
    let done = written.and_then(|()| to.finish());
    done.with_context(|| format!("cannot write to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_heap_takes_is_an_estimate_and_what_is_left_out_a_possibility() {
        let budget = heap::Budget {
            edges: 1 << 29,
            ..heap::Budget::default()
        };
        let line = |slots, resident| expected_line(Expected::of(slots, resident, budget));
        assert_eq!(
            line(Some(8_000_000), 1 << 29),
            "8,000,000 slots for objects in its heap: if each has two references, lancet will take about 458 MiB of memory and some 4 to 8 s to \
             read them and to find who keeps them; if its memory is full of references, about 1238 MiB"
        );
        let refused = too_much(7, Expected::of(Some(8_000_000), 1 << 29, budget), 100 << 20);
        assert_eq!(
            refused,
            "process 7 has 8,000,000 slots for objects in its heap: if each has two references they take about 457.8 MiB of lancet's memory, and \
             --max-memory allows 100.0 MiB; it was not stopped. Allow more, or read its core file (gcore) where there is more memory"
        );
        let large = line(None, 8 << 30);
        assert!(large.starts_with("about 153,391,689 objects by the memory it has: "));
        let end = "; there is memory for 4,294,967,279 objects with two references each, or for 536,870,912 references, and others may be left out: run lancet where more memory is free";
        assert!(large.ends_with(end), "{large}");
    }
}
