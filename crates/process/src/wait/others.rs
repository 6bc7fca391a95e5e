//! Who else has to do with what a thread waits for: who has locked the file, who has the other end of the pipe or socket, which children are
//! there.
//!
//! The kernel tells these by the inode of a pipe or socket, so the descriptors of all processes that lancet may see (`/proc/*/fd`) are
//! read, once for all threads of a process and within a budget of time (`budget.rs`). Nothing is opened there and no file is asked for its attributes:
//! that could wait for a server of files that does not answer, which may be what the thread waits for. What is read are the links, and the
//! kernel's own account of a descriptor (`fdinfo`).

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
use crate::stop::thread_state;

/// Descriptors that are looked at between two looks at the clock.
const BETWEEN: usize = 256;
/// Links that are looked for, at most.
const MOST_LINKS: usize = 4096;
/// Processes that are told of each wait, at most; of more the number is told.
const TOLD: usize = 4;
/// Bytes of a file of the kernel's that are read.
const MOST: u64 = 1 << 16;

/// What others have to do with a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// They have locked the file.
    Lock,
    /// They have the other end.
    OtherEnd,
    /// They listen there, and have not accepted the connection yet.
    NotAccepted,
    /// They listen there, and do not answer.
    Listens,
    /// It is the child that is waited for.
    Child,
    /// They are the children, any of which is waited for.
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

/// Who else has to do with a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Others {
    /// Which of [`Wait::on`] it is; `None`: the call itself.
    pub on: Option<usize>,
    /// What they have to do with it.
    pub role: Role,
    /// The processes, without the one that waits.
    pub known: Vec<Other>,
    /// How many more there are.
    pub more: usize,
    /// Whether the process that waits is one of them itself.
    pub own: bool,
    /// Whether a lock belongs to an open file description, which may be of several processes, and not to a process.
    pub description: bool,
    /// Whether one of those who have locked the file waits in turn, directly or by others, for a file that this process has locked.
    pub in_turn: bool,
    /// The path of the other end of a socket, if it has one.
    pub path: Option<String>,
    /// Whether all processes were looked at. False if that took too long, or if lancet may not see the descriptors of some.
    pub whole: bool,
}

impl Others {
    /// Nobody yet.
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
            path: None,
            whole: true,
        }
    }

    fn add(&mut self, pid: i32, waiting: i32) {
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

/// Which descriptors of those that lead to a file, pipe or socket are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Needed {
    Any,
    /// Those by which it can be written.
    Writers,
    /// Those by which it can be read.
    Readers,
    /// Those whose open file description has such a lock.
    Lock(Kind),
}

/// What is looked for among the descriptors of all processes, for one wait.
struct Question {
    /// The wait, by its number, and what is added to it.
    of: usize,
    others: Others,
    needed: Needed,
    /// The inode of the file, where the link is a path, which in another mount namespace may be that of another file.
    inode: Option<u64>,
    /// The process that was added last: it may have many such descriptors, which come one behind the other.
    added: i32,
}

/// Finds out who else has to do with what threads of process `pid` wait for, and adds it to their waits.
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

/// What is asked about one process, and what was read for it.
struct Search {
    pid: i32,
    budget: Budget,
    sockets: Sockets,
    locks: Option<Locks>,
    /// Its children, by what it calls them itself and by their id with lancet, and whether these are all.
    children: Option<(Vec<(i32, i32)>, bool)>,
    /// The questions by the link of `/proc/PID/fd` that they are about.
    links: HashMap<OsString, Vec<Question>>,
}

