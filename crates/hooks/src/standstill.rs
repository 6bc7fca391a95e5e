//! One stop for one piece of work, of all threads or only of the main one, which can make remote calls then; and batched
//! writes in few system calls. Used by `lifting`, `open` and others here, and by the crates `enter` and `patch`.

use inject::Timing;
use inject::remote_call::{Gadgets, RemoteThread};
use inject::seccomp;
use process::error::{Error, Result};
use process::guest::Status;
use process::maps::Maps;
use process::memory::GuestMemory;
use process::stop::{Stop, Ties};
use process::tries::Tries;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use vm::{Fault, Memory};

/// The process that is to stand still, and how its main thread is tied to us.
#[derive(Clone, Copy, Debug)]
pub struct Standstill<'a> {
    /// The process. Another process that has its id by now is not stopped.
    pub status: &'a Status,
    /// The memory of the process.
    pub memory: &'a GuestMemory,
    /// Instructions in it that remote calls use.
    pub gadgets: Gadgets,
    /// How its main thread is held between stops.
    pub ties: Ties,
    /// Which of its threads stand still.
    pub threads: Threads,
}

/// Which threads of a process stand still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// All, for work on code that any of them may run.
    All,
    /// The one that makes remote calls for us: the main thread, or another if that has ended. Afterwards it runs no code of ours but what these calls request.
    Main,
}

impl Standstill<'_> {
    /// Does `work` while those threads stand still, and adds to `timing` how long that was. `work` is repeated if a thread
    /// stood where it could not be used, and the stop is repeated while another lancet has the process stopped ([`Tries`]).
    pub fn run<T>(
        self,
        timing: &mut Timing,
        mut work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let pid = self.status.pid;
        let mut tries = Tries::begin();
        loop {
            match self.once(timing, &mut work) {
                Err(error) if tries.again(&error) => {}
                Err(_) if self.status.is_gone() => return Err(Error::Gone(pid)),
                done => return done,
            }
        }
    }

    /// The same where the sum of the times is kept in a cell.
    pub fn run_timed<T>(
        self,
        timing: &Cell<Timing>,
        work: impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let mut sum = timing.get();
        let done = self.run(&mut sum, work);
        timing.set(sum);
        done
    }

    fn once<T>(
        self,
        timing: &mut Timing,
        work: &mut impl FnMut(&mut Stop, &mut RemoteThread) -> Result<T>,
    ) -> Result<T> {
        let pid = self.status.pid;
        let maps = Maps::of(pid)?;
        let (mut stop, calls) = match self.threads {
            Threads::All => (Stop::all(pid, self.ties)?, &seccomp::OF_HOOKS[..]),
            Threads::Main => (Stop::main(pid, self.ties)?, &[][..]),
        };
        self.status.check_current()?;
        if self.status.seccomp != 0 {
            seccomp::check(pid, stop.first(), calls)?;
        }
        let mut remote = RemoteThread::new(stop.first(), self.memory, self.gadgets, &maps)?;
        let done = work(&mut stop, &mut remote);
        let back = remote.give_back();
        let stood = stop.release();
        timing.stops += 1;
        timing.stopped += stood;
        timing.longest_stop = timing.longest_stop.max(stood);
        let done = done?;
        back.map(|()| done)
    }
}

/// Bytes to be written. Those of one page, or adjacent ones, are joined, because each write is a system call and all threads wait
/// meanwhile.
#[derive(Default)]
pub(crate) struct Writes(Vec<(u64, Vec<u8>)>);

impl Writes {
    /// Adds bytes for address `at`.
    pub fn add(&mut self, at: u64, bytes: Vec<u8>) {
        self.0.push((at, bytes));
    }

    /// Writes all bytes of one page by one system call, together with the bytes between them, which must not change meanwhile: all threads
    /// stand still, or the page is one that nobody but us writes. A kill cannot cut a write within a page. Where the process's memory can only be written in pieces of eight
    /// bytes, what was added at once is written for itself: a patch has no more, so a kill cannot cut one.
    pub fn write_by_page(mut self, memory: &GuestMemory) -> Result<()> {
        self.0.sort_by_key(|(at, _)| *at);
        let page = |(at, _): &(u64, Vec<u8>)| at / wire::PAGE as u64;
        for together in self.0.chunk_by(|a, b| page(a) == page(b)) {
            let (Some((from, _)), Some((last, end))) = (together.first(), together.last()) else {
                continue;
            };
            if together.len() == 1 || !memory.writes_whole_pages() {
                for (at, bytes) in together {
                    memory.write(*at, bytes)?;
                }
                continue;
            }
            let mut all = vec![0; (last + end.len() as u64 - from) as usize];
            memory.read_bytes(*from, &mut all)?;
            for (at, bytes) in together {
                let at = (at - from) as usize;
                all[at..at + bytes.len()].copy_from_slice(bytes);
            }
            memory.write(*from, &all)?;
        }
        Ok(())
    }

