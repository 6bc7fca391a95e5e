//! Checks what each thread must allow in which code of ours will run: its system calls reach the kernel, and its seccomp filter allows
//! those that we make. Used by the crates `hooks` and `patch`.
//!
//! Both belong to a thread, so each thread that is to run hooks is checked, while all of them stand still. A thread that takes these rights
//! from itself later says so before (`wire::notices::notice::LOCKS`). Only the thread itself can ask the kernel whether it may read the
//! time-stamp counter (`prctl(PR_GET_TSC)`): a thread that runs hooks does so before it first reads the counter, and for others the thread
//! that works for us is made to ask ([`reads_counter`]).

use process::error::{Error, Result};
use process::guest::has_filter;
use process::memory::GuestMemory;
use process::ptrace;
use process::stop::thread_ids;
use std::collections::HashMap;

use crate::remote_call::RemoteThread;
use crate::seccomp::{self, Call, call};

/// The reason for which nothing is hooked in a process with a thread whose system calls go to a handler of the program.
const DISPATCHES: &str = "system calls of one of its threads go to a handler of its own (Syscall User Dispatch), as those that hooks make there would";

/// Returns the threads of a process, each with whether it has a seccomp filter. This is done before they are stopped, because it takes
/// longer than the stop.
pub fn filters(pid: i32) -> Result<HashMap<i32, bool>> {
    let threads = thread_ids(pid)?.into_iter();
    threads
        .map(|tid| Ok((tid, has_filter(pid, tid)?)))
        .collect()
}

/// Checks stopped threads of a process for all that is needed: a seccomp filter must allow `more` beside what every agent calls. For
/// threads that did not exist when `known` was read, it is read now whether they have a filter. Returns the threads that have one.
pub fn check_stopped(
    pid: i32,
    threads: impl Iterator<Item = i32>,
    known: &HashMap<i32, bool>,
    more: &[Call],
) -> Result<Vec<i32>> {
    let mut filtered = Vec::new();
    for tid in threads {
        if ptrace::dispatches_system_calls(tid) {
            let reason = DISPATCHES;
            return Err(Error::NotAGuest { pid, reason });
        }
        let filter = match known.get(&tid) {
            Some(filter) => *filter,
            None => has_filter(pid, tid)?,
        };
        if filter {
            seccomp::check(pid, tid, more)?;
            filtered.push(tid);
        }
    }
    Ok(filtered)
}

/// `PR_GET_TSC` and its answer (include/uapi/linux/prctl.h).
const GET_TSC: u64 = 25;
const TSC_SIGSEGV: u32 = 2;

/// Returns whether the thread that works for us may read the time-stamp counter; `true` if its filter does not let it ask. If it may not, a
/// function that reads the counter would end the process. A thread inherits this from the one that made it, so a process that does it at
/// its start does it for all its threads.
pub fn reads_counter(remote: &mut RemoteThread, memory: &GuestMemory) -> Result<bool> {
    const ASKS: [Call; 1] = [call("prctl", libc::SYS_prctl, [GET_TSC, 0, 0, 0, 0, 0])];
    let pid = remote.pid();
    let tid = remote.tid();
    if seccomp::filtered_threads(pid)?.contains(&tid) && seccomp::check(pid, tid, &ASKS).is_err() {
        return Ok(true);
    }
    let answer = remote.scratch();
    remote.syscall("prctl", libc::SYS_prctl, [GET_TSC, answer, 0, 0, 0, 0])?;
    Ok(memory.half(answer)? != TSC_SIGSEGV)
}

#[cfg(test)]
mod tests {
    use super::*;
    use process::stop::Stop;
    use process::tries::Tries;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// Its second thread has a filter that refuses mmap(2) to itself: what each instruction is stands in include/uapi/linux/bpf_common.h.
    const TWO: &str = "import ctypes, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
def waits():
    code = b''.join(struct.pack('HBBI', *one) for one in [(0x20, 0, 0, 0), (0x15, 0, 1, 9), (6, 0, 0, 0x50000), (6, 0, 0, 0x7fff0000)])
    code = ctypes.create_string_buffer(code)
    program = struct.pack('HxxxxxxQ', 4, ctypes.addressof(code))
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
    print(threading.get_native_id(), flush=True)
    threading.Event().wait()
threading.Thread(target=waits, daemon=True).start()
sys.stdin.readline()";

    struct Two(Child);

    impl Drop for Two {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// The filter of a thread is asked for, whether the thread was there before the stop or is seen in it for the first time; that the first
    /// thread has none says nothing of the others.
    #[test]
    fn each_thread_is_asked_for_its_own_filter() {
        let child = Command::new("python3")
            .args(["-c", TWO])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut two = Two(child.expect("python3"));
        let first = two.0.id() as i32;
        let lines = BufReader::new(two.0.stdout.take().expect("piped")).lines();
        let line = { lines }.next().expect("a line").expect("text");
        let second: i32 = line.parse().expect("a number");
        let known = filters(first).expect("it lives");
        assert_eq!(known, HashMap::from([(first, false), (second, true)]));
        let mut tries = Tries::begin();
        let stopped = |tid, tries: &mut Tries| loop {
            match Stop::one(first, tid, false) {
                Err(error) if tries.again(&error) => {}
                stopped => return stopped.expect("it stops"),
            }
        };
        let _first = stopped(first, &mut tries);
        let _second = stopped(second, &mut tries);
        for known in [known, HashMap::new()] {
            let check =
                |threads: &[i32]| check_stopped(first, threads.iter().copied(), &known, &[]);
            assert_eq!(check(&[first]).expect("it has no filter"), []);
            let refused = check(&[first, second]);
            let is_filter = matches!(&refused, Err(Error::Seccomp { pid, .. }) if *pid == first);
            assert!(is_filter, "{refused:?}");
        }
    }
}
