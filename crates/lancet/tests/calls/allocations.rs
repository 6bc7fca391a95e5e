//! `-c --preset alloc`: what is allocated and not freed, by line, of a program that asks the C library itself.

use serde_json::Value;

use crate::recorded::replay;
use crate::support::TempDir;
use crate::support::{Guest, chosen, schema};
use crate::watch::{calls, hooked, left};

const ROUNDS: u64 = 20;

/// What `left()` leaves behind: a block of this many bytes for each round and function.
const BYTES: u64 = 100_000;

/// Each function of the allocator on a line of its own, with sizes that Python itself asks for at no such place.
const SCRIPT: &str = "\
import ctypes, sys, time
c = ctypes.CDLL(None); P, N = ctypes.c_void_p, ctypes.c_size_t
for name, of in dict(malloc=[N], calloc=[N, N], realloc=[P, N], reallocarray=[P, N, N], aligned_alloc=[N, N], memalign=[N, N]).items():
    f = getattr(c, name); f.restype, f.argtypes = P, of
c.free.argtypes = [P]; c.posix_memalign.argtypes = [P, N, N]
out = (P * 1)()
def kept_malloc(): return c.malloc(100000)
def kept_calloc(): return c.calloc(100, 1000)
def kept_realloc(p): return c.realloc(p, 100000)
def kept_reallocarray(p): return c.reallocarray(p, 100, 1000)
def kept_aligned(): return c.aligned_alloc(4096, 100000 // 4096 * 4096)
def kept_memalign(): return c.memalign(64, 100000)
def kept_posix(): return c.posix_memalign(out, 64, 100000)
def freed(p): c.free(p)
def refused(p): return c.realloc(p, 1 << 62)
before = [c.malloc(70000) for _ in range(20)]
def round(n):
    kept_malloc(); freed(kept_malloc())
    kept_calloc(); freed(kept_calloc())
    kept_realloc(None); kept_realloc(kept_realloc(kept_malloc()))
    kept_reallocarray(kept_malloc()); freed(kept_reallocarray(None))
    kept_aligned(); freed(kept_aligned()); kept_memalign(); freed(kept_memalign())
    kept_posix(); kept_posix(); freed(out[0])
    p = kept_malloc(); refused(p); freed(p); freed(before.pop())
print('ready', flush=True)
for n in range(int(sys.stdin.readline())): round(n)
print('answer', flush=True)
sys.stdin.readline()
";

/// Name, function and line: of how many bytes each, how many are kept of how many a round.
const KEPT: [(&str, &str, u64, u64, u64, u64); 7] = [
    ("kept_malloc", "malloc", 7, BYTES, 1, 5),
    ("kept_calloc", "calloc", 8, BYTES, 1, 2),
    ("kept_realloc", "realloc", 9, BYTES, 2, 3),
    ("kept_reallocarray", "reallocarray", 10, BYTES, 1, 2),
    (
        "kept_aligned",
        // Up to glibc 2.37 it is another name of memalign.
        "aligned_alloc|memalign",
        11,
        BYTES / 4096 * 4096,
        1,
        2,
    ),
    ("kept_memalign", "memalign", 12, BYTES, 1, 2),
    ("kept_posix", "posix_memalign", 13, BYTES, 1, 2),
];

#[test]
fn every_function_of_the_allocator_is_paired() {
    for python in chosen("python", "allocations") {
        let mut command = python.command();
        let mut guest = Guest::ready(command.args(["-c", SCRIPT]));
        let watch = hooked(calls(
            guest.pid,
            &["-c", "--preset", "alloc", "--json", "--max-wait", "30s"],
        ));
        guest.tell(&ROUNDS.to_string());
        guest.find("answer");
        let output = left(watch, "allocations");
        let records = schema::records(&["calls"], &output.stdout);
        let number = |of: &Value, key: &str| of[key].as_u64().expect("a number");
        let all = schema::first(&records, "allocations");
        if !all["given_up"].as_array().expect("a list").is_empty() {
            // Up to glibc 2.33 malloc works on its own return address and cannot be hooked: then nobody is accused.
            let has_rows = records.iter().any(|row| row["record"] == "not_freed");
            assert!(!has_rows, "{python}: {records:#?}");
            continue;
        }
        for (name, function, line, bytes, kept, made) in KEPT {
            let place = format!("<string>:{line} in '{name}'");
            let is_it = |row: &&Value| {
                let by = row["function"].as_str().unwrap_or_default();
                let is_ours = function.split('|').any(|name| name == by);
                row["record"] == "not_freed" && is_ours && schema::site(row) == place
            };
            let row = records.iter().find(is_it);
            let row = row.unwrap_or_else(|| panic!("{python}: {place}: {records:#?}"));
            // Python may ask for some small pieces on the way.
            let of_ours = number(row, "bytes") / bytes;
            assert_eq!(of_ours, kept * ROUNDS, "{python}: {row}");
            assert!(number(row, "allocated") >= made * ROUNDS, "{python}: {row}");
            assert!(number(row, "bytes") % bytes < bytes / 2, "{python}: {row}");
        }
        assert!(number(all, "foreign") >= ROUNDS, "{python}: {all}");
        assert_eq!(
            (number(all, "untold"), number(all, "lost")),
            (0, 0),
            "{python}: {all}"
        );
        guest.tell("");
        guest.ends_with_nothing("allocations");
    }
}

/// One in twenty is never freed; a pool that is filled once and blocks that are freed beside it are none of the fault.
#[test]
fn a_leak_is_the_first_line_and_what_is_freed_is_none() {
    let script = "\
import ctypes, sys, time
c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; c.malloc.argtypes = [ctypes.c_size_t]; c.free.argtypes = [ctypes.c_void_p]
def resize(): c.free(c.malloc(5000))
def encode(n):
    p = c.malloc(5000)
    if n % 20: c.free(p)
def pool(): return c.malloc(9000)
print('ready', flush=True)
sys.stdin.readline()
n = 0
kept = [pool() for _ in range(300)]
while True:
    n += 1; resize(); encode(n); time.sleep(0.002)
";
    for python in chosen("python", "allocations") {
        let mut command = python.command();
        let mut guest = Guest::ready(command.args(["-c", script]));
        let watch = hooked(calls(
            guest.pid,
            &["-c", "--preset", "alloc", "--for", "14s"],
        ));
        guest.tell("");
        let output = watch.end();
        let first = output.stdout.lines().next().unwrap_or_default();
        if first.starts_with("not known what is freed: ") {
            assert!(!output.stdout.contains("leak: "), "{output:?}");
            continue;
        }
        assert!(
            first.starts_with("leak: ") && first.ends_with("malloc ← <string>:5 in 'encode'"),
            "{python}: {output:?}"
        );
        assert_eq!(output.stdout.matches("\nleak: ").count(), 0, "{output:?}");
    }
}

/// A recording does not say whether `free` was hooked to the end, nor whether at all: its rows are told, and nobody is accused.
#[test]
fn a_recording_gives_rows_and_no_verdict() {
    let script = "\
import ctypes, sys, time
c = ctypes.CDLL(None); c.malloc.restype = ctypes.c_void_p; c.malloc.argtypes = [ctypes.c_size_t]
def encode(): return c.malloc(5000)
print('ready', flush=True)
sys.stdin.readline()
begin = time.monotonic()
while time.monotonic() < begin + 1: encode(); time.sleep(0.02)
print('answer', flush=True)
sys.stdin.readline()
";
    for python in chosen("python", "allocations") {
        let folder = TempDir::new("recorded allocations");
        let file = folder.join("calls");
        let name = file.display().to_string();
        let mut guest = Guest::ready(python.command().args(["-c", script]));
        // Nothing frees here.
        let watch = hooked(calls(
            guest.pid,
            &["-x", "calloc", "-x", "malloc", "--record", &name],
        ));
        guest.tell("");
        guest.find("answer");
        drop(watch.interrupt());
        guest.tell("");
        let output = replay(&file, &["-c", "--preset", "alloc"]);
        let said = "no verdict on leaks: a recording does not say ";
        assert!(output.stdout.starts_with(said), "{python}: {output:?}");
        assert!(!output.stdout.contains("leak: "), "{python}: {output:?}");
    }
}
