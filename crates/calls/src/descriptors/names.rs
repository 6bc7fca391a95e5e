//! Names of descriptors: paths, and both ends of sockets. Used by the crates `report` and `lancet`.
//!
//! When a call is read, its descriptor may be closed and its number used again, so the kernel's table (`/proc/PID/fd`) alone would give the
//! wrong file. The calls themselves take precedence:
//!
//! ```text
//!   opened                 /proc/PID/fd, all of it once; the working directory
//!   openat = 3             the path of the call; the kernel's link if its last component is the same
//!   dup, fork              what the first one is called
//!   socket, connect, bind  the protocol and the addresses of the calls; the kernel's tables for what they leave out
//!   close(3)               nothing any more, from its call on
//!   clone, pidfd_open      the process; what a message or a command of ioctl brings, the kernel's link
//!   never seen             /proc/PID/fd now (it came by io_uring, …)
//! ```
//!
//! A recording has no `/proc`: a descriptor whose opening it did not see has no name. A guest's path is looked up with `O_PATH` within the
//! guest's root, so that no file is opened because a guest says so.

mod ends;
mod files;
mod name;

use super::effect::Effect;
use process::proc_file;
use prototypes::show::{Captures, Memory as _};
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::rc::Rc;

use ends::End;
use files::{Place, link_of};
pub use name::{Device, More, Name};

/// The descriptor that stands for the working directory: `AT_FDCWD` (include/uapi/linux/fcntl.h).
const CURRENT: i32 = -100;
/// `O_TMPFILE` (include/uapi/asm-generic/fcntl.h): the path is that of the folder.
const TEMPORARY: u64 = 0o20_200_000;
/// Limit of the descriptors of one process that are named.
const MOST: usize = 1 << 16;

/// Returns the system calls that must be seen for the names to be right.
pub fn followed() -> impl Iterator<Item = &'static str> {
    const OTHERS: [&str; 5] = ["chdir", "fchdir", "connect", "bind", "listen"];
    super::effect::all().chain(OTHERS)
}

/// One system call, as it was made.
#[derive(Clone, Copy)]
pub struct Made<'a> {
    /// Id of the process that makes it.
    pub process: i32,
    /// The name of the call, as in `conf/syscalls.conf`.
    pub name: &'a str,
    /// The arguments, as they are in the registers.
    pub arguments: &'a [u64; 6],
    /// What was copied when it was made.
    pub entry: &'a Captures,
}

/// What is known of one descriptor.
#[derive(Clone, Debug)]
enum Entry {
    /// A link in `/proc/PID/fd`, and the device that it leads to.
    Link(Rc<Name>),
    /// A socket, which all copies of the descriptor share.
    Socket(Rc<RefCell<End>>),
}

/// The descriptors of one process.
#[derive(Clone, Debug, Default)]
struct Table {
    place: Place,
    known: HashMap<i32, Entry>,
}

/// Whether the kernel can be asked about descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asking {
    /// It cannot, because the source is a recording.
    #[default]
    Nobody,
    /// It can, but each call is read some time after it was made.
    Later,
    /// It can, while the thread stands still at the call, so that the answer is valid.
    AtOnce,
}

/// The names of the descriptors of all processes of one run. It must receive every call of [`followed`] in the order of time: after a
/// missed call, a number may have the name of a file that is closed.
#[derive(Debug, Default)]
pub struct Names {
    asking: Asking,
    /// Whether the processes run, so that the kernel can be asked.
    live: bool,
    processes: HashMap<i32, Table>,
}

impl Names {
    /// Returns a table in which nothing is known yet.
    #[must_use]
    pub fn new(asking: Asking) -> Self {
        Names {
            asking,
            live: asking != Asking::Nobody,
            processes: HashMap::new(),
        }
    }

