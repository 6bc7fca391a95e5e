//! Many functions are hooked and let go in several short stops, between which the process runs, and a kill between two of them leaves
//! nothing that hurts.

use std::process::Command;

use crate::everything::{MANY, many};
use crate::machine::built;
use crate::support::{Guest, LIMIT, Snapshot, TempDir, Watch, installed, run, say, skip, soak};
use crate::watch::{HOOKED, calls, left_with_losses, text_holds};

/// How often it stood still until its functions were hooked, for how long at most and in all, in milliseconds.
struct Stood {
    times: u32,
    most: f64,
    all: f64,
}

impl Stood {
    fn read(line: &str) -> Self {
        let figure = |before: &str, after: &str| -> f64 {
            let from = line.split_once(before).map(|(_, rest)| rest);
            let figure = from.and_then(|rest| rest.split_once(after));
            let figure = figure.and_then(|(figure, _)| figure.parse().ok());
            figure.unwrap_or_else(|| panic!("no {before:?} in {line:?}"))
        };
        Stood {
            times: figure("it stood still ", " times") as u32,
            most: figure("times, for ", " ms at most"),
            all: figure("at most and ", " ms in all"),
        }
    }
}

fn start() -> (Guest, String) {
    let mut guest = Guest::start("many", Command::new(many()));
    guest.expect("ready");
    guest.tell("1");
    let truth = guest.find("answer ");
    (guest, truth)
}

#[test]
fn many_functions_are_hooked_in_several_stops_and_that_is_said_before() {
    let (mut guest, truth) = start();
    let before = Snapshot::take(guest.pid);
    let stood = ["10ms", "1m"].map(|most| {
        let what = ["-c", "-x", "f*@MAIN", "--max-stop", most, "-o", "/dev/null"];
        let mut watch = Watch::start(calls(guest.pid, &what));
        if most == "10ms" {
            let cost = watch.until(&format!("lancet: {MANY} functions of process "));
            assert!(cost.contains(" stops of 5.0 ms each, "), "{cost}");
        }
        let stood = Stood::read(&watch.until(HOOKED));
        guest.tell("1");
        assert_eq!(guest.find("answer "), truth);
        let output = left_with_losses(watch, most);
        text_holds(&before, guest.pid, most, &output);
        stood
    });
    for Stood { times, most, all } in &stood {
        say(format_args!(
            "{times} stops, {most} ms at most, {all} ms in all"
        ));
    }
    let [short, long] = stood;
    assert!(short.times > 20, "{} stops", short.times);
    assert!(short.times > long.times, "{} {}", short.times, long.times);
    assert!(short.most * 3.0 < short.all, "{} {}", short.most, short.all);
}

/// The code of the program, as it is in its memory.
struct Text {
    pid: i32,
    at: u64,
    bytes: Vec<u8>,
}

impl Text {
    fn take(pid: i32) -> Self {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).expect("it lives");
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
        let program = program.to_string_lossy();
        let line = maps
            .lines()
            .find(|line| line.contains(" r-xp ") && line.ends_with(&*program));
        let range = line.and_then(|line| line.split(' ').next()).expect("code");
        let (from, to) = range.split_once('-').expect("a range");
        let number = |hex| u64::from_str_radix(hex, 16).expect("an address");
        let (at, end) = (number(from), number(to));
        let mut text = Text {
            pid,
            at,
            bytes: vec![0; (end - at) as usize],
        };
        text.bytes = text.now();
        text
    }

    fn now(&self) -> Vec<u8> {
        use std::os::unix::fs::FileExt;
        let memory = std::fs::File::open(format!("/proc/{}/mem", self.pid)).expect("it lives");
        let mut bytes = vec![0; self.bytes.len()];
        memory
            .read_exact_at(&mut bytes, self.at)
            .expect("its code can be read");
        bytes
    }

    /// How many stretches of 16 bytes are not what they were: about one for each function.
    fn changed(&self) -> u64 {
        let now = self.now();
        let pieces = now.chunks(16).zip(self.bytes.chunks(16));
        pieces.filter(|(now, before)| now != before).count() as u64
    }
}

#[test]
fn a_kill_between_two_stops_leaves_a_guest_that_computes_and_can_be_opened() {
    let (mut guest, truth) = start();
    let (before, text) = (Snapshot::take(guest.pid), Text::take(guest.pid));
    let (mut between, kills) = (0, if soak() { 50 } else { 4 });
    for _ in 0..kills {
        let what = ["-c", "-x", "f*@MAIN", "-o", "/dev/null"];
        let mut watch = Watch::start(calls(guest.pid, &what));
        watch.until("lancet: ");
        crate::support::until(LIMIT, "the first hooks", || {
            (text.changed() != 0).then_some(())
        });
        watch.kill();
        let changed = text.changed();
        between += u32::from(changed < MANY - MANY / 10);
        guest.tell("1");
        assert_eq!(guest.find("answer "), truth, "{changed} changed");
        let few = ["-c", "-x", "f7@MAIN", "--for", "10ms", "-o", "/dev/null"];
        let output = run(&mut calls(guest.pid, &few), LIMIT);
        assert_eq!(output.code(), 0, "{}", output.stderr);
        text_holds(&before, guest.pid, "killed between two stops", &output);
        assert_eq!(text.changed(), 0);
    }
    say(format_args!(
        "{between} of {kills} kills came between two stops"
    ));
    assert!(between > 0, "every attach was done before it was killed");
}

