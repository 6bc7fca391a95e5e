//! Overflows and plain faults, in processes of their own: what the report says, and that the
//! handler that was there before still runs.
//!
//! The test runs itself again as a child with `LANCET_FAULT` set; the child does one thing and dies.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use lancet_switch::pool::{Config, Pool};
use lancet_switch::{Builder, Stack, Suspender, report};

const OLD_HANDLER: &[u8] = b"old handler ran\n";

extern "C" fn old_handler(_signal: libc::c_int) {
    // SAFETY: async-signal-safe calls only.
    unsafe {
        libc::write(2, OLD_HANDLER.as_ptr().cast(), OLD_HANDLER.len());
        libc::_exit(77);
    }
}

#[inline(never)]
fn recurse<const BYTES: usize>(depth: u64) -> u64 {
    let block = std::hint::black_box([depth as u8; BYTES]);
    if depth == u64::MAX {
        return 0;
    }
    recurse::<BYTES>(depth + 1) + u64::from(block[BYTES / 2])
}

#[inline(never)]
fn giant() -> u64 {
    let block = std::hint::black_box([7u8; 900_000]);
    u64::from(block[450_000])
}

#[inline(never)]
fn recurse_then_giant(depth: u32) -> u64 {
    let block = std::hint::black_box([1u8; 512]);
    let below = if depth == 0 {
        giant()
    } else {
        recurse_then_giant(depth - 1)
    };
    below + u64::from(block[3])
}

/// Moves `rsp` down by more than the guard, as a large frame or alloca does in C code without
/// probes, and writes into the guard it jumped.
#[unsafe(naked)]
extern "C" fn unprobed(bytes: usize) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, rdi",
        "mov qword ptr [rbp - 300000], 1",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Moves `rsp` down by more than the guard and the stack below it, and writes `offset` bytes below the frame's upper end.
#[unsafe(naked)]
extern "C" fn jumping(bytes: usize, offset: usize) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, rdi",
        "mov rax, rbp",
        "sub rax, rsi",
        "mov qword ptr [rax], 1",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

fn body(kind: &str, suspender: &Suspender<(), ()>) {
    let number: usize = kind
        .rsplit('-')
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    match kind.split('-').next().unwrap_or("") {
        "small" => drop(recurse::<32>(0)),
        "large" => drop(recurse::<5000>(0)),
        "giant" => drop(giant()),
        "deep" => drop(recurse_then_giant((number % 200) as u32)),
        "unprobed" => unprobed(400_000),
        // Into the guard of the stack below, whose 256 KiB the frame jumps, as the 786,816 bytes of EventMachine did.
        "jumping" => jumping(
            786_816,
            suspender.remaining_stack() + 262_144 + 69_632 + 4096,
        ),
        // SAFETY: a signal to ourselves.
        "sent" => drop(unsafe { libc::raise(libc::SIGSEGV) }),
        _ => unreachable!("no such fault"),
    }
}

/// An address a plain fault can hit, by number: null, unmapped, the guard of a stack that is not
/// at its end, code, the guard of another stack.
fn plain(number: usize, own: usize, other: usize) -> usize {
    match number % 5 {
        0 => number * 8 % 4096,
        1 => 0x7000_0000_0000 + number * 4096,
        2 => own - 1 - number * 37 % 100_000,
        3 => plain as *const () as usize,
        _ => other - 1 - number * 41 % 100_000,
    }
}

/// What the child does.
fn fault(kind: &str) {
    let on_thread = kind.contains("thread");
    let run = |kind: String| {
        if kind.contains("chained") {
            // SAFETY: installs a handler that is async-signal-safe.
            unsafe { libc::signal(libc::SIGSEGV, old_handler as *const () as usize) };
        }
        report::install().expect("the report");
        let pool = Pool::new(Config::default()).expect("a pool");
        let other = pool.stack().expect("a stack");
        let mut fiber = Builder::new()
            .name("the culprit")
            .pool(&pool)
            .spawn::<(), (), (), _>(move |suspender, ()| {
                if let Some(number) = kind.strip_prefix("plain-") {
                    let number = number
                        .rsplit('-')
                        .next()
                        .and_then(|n| n.parse().ok())
                        .unwrap_or(0);
                    let here = suspender.remaining_stack();
                    // The callee that measured is less than a page below.
                    let limit = (&raw const here as usize - here) / 4096 * 4096;
                    let address = plain(number, limit, other.range().start);
                    // SAFETY: meant to fault.
                    unsafe { (address as *mut u8).write_volatile(1) };
                }
                body(&kind, suspender);
            })
            .expect("a coroutine");
        fiber.resume(());
    };
    let kind = kind.to_owned();
    if on_thread {
        std::thread::spawn(move || run(kind))
            .join()
            .expect("dead by now");
    } else {
        run(kind);
    }
}

