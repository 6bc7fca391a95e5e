//! What the rules look at: the files, the devices, the counters, and the guest. Used by `apply`, `owners` and others
//! here, and by the crates `lancet` and `report`.
//!
//! Everything that costs time is read once, most of it only when a rule needs it. With a guest in another network
//! namespace the *thread that opens the machine* goes there for good, because `/proc/sys/net`, netlink and ethtool
//! answer for the namespace of the calling thread; run one audit of a guest per process.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cpus::Topology;
use crate::events::{Connector, Listening};
use crate::guest::Guest;
use crate::interrupts;
use crate::kconfig::{Built, Kconfig};
use crate::kernel_log;
use crate::mounts;
use crate::net::borrowed::{self, Borrowed};
use crate::net::ethtool::Ethtool;
use crate::net::namespace;
use crate::net::napi::{self, Napi};
use crate::net::nic::{self, Nic};
use crate::net::sockets::{self, Listener};
use crate::sample::{Counters, Samples};
use crate::tree::{Cannot, Tree};
use crate::verdict::{Goal, Outcome};

/// Which machine is looked at, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A directory that holds `/proc`, `/sys` and so on, in the place of the live machine.
    pub root: Option<PathBuf>,
    /// The process that the audit is about.
    pub pid: Option<i32>,
    /// What the machine is used for, where the user says so.
    pub goal: Option<Goal>,
    /// Time between two looks at the counters; `None` for one look.
    pub sample: Option<Duration>,
    /// Whether it is tried out if process events arrive. That subscribes for a moment.
    pub try_events: bool,
    /// Called while it waits between the two looks; true ends the wait.
    pub stop: Option<fn() -> bool>,
}

/// A machine, with everything that several checks look at.
#[derive(Debug)]
pub struct Machine {
    /// The files of the machine, below [`Options::root`] if that is set.
    pub tree: Tree,
    /// What the machine is for, where the user said so.
    pub goal: Option<Goal>,
    /// The process that the audit is about.
    pub guest: Option<Guest>,
    /// The kernel's version, `6.18.44`; empty if it could not be read.
    pub release: String,
    /// Network devices that are up, without the loopback.
    pub nics: Vec<Nic>,
    /// Counters, read once or twice.
    pub samples: Samples,
    /// The CPUs with their caches and memory nodes.
    pub topology: Topology,
    /// The result of trying to receive process events.
    pub events: Result<Listening, Cannot>,
    /// Name of the guest's network namespace, where it is not the one lancet was started in.
    pub entered: Option<String>,
    ethtool: Result<Ethtool, Cannot>,
    /// The guest's files, where they are not the machine's.
    guest_files: Result<Option<Tree>, Cannot>,
    log: OnceCell<Result<String, Cannot>>,
    config: OnceCell<Result<Kconfig, Cannot>>,
    commands: OnceCell<Vec<(i32, String)>>,
    listeners: OnceCell<Result<Vec<Listener>, Cannot>>,
    napi: OnceCell<Result<Vec<Napi>, Cannot>>,
    borrowed: OnceCell<Result<Vec<Borrowed>, Cannot>>,
    congestion: OnceCell<Result<BTreeMap<String, usize>, Cannot>>,
}

/// The longest time between two calls of [`Options::stop`].
const STEP: Duration = Duration::from_millis(50);
/// How many of the guest's sockets are queried one by one: enough to see a pattern; a server may have 100,000.
const ASKED: usize = 256;