/// What happened in a stop of all threads, as `strace` tells it of lancet.
#[derive(Debug, Default)]
struct InStop {
    /// Threads that were let go at its end.
    threads: usize,
    /// Threads that were seized after the first one was interrupted.
    seized: usize,
    /// How often the mappings were read.
    maps: usize,
    /// How often registers of a thread were read.
    registers: usize,
    /// Files and links of `/proc` that were opened.
    files: usize,
    /// How often memory or a file was read.
    reads: usize,
    /// Whether lancet came before others that want a processor when it began.
    first: bool,
}

/// Whether a thread of ours may be in real time, as lancet is while all threads of a process stand still for it.
fn may_come_first() -> bool {
    std::thread::spawn(|| {
        let lowest = libc::sched_param { sched_priority: 1 };
        // SAFETY: the call takes integers and the address of `lowest`, a live value of this frame. The thread ends with it.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) == 0 }
    })
    .join()
    .expect("no panic")
}

/// The stops in the output of `strace -f -e` [`TRACED`]: from an interrupt to the last detach before the next one.
fn stops(text: &str) -> Vec<InStop> {
    let mut stops: Vec<InStop> = Vec::new();
    // What has come since the last detach.
    let mut new = InStop::default();
    let mut first = false;
    for line in text.lines() {
        if line.contains("sched_setscheduler(") {
            // Not every strace knows the flag beside the policy; a priority is one of real time.
            first = line.contains("[1])");
        } else if line.contains("PTRACE_INTERRUPT, ") {
            if stops.last().is_none_or(|stop| stop.threads != 0) {
                new = InStop::default();
                stops.push(InStop {
                    first,
                    ..InStop::default()
                });
            }
        } else if line.contains("PTRACE_SEIZE, ") {
            new.seized += 1;
        } else if line.contains("PTRACE_GETREGSET, ") {
            new.registers += 1;
        } else if line.contains("\"/proc/") {
            new.files += 1;
            new.maps += usize::from(line.contains("/maps\""));
        } else if line.contains("process_vm_readv(") || line.contains("pread64(") {
            new.reads += 1;
        } else if line.contains("PTRACE_DETACH, ")
            && let Some(stop) = stops.last_mut()
        {
            // What came before it was within the stop.
            let within = std::mem::take(&mut new);
            stop.threads += 1;
            stop.seized += within.seized;
            stop.maps += within.maps;
            stop.registers += within.registers;
            stop.files += within.files;
            stop.reads += within.reads;
        }
    }
    stops
}

const TRACED: &str = "trace=ptrace,openat,readlink,sched_setscheduler,process_vm_readv,pread64";

/// Threads of the program that is stopped.
const THREADS: usize = 300;

/// Has functions of a program hooked whose threads sleep as `how` says, under strace, and returns the stops of all of them.
fn stops_of_all(how: &[&str]) -> Option<Vec<InStop>> {
    if !installed("strace") {
        skip("calls batches", "strace is not installed");
        return None;
    }
    let mut command = Command::new(built("crowd.c", &["-pthread"])?);
    command.arg(THREADS.to_string()).args(how);
    let mut guest = Guest::start("crowd", command);
    guest.expect("ready");
    let folder = TempDir::new("stops");
    let told = folder.join("strace");
    let watched = calls(guest.pid, &["-c", "-x", "work", "-o", "/dev/null"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-e", TRACED, "-o"]);
    command.arg(&told).arg(watched.get_program());
    command.args(watched.get_args()).args(["--for", "1s"]);
    let output = run(&mut command, LIMIT);
    assert_eq!(output.code(), 0, "{}", output.stderr);
    guest.tell("5");
    assert_eq!(guest.find("answer "), "16");
    let mut stops = stops(&std::fs::read_to_string(&told).expect("strace has written"));
    stops.retain(|stop| stop.threads > THREADS);
    // A stop that took long leaves the rest of its work to one more.
    assert!((3..=6).contains(&stops.len()), "{stops:?}");
    Some(stops)
}

/// The work for each thread and each mapping is done before they stand still: threads are seized, and mappings read, before the first
/// interrupt. Within the stop the registers of a thread are read once, its stack together with others, and no file of it; and lancet is
/// not made to wait for a processor.
#[test]
fn nothing_that_grows_with_threads_and_mappings_waits_for_the_stop() {
    let Some(of_all) = stops_of_all(&[]) else {
        return;
    };
    for (number, stop) in of_all.iter().enumerate() {
        let is_last = number + 1 == of_all.len();
        // The last one reads the mappings once, to be sure of the memory that it gives back.
        assert_eq!(
            (stop.seized, stop.maps),
            (0, usize::from(is_last)),
            "{of_all:?}"
        );
        // Those of the thread that works for us are read for each of its calls.
        assert!(stop.registers < THREADS * 3 / 2, "{of_all:?}");
        assert!(stop.files < THREADS / 3, "{of_all:?}");
        assert!(stop.first || !may_come_first(), "{of_all:?}");
        // The last one looks for open calls on each stack: which of its pages were touched, and what is in them.
        let reads = if is_last {
            THREADS * 5 / 2
        } else {
            THREADS / 2
        };
        assert!(stop.reads < reads, "{of_all:?}");
    }
}

/// That a thread slept until it was stopped, so that its timeout is shortened by what has passed of it, is told by a file that is open
/// before the stop.
#[test]
fn no_file_is_opened_within_a_stop_for_threads_that_wait_with_a_timeout() {
    let Some(of_all) = stops_of_all(&["epoll"]) else {
        return;
    };
    for stop in &of_all {
        assert!(stop.files < THREADS / 3, "{of_all:?}");
        assert!(stop.registers < THREADS * 3 / 2, "{of_all:?}");
    }
}
