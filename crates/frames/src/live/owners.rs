//! Finds the owner of the C library's lock that a thread waits for. Used by `circles`, `open` and `sleepers`.
//!
//! The kernel knows that a thread sleeps on a word (`futex`), but not what the word belongs to. glibc stores the owners of most of its
//! locks beside that word, in the same layout from 2.25 to 2.41:
//!
//! ```text
//!   pthread_mutex_t   sysdeps/x86/nptl/bits/struct_mutex.h      pthread_rwlock_t   sysdeps/x86/nptl/bits/struct_rwlock.h
//!   │ 0 lock ◄ word │ 4 count │ 8 owner │ 12 users │ 16 kind │   │ 0 readers │ 8 phase ◄ │ 12 writers ◄ │ 24 writer │
//!
//!   _IO_lock_t        sysdeps/nptl/stdio-lock.h                 struct pthread     nptl/descr.h, nptl/pthread_join_common.c
//!   │ 0 lock ◄ word │ 4 count │ 8 owner's struct pthread │      │ tid ◄ word: 0 when the thread has ended │
//! ```
//!
//! The innermost functions of the C library on the stack show which of them it is. All of it is memory of the guest, so an owner is
//! reported only if the lock looks locked and the number is the id of an existing thread: of this process, or, for a mutex that processes
//! share, of one that lancet can see. A condition, a semaphore, and a lock that a program builds on futexes itself have no stored owner.

use process::proc_file;
use process::status_file::StatusFile;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use process::pid_namespace::ids_of_thread;
use process::wait::Futex;
use vm::Memory;

use super::loaded::Loaded;
use super::stack::{Process, Stack};
use super::state::{Held, Owner, What};

/// Offsets in `pthread_mutex_t`.
const OWNER: u64 = 8;
const USERS: u64 = 12;
const KIND: u64 = 16;
/// Kinds of mutexes: four types (`PTHREAD_MUTEX_*_NP`), robust, PI, PP, and shared between processes (nptl/pthreadP.h); elision is flagged by
/// 256 and 512.
const KINDS: u32 = 0x3ff;
const PROTECTED: u32 = 64;
const SHARED: u32 = 128;
/// The bits of the word of a mutex with a priority ceiling that do not hold the ceiling.
const BELOW_CEILING: u32 = 0x7_ffff;
/// Offsets in `pthread_rwlock_t`.
const PHASE: u64 = 8;
const WRITERS: u64 = 12;
const WRITER: u64 = 24;
/// The id in the word of a robust mutex and of one with priority inheritance (`FUTEX_TID_MASK`, include/uapi/linux/futex.h).
const TID: u32 = 0x3fff_ffff;
/// State of a glibc mutex that is locked and waited for.
const CONTENDED: u32 = 2;
/// Time limit of the search for owners in other processes, for each look.
const LONGEST_SEARCH: Duration = Duration::from_millis(100);
/// Number of frames at the inner end of a stack that are examined to find the kind of lock.
const INNERMOST: usize = 6;

/// The threads of a process, by their ids in its own PID namespace.
pub(super) struct Owners {
    by_own_id: HashMap<i32, i32>,
    by_area: HashMap<u64, i32>,
    /// Whether the process is in the PID namespace of lancet.
    same_namespace: bool,
    /// Owners in other processes by their ids, and how long the search has taken.
    elsewhere: RefCell<HashMap<u32, Owner>>,
    searched: Cell<Duration>,
}

impl Owners {
    /// `threads` are the threads' ids and their fs bases, 0 where one is not known.
    pub(super) fn of(pid: i32, threads: impl Iterator<Item = (i32, u64)>) -> Owners {
        let mut owners = Owners {
            by_own_id: HashMap::new(),
            by_area: HashMap::new(),
            same_namespace: process::guest::pid_namespace(pid)
                == process::guest::pid_namespace(std::process::id() as i32),
            elsewhere: RefCell::new(HashMap::new()),
            searched: Cell::new(Duration::ZERO),
        };
        let same = owners.same_namespace;
        for (tid, area) in threads {
            let inner = match same {
                true => Some(tid),
                false => ids_of_thread(pid, tid).and_then(|ids| ids.last().copied()),
            };
            owners.by_own_id.extend(inner.map(|inner| (inner, tid)));
            if area != 0 {
                owners.by_area.insert(area, tid);
            }
        }
        owners
    }

    /// Returns whose lock a thread waits for that sleeps in this call; `None` if nothing shows that it waits for a lock.
    pub(super) fn held(&self, process: &Process, stack: &Stack, futex: &Futex) -> Option<Held> {
        let Futex { word, value, .. } = *futex;
        let memory = process.memory;
        let owner = |known: Option<i32>| known.map_or(Owner::Unknown, Owner::Thread);
        match sought(process, stack) {
            Some(What::End) => {
                let tid = memory.u32(word).ok()?;
                let ended = (tid == value).then(|| self.thread(tid)).flatten()?;
                let owner = Owner::Thread(ended);
                Some(Held {
                    what: What::End,
                    owner,
                })
            }
            Some(What::ReadWrite) => {
                let field = if word.is_multiple_of(8) {
                    PHASE
                } else {
                    WRITERS
                };
                let lock = word.checked_sub(field)?;
                let writer = memory.u32(lock.checked_add(WRITER)?).ok()?;
                let owner = match writer {
                    0 => Owner::Readers,
                    _ => owner(self.thread(writer)),
                };
                Some(Held {
                    what: What::ReadWrite,
                    owner,
                })
            }
            Some(What::Mutex) => self.mutex(memory, futex),
            Some(What::Stream) | None if value == CONTENDED => self.stream(memory, word),
            _ => None,
        }
    }

