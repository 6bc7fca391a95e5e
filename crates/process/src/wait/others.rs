//! Finds the other processes that are involved in a wait: which one has locked the file, which one has the other end of the pipe or socket,
//! which children exist. Used by `in_turn`, `retried` and others here, and by the crates `report` and `frames`.
//!
//! The kernel identifies pipes and sockets by inode, so the descriptors of all processes that lancet may see (`/proc/*/fd`) are read, once
//! for all threads of a process and within a limit of time (`budget.rs`). Nothing is opened there and no file's attributes are read,
//! because that could wait for a file server that does not answer, which may be what the thread waits for. Only the links, and the kernel's
//! own file about a descriptor (`fdinfo`), are read.

use crate::proc_file;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;

use super::Wait;
use super::budget::Budget;
use super::locks::{self, Kind, Locks};
use crate::guest::{Status, children};
use crate::pid_namespace::ids_of_thread;
use crate::sockets::{Peer, Sockets};
use crate::stop::{thread_is_gone, thread_state};

/// Number of descriptors between two checks of the time.
const BETWEEN: usize = 256;
/// Limit of links that are searched for.
const MOST_LINKS: usize = 4096;
/// Limit of processes that are listed for each wait; further ones are counted.
const TOLD: usize = 4;
/// Limit of the bytes that are read of a file of the kernel.
const MOST: u64 = 1 << 16;

/// How other processes are involved in a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// They have locked the file.
    Lock,
    /// They have locked a file that the process has open, while a thread of it sleeps that may want to lock it ([`retried`](super::retried)).
    LockedMeanwhile,
    /// They have the other end of the pipe or socket.
    OtherEnd,
    /// They listen there, and have not accepted the connection yet.
    NotAccepted,
    /// They listen there, and do not answer.
    Listens,
    /// It is the child that the call waits for.
    Child,
    /// They are the children, for any of which the call waits.
    Children,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Other {
    #[allow(missing_docs)] // The name says it.
    pub pid: i32,
    /// Its name, as it has set it; empty if it is gone.
    pub name: String,
    /// Its state, as `/proc/PID/stat` writes it; `None` if it is gone.
    pub state: Option<char>,
}

/// The other processes that are involved in a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Others {
    /// The index in [`Wait::on`] of the descriptor; `None`: the call itself.
    pub on: Option<usize>,
    /// How they are involved.
    pub role: Role,
    /// The processes, without the one that waits.
    pub known: Vec<Other>,
    /// How many more there are.
    pub more: usize,
    /// Whether the process that waits is one of them itself.
    pub own: bool,
    /// Whether a lock belongs to an open file description, which several processes may share, and not to a process.
    pub description: bool,
    /// Whether an owner of the lock in turn waits, directly or through others, for a file that this process has locked; of the end of a child
    /// and of the other end of a pipe or socket, whether that process waits for this one.
    pub in_turn: bool,
    /// What that process waits for then: `write: pipe, descriptor 1` ([`crate::in_turn`]).
    pub in_turn_for: Option<String>,
    /// Of the end of a child: the process that [stands still](crate::standstill), that child or a child of it for which it waits.
    pub stands: Option<Other>,
    /// The path of the other end of a socket, if it has one; of [`Role::LockedMeanwhile`] that of the file.
    pub path: Option<String>,
    /// Whether all processes were searched, or all locks and descriptors. False if that took too long, or if lancet may not see some.
    pub whole: bool,
}

impl Others {
    /// Without any process yet.
    #[must_use]
    pub fn new(on: Option<usize>, role: Role) -> Others {
        Others {
            on,
            role,
            known: Vec::new(),
            more: 0,
            own: false,
            description: false,
            in_turn: false,
            in_turn_for: None,
            stands: None,
            path: None,
            whole: true,
        }
    }

    pub(super) fn add(&mut self, pid: i32, waiting: i32) {
        if pid == waiting {
            self.own = true;
        } else if self.known.iter().any(|other| other.pid == pid) {
        } else if self.known.len() < TOLD {
            self.known.push(other(pid));
        } else {
            self.more += 1;
        }
    }
}

/// Which descriptors of a file, pipe or socket are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    Any,
    /// Those that are open for writing.
    Writers,
    /// Those that are open for reading.
    Readers,
    /// Those whose open file description has a lock of this kind.
    Lock(Kind),
}

