//! What the rules look at: the files, the devices, the counters, and the guest.
//!
//! Everything that costs time is read once, most of it only when a rule asks. With a guest in another
//! network namespace the *thread that opens the machine* goes there for good, because `/proc/sys/net`,
//! netlink and ethtool answer for the namespace of whoever asks; run one audit of a guest per
//! process.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::cpus::Topology;
use crate::events::{Connector, Listening};
use crate::guest::Guest;
use crate::interrupts;
use crate::kconfig::{Built, Kconfig};
use crate::net::ethtool::Ethtool;
use crate::net::namespace;
use crate::net::napi::{self, Napi};
use crate::net::nic::{self, Nic};
use crate::net::sockets::{self, Listener};
use crate::sample::{Counters, Samples};
use crate::tree::{Cannot, Tree};
use crate::verdict::{Goal, Outcome};

/// What to look at.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// A directory that holds `/proc`, `/sys` and so on, in the place of the live machine.
    pub root: Option<PathBuf>,
    /// The process it is about.
    pub pid: Option<i32>,
    /// What the machine is for.
    pub goal: Option<Goal>,
    /// How long to wait between two looks at the counters; `None` for one look.
    pub sample: Option<Duration>,
    /// Whether to find out if process events arrive. That subscribes for a moment.
    pub try_events: bool,
}

/// A machine, opened.
#[derive(Debug)]
pub struct Machine {
    /// Its files.
    pub tree: Tree,
    /// What it is for.
    pub goal: Option<Goal>,
    /// The process it is about.
    pub guest: Option<Guest>,
    /// The kernel's version, `6.18.44`.
    pub release: String,
    /// Network devices that are up.
    pub nics: Vec<Nic>,
    /// Counters.
    pub samples: Samples,
    /// CPUs, caches, nodes.
    pub topology: Topology,
    /// What became of the attempt to hear process events.
    pub events: Result<Listening, Cannot>,
    /// The guest's network namespace, where it is not the one lancet was started in.
    pub entered: Option<String>,
    ethtool: Result<Ethtool, Cannot>,
    config: OnceCell<Result<Kconfig, Cannot>>,
    commands: OnceCell<Vec<(i32, String)>>,
    listeners: OnceCell<Result<Vec<Listener>, Cannot>>,
    napi: OnceCell<Result<Vec<Napi>, Cannot>>,
}

impl Machine {
    /// Opens it, and looks at the counters twice if an interval is given.
    pub fn open(options: &Options) -> Result<Self, Cannot> {
        let tree = match &options.root {
            Some(root) => Tree::below(root)?,
            None => Tree::live(),
        };
        let guest = options.pid.map(|pid| Guest::open(&tree, pid)).transpose()?;
        // Events are heard only in the first network namespace, so this comes before we leave it.
        let events = match tree.is_live() && options.try_events {
            true => Connector::try_out(),
            false => Err(Cannot::NeedsLive("process events")),
        };
        let (tree, entered) = in_network(tree, options.pid)?;
        let ethtool = match tree.is_live() {
            true => Ethtool::open(),
            false => Err(Cannot::NeedsLive("ethtool's ioctl")),
        };
        let known = interrupts::read(&tree).unwrap_or_default();
        let nics = nic::find(&tree, &known);
        let look = || Counters::read(&tree, &nics, ethtool.as_ref().ok());
        let first = look();
        let second = options.sample.filter(|_| tree.is_live()).map(|sample| {
            let begin = Instant::now();
            std::thread::sleep(sample);
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
            config: OnceCell::new(),
            commands: OnceCell::new(),
            listeners: OnceCell::new(),
            napi: OnceCell::new(),
            tree,
        })
    }

    /// The kernel's configuration.
    pub fn config(&self) -> Result<&Kconfig, Cannot> {
        let found = self
            .config
            .get_or_init(|| Kconfig::find(&self.tree, &self.release));
        found.as_ref().map_err(Clone::clone)
    }