    fn thread(&self, own_id: u32) -> Option<i32> {
        self.by_own_id.get(&i32::try_from(own_id).ok()?).copied()
    }

    fn mutex(&self, memory: &dyn Memory, futex: &Futex) -> Option<Held> {
        let field = |at: u64| memory.u32(futex.word.checked_add(at)?).ok();
        let locked = field(0)?;
        if futex.inherits {
            let owner = self.anyone(locked & TID, futex);
            return Some(Held {
                what: What::Mutex,
                owner,
            });
        }
        let (owner, users, kind) = (field(OWNER)?, field(USERS)?, field(KIND)?);
        let state = match kind & PROTECTED {
            0 => locked,
            _ => locked & BELOW_CEILING,
        };
        // A robust mutex has its owner in the word too. One that another thread has just taken is not marked as contended yet.
        let fits = (1..=CONTENDED).contains(&state) || locked & TID == owner;
        if kind & !KINDS != 0 || locked == 0 || !fits {
            return None;
        }
        let owner = match (owner, users) {
            (0, _) | (_, 0) => Owner::Unknown,
            // An owner stores its id in its own PID namespace, which is unknown here.
            _ if kind & SHARED != 0 && !self.same_namespace => Owner::Unknown,
            _ if kind & SHARED != 0 => self.anyone(owner, futex),
            _ => self.thread(owner).map_or(Owner::Unknown, Owner::Thread),
        };
        Some(Held {
            what: What::Mutex,
            owner,
        })
    }

    /// Returns an owner that may be in another process, if the word is shared between processes.
    fn anyone(&self, own_id: u32, futex: &Futex) -> Owner {
        if let Some(tid) = self.thread(own_id) {
            return Owner::Thread(tid);
        }
        if let Some(known) = self.elsewhere.borrow().get(&own_id) {
            return known.clone();
        }
        // The word of a mutex with priority inheritance holds the owner's id in the namespace of the thread that waits. In another
        // namespace than lancet's, finding it would take a search through all threads of the machine, which is not made.
        if !futex.shared || !self.same_namespace || self.searched.get() >= LONGEST_SEARCH {
            return Owner::Unknown;
        }
        let began = Instant::now();
        let owner = elsewhere(own_id).unwrap_or(Owner::Unknown);
        self.searched.set(self.searched.get() + began.elapsed());
        self.elsewhere.borrow_mut().insert(own_id, owner.clone());
        owner
    }

    /// The owner of a stream is identified by the address of its `struct pthread`, the fs base, which cannot be mistaken.
    fn stream(&self, memory: &dyn Memory, word: u64) -> Option<Held> {
        if memory.u32(word).ok()? != CONTENDED {
            return None;
        }
        let area = memory.u64(word.checked_add(OWNER)?).ok()?;
        let owner = self.by_area.get(&area)?;
        Some(Held {
            what: What::Stream,
            owner: Owner::Thread(*owner),
        })
    }
}

/// Returns the thread with this id in another process.
fn elsewhere(id: u32) -> Option<Owner> {
    let tid = i32::try_from(id).ok()?;
    Some(Owner::Elsewhere {
        pid: StatusFile::of_first_thread(tid).ok()?.number("Tgid")?,
        tid,
        name: proc_file::name(tid)?,
    })
}

/// Returns which kind of lock a thread waits in, by the innermost function that shows it. Streams have no function of their own to wait in.
fn sought(process: &Process, stack: &Stack) -> Option<What> {
    // musl's locks have another layout (src/internal/pthread_impl.h), which is not read.
    if process.modules.iter().any(Loaded::is_musl) {
        return None;
    }
    let is_static = !process.modules.iter().any(Loaded::is_c_library);
    let innermost = stack.lines.iter().take(INNERMOST);
    let of_libc = innermost.map_while(|line| {
        let module = process.modules.get(line.module?)?;
        let function = line.function.as_ref()?;
        let is_its = is_static || module.is_c_library();
        is_its.then_some(function.name.as_deref().unwrap_or_default())
    });
    for name in of_libc {
        let name = name.trim_start_matches('_');
        let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if is(&["pthread_mutex_"]) {
            return Some(What::Mutex);
        }
        if is(&["pthread_rwlock_"]) {
            return Some(What::ReadWrite);
        }
        if is(&["pthread_join", "pthread_timedjoin", "pthread_clockjoin"]) {
            return Some(What::End);
        }
        if is(&["pthread_", "sem_", "new_sem_", "syscall"]) {
            return None;
        }
    }
    Some(What::Stream)
}