/// The child's way in; does nothing in the parent.
#[test]
fn child() {
    if let Ok(kind) = std::env::var("LANCET_FAULT") {
        fault(&kind);
    }
}

/// Runs `fault(kind)` in a child: its output and its stderr as text.
fn run(kind: &str) -> (Output, String) {
    let output = Command::new("/proc/self/exe")
        // One test thread: the test then runs on the main thread of the process.
        .args([
            "overflow::child",
            "--exact",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("LANCET_FAULT", kind)
        .output()
        .expect("a child");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

/// Rounds of the random tests; 1,000 of each kind with `LANCET_SOAK` set.
fn rounds() -> usize {
    if std::env::var_os("LANCET_SOAK").is_some() {
        1000
    } else {
        60
    }
}

/// Kinds of overflow, and what the report must say of the frame at fault and of the largest.
const KINDS: [(&str, &str, &str); 6] = [
    ("small", "overflow::recurse", "frame of"),
    ("large", "overflow::recurse", "overflow::recurse"),
    ("giant", "overflow::giant", "overflow::giant"),
    ("deep", "overflow::giant", "overflow::giant"),
    ("unprobed", "overflow::unprobed", "overflow::unprobed"),
    ("jumping", "overflow::jumping", "overflow::jumping"),
];

fn line<'t>(text: &'t str, word: &str) -> &'t str {
    text.lines()
        .find(|line| line.trim_start().starts_with(word))
        .unwrap_or("")
}

#[test]
fn every_overflow_is_reported_right() {
    for number in 0..rounds() {
        let (kind, at_fault, largest) = KINDS[number % KINDS.len()];
        let thread = if number / 6 % 2 == 0 {
            "main"
        } else {
            "thread"
        };
        let chained = if number / 12 % 2 == 0 { "" } else { "-chained" };
        let kind = format!("{kind}-{thread}{chained}-{number}");
        let (output, text) = run(&kind);
        assert!(
            text.contains("stack overflow in fiber 1 \"the culprit\", thread "),
            "{kind}: {text}"
        );
        assert!(
            line(&text, "stack").contains("262,144 bytes at"),
            "{kind}: {text}"
        );
        assert!(line(&text, "at fault").contains(at_fault), "{kind}: {text}");
        assert!(line(&text, "largest").contains(largest), "{kind}: {text}");
        assert!(
            line(&text, "used").contains("bytes at most"),
            "{kind}: {text}"
        );
        assert!(
            line(&text, "lever").contains("LANCET_STACK_SIZE="),
            "{kind}: {text}"
        );
        assert_eq!(text.matches("stack overflow").count(), 1, "{kind}: {text}");
        assert_eq!(
            line(&text, "jumped").contains("past the guard"),
            kind.starts_with("jumping"),
            "{kind}: {text}"
        );
        if chained.is_empty() {
            assert_eq!(
                output.status.signal(),
                Some(libc::SIGSEGV),
                "{kind}: {text}"
            );
        } else {
            assert_eq!(output.status.code(), Some(77), "{kind}: {text}");
            assert!(text.contains("old handler ran"), "{kind}: {text}");
        }
    }
}

#[test]
fn no_plain_fault_is_claimed() {
    for number in 0..rounds() {
        let thread = if number % 2 == 0 { "main" } else { "thread" };
        let kind = format!("plain-{thread}-chained-{number}");
        let (output, text) = run(&kind);
        assert!(!text.contains("lancet-switch"), "{kind}: {text}");
        assert!(text.contains("old handler ran"), "{kind}: {text}");
        assert_eq!(output.status.code(), Some(77), "{kind}: {text}");
    }
}

#[test]
fn a_signal_that_was_sent_is_not_claimed() {
    let (output, text) = run("sent-chained");
    assert!(!text.contains("lancet-switch"), "{text}");
    assert_eq!(output.status.code(), Some(77), "{text}");
}

#[test]
fn a_thread_that_ends_gives_its_alternate_stack_back() {
    let address_space = || {
        let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
        let kilobytes = line.and_then(|rest| rest.trim().split(' ').next()?.parse::<usize>().ok());
        kilobytes.expect("VmSize in kB")
    };
    let covered = |count: usize| {
        for _ in 0..count {
            let cover = || report::cover_thread().expect("an alternate stack");
            std::thread::spawn(cover).join().expect("no panic");
        }
        address_space()
    };
    let before = covered(20);
    let after = covered(1000);
    // 64 KiB each, if they were kept. Other tests come and go meanwhile.
    assert!(after < before + (32 << 10), "{before} then {after} kB");
}

#[test]
fn sizes_of_frames_are_those_of_the_program() {
    let (_, text) = run("large-main-0");
    let bytes: usize = line(&text, "largest")
        .split("frame of ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .map(|number| number.replace(',', ""))
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    // In a test build the block is copied once or twice on its way through black_box.
    assert!((5_000..20_000).contains(&bytes), "{text}");
}