/// What is searched for among the descriptors of all processes, for one wait.
struct Question {
    /// The index of the wait, and what will be added to it.
    of: usize,
    others: Others,
    needed: Needed,
    /// The inode of the file, if the link is a path, which in another mount namespace may be that of another file.
    inode: Option<u64>,
    /// The process that was added last, because it may have many such descriptors, one after the other.
    added: i32,
}

/// Finds the other processes that are involved in waits of threads of process `pid`, and adds them to the waits.
pub fn find(pid: i32, waits: &mut [&mut Wait]) {
    let mut search = Search {
        pid,
        budget: Budget::begin(),
        sockets: Sockets::of(pid),
        locks: None,
        children: None,
        links: HashMap::new(),
    };
    for (of, wait) in waits.iter_mut().enumerate() {
        if search.budget.is_spent() {
            break;
        }
        if let Some(others) = search.awaited_children(wait) {
            wait.others.push(others);
        }
        if wait.call.is_some_and(|call| call.starts_with("epoll")) {
            continue;
        }
        for (on, fd) in wait.told.clone().into_iter().enumerate() {
            search.ask(wait, of, (on, fd as u32));
        }
    }
    for question in search.answers() {
        if let Some(wait) = waits.get_mut(question.of) {
            wait.others.push(question.others);
        }
    }
    for wait in waits {
        wait.others.sort_by_key(|others| others.on);
    }
}

/// The questions about one process, and the data that were read for them.
struct Search {
    pid: i32,
    budget: Budget,
    sockets: Sockets,
    locks: Option<Locks>,
    /// Its children, each by its id in the process's namespace and its id here, and whether these are all.
    children: Option<(Vec<(i32, i32)>, bool)>,
    /// The questions, by the link in `/proc/PID/fd` that they are about.
    links: HashMap<OsString, Vec<Question>>,
}

impl Search {
    /// Adds a question about a descriptor of a wait. What is known without a search is added to the wait at once.
    fn ask(&mut self, wait: &mut Wait, of: usize, (on, fd): (usize, u32)) -> Option<()> {
        let pid = self.pid;
        let link = fs::read_link(proc_file::path(pid, &format!("fd/{fd}"))).ok()?;
        let text = link.to_str()?.to_owned();
        let (link, on) = (link.into_os_string(), Some(on));
        if let Some(kind) = lock_of(wait) {
            let others = Others::new(on, Role::Lock);
            return self.ask_for_owners(wait, of, (kind, fd, link), others);
        }
        if let Some(inode) = proc_file::inode_of_link(&text, "socket") {
            return self.ask_for_peer(wait, of, inode, on);
        }
        // A thread that sleeps interruptibly on something with a path sleeps on a FIFO or a device, because waits for a disk cannot be
        // interrupted.
        let is_path = text.starts_with('/') && !text.starts_with("/dev/");
        let is_fifo = is_path && moves_bytes(wait) && !wait.uninterruptible;
        if proc_file::inode_of_link(&text, "pipe").is_some() || is_fifo {
            let info = info(pid, fd)?;
            let needed = match flags_of(&info)? & libc::O_ACCMODE {
                libc::O_RDONLY => Needed::Writers,
                libc::O_WRONLY => Needed::Readers,
                _ => Needed::Any,
            };
            let others = Others::new(on, Role::OtherEnd);
            let inode = inode_of(&info).filter(|_| is_fifo);
            self.want((link, inode), of, others, needed);
        }
        Some(())
    }

    /// Finds or searches the owner of a lock on the file of this descriptor.
    fn ask_for_owners(
        &mut self,
        wait: &mut Wait,
        of: usize,
        (kind, fd, link): (Kind, u32, OsString),
        mut others: Others,
    ) -> Option<()> {
        let pid = self.pid;
        let inode = inode_of(&info(pid, fd)?);
        let locks = self.locks.get_or_insert_with(Locks::read);
        let owners = locks.owners(pid, inode, kind);
        others.in_turn = owners.in_turn;
        others.description = owners.pids.contains(&-1);
        let is_there = |owner: &&i32| {
            let lives = **owner > 0 && !thread_is_gone(**owner, **owner);
            // For a lock of the whole file it is the process that took it, which may have ended, so that its id belongs to another one.
            lives && (kind != Kind::Whole || has_lock(**owner, &link, kind))
        };
        for owner in owners.pids.iter().filter(is_there) {
            others.add(*owner, pid);
        }
        // The process that took a lock of the whole file may have ended, and its children share the description.
        let is_nobody = others.known.is_empty() && !others.own;
        if owners.pids.is_empty() {
            return None;
        }
        if others.description || is_nobody {
            // A process's lock and an open file description's lock exclude each other.
            let of_owner = match others.description {
                true => Kind::Description,
                false => kind,
            };
            self.want((link, inode), of, others, Needed::Lock(of_owner));
        } else {
            wait.others.push(others);
        }
        Some(())
    }

