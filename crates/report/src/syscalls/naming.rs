//! What descriptors and processes are called, in strace's text (`-y`, `-yy`, `-Y`, `--decode-fds=`). Used by `chosen`,
//! `json` and others here, and by crate `lancet`.

use calls::descriptors::names::{Asking, Made, More, Names};
use calls::event::End;
use process::pid_namespace::{Kind, Translator};
use process::{namespaces, netlink, proc_file};
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use syscalls::{
    DescriptorNames, IdKind, Known, Name, Namespaces, Netlink, Processes, RawCall, Style,
};

/// Which names are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamingKinds {
    /// Paths of descriptors (`-y`).
    pub paths: bool,
    /// Protocols and addresses of sockets (`-yy`).
    pub sockets: bool,
    /// Numbers of devices (`-yy`).
    pub devices: bool,
    /// Processes that descriptors stand for (`-yy`).
    pub processes: bool,
    /// What processes are called (`-Y`).
    pub comms: bool,
    /// What the ids of processes in other PID namespaces are in ours (`--decode-pids=pidns`), and the word for whose ours is.
    pub namespaces: Option<&'static str>,
    /// The namespaces that calls lead into (`-e namespace=new`), where a tracer sees them.
    pub entered: bool,
}

impl NamingKinds {
    /// Whether something is told of processes.
    fn of_processes(self) -> bool {
        self.comms || self.namespaces.is_some()
    }

    /// Whether descriptors have names.
    #[must_use]
    pub fn of_descriptors(self) -> bool {
        self.paths || self.sockets || self.devices || self.processes
    }
}

/// Names of processes that are remembered.
const MOST: usize = 4096;

/// What is known of the descriptors and processes of one run. All copies share it, so an event that one copy takes note of is known to all of
/// them.
#[derive(Clone, Debug)]
pub struct Naming {
    kinds: NamingKinds,
    names: Option<Rc<RefCell<Names>>>,
    comms: Rc<RefCell<HashMap<i32, String>>>,
    translator: Rc<RefCell<Translator>>,
    /// The families of generic netlink, once a message was seen.
    families: Rc<OnceCell<HashMap<u16, String>>>,
    live: bool,
    /// Names are asked for while the thread stands still.
    at_once: bool,
    /// Messages of netlink are written member by member: so much of them was copied.
    messages: bool,
}

impl Naming {
    /// Returns names of which nothing is known yet. `followed` = somebody asks for paths, whether they are written or not.
    #[must_use]
    pub fn new(kinds: NamingKinds, asking: Asking, followed: bool) -> Self {
        let names = || Rc::new(RefCell::new(Names::new(asking)));
        Naming {
            names: (followed || kinds.of_descriptors()).then(names),
            comms: Rc::default(),
            translator: Rc::default(),
            families: Rc::default(),
            kinds,
            live: asking != Asking::Nobody,
            at_once: asking == Asking::AtOnce,
            messages: false,
        }
    }

    /// The same, where messages of netlink are written member by member.
    #[must_use]
    pub fn with_messages(self) -> Self {
        Naming {
            messages: true,
            ..self
        }
    }

    /// Hands a call of a thread of a process to what writes it, with what its numbers are called.
    pub fn with(
        &self,
        (process, thread): (i32, u32),
        call: &RawCall,
        write: impl FnOnce(&RawCall),
    ) {
        // What the call is about to open is not open, whatever the kernel's table says by now.
        let opens = matches!(call.name, "dup2" | "dup3") && call.returned.is_none();
        let opens = opens.then_some(call.arguments[1] as i32);
        let descriptors = |number| self.descriptor(process, number, opens != Some(number));
        let processes = |number, kind| self.known(process, number, kind);
        let protocol = |number| self.names.as_ref()?.borrow_mut().netlink(process, number);
        let netlink = Netlink {
            protocol: &protocol,
            family: &|number| self.family(number),
        };
        let entered = |child, flags| self.entered((process, thread), child, flags);
        let entered: Namespaces = &entered;
        let descriptors: DescriptorNames = &descriptors;
        let processes: Processes = &processes;
        write(&RawCall {
            descriptors: self.kinds.of_descriptors().then_some(descriptors),
            processes: self.kinds.of_processes().then_some(processes),
            netlink: (self.messages && self.names.is_some()).then_some(netlink),
            namespaces: (self.kinds.entered && self.at_once).then_some(entered),
            ..*call
        });
    }

    /// The name of a family of generic netlink. A recording may be of another kernel.
    fn family(&self, number: u16) -> Option<String> {
        let known = self.families.get_or_init(|| match self.live {
            true => netlink::families(),
            false => HashMap::new(),
        });
        known.get(&number).cloned()
    }

    /// The namespaces of these kinds of a child, or of the thread that has made the call and stands still at its end.
    fn entered(
        &self,
        (process, thread): (i32, u32),
        child: Option<i32>,
        flags: u64,
    ) -> Option<String> {
        let id = match child {
            Some(child) => {
                let mut translator = self.translator.borrow_mut();
                translator.translate(process, child, Kind::Thread)?
            }
            None => thread as i32,
        };
        namespaces::entered(id, flags)
    }

