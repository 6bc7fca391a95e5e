//! The threads of a process that is looked at again and again. Used by `on_processors` and `running`.
//!
//! To list thousands of threads takes the kernel milliseconds, so they are listed anew only where others may be there.

use std::fs;
use std::os::unix::fs::MetadataExt;

use process::proc_file;
use process::stop::thread_ids;

/// The links of a folder that has no threads.
const NO_THREADS: u64 = 2;

/// The threads of a process.
#[derive(Debug, Default)]
pub(super) struct ThreadList {
    ids: Vec<i32>,
    /// How many there were when they were listed; `None` if it may be others by now.
    count: Option<u64>,
}

impl ThreadList {
    /// Returns the threads. Where one has ended and another one has begun there are as many as before: whoever finds that one of them is
    /// gone says so by [`ThreadList::forget`].
    pub(super) fn of(&mut self, pid: i32) -> &[i32] {
        let now = count(pid);
        if now.is_none() || now != self.count {
            self.ids = thread_ids(pid).unwrap_or_default();
            let is_all = |now: &u64| *now == self.ids.len() as u64 && count(pid) == Some(*now);
            self.count = now.filter(is_all);
        }
        &self.ids
    }

    /// Has the threads listed anew the next time.
    pub(super) fn forget(&mut self) {
        self.count = None;
    }
}

/// How many threads a process has: its folder of them has a link for each (`proc_task_getattr`, fs/proc/base.c). `None` if it is gone.
fn count(pid: i32) -> Option<u64> {
    let links = fs::metadata(proc_file::path(pid, "task")).ok()?.nlink();
    links.checked_sub(NO_THREADS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::process::{Command, Stdio};

    /// Threads of a process of its own, because those of the tests come and go.
    #[test]
    fn threads_are_listed_anew_where_others_may_be_there() {
        let script = "import sys, threading\ndef one(): threading.Event().wait()\n\
                      for line in sys.stdin:\n    threading.Thread(target=one, daemon=True).start()\n    print(line, flush=True)";
        let mut command = Command::new("/usr/bin/python3");
        let piped = command
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = piped.spawn().expect("Debian's python3");
        let (pid, mut list) = (child.id() as i32, ThreadList::default());
        let begin = |child: &mut std::process::Child| {
            use std::io::{Read, Write};
            let input = child.stdin.as_mut().expect("piped");
            input
                .write_all(b"a")
                .and_then(|()| input.write_all(b"\n"))?;
            let output = child.stdout.as_mut().expect("piped");
            output.read_exact(&mut [0; 3])
        };
        begin(&mut child).expect("it goes on");
        let ids =
            |list: &mut ThreadList| -> HashSet<i32> { list.of(pid).iter().copied().collect() };
        assert_eq!(ids(&mut list).len(), 2);
        assert_eq!(list.count, Some(2));
        // It is not listed as long as there are as many, even where they are others.
        list.ids.clear();
        assert!(list.of(pid).is_empty());
        list.forget();
        assert_eq!(ids(&mut list).len(), 2);
        begin(&mut child).expect("it goes on");
        let all = ids(&mut list);
        assert!(all.len() == 3 && all.contains(&pid));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(list.of(pid).is_empty(), "it is gone");
    }
}