    /// Finds or searches the process with the other end of this socket.
    fn ask_for_peer(
        &mut self,
        wait: &mut Wait,
        of: usize,
        inode: u64,
        on: Option<usize>,
    ) -> Option<()> {
        let (role, peer, path) = match self.sockets.peer(inode)? {
            Peer::Socket(peer, path) => (Role::OtherEnd, peer, path),
            Peer::Listens(peer) => (Role::Listens, peer, None),
            Peer::NotAccepted(Some(peer)) => (Role::NotAccepted, peer, None),
            Peer::NotAccepted(None) => {
                wait.others.push(Others::new(on, Role::NotAccepted));
                return Some(());
            }
        };
        let mut others = Others::new(on, role);
        others.path = path;
        let link = format!("socket:[{peer}]").into();
        self.want((link, None), of, others, Needed::Any);
        Some(())
    }

    /// Returns the children that a call waits for; `None` for other calls.
    fn awaited_children(&mut self, wait: &Wait) -> Option<Others> {
        let [first, second, ..] = wait.arguments;
        let one = match wait.number {
            libc::SYS_wait4 if first as i32 > 0 => Some(first as i32),
            libc::SYS_waitid if first as u32 == libc::P_PID => Some(second as i32),
            libc::SYS_waitid if first as u32 == libc::P_PIDFD => {
                let info = info(self.pid, second as u32)?;
                let mut others = Others::new(None, Role::Child);
                // A process that has ended has -1 there.
                let child = field(&info, "Pid:")?.parse().ok();
                others.add(child.filter(|child| *child > 0)?, self.pid);
                return Some(others);
            }
            libc::SYS_wait4 | libc::SYS_waitid => None,
            // The parent waits until the child runs another program or ends.
            libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => None,
            _ => return None,
        };
        let is_any = one.is_none() && matches!(wait.number, libc::SYS_wait4 | libc::SYS_waitid);
        let role = if is_any { Role::Children } else { Role::Child };
        let mut others = Others::new(None, role);
        let pid = self.pid;
        let budget = self.budget;
        let (children, whole) = self
            .children
            .get_or_insert_with(|| children_of(pid, budget));
        others.whole = *whole;
        if one.is_none() && !is_any {
            // The child was made before its parent began to wait, and this thread makes none meanwhile.
            let born = |child: i32| Status::read(child).map_or(0, |status| status.start);
            let youngest = children.iter().max_by_key(|(_, child)| born(*child))?;
            others.add(youngest.1, pid);
            return Some(others);
        }
        for (own_id, child) in children {
            if one.is_none_or(|one| one == *own_id) {
                others.add(*child, pid);
            }
        }
        Some(others)
    }

    fn want(
        &mut self,
        (link, inode): (OsString, Option<u64>),
        of: usize,
        others: Others,
        needed: Needed,
    ) {
        if self.links.len() < MOST_LINKS || self.links.contains_key(&link) {
            let questions = self.links.entry(link).or_default();
            questions.push(Question {
                of,
                others,
                needed,
                inode,
                added: 0,
            });
        }
    }

    /// Searches the descriptors of all processes.
    fn answers(mut self) -> Vec<Question> {
        let mut whole = true;
        if !self.links.is_empty() {
            // lancet itself is one of them: it may be at the other end of a pipe.
            for pid in proc_file::numbers("/proc") {
                whole &= self.look(pid);
            }
        }
        let mut questions: Vec<Question> = self.links.into_values().flatten().collect();
        for question in &mut questions {
            question.others.whole = whole;
        }
        questions
    }