    /// What a signal is that came for a process, with what is known of who has sent it.
    #[must_use]
    pub fn signal(&self, process: i32, style: &Style, information: &[u8]) -> Option<String> {
        let known = |number, kind| self.known(process, number, kind);
        let known: Processes = &known;
        style.signal(information, self.kinds.of_processes().then_some(known))
    }

    /// What a descriptor is called, in full: for whoever asks whether it is of a path.
    #[must_use]
    pub fn path(&self, process: i32, number: i32) -> Option<String> {
        let name = self
            .names
            .as_ref()?
            .borrow_mut()
            .name(process, number, true)?;
        Some(name.link)
    }

    fn descriptor(&self, process: i32, number: i32, is_open: bool) -> Option<Name> {
        let mut names = self.names.as_ref()?.borrow_mut();
        let name = names.name(process, number, is_open)?;
        let mut written = Name {
            deleted: name.deleted,
            ..Name::default()
        };
        match name.more {
            Some(More::Socket(text)) if self.kinds.sockets => written.more = text,
            Some(More::Process(process)) if self.kinds.processes => {
                written.more = format!("pid:{process}");
            }
            Some(More::Device(device)) if self.kinds.devices => {
                let kind = if device.block { "block" } else { "char" };
                written.text = name.link;
                written.more = format!("<{kind} {}:{}>", device.major, device.minor);
            }
            _ if self.kinds.paths => written.text = name.link,
            _ => return None,
        }
        Some(written)
    }

    /// Returns what stands behind the id of a thread: `<ruby>`, or nothing if names are not asked for or not known.
    #[must_use]
    pub fn comm(&self, process: i32, thread: u32) -> String {
        if !self.kinds.comms {
            return String::new();
        }
        let name = self
            .comm_of(thread as i32)
            .or_else(|| self.comm_of(process));
        name.map_or_else(String::new, |name| format!("<{name}>"))
    }

    /// Returns the name of a process or thread by an id that process `process` uses, and what that id is in lancet's PID namespace.
    fn known(&self, process: i32, number: i32, kind: IdKind) -> Known {
        let in_namespace = match kind {
            IdKind::Thread => Kind::Thread,
            IdKind::Process => Kind::Process,
            IdKind::Group => Kind::Group,
            IdKind::Session => Kind::Session,
        };
        let is_named = self.kinds.comms && matches!(kind, IdKind::Thread | IdKind::Process);
        let translated = self.live.then(|| {
            let mut translator = self.translator.borrow_mut();
            translator.translate(process, number, in_namespace)
        });
        let ours = translated.flatten();
        let note = self.kinds.namespaces.and_then(|whose| {
            let ours = ours.filter(|ours| *ours != number)?;
            Some(format!("{ours} in {whose}'s PID NS"))
        });
        let comm = is_named.then(|| match self.at_once {
            // Who is gone has no name.
            true => proc_file::name(ours?),
            false => self.comm_of(ours.unwrap_or(number)),
        });
        Known {
            comm: comm.flatten(),
            note,
        }
    }

    /// The name of a thread. One that has ended keeps the one that it had when it was first asked for.
    fn comm_of(&self, thread: i32) -> Option<String> {
        if thread <= 0 {
            return None;
        }
        let text = self.live.then(|| proc_file::name(thread)).flatten();
        let mut comms = self.comms.borrow_mut();
        match text {
            Some(text) => {
                if comms.len() < MOST {
                    comms.insert(thread, text.clone());
                }
                Some(text)
            }
            None => comms.get(&thread).cloned(),
        }
    }

    /// Takes note that a process was opened.
    pub fn opened(&self, process: i32) {
        if self.kinds.comms {
            // For when it has ended.
            self.comm_of(process);
        }
        if let Some(names) = &self.names {
            names.borrow_mut().opened(process);
        }
    }

    /// Takes note that a process has made a child.
    pub fn forked(&self, parent: i32, child: i32) {
        if let Some(names) = &self.names {
            names.borrow_mut().forked(parent, child);
        }
    }

    /// Takes note that a process has ended, or runs another program.
    pub fn ended(&self, process: i32, how: End) {
        if let Some(names) = &self.names {
            let mut names = names.borrow_mut();
            match how {
                End::Replaced => names.replaced(process),
                _ => names.ended(process),
            }
        }
    }

    /// Takes note of a call that is made, after it was written.
    pub fn enter(&self, process: i32, call: &RawCall) {
        if let Some(names) = &self.names {
            names.borrow_mut().enter(made(process, call));
        }
    }

    /// Takes note of a call that returned, before it is written.
    pub fn leave(&self, process: i32, call: &RawCall) {
        if let (Some(names), Some((back, result))) = (&self.names, call.returned) {
            let mut names = names.borrow_mut();
            names.leave(made(process, call), back, result);
        }
    }
}

fn made<'a>(process: i32, call: &RawCall<'a>) -> Made<'a> {
    Made {
        process,
        name: call.name,
        arguments: call.arguments,
        entry: call.entry,
    }
}