    /// Notes that a process was opened, or runs another program from now on, and reads the descriptors that it has.
    pub fn opened(&mut self, process: i32) {
        if !self.live {
            return;
        }
        let mut table = Table {
            place: Place::of(process),
            known: HashMap::new(),
        };
        let numbers = super::numbers(process).unwrap_or_default();
        for number in numbers.into_iter().take(MOST) {
            if let Some(entry) = look(process, number as i32) {
                table.known.insert(number as i32, entry);
            }
        }
        self.processes.insert(process, table);
    }

    /// Notes that a child was made, which has its parent's descriptors. The entries of a child that is known already are kept.
    pub fn forked(&mut self, parent: i32, child: i32) {
        if let Some(table) = self.processes.get(&parent) {
            let table = table.clone();
            self.processes.entry(child).or_insert(table);
        }
    }

    /// Notes that a process has ended, and forgets all of it: another process may have its id later.
    pub fn ended(&mut self, process: i32) {
        self.processes.remove(&process);
    }

    /// Notes that a process runs another program, and forgets its descriptors; its working directory stays known.
    pub fn replaced(&mut self, process: i32) {
        if let Some(table) = self.processes.get_mut(&process) {
            table.known.clear();
        }
    }

    /// Returns the name of a descriptor; `CURRENT` is the working directory. `is_open` = it is open if nothing else is known of it.
    pub fn name(&mut self, process: i32, number: i32, is_open: bool) -> Option<Name> {
        let (live, at_once) = (self.live, self.asking == Asking::AtOnce);
        let table = self.processes.entry(process).or_default();
        if number == CURRENT {
            let link = match at_once {
                true => process::guest::working_directory(process)?,
                false => table.place.current(live.then_some(process))?,
            };
            return Some(Name {
                link,
                ..Name::default()
            });
        }
        if number < 0 {
            return None;
        }
        if at_once && is_open {
            match (look(process, number)?, table.known.get(&number)) {
                // For a socket the kernel shows less than its calls have.
                (Entry::Socket(_), Some(Entry::Socket(_))) => {}
                (found, _) => table.put(number, Some(found)),
            }
        }
        let entry = match table.known.entry(number) {
            Slot::Occupied(known) => known.into_mut(),
            Slot::Vacant(free) => free.insert((live && is_open).then(|| look(process, number))??),
        };
        Some(match entry {
            Entry::Link(name) => (**name).clone(),
            Entry::Socket(end) => end.borrow_mut().name(live.then_some(process)),
        })
    }

    /// Returns the protocol of a netlink socket, if it is known.
    pub fn netlink(&mut self, process: i32, number: i32) -> Option<u32> {
        let table = self.processes.get(&process)?;
        match table.known.get(&number)? {
            Entry::Socket(end) => end.borrow().netlink(),
            Entry::Link(_) => None,
        }
    }

    /// Handles a call that is made, after it was written: forgets what it closes.
    pub fn enter(&mut self, made: Made) {
        let effect = Effect::of(made.name, made.arguments, made.entry);
        let Some(Effect::Closes(first, last)) = effect else {
            return;
        };
        let known = &mut self.processes.entry(made.process).or_default().known;
        if first == last {
            known.remove(&(first as i32));
        } else {
            known.retain(|number, _| !(first..=last).contains(&(*number as u32)));
        }
    }

    /// Handles a call that has returned, before it is written: notes what it has opened or changed.
    pub fn leave(&mut self, made: Made, back: &Captures, result: u64) {
        let failed = result as i64;
        // connect goes on in the background (EINPROGRESS, include/uapi/asm-generic/errno.h).
        let begun = made.name == "connect" && failed == -115;
        if (-4095..0).contains(&failed) && !begun {
            return;
        }
        let live = self.live;
        let table = self.processes.entry(made.process).or_default();
        match Effect::of(made.name, made.arguments, made.entry) {
            Some(Effect::Opens(opening)) => match *opening.numbers(back, result) {
                [first, second] if matches!(made.name, "pipe" | "pipe2" | "socketpair") => {
                    table.pair(&made, [first, second], live);
                }
                ref numbers => {
                    for number in numbers {
                        let entry = table.opened(&made, back, *number, result, live);
                        table.put(*number, entry);
                    }
                }
            },
            Some(Effect::Closes(..)) => {}
            None => table.changed(&made, back),
        }
    }
}