    /// Writes all of them, by ascending address.
    pub fn write(mut self, memory: &GuestMemory) -> Result<()> {
        self.0.sort_by_key(|(at, _)| *at);
        let mut joined: Vec<(u64, Vec<u8>)> = Vec::new();
        for (at, bytes) in self.0 {
            match joined.last_mut() {
                Some((start, before)) if *start + before.len() as u64 == at => before.extend(bytes),
                _ => joined.push((at, bytes)),
            }
        }
        joined
            .iter()
            .try_for_each(|(at, bytes)| memory.write(*at, bytes))
    }
}

/// The memory of a process that stands still, or whose pages that are read do not change: each page is read once.
pub(crate) struct Pages<'m> {
    memory: &'m GuestMemory,
    /// `None` = it cannot be read.
    read: RefCell<HashMap<u64, Option<Box<[u8]>>>>,
}

impl<'m> Pages<'m> {
    pub fn of(memory: &'m GuestMemory) -> Self {
        Pages {
            memory,
            read: RefCell::default(),
        }
    }
}

impl Memory for Pages<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), Fault> {
        const PAGE: u64 = wire::PAGE as u64;
        let mut read = self.read.borrow_mut();
        let mut done = 0;
        while done < into.len() {
            let here = at.checked_add(done as u64).ok_or(Fault { at })?;
            let page = here / PAGE;
            let bytes = read.entry(page).or_insert_with(|| {
                let mut bytes = vec![0; PAGE as usize].into_boxed_slice();
                self.memory.read_bytes(page * PAGE, &mut bytes).ok()?;
                Some(bytes)
            });
            let rest = &bytes.as_ref().ok_or(Fault { at: here })?[(here % PAGE) as usize..];
            let length = rest.len().min(into.len() - done);
            into[done..done + length].copy_from_slice(&rest[..length]);
            done += length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::FileExt;

    /// A file of three pages in the place of a process's memory.
    fn image(name: &str) -> (GuestMemory, File) {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).expect("a file");
        std::fs::remove_file(&path).expect("it is there");
        file.write_all_at(&[7; 3 * wire::PAGE], 0).expect("room");
        (
            GuestMemory::image(file.try_clone().expect("one more")),
            file,
        )
    }

    #[test]
    fn what_stands_between_writes_stays() {
        let (memory, file) = image("writes");
        let page = wire::PAGE as u64;
        let mut writes = Writes::default();
        // Not by rising address, over the end of a page, and alone in one.
        for (at, bytes) in [
            (40, &[1; 5][..]),
            (8, &[2; 8]),
            (page - 2, &[3; 4]),
            (2 * page, &[4]),
        ] {
            writes.add(at, bytes.to_vec());
        }
        writes.write_by_page(&memory).expect("written");
        let mut expected = vec![7; 3 * wire::PAGE];
        expected[40..45].fill(1);
        expected[8..16].fill(2);
        expected[wire::PAGE - 2..wire::PAGE + 2].fill(3);
        expected[2 * wire::PAGE] = 4;
        let mut now = vec![0; expected.len()];
        file.read_exact_at(&mut now, 0).expect("read");
        assert_eq!(now, expected);
    }

    #[test]
    fn a_page_is_read_once_and_what_is_not_there_is_a_fault() {
        let (memory, file) = image("pages");
        let (pages, page) = (Pages::of(&memory), wire::PAGE as u64);
        file.write_all_at(&[1, 2, 3, 4], page - 2).expect("room");
        let mut bytes = [0; 4];
        pages.read(page - 2, &mut bytes).expect("it is there");
        assert_eq!(bytes, [1, 2, 3, 4]);
        file.write_all_at(&[9; 4], page - 2).expect("room");
        pages.read(page - 2, &mut bytes).expect("it is there");
        assert_eq!(bytes, [1, 2, 3, 4]);
        assert!(pages.read(3 * page - 2, &mut bytes).is_err());
        assert!(pages.read(u64::MAX - 1, &mut bytes).is_err());
    }
}
