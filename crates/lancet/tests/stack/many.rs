//! A process with many threads: what a look does while it holds the process does not grow with the threads that sleep, and no look touches
//! their memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

use super::output::{stack, text};
use crate::support::{Guest, LIMIT, TempDir, installed, lancet, run, skip, until};

const PAGE: u64 = 4096;
/// The bit of a word of `/proc/PID/pagemap` for a page that is in memory.
const PRESENT: u64 = 1 << 63;

/// Threads that sleep, and the main thread, which runs, so that each look must stop it.
fn sleepers(count: usize) -> Guest {
    let script = format!(
        "{count}.times {{ |i| Thread.new {{ Thread.current.name = \"idle-#{{i}}\"; sleep }} }}
         sleep 0.001 until Thread.list.count {{ |one| one.status == 'sleep' }} == {count}
         puts 'ready'
         STDOUT.flush
         1 + 1 while true"
    );
    let guest = Guest::start("sleepers", Command::new("ruby").args(["-e", &script]));
    guest.expect("ready");
    // One of them polls for signals of the VM, and some may not have come to their sleep yet.
    until(LIMIT, "the threads sleep", || {
        (sleeping(guest.pid).len() + 1 >= count).then_some(())
    });
    guest
}

/// The stack pointers of the threads that sleep in the kernel, by their ids.
fn sleeping(pid: i32) -> Vec<(String, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it lives");
    let pointer = |task: fs::DirEntry| {
        let call = fs::read_to_string(task.path().join("syscall")).ok()?;
        // futex(2) alone, which nobody ends here.
        let mut words = call.strip_prefix("202 ")?.split_whitespace().rev();
        let pointer = words.nth(1)?.strip_prefix("0x")?;
        let name = task.file_name().into_string().ok()?;
        Some((name, u64::from_str_radix(pointer, 16).ok()?))
    };
    let mut found: Vec<_> = tasks.flatten().filter_map(pointer).collect();
    found.sort();
    found
}

/// How many pages in memory each of these threads has in the megabytes above its stack pointer.
fn pages(pid: i32, threads: &[(String, u64)]) -> Vec<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let pagemap = File::open(format!("/proc/{pid}/pagemap")).expect("it lives");
    let end_of = |pointer: u64| {
        let ranges = maps.lines().filter_map(|line| {
            let (start, end) = line.split_once(' ')?.0.split_once('-')?;
            let address = |text| u64::from_str_radix(text, 16).ok();
            Some(address(start)?..address(end)?)
        });
        let mut ranges = ranges.filter(|range| range.contains(&pointer));
        ranges.next().expect("its stack").end
    };
    let count = |(_, pointer): &(String, u64)| {
        let first = pointer / PAGE;
        let mut words = vec![0; ((end_of(*pointer) / PAGE - first) * 8) as usize];
        pagemap
            .read_exact_at(&mut words, first * 8)
            .expect("it lives");
        let words = words.as_chunks::<8>().0.iter();
        words
            .filter(|word| u64::from_le_bytes(**word) & PRESENT != 0)
            .count()
    };
    threads.iter().map(count).collect()
}

/// The most system calls that lancet has made from a first interrupt to the thread's release.
fn most_in_a_stop(trace: &str) -> usize {
    let (mut stopped, mut most) = (None, 0);
    for line in trace.lines() {
        if line.contains("ptrace(PTRACE_INTERRUPT") {
            stopped.get_or_insert(0);
        } else if line.contains("ptrace(PTRACE_DETACH") {
            most = most.max(stopped.take().unwrap_or(0));
        } else if let Some(calls) = &mut stopped {
            *calls += 1;
        }
    }
    most
}

#[test]
fn threads_that_sleep_do_not_hold_the_others() {
    if !installed("strace") {
        return skip("many", "no strace");
    }
    let count = 300;
    let guest = sleepers(count);
    let folder = TempDir::new("many");
    let trace = folder.join("trace");
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(&trace);
    command.arg(lancet().get_program());
    command.args(["stack", "-p", &guest.pid.to_string()]);
    let output = run(&mut command, LIMIT);
    assert!(output.stdout.contains(" more: asleep "), "{output:?}");
    assert!(output.stdout.contains(" levels) in <main>"), "{output:?}");
    let most = most_in_a_stop(&fs::read_to_string(&trace).expect("a trace"));
    // For a thread that sleeps, one file is read; its stack was copied before.
    assert!(
        most > 0 && most < count * 8,
        "{most} system calls in a stop"
    );
}

#[test]
fn what_a_thread_never_touched_stays_so() {
    /// The pages at the inner end of a stack that are searched for the addresses of code that changes.
    const SEARCHED: usize = 16;
    let guest = sleepers(20);
    let threads = sleeping(guest.pid);
    let before = pages(guest.pid, &threads);
    // The VM's stack of a thread lies on its own, so that there is much that was never touched.
    assert!(before.iter().all(|pages| *pages < 64), "{before:?}");
    let grew_by_at_most = |most: usize| {
        let after = pages(guest.pid, &threads);
        let slept_on = sleeping(guest.pid);
        let all = threads.iter().zip(before.iter().zip(&after));
        let held: Vec<_> = all.filter(|(one, _)| slept_on.contains(one)).collect();
        assert!(held.len() > 10, "{slept_on:?}");
        for (thread, (before, after)) in held {
            assert!(*after <= before + most, "{thread:?}: {before} {after}");
        }
    };
    let pid = guest.pid.to_string();
    let seen = text(&stack(&["-p", &pid]));
    assert!(seen.contains(" levels) in <main>"), "{seen}");
    grew_by_at_most(0);
    // When hooks are taken out, stacks are searched for their frames.
    let mut command = lancet();
    command.args(["calls", "-c", "-x", "rb_str_hash", "--for", "100ms", "-p"]);
    let output = run(command.arg(&pid), LIMIT);
    assert_eq!(output.code(), 0, "{output:?}");
    grew_by_at_most(SEARCHED + 4);
}