impl Table {
    fn put(&mut self, number: i32, entry: Option<Entry>) {
        match entry {
            Some(entry) if self.known.len() < MOST => {
                self.known.insert(number, entry);
            }
            _ => {
                self.known.remove(&number);
            }
        }
    }

    fn socket(&self, number: u64) -> Option<&Rc<RefCell<End>>> {
        match self.known.get(&(number as i32))? {
            Entry::Socket(end) => Some(end),
            Entry::Link(_) => None,
        }
    }

    /// Returns what a call has opened under this number.
    fn opened(
        &self,
        made: &Made,
        back: &Captures,
        number: i32,
        result: u64,
        live: bool,
    ) -> Option<Entry> {
        let [first, second, third, ..] = *made.arguments;
        let of = live.then_some(made.process);
        let link = |text: &str| {
            let link = text.to_owned();
            Some(Entry::Link(Rc::new(Name {
                link,
                ..Name::default()
            })))
        };
        match made.name {
            "open" if second & TEMPORARY == TEMPORARY => look(of?, number),
            "openat" if third & TEMPORARY == TEMPORARY => look(of?, number),
            "open" | "creat" => self.file(made, CURRENT, first, number, of),
            "openat" | "openat2" => self.file(made, first as i32, second, number, of),
            "dup" | "dup2" | "dup3" | "fcntl" => match self.known.get(&(first as i32)) {
                Some(entry) => Some(entry.clone()),
                None => look(of?, number),
            },
            "socket" => {
                let end = End::new(first, second, third, inode(of, number));
                Some(Entry::Socket(Rc::new(RefCell::new(end))))
            }
            "accept" | "accept4" => {
                let listener = self.socket(first)?.borrow();
                let end = listener.accepted(made.arguments, back, inode(of, number));
                Some(Entry::Socket(Rc::new(RefCell::new(end))))
            }
            "memfd_create" => Some(Entry::Link(Rc::new(Name {
                link: format!("/memfd:{}", files::text(made.entry, first)),
                deleted: true,
                more: None,
            }))),
            "pidfd_open" => Some(of_process(first as i32)),
            // The pidfd of its child.
            "clone" | "clone3" => Some(of_process(result as i32)),
            "eventfd" | "eventfd2" => link("anon_inode:[eventfd]"),
            "epoll_create" | "epoll_create1" => link("anon_inode:[eventpoll]"),
            "timerfd_create" => link("anon_inode:[timerfd]"),
            "signalfd" | "signalfd4" => link("anon_inode:[signalfd]"),
            "inotify_init" | "inotify_init1" => link("anon_inode:inotify"),
            "io_uring_setup" => link("anon_inode:[io_uring]"),
            "userfaultfd" => link("anon_inode:[userfaultfd]"),
            "perf_event_open" => link("anon_inode:[perf_event]"),
            "fanotify_init" => link("anon_inode:[fanotify]"),
            _ => look(of?, number),
        }
    }

    /// Returns the file that a call has opened by its path.
    fn file(
        &self,
        made: &Made,
        directory: i32,
        path: u64,
        number: i32,
        of: Option<i32>,
    ) -> Option<Entry> {
        let path = files::text(made.entry, path);
        let base = match directory {
            CURRENT => self.place.current(of),
            number => match self.known.get(&number) {
                Some(Entry::Link(name)) => Some(name.link.clone()),
                _ => None,
            },
        };
        let name = self.place.file(
            base.as_deref(),
            &path,
            made.process,
            of.map(|of| (of, number)),
        );
        Some(Entry::Link(Rc::new(name?)))
    }