    /// Searches the descriptors of a process. Returns false if not all of them were seen.
    fn look(&mut self, pid: i32) -> bool {
        if self.budget.is_spent() {
            return false;
        }
        let descriptors = match proc_file::descriptors(pid) {
            Ok(descriptors) => descriptors,
            // It has ended.
            Err(error) => return error.kind() == std::io::ErrorKind::NotFound,
        };
        for (number, descriptor) in descriptors.enumerate() {
            if number % BETWEEN == BETWEEN - 1 && self.budget.is_spent() {
                return false;
            }
            let Some(link) = descriptor.target() else {
                continue;
            };
            let Some(questions) = self.links.get_mut(link.as_os_str()) else {
                continue;
            };
            // A thousand threads may wait on one pipe that has a thousand descriptors.
            if self.budget.is_spent() {
                return false;
            }
            let info = info(pid, descriptor.number).unwrap_or_default();
            let there = inode_of(&info);
            for question in questions {
                let same = question.inode.is_none() || there.is_none() || question.inode == there;
                if same && question.added != pid && question.needed.fits(&info) {
                    question.added = pid;
                    question.others.add(pid, self.pid);
                }
            }
        }
        true
    }
}

/// Whether a process has a descriptor of this file with a lock of this kind. True if its descriptors may not be read.
fn has_lock(pid: i32, link: &OsStr, kind: Kind) -> bool {
    let Ok(descriptors) = proc_file::descriptors(pid) else {
        return true;
    };
    descriptors.take(MOST_LINKS).any(|one| {
        one.target().is_some_and(|to| to.as_os_str() == link)
            && info(pid, one.number).is_some_and(|info| locks::has(&info, kind))
    })
}

/// Returns the children of a process, each by its id in the process's namespace and its id here, and whether these are all.
fn children_of(pid: i32, budget: Budget) -> (Vec<(i32, i32)>, bool) {
    // A child may be in an inner namespace, and its parent knows it by the id in the parent's own.
    let depth = ids_of_thread(pid, pid).map_or(1, |ids| ids.len());
    let mut named = Vec::new();
    for child in children(pid) {
        if budget.is_spent() {
            return (named, false);
        }
        let ids = ids_of_thread(child, child).unwrap_or_default();
        let id = depth.checked_sub(1).and_then(|at| ids.get(at));
        named.extend(id.map(|id| (*id, child)));
    }
    (named, true)
}

impl Needed {
    /// Whether a descriptor with this `fdinfo` is wanted.
    fn fits(self, info: &str) -> bool {
        let mode = flags_of(info).map(|flags| flags & libc::O_ACCMODE);
        match self {
            Needed::Any => true,
            Needed::Writers => mode.is_some_and(|mode| mode != libc::O_RDONLY),
            Needed::Readers => mode.is_some_and(|mode| mode != libc::O_WRONLY),
            Needed::Lock(kind) => locks::has(info, kind),
        }
    }
}

/// Returns the kind of lock that a call waits for.
fn lock_of(wait: &Wait) -> Option<Kind> {
    let command = wait.arguments[1] as i32;
    match wait.number {
        libc::SYS_flock => Some(Kind::Whole),
        libc::SYS_fcntl if command == libc::F_SETLKW => Some(Kind::Process),
        libc::SYS_fcntl if command == libc::F_OFD_SETLKW => Some(Kind::Description),
        _ => None,
    }
}

/// Whether a call waits for bytes that another process writes or reads.
fn moves_bytes(wait: &Wait) -> bool {
    let calls = [
        libc::SYS_read,
        libc::SYS_readv,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_splice,
        libc::SYS_poll,
        libc::SYS_ppoll,
        libc::SYS_select,
        libc::SYS_pselect6,
    ];
    calls.contains(&wait.number)
}

pub(crate) fn other(pid: i32) -> Other {
    Other {
        pid,
        name: proc_file::name(pid).unwrap_or_default(),
        state: thread_state(pid, pid),
    }
}

/// Returns the kernel's file about a descriptor (Documentation/filesystems/proc.rst, `fdinfo`).
pub(super) fn info(pid: i32, fd: u32) -> Option<String> {
    proc_file::text_up_to(proc_file::path(pid, &format!("fdinfo/{fd}")), MOST).ok()
}

pub(super) fn field<'a>(info: &'a str, label: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(label))?;
    Some(line.trim())
}

/// Returns the inode of a descriptor's file; `None` before Linux 5.14.
pub(super) fn inode_of(info: &str) -> Option<u64> {
    field(info, "ino:")?.parse().ok()
}

fn flags_of(info: &str) -> Option<i32> {
    i32::from_str_radix(field(info, "flags:")?, 8).ok()
}