impl Machine {
    /// Opens the machine, and looks at the counters twice if an interval is given.
    pub fn open(options: &Options) -> Result<Self, Cannot> {
        let tree = match &options.root {
            Some(root) => Tree::below(root)?,
            None => Tree::live(),
        };
        let guest = options.pid.map(|pid| Guest::open(&tree, pid)).transpose()?;
        // Process events arrive only in the first network namespace, so this comes before the thread leaves it.
        let events = if tree.is_live() && options.try_events {
            Connector::try_out()
        } else {
            Err(Cannot::NeedsLive("process events"))
        };
        let guest_files = match options.pid.filter(|_| tree.is_live()) {
            Some(pid) => mounts::of(pid),
            None => Ok(None),
        };
        let (tree, entered) = match in_network(tree, options.pid) {
            // For another user's process the rest is reported all the same. Rules about its network must not be
            // answered with those of our own.
            Err(why @ Cannot::Denied { .. }) => (Tree::without_network(why), None),
            other => other?,
        };
        let ethtool = live_network(&tree, "ethtool's ioctl").and_then(|()| Ethtool::open());
        let known = interrupts::read(&tree).unwrap_or_default();
        let nics = nic::find(&tree, &known);
        let look = || Counters::read(&tree, &nics, ethtool.as_ref().ok());
        let first = look();
        let second = options.sample.filter(|_| tree.is_live()).map(|sample| {
            let begin = Instant::now();
            while begin.elapsed() < sample && !options.stop.is_some_and(|stop| stop()) {
                std::thread::sleep(STEP.min(sample.saturating_sub(begin.elapsed())));
            }
            (look(), begin.elapsed())
        });
        Ok(Self {
            goal: options.goal,
            guest,
            release: tree.word("/proc/sys/kernel/osrelease").unwrap_or_default(),
            samples: Samples { first, second },
            topology: Topology::read(&tree),
            nics,
            events,
            entered,
            ethtool,
            guest_files,
            log: OnceCell::new(),
            config: OnceCell::new(),
            commands: OnceCell::new(),
            listeners: OnceCell::new(),
            napi: OnceCell::new(),
            borrowed: OnceCell::new(),
            congestion: OnceCell::new(),
            tree,
        })
    }

    /// Returns the process that rules about one process look at.
    ///
    /// # Errors
    ///
    /// None was named.
    pub fn one_process(&self) -> Result<&Guest, Cannot> {
        let none = "about one process: name it with -p PID";
        self.guest.as_ref().ok_or(Cannot::Elsewhere(none))
    }

    /// Returns the tree whose `/etc` counts: the guest's where it has one of its own (a container, a chroot), else the
    /// machine's.
    pub fn files(&self) -> Result<&Tree, Cannot> {
        match &self.guest_files {
            Ok(own) => Ok(own.as_ref().unwrap_or(&self.tree)),
            Err(cannot) => Err(cannot.clone()),
        }
    }

    /// Returns the kernel's log.
    pub fn log(&self) -> Result<&str, Cannot> {
        let read = || kernel_log::read(&self.tree);
        let log = self.log.get_or_init(read).as_ref();
        log.map(String::as_str).map_err(Clone::clone)
    }

    /// Adds the last line of the kernel's log that contains one of these words, or why it is not known.
    pub fn logged(&self, outcome: Outcome, any_of: &[&str]) -> Outcome {
        match self.log() {
            Ok(log) => {
                let line = kernel_log::last(log, any_of).unwrap_or("nothing about it");
                outcome.saw("the kernel's log", line)
            }
            Err(cannot) => outcome.saw("the kernel's log", cannot),
        }
    }

    /// Returns the kernel's configuration.
    pub fn config(&self) -> Result<&Kconfig, Cannot> {
        let found = self
            .config
            .get_or_init(|| Kconfig::find(&self.tree, &self.release));
        found.as_ref().map_err(Clone::clone)
    }

    /// Returns what the configuration says of an option, and where it was read, as evidence names it.
    pub fn built(&self, name: &str) -> Result<(Built, String), Cannot> {
        let config = self.config()?;
        Ok((config.get(name), format!("{} CONFIG_{name}", config.from)))
    }

    /// Returns whether the kernel is at least of this version; `None` if its version is not known.
    pub fn kernel_is_at_least(&self, major: u32, minor: u32) -> Option<bool> {
        let mut parts = self.release.split(|c: char| !c.is_ascii_digit());
        let mut next = || parts.next()?.parse::<u32>().ok();
        Some((next()?, next()?) >= (major, minor))
    }

    /// Returns the kernel's version as a sentence names it.
    pub fn kernel(&self) -> String {
        if self.release.is_empty() {
            "a kernel of unknown version".into()
        } else {
            format!("Linux {}", self.release)
        }
    }

    /// Returns the interface to settings of network devices.
    pub fn ethtool(&self) -> Result<&Ethtool, Cannot> {
        self.ethtool.as_ref().map_err(Clone::clone)
    }