impl Search {
    /// Asks about a descriptor that a wait is on; what is known without a search is added to the wait.
    fn ask(&mut self, wait: &mut Wait, of: usize, (on, fd): (usize, u32)) -> Option<()> {
        let pid = self.pid;
        let link = fs::read_link(format!("/proc/{pid}/fd/{fd}")).ok()?;
        let text = link.to_str()?.to_owned();
        let inode = |kind: &str| {
            let number = text.strip_prefix(kind)?.strip_suffix(']')?;
            number.parse::<u64>().ok()
        };
        let (link, on) = (link.into_os_string(), Some(on));
        if let Some(kind) = lock_of(wait) {
            let others = Others::new(on, Role::Lock);
            return self.ask_for_owners(wait, of, (kind, fd, link), others);
        }
        if let Some(inode) = inode("socket:[") {
            return self.ask_for_peer(wait, of, inode, on);
        }
        // Who sleeps on what has a path, and can be interrupted, sleeps on a FIFO or a device: a disk lets nobody be interrupted.
        let is_path = text.starts_with('/') && !text.starts_with("/dev/");
        let is_fifo = is_path && moves_bytes(wait) && !wait.uninterruptible;
        if inode("pipe:[").is_some() || is_fifo {
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

    /// Who has locked the file of this descriptor?
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
            let lives = **owner > 0 && thread_state(**owner, **owner).is_some();
            // Of a lock of the whole file it is who took it. That one may have ended, and its id be another's.
            lives && (kind != Kind::Whole || has_lock(**owner, &link, kind))
        };
        for owner in owners.pids.iter().filter(is_there) {
            others.add(*owner, pid);
        }
        // Who took a lock of the whole file may have ended, and left the description to its children.
        let is_nobody = others.known.is_empty() && !others.own;
        if owners.pids.is_empty() {
            return None;
        }
        if others.description || is_nobody {
            // A process's lock and an open file description's exclude each other.
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

    /// Who has the other end of this socket?
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
                // A process that has ended has -1.
                let child = field(&info, "Pid:")?.parse().ok();
                others.add(child.filter(|child| *child > 0)?, self.pid);
                return Some(others);
            }
            libc::SYS_wait4 | libc::SYS_waitid => None,
            // The parent waits until the child runs another program, or ends.
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
            // It was made before its parent began to wait, and nothing is made meanwhile by this thread.
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

    /// Reads the descriptors of all processes.
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

    /// Looks at the descriptors of a process; false if not all of them were seen.
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

/// Whether a process has a descriptor of this file with such a lock. One whose descriptors may not be seen is believed.
fn has_lock(pid: i32, link: &OsStr, kind: Kind) -> bool {
    let Ok(descriptors) = proc_file::descriptors(pid) else {
        return true;
    };
    descriptors.take(MOST_LINKS).any(|one| {
        one.target().is_some_and(|to| to.as_os_str() == link)
            && info(pid, one.number).is_some_and(|info| locks::has(&info, kind))
    })
}

/// The children of a process, by what it calls them itself and by their id with lancet, and whether these are all that there are.
fn children_of(pid: i32, budget: Budget) -> (Vec<(i32, i32)>, bool) {
    // A child may be in a namespace within that of its parent, which calls it by its id in its own.
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
    /// Whether a descriptor with this account of the kernel's is meant.
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

/// The kind of lock that a call waits for.
fn lock_of(wait: &Wait) -> Option<Kind> {
    let command = wait.arguments[1] as i32;
    match wait.number {
        libc::SYS_flock => Some(Kind::Whole),
        libc::SYS_fcntl if command == libc::F_SETLKW => Some(Kind::Process),
        libc::SYS_fcntl if command == libc::F_OFD_SETLKW => Some(Kind::Description),
        _ => None,
    }
}

/// Whether a call waits for bytes that another writes or reads.
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

fn other(pid: i32) -> Other {
    Other {
        pid,
        name: proc_file::name(pid).unwrap_or_default(),
        state: thread_state(pid, pid),
    }
}

/// Returns the kernel's account of a descriptor (Documentation/filesystems/proc.rst, `fdinfo`).
fn info(pid: i32, fd: u32) -> Option<String> {
    proc_file::text_up_to(format!("/proc/{pid}/fdinfo/{fd}"), MOST).ok()
}

fn field<'a>(info: &'a str, label: &str) -> Option<&'a str> {
    let line = info.lines().find_map(|line| line.strip_prefix(label))?;
    Some(line.trim())
}

/// The inode of what a descriptor leads to; `None` before Linux 5.14.
fn inode_of(info: &str) -> Option<u64> {
    field(info, "ino:")?.parse().ok()
}

fn flags_of(info: &str) -> Option<i32> {
    i32::from_str_radix(field(info, "flags:")?, 8).ok()
}
