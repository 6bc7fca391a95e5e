//! The agent's system calls, asked of this process.

use super::*;
use crate::memory::follow::ours;
use core::sync::atomic::{AtomicU32, Ordering};

const PAGE: u64 = 4096;

/// A new mapping is zero to its end and can be written.
#[test]
fn a_mapping_is_zero() {
    let at = map(3 * PAGE).expect("memory");
    for offset in (0..3 * PAGE).step_by(8) {
        // SAFETY: the word lies in the mapping.
        unsafe {
            assert_eq!(ours::<u64>(at + offset).read(), 0);
            ours::<u64>(at + offset).write(offset);
        }
    }
    // SAFETY: the mapping is this test's own.
    unsafe { unmap(at, 3 * PAGE) };
}

/// Memory that cannot be had is refused, not returned as an address.
#[test]
fn too_much_is_refused() {
    assert_eq!(map(1 << 60), None);
    assert_eq!(map(0), None);
}

/// A mapping keeps its content when it is made longer, and what is added is zero.
#[test]
fn a_longer_mapping_keeps_its_content() {
    let at = map(PAGE).expect("memory");
    // SAFETY: the mapping is this test's own, and no other pointer into it is kept.
    unsafe {
        ours::<u64>(at + PAGE - 8).write(42);
        let at = remap(at, PAGE, 64 * PAGE).expect("memory");
        assert_eq!(ours::<u64>(at + PAGE - 8).read(), 42);
        assert_eq!(ours::<u64>(at + 64 * PAGE - 8).read(), 0);
        unmap(at, 64 * PAGE);
    }
}

/// What was unmapped cannot be read any more, which the kernel says without a signal.
#[test]
fn what_was_unmapped_is_gone() {
    let at = map(PAGE).expect("memory");
    assert!(is_readable(at));
    // SAFETY: the mapping is this test's own.
    unsafe { assert!(map_over(at, PAGE, 0)) };
    assert!(!is_readable(at));
    assert!(!is_readable(8));
    assert!(!is_readable(0), "no address");
    // SAFETY: the mapping is this test's own.
    unsafe { unmap(at, PAGE) };
}

/// A mapping that is made in the place of another is zero again.
#[test]
fn a_mapping_in_the_place_of_another_is_new() {
    let at = map(2 * PAGE).expect("memory");
    // SAFETY: the mapping is this test's own.
    unsafe {
        ours::<u64>(at).write(1);
        ours::<u64>(at + PAGE).write(2);
        assert!(map_over(at, PAGE, READ_WRITE));
        assert_eq!(ours::<u64>(at).read(), 0);
        assert_eq!(ours::<u64>(at + PAGE).read(), 2);
        unmap(at, 2 * PAGE);
    }
}

/// Rights are taken away and given back, and an address that is not mapped is refused.
#[test]
fn rights_come_and_go() {
    let at = map(PAGE).expect("memory");
    assert!(protect(at, PAGE, 0));
    assert!(!is_readable(at));
    assert!(protect(at, PAGE, READ_WRITE));
    assert!(is_readable(at));
    assert!(!protect(at + 1, PAGE, 0));
    // SAFETY: the mapping is this test's own.
    unsafe { unmap(at, PAGE) };
}

/// The clock does not go backwards, and a pause takes at least the time that was asked for.
#[test]
fn a_pause_takes_its_time() {
    let before = now();
    pause(2_000_000);
    assert!(now() >= before + 2_000_000);
}

/// The ids are those that libc knows.
#[test]
fn ids_are_the_kernels() {
    assert_eq!(process_id(), std::process::id());
    let main = thread_id();
    let other = std::thread::spawn(thread_id).join().expect("it ends");
    assert_ne!(main, other);
    assert!(std::path::Path::new(&std::format!("/proc/self/task/{main}")).exists());
}

/// A process that lives is seen, one that has ended and was waited for is not.
#[test]
fn a_process_is_there_or_not() {
    assert!(exists(process_id().into()));
    let mut child = std::process::Command::new("true").spawn().expect("true");
    let pid = child.id();
    child.wait().expect("it ends");
    assert!(!exists(pid.into()));
}

/// So is a thread that is not the first of its process, by its own id, until the kernel has none of it.
#[test]
fn a_thread_is_there_or_not() {
    let (told, ids) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        told.send(thread_id()).expect("a reader");
        let _ = ends.recv();
    });
    let id = u64::from(ids.recv().expect("an id"));
    assert_ne!(id, u64::from(process_id()));
    assert!(exists(id));
    drop(end);
    thread.join().expect("it ends");
    // Who joins a thread may go on before the kernel has taken its id away.
    while std::path::Path::new(&std::format!("/proc/self/task/{id}")).exists() {
        std::thread::yield_now();
    }
    assert!(!exists(id));
}

/// The kernel compares a word without reading it here: right, wrong, and not mapped.
#[test]
fn a_word_is_compared_by_the_kernel() {
    let word = AtomicU32::new(7);
    let at = core::ptr::from_ref(&word).expose_provenance() as u64;
    assert!(holds(at, 7));
    assert!(!holds(at, 8));
    word.store(8, Ordering::Relaxed);
    assert!(holds(at, 8));
    assert!(!holds(8, 8));
}

/// A copy gives the bytes; where the rest cannot be read, how many there were; and EFAULT where there is none.
#[test]
fn a_copy_ends_where_memory_ends() {
    let at = map(2 * PAGE).expect("memory");
    // SAFETY: the mapping is this test's own.
    unsafe {
        ours::<[u8; 4]>(at + PAGE - 4).write(*b"abcd");
        assert!(map_over(at + PAGE, PAGE, 0));
        let mut into = [0u8; 8];
        let tid = thread_id();
        assert_eq!(copy(tid, at + PAGE - 4, into.as_mut_ptr(), 4), Ok(4));
        assert_eq!(&into[..4], b"abcd");
        let cut = copy(tid, at + PAGE - 4, into.as_mut_ptr(), 8);
        assert!(matches!(cut, Ok(4) | Err(EFAULT)), "{cut:?}");
        assert_eq!(copy(tid, at + PAGE, into.as_mut_ptr(), 8), Err(EFAULT));
        unmap(at, 2 * PAGE);
    }
}

/// This thread may read the time-stamp counter, which goes on.
#[test]
fn the_counter_is_read() {
    assert!(reads_counter());
    let before = ticks();
    pause(1_000_000);
    assert!(ticks() > before);
}