    /// Returns the sockets that listen in this network namespace.
    pub fn listeners(&self) -> Result<&[Listener], Cannot> {
        let ask = || live_network(&self.tree, "sock_diag").and_then(|()| sockets::listeners());
        let all = self.listeners.get_or_init(ask).as_ref();
        all.map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns the NAPI instances of this network namespace.
    pub fn napi(&self) -> Result<&[Napi], Cannot> {
        let ask =
            || live_network(&self.tree, "netlink family netdev").and_then(|()| napi::instances());
        let all = self.napi.get_or_init(ask).as_ref();
        all.map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns what the guest's sockets say of themselves, for the first 256 of them. Empty without a guest.
    pub fn borrowed(&self) -> Result<&[Borrowed], Cannot> {
        let ask = || {
            let Some(guest) = &self.guest else {
                return Ok(Vec::new());
            };
            let open = guest.descriptors(&self.tree)?;
            if !self.tree.is_live() {
                return Err(Cannot::NeedsLive("a socket"));
            }
            let sockets = open.sockets.iter().take(ASKED).map(|(number, _)| *number);
            borrowed::ask(guest.pid, &sockets.collect::<Vec<i32>>())
        };
        let all = self.borrowed.get_or_init(ask).as_ref();
        all.map(Vec::as_slice).map_err(Clone::clone)
    }

    /// Returns the congestion controls of the guest's TCP sockets, and how many sockets have each. Empty without a
    /// guest.
    pub fn congestion(&self) -> Result<&BTreeMap<String, usize>, Cannot> {
        let ask = || {
            let mut counts = BTreeMap::new();
            let Some(guest) = &self.guest else {
                return Ok(counts);
            };
            let open = guest.descriptors(&self.tree)?;
            live_network(&self.tree, "sock_diag")?;
            let all = sockets::congestion()?;
            for name in open.sockets.iter().filter_map(|(_, inode)| all.get(inode)) {
                *counts.entry(name.clone()).or_default() += 1;
            }
            Ok(counts)
        };
        let all = self.congestion.get_or_init(ask).as_ref();
        all.map_err(Clone::clone)
    }

    /// Returns the guest's process id, where its network is not the one lancet was started in.
    pub fn network_of(&self) -> Option<i32> {
        let guest = self.guest.as_ref().filter(|_| self.entered.is_some());
        guest.map(|guest| guest.pid)
    }

    /// Returns the first process of one of these names.
    pub fn process_named(&self, names: &[&str]) -> Option<&(i32, String)> {
        let all = self.commands.get_or_init(|| commands(&self.tree));
        all.iter().find(|(_, comm)| names.contains(&comm.as_str()))
    }

    /// Checks each network device and makes one outcome of all.
    pub fn each_nic(&self, check: impl Fn(&Nic) -> Result<Outcome, Cannot>) -> Outcome {
        if let Err(cannot) = self.tree.list("/sys/class/net") {
            return cannot.into();
        }
        let answered = |nic: &Nic| {
            let mut outcome = check(nic).unwrap_or_else(Outcome::from);
            // The outcome of one device names it, and the outcome for all will name it again.
            if let Some(rest) = outcome.says.strip_prefix(&format!("{}: ", nic.name)) {
                outcome.says = rest.to_owned();
            }
            (nic.name.clone(), outcome)
        };
        Outcome::of_devices(self.nics.iter().map(answered).collect())
    }

    /// Returns the number of physical cores; that of CPUs where the machine does not say.
    pub fn cores(&self) -> usize {
        match self.topology.cores.len() {
            0 => self.topology.online.len(),
            cores => cores,
        }
    }
}

/// Returns an error unless the kernel can be queried about the network that the audit is about.
fn live_network(tree: &Tree, what: &'static str) -> Result<(), Cannot> {
    if tree.is_live() {
        tree.network()
    } else {
        Err(Cannot::NeedsLive(what))
    }
}

/// Takes this thread into the network namespace of a process, if one is given, with `/sys`. Returns the name of the
/// namespace if it is another one.
pub fn in_network(mut tree: Tree, pid: Option<i32>) -> Result<(Tree, Option<String>), Cannot> {
    if !tree.is_live() {
        return Ok((tree, None));
    }
    let entered = pid.map(enter).transpose()?.flatten();
    match namespace::align_sysfs(&mut tree) {
        // Without the right to mount, an audit of the namespace that lancet was started in still reports what it can.
        Err(Cannot::Denied { .. }) if entered.is_none() => {}
        other => other?,
    }
    Ok((tree, entered))
}

/// Enters the guest's network namespace if it is another one, and returns its name then.
fn enter(pid: i32) -> Result<Option<String>, Cannot> {
    let theirs = namespace::of(pid)?;
    if Some(&theirs) == namespace::current().as_ref() {
        return Ok(None);
    }
    namespace::enter(pid)?;
    Ok(Some(theirs))
}

fn commands(tree: &Tree) -> Vec<(i32, String)> {
    let names = tree.list("/proc").unwrap_or_default();
    names
        .iter()
        .filter_map(|name| {
            let pid = name.parse().ok()?;
            Some((pid, tree.word(&format!("/proc/{name}/comm")).ok()?))
        })
        .collect()
}
