//! Against a thread in a restartable sequence: `fixtures/c/restartable.c`.

use super::{Changed, NEAR, move_out, parts, returns_into};
use crate::parked::tests::pages_but;
use inject::remote_call::{Gadgets, RemoteThread, in_restartable_sequence};
use process::guest;
use process::ptrace;
use process::stop::{Stop, Ties};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it; the addresses that it prints. `None` where this machine has no compiler or no restartable sequences.
fn start() -> Option<(Program, u64, u64)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/c/restartable.c");
    let binary = std::env::temp_dir().join(format!("lancet-restartable-{}", std::process::id()));
    let built = Command::new("gcc")
        .args(["-O2", "-pthread", "-o"])
        .args([&binary, &source])
        .status();
    if !built.is_ok_and(|status| status.success()) {
        println!("SKIPPED: gcc cannot build it (glibc before 2.35?)");
        return None;
    }
    let child = Command::new(&binary)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut program = Program(child.expect("it starts"));
    let mut line = String::new();
    let stdout = program.0.stdout.as_mut().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let _ = std::fs::remove_file(&binary);
    let mut addresses = line.split_whitespace().map_while(|word| {
        let word = word.strip_prefix("0x")?;
        u64::from_str_radix(word, 16).ok()
    });
    let (Some(first), Some(second)) = (addresses.next(), addresses.next()) else {
        println!("SKIPPED: this kernel has no restartable sequences");
        return None;
    };
    Some((program, first, second))
}

#[test]
fn no_thread_is_moved_out_of_a_restartable_sequence() {
    let Some((program, first, second)) = start() else {
        return;
    };
    let pid = program.0.id() as i32;
    let (_, memory, maps) = guest::reach_ours(pid).expect("it can be opened");
    let gadgets = Gadgets::find(pid, &memory, &maps).expect("it has a libc");
    let moves = [(second, first)];
    let change = Changed {
        at: first,
        length: 5,
        moves: &moves,
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        assert!(Instant::now() < deadline, "it never stands in its sequence");
        let stop = Stop::all(pid, Ties::None).expect("it stops");
        let mut remote = RemoteThread::new(pid, &memory, gadgets, &maps).expect("it has room");
        let tids: Vec<i32> = stop.threads().collect();
        let worker = tids.iter().find(|tid| **tid != pid).expect("two threads");
        let pc = ptrace::registers(*worker).expect("it stands").rip;
        if pc != second || !in_restartable_sequence(*worker, &memory, pc) {
            continue;
        }
        let blocked = move_out(&mut remote, &tids, &memory, &[change]).expect("looked at");
        assert_eq!(blocked, Some(0));
        assert_eq!(ptrace::registers(*worker).expect("it stands").rip, second);
        return;
    }
}

/// The frame of a handler on a small alternate stack lies at its very end, behind which nothing is mapped.
#[test]
fn all_that_is_left_of_a_stack_is_searched() {
    const PAGE: usize = wire::PAGE;
    let at = pages_but(15);
    // SAFETY: the last word of the page before, of this test alone.
    unsafe { ((at as usize + 15 * PAGE - 8) as *mut u64).write(0x1234_5678) };
    let pid = std::process::id() as i32;
    let memory = process::memory::GuestMemory::open(pid).expect("ours");
    let maps = process::maps::Maps::of(pid).expect("ours");
    let all = [0..0x1000, 0x1000_0000..u64::MAX];
    let is_it = |word| (word == 0x1234_5678).then_some(7);
    for from in [0, 0x1f8, 14 * PAGE as u64 + 16] {
        let found = returns_into((&memory, &maps), &[at + from], &all, is_it);
        assert_eq!(found, Some(7), "from {from:#x}");
    }
    // Beside stacks that end in nothing, in a guard that no mapping tells of, or are not there at all.
    let earlier = process::maps::Maps::default();
    for maps in [&maps, &earlier] {
        let pointers = [at + 15 * PAGE as u64, 8, at + 15 * PAGE as u64 - 8, at];
        assert_eq!(
            returns_into((&memory, maps), &pointers, &all, is_it),
            Some(7)
        );
        assert_eq!(
            returns_into((&memory, maps), &pointers[..2], &all, is_it),
            None
        );
    }
}

#[test]
fn changes_that_are_near_to_each_other_are_in_one_part() {
    let at = |at| Changed {
        at,
        length: 5,
        moves: &[],
    };
    let changes = [0x5000, 0x5100, 0x5100 + NEAR, 0x7f00_0000_0000].map(at);
    let (first, last) = (0x5000..0x5105 + NEAR, 0x7f00_0000_0000..0x7f00_0000_0005);
    assert_eq!(parts(&changes), [first, last]);
    assert_eq!(parts(&[]), []);
}