    /// Notes the two descriptors that a call has opened, each the other's end.
    fn pair(&mut self, made: &Made, pair: [i32; 2], live: bool) {
        let of = live.then_some(made.process);
        let [first, second] = pair;
        if made.name != "socketpair" {
            let known = of.and_then(|of| link_of(of, first));
            let known = known.filter(|link| link.starts_with("pipe:["));
            let link = known.unwrap_or_else(|| "pipe:[?]".into());
            let entry = Entry::Link(Rc::new(Name {
                link,
                ..Name::default()
            }));
            self.put(first, Some(entry.clone()));
            return self.put(second, Some(entry));
        }
        let inodes = pair.map(|number| inode(of, number));
        for (number, [own, peer]) in [(first, inodes), (second, [inodes[1], inodes[0]])] {
            let [family, kind, protocol, ..] = *made.arguments;
            let mut end = End::new(family, kind, protocol, own);
            end.paired_with(peer);
            self.put(number, Some(Entry::Socket(Rc::new(RefCell::new(end)))));
        }
    }

    /// Notes what a call that opens nothing changes: the working directory, or the addresses of a socket.
    fn changed(&mut self, made: &Made, back: &Captures) {
        let [first, second, third, ..] = *made.arguments;
        match made.name {
            "chdir" => {
                let path = files::text(made.entry, first);
                self.place.enter(&path, made.process);
            }
            "fchdir" => {
                if let Some(Entry::Link(name)) = self.known.get(&(first as i32)) {
                    let link = name.link.clone();
                    self.place.enter(&link, made.process);
                }
            }
            "connect" | "bind" => {
                if let Some(end) = self.socket(first) {
                    let is_peer = made.name == "connect";
                    end.borrow_mut()
                        .addressed(made.entry, second, third, is_peer);
                }
            }
            "getsockname" | "getpeername" => {
                if let Some(end) = self.socket(first) {
                    let is_peer = made.name == "getpeername";
                    let mut length = [0; 4];
                    if back.read(third, &mut length) {
                        let length = u32::from_le_bytes(length).into();
                        end.borrow_mut().addressed(back, second, length, is_peer);
                    }
                }
            }
            "listen" | "sendto" | "sendmsg" => {
                if let Some(end) = self.socket(first) {
                    end.borrow_mut().may_be_bound();
                }
            }
            _ => {}
        }
    }
}

/// Returns the entry of a descriptor that refers to a process.
fn of_process(process: i32) -> Entry {
    Entry::Link(Rc::new(Name {
        link: "anon_inode:[pidfd]".into(),
        deleted: false,
        more: Some(More::Process(process)),
    }))
}

/// Returns the entry of a descriptor from the kernel's table, as it is now.
fn look(process: i32, number: i32) -> Option<Entry> {
    let link = link_of(process, number)?;
    Some(match proc_file::inode_of_link(&link, "socket") {
        Some(inode) => Entry::Socket(Rc::new(RefCell::new(End::found(inode)))),
        None => Entry::Link(Rc::new(files::found(process, number, link))),
    })
}

/// Returns the inode of a socket that was just made.
fn inode(process: Option<i32>, number: i32) -> Option<u64> {
    proc_file::inode_of_link(&link_of(process?, number)?, "socket")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opens(names: &mut Names, process: i32, name: &str) {
        let entry = Captures::new();
        let made = Made {
            process,
            name,
            arguments: &[0; 6],
            entry: &entry,
        };
        names.leave(made, &Captures::new(), 5);
    }

    /// The id of a process that has ended is given to the child of another one.
    #[test]
    fn what_a_dead_process_had_is_not_what_its_successor_has() {
        let mut names = Names::new(Asking::Nobody);
        opens(&mut names, 1, "eventfd2");
        opens(&mut names, 2, "epoll_create1");
        let mut of_child = |parent| {
            names.forked(parent, 7);
            let name = names.name(7, 5, true).map(|name| name.link);
            names.ended(7);
            assert_eq!(names.name(7, 5, true), None);
            names.ended(7);
            name
        };
        assert_eq!(of_child(1).as_deref(), Some("anon_inode:[eventfd]"));
        assert_eq!(of_child(2).as_deref(), Some("anon_inode:[eventpoll]"));
    }
}