    /// What the configuration says of an option, as evidence: where it was read and the words.
    pub fn built(&self, name: &str) -> Result<(Built, String), Cannot> {
        let config = self.config()?;
        Ok((config.get(name), format!("{} CONFIG_{name}", config.from)))
    }

    /// Whether the kernel is at least of this version; `None` if its version is not known.
    pub fn kernel_is_at_least(&self, major: u32, minor: u32) -> Option<bool> {
        let mut parts = self.release.split(|c: char| !c.is_ascii_digit());
        let mut next = || parts.next()?.parse::<u32>().ok();
        Some((next()?, next()?) >= (major, minor))
    }

    /// The kernel's version for a sentence.
    pub fn kernel(&self) -> String {
        match self.release.is_empty() {
            true => "a kernel of unknown version".into(),
            false => format!("Linux {}", self.release),
        }
    }

    /// Asks network devices.
    pub fn ethtool(&self) -> Result<&Ethtool, Cannot> {
        self.ethtool.as_ref().map_err(Clone::clone)
    }

    /// The sockets that listen in this network namespace.
    pub fn listeners(&self) -> Result<&[Listener], Cannot> {
        let ask = || match self.tree.is_live() {
            true => sockets::listeners(),
            false => Err(Cannot::NeedsLive("sock_diag")),
        };
        let all = self.listeners.get_or_init(ask).as_ref();
        all.map(Vec::as_slice).map_err(Clone::clone)
    }

    /// The NAPI instances of this network namespace.
    pub fn napi(&self) -> Result<&[Napi], Cannot> {
        let ask = || match self.tree.is_live() {
            true => napi::instances(),
            false => Err(Cannot::NeedsLive("netlink family netdev")),
        };
        let all = self.napi.get_or_init(ask).as_ref();
        all.map(Vec::as_slice).map_err(Clone::clone)
    }

    /// The first process of one of these names.
    pub fn process_named(&self, names: &[&str]) -> Option<&(i32, String)> {
        let all = self.commands.get_or_init(|| commands(&self.tree));
        all.iter().find(|(_, comm)| names.contains(&comm.as_str()))
    }

    /// One answer per network device, as one.
    pub fn each_nic(&self, check: impl Fn(&Nic) -> Result<Outcome, Cannot>) -> Outcome {
        if let Err(cannot) = self.tree.list("/sys/class/net") {
            return cannot.into();
        }
        let answered = |nic: &Nic| {
            let outcome = check(nic).unwrap_or_else(Outcome::from);
            (nic.name.clone(), outcome)
        };
        Outcome::of_devices(self.nics.iter().map(answered).collect())
    }

    /// How many physical cores; the number of CPUs where the machine does not say.
    pub fn cores(&self) -> usize {
        match self.topology.cores.len() {
            0 => self.topology.online.len(),
            cores => cores,
        }
    }
}

/// Takes this thread into the network of a process, if one is given, and `/sys` along. Gives the name of the
/// namespace if it is another.
pub fn in_network(mut tree: Tree, pid: Option<i32>) -> Result<(Tree, Option<String>), Cannot> {
    if !tree.is_live() {
        return Ok((tree, None));
    }
    let entered = pid.map(enter).transpose()?.flatten();
    match namespace::align_sysfs(&mut tree) {
        // Without the right to mount, an audit of the namespace we were started in still says what it can.
        Err(Cannot::Denied { .. }) if entered.is_none() => {}
        other => other?,
    }
    Ok((tree, entered))
}

/// Goes into the guest's network namespace if it is another; gives its name then.
fn enter(pid: i32) -> Result<Option<String>, Cannot> {
    match namespace::of(pid) {
        Ok(theirs) if Some(&theirs) != namespace::current().as_ref() => {
            namespace::enter(pid)?;
            Ok(Some(theirs))
        }
        Ok(_) => Ok(None),
        // Another user's process: whether it is in our network cannot be seen.
        Err(Cannot::Denied { .. }) => Ok(None),
        Err(other) => Err(other),
    }
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
