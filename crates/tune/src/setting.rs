//! A setting: something that can be read and written back. Every change has this form. Used by `owners`,
//! `rules::backlog` and others here, and by the crates `lancet` and `report`.
//!
//! Whatever the interface (a file, an ioctl, netlink, a system call), a setting's value is a line of
//! text. What [`Setting::read`] gives, [`Setting::write`] puts back: that is what makes undo the same
//! for all of them.

use serde::{Deserialize, Serialize};

use crate::cpus;
use crate::net::ethtool::{Block, Ethtool};
use crate::net::qdisc::{self, Qdisc};
use crate::process::{self, bind, limit, same_process};
use crate::tree::{Cannot, Tree};

/// The directories whose files are settings. A journal is only a file: it must not make us write anywhere else.
const WRITABLE: [&str; 3] = ["/proc/sys/", "/proc/irq/", "/sys/"];

/// A setting of the kernel that can be read and written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "interface", rename_all = "kebab-case")]
pub enum Setting {
    /// A file in /proc/sys, /proc/irq or /sys.
    File {
        /// The path of the file on the live machine.
        path: String,
    },
    /// An offload of a network device.
    Feature {
        /// The name of the device.
        device: String,
        /// The kernel's name of the offload.
        name: String,
    },
    /// Interrupt moderation of a network device.
    Coalesce {
        /// The name of the device.
        device: String,
        /// The name of the figure, as ethtool(8) writes it.
        field: String,
    },
    /// The length of a ring.
    Ring {
        /// The name of the device.
        device: String,
        /// The name of the figure, as ethtool(8) writes it.
        field: String,
    },
    /// The number of queues.
    Channels {
        /// The name of the device.
        device: String,
        /// The name of the figure, as ethtool(8) writes it.
        field: String,
    },
    /// The root queueing discipline.
    Qdisc {
        /// The name of the device.
        device: String,
    },
    /// The soft limit of descriptors of a process.
    Descriptors {
        /// The id of the process.
        pid: i32,
        /// When the process started, in clock ticks since boot, so that a later one of the same id is not meant.
        started: u64,
    },
    /// The CPUs the threads of a process may run on.
    Affinity {
        /// The id of the process.
        pid: i32,
        /// When the process started, in clock ticks since boot.
        started: u64,
    },
}

impl Setting {
    /// Returns the setting that is the file at a path.
    pub fn file(path: impl Into<String>) -> Self {
        Self::File { path: path.into() }
    }

    /// Returns the setting of a sysctl key, `net.core.somaxconn`.
    pub fn sysctl(key: &str) -> Self {
        Self::file(sysctl_path(key))
    }

    fn block(&self) -> Option<(&str, Block, &str)> {
        match self {
            Self::Coalesce { device, field } => Some((device, Block::Coalesce, field)),
            Self::Ring { device, field } => Some((device, Block::Ring, field)),
            Self::Channels { device, field } => Some((device, Block::Channels, field)),
            _ => None,
        }
    }

    /// Returns the network device it belongs to.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Feature { device, .. } | Self::Qdisc { device } => Some(device),
            Self::File { path } => path.strip_prefix("/sys/class/net/")?.split('/').next(),
            _ => self.block().map(|(device, ..)| device),
        }
    }

    /// Returns whether each network namespace has a value of its own.
    pub fn is_of_network(&self) -> bool {
        let sysctl = matches!(self, Self::File { path } if path.starts_with("/proc/sys/net/"));
        sysctl || self.device().is_some()
    }

    /// Returns what tells its network device from a later one of the same name: the number of the interface, a space and its
    /// address. The number is not given out twice, while a name may be; the address may change. `None` for a setting of no device; one of a process holds itself
    /// when that started.
    pub fn identity(&self, tree: &Tree) -> Option<String> {
        let base = format!("/sys/class/net/{}", self.device()?);
        let number = tree.word(&format!("{base}/ifindex")).ok()?;
        let address = tree.word(&format!("{base}/address")).unwrap_or_default();
        Some(format!("{number} {address}"))
    }

    /// Reads the value it has now.
    pub fn read(&self, tree: &Tree) -> Result<String, Cannot> {
        if let Self::File { path } = self {
            return tree.read(path);
        }
        live(tree)?;
        if let Some((device, block, field)) = self.block() {
            return Ok(Ethtool::open()?
                .numbers(device, block)?
                .get(field)
                .to_string());
        }
        match self {
            Self::Feature { device, name } => {
                let feature = Ethtool::open()?.features(device)?.get(name);
                feature
                    .map(|feature| feature.words().to_owned())
                    .ok_or_else(|| Cannot::Missing(format!("{device}: {name}")))
            }
            Self::Qdisc { device } => Ok(qdisc::read(ifindex(tree, device)?)?.to_string()),
            Self::Descriptors { pid, started } => {
                same_process(tree, *pid, *started)?;
                Ok(limit(*pid, None)?.rlim_cur.to_string())
            }
            Self::Affinity { pid, started } => {
                same_process(tree, *pid, *started)?;
                process::allowed(tree, *pid)
            }
            _ => unreachable!("files and blocks were answered above"),
        }
    }

    /// Writes a value: one that was read before, or one that a rule or the user wants.
    pub fn write(&self, tree: &Tree, value: &str) -> Result<(), Cannot> {
        if let Self::File { path } = self {
            if !is_setting(path) {
                return Err(Cannot::Unsupported {
                    what: path.clone(),
                    why: "it is no setting: they are in /proc/sys, /proc/irq and /sys".into(),
                });
            }
            return tree.write(path, value);
        }
        live(tree)?;
        let value = value.trim();
        let odd = || Cannot::odd(&self.to_string(), value);
        if let Some((device, block, field)) = self.block() {
            let number = value.parse().map_err(|_| odd())?;
            return Ethtool::open()?.set(device, block, field, number);
        }
        match self {
            Self::Feature { device, name } => {
                let wanted = matches!(value, "on" | "off [requested on]" | "on [fixed]");
                Ethtool::open()?.set_feature(device, name, wanted)
            }
            Self::Qdisc { device } => qdisc::write(ifindex(tree, device)?, &value.parse()?),
            Self::Descriptors { pid, started } => {
                same_process(tree, *pid, *started)?;
                limit(*pid, Some(value.parse().map_err(|_| odd())?)).map(drop)
            }
            Self::Affinity { pid, started } => {
                same_process(tree, *pid, *started)?;
                let wanted = cpus::list(value).ok_or_else(odd)?;
                process::bind_all(tree, *pid, &wanted, bind)
            }
            _ => unreachable!("files and blocks were answered above"),
        }
    }

    /// Returns whether two values of it mean the same: the kernel writes masks in its own width, marks the chosen
    /// word of several, and separates numbers by tabs.
    pub fn same(&self, one: &str, other: &str) -> bool {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        if chosen(one) == chosen(other) || words(one) == words(other) {
            return true;
        }
        match self {
            Self::File { path } if path.ends_with("_cpus") => {
                cpus::mask(one).is_some_and(|one| Some(one) == cpus::mask(other))
            }
            Self::File { path } if path.ends_with("_list") => {
                cpus::list(one).is_some_and(|one| Some(one) == cpus::list(other))
            }
            Self::Qdisc { .. } => {
                // A bare kind leaves handle and options to the kernel.
                let read = one.parse::<Qdisc>();
                match other.trim() {
                    qdisc::DEFAULT => read.is_ok_and(|qdisc| qdisc.is_default()),
                    kind => !kind.contains(' ') && read.is_ok_and(|qdisc| qdisc.kind == kind),
                }
            }
            _ => false,
        }
    }

    /// Returns the other half of a pair in which writing the one sets the other to 0, and 0 cannot be written:
    /// `vm.dirty_bytes` and `vm.dirty_ratio` (mm/page-writeback.c).
    pub fn other_half(&self) -> Option<Self> {
        let Self::File { path } = self else {
            return None;
        };
        let (stem, half) = path.rsplit_once('_')?;
        if !stem.starts_with("/proc/sys/vm/dirty") || stem.contains("expire") {
            return None;
        }
        match half {
            "bytes" => Some(Self::file(format!("{stem}_ratio"))),
            "ratio" => Some(Self::file(format!("{stem}_bytes"))),
            _ => None,
        }
    }

    /// Returns whether the value can be written at all. The 0 of a pair's idle half cannot; it comes back when the
    /// other half is written.
    pub fn can_take(&self, value: &str) -> bool {
        self.other_half().is_none() || value.trim() != "0"
    }

    /// Returns the shell command that writes a value in the network of a process.
    pub fn command_in(&self, network_of: Option<i32>, value: &str) -> String {
        let command = self.command(value);
        match (network_of.filter(|_| self.is_of_network()), self) {
            (None, _) => command,
            // The files of its devices are in its own /sys, if it has one.
            (Some(pid), Self::File { path }) if path.starts_with("/sys/") => {
                format!("nsenter -t {pid} -n -m sh -c '{command}'")
            }
            (Some(pid), _) => format!("nsenter -t {pid} -n {command}"),
        }
    }

    /// Returns the shell command that writes a value.
    pub fn command(&self, value: &str) -> String {
        let value = value.trim();
        match self {
            Self::File { path } => match path.strip_prefix("/proc/sys/") {
                // A dot in a part, as in the name of a VLAN's device, is one only where slashes are between the parts (sysctl(8)).
                Some(key) if key.contains('.') => format!("sysctl -w {key}='{value}'"),
                Some(key) => format!("sysctl -w {}='{value}'", key.replace('/', ".")),
                None => format!("echo {value} > {path}"),
            },
            Self::Feature { device, name } => format!("ethtool -K {device} {name} {value}"),
            Self::Qdisc { device } if value == qdisc::DEFAULT => {
                format!("tc qdisc del dev {device} root")
            }
            Self::Qdisc { device } => format!("tc qdisc replace dev {device} root {value}"),
            Self::Descriptors { pid, .. } => format!("prlimit --pid {pid} --nofile={value}:"),
            Self::Affinity { pid, .. } => format!("taskset -acp {value} {pid}"),
            _ => match self.block() {
                Some((device, block, field)) => {
                    let value = match (field.starts_with("adaptive"), value) {
                        (true, "0") => "off",
                        (true, _) => "on",
                        (false, value) => value,
                    };
                    format!("ethtool -{} {device} {field} {value}", block.letter())
                }
                None => unreachable!("only blocks are left"),
            },
        }
    }
}

impl std::fmt::Display for Setting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File { path } => write!(f, "{path}"),
            Self::Feature { device, name } => write!(f, "{device} {name}"),
            Self::Coalesce { device, field } => write!(f, "{device} coalescing {field}"),
            Self::Ring { device, field } => write!(f, "{device} ring {field}"),
            Self::Channels { device, field } => write!(f, "{device} channels {field}"),
            Self::Qdisc { device } => write!(f, "{device} root qdisc"),
            Self::Descriptors { pid, .. } => write!(f, "process {pid} descriptor limit"),
            Self::Affinity { pid, .. } => write!(f, "process {pid} CPUs"),
        }
    }
}

/// Returns whether a path is below one of the directories of settings, without `..` in it.
pub fn is_setting(path: &str) -> bool {
    let inside = WRITABLE.iter().find_map(|start| path.strip_prefix(start));
    inside.is_some_and(|rest| !rest.split('/').any(|part| matches!(part, "" | "." | "..")))
}

/// Returns `net.core.somaxconn` as a path. A key with slashes may have dots in its parts (sysctl.d(5)).
pub fn sysctl_path(key: &str) -> String {
    let first = key.find(['.', '/']).map(|at| &key[at..=at]);
    let swapped: String = match first {
        Some(".") => key
            .chars()
            .map(|c| match c {
                '.' => '/',
                '/' => '.',
                c => c,
            })
            .collect(),
        _ => key.into(),
    };
    format!("/proc/sys/{swapped}")
}

/// Returns the word in brackets of `always [madvise] never`, and of any other text all of it.
pub fn chosen(text: &str) -> &str {
    let inner = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text.trim(), |(inner, _)| inner)
}

fn live(tree: &Tree) -> Result<(), Cannot> {
    if tree.is_live() {
        Ok(())
    } else {
        Err(Cannot::NeedsLive("what is no file"))
    }
}

fn ifindex(tree: &Tree, device: &str) -> Result<u32, Cannot> {
    tree.number(&format!("/sys/class/net/{device}/ifindex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_differently_is_the_same() {
        let thp = Setting::file("/sys/kernel/mm/transparent_hugepage/enabled");
        assert!(thp.same("always [madvise] never\n", "madvise"));
        assert!(!thp.same("[always] madvise never\n", "madvise"));
        let range = Setting::sysctl("net.ipv4.ip_local_port_range");
        assert!(range.same("32768\t60999\n", "32768 60999"));
        let rps = Setting::file("/sys/class/net/eth0/queues/rx-0/rps_cpus");
        assert!(rps.same("00000000,00000003\n", "3") && !rps.same("1", "3"));
        let qdisc = Setting::Qdisc {
            device: "eth0".into(),
        };
        assert!(qdisc.same("fq 8001 00", "fq") && !qdisc.same("pfifo 0 ", "fq"));
        assert!(qdisc.same("fq 0 00", "default") && !qdisc.same("fq 8001 00", "default"));
    }

    #[test]
    fn what_is_of_a_network_is_typed_there() {
        let somaxconn = Setting::sysctl("net.core.somaxconn");
        let swappiness = Setting::sysctl("vm.swappiness");
        assert_eq!(
            somaxconn.command_in(Some(42), "4096"),
            "nsenter -t 42 -n sysctl -w net.core.somaxconn='4096'"
        );
        assert_eq!(somaxconn.command_in(None, "1"), somaxconn.command("1"));
        assert_eq!(
            swappiness.command_in(Some(42), "1"),
            swappiness.command("1")
        );
        let threaded = Setting::file("/sys/class/net/eth0/threaded");
        assert_eq!(
            threaded.command_in(Some(42), "1"),
            "nsenter -t 42 -n -m sh -c 'echo 1 > /sys/class/net/eth0/threaded'"
        );
    }

    #[test]
    fn the_name_of_a_device_may_have_a_dot() {
        let filter = Setting::sysctl("net/ipv4/conf/d0.1/rp_filter");
        let command = filter.command("0");
        assert_eq!(command, "sysctl -w net/ipv4/conf/d0.1/rp_filter='0'");
        let key = command.split([' ', '=']).nth(2).unwrap();
        assert_eq!(Setting::sysctl(key), filter, "it names the same key");
    }

    #[test]
    fn only_settings_are_written() {
        assert!(is_setting("/proc/sys/net/core/somaxconn"));
        assert!(is_setting("/sys/class/net/eth0/threaded"));
        for path in [
            "/etc/passwd",
            "/proc/sys/../../etc/passwd",
            "/proc/sys/",
            "/proc/sys/net//core",
            "/proc/1/mem",
            "",
        ] {
            assert!(!is_setting(path), "{path}");
            let refused = Setting::file(path).write(&Tree::live(), "x");
            assert!(matches!(refused, Err(Cannot::Unsupported { .. })), "{path}");
        }
    }

    #[test]
    fn keys_and_paths() {
        assert_eq!(
            sysctl_path("net.core.somaxconn"),
            "/proc/sys/net/core/somaxconn"
        );
        assert_eq!(
            sysctl_path("net/ipv4/conf/eth0.1/x"),
            "/proc/sys/net/ipv4/conf/eth0.1/x"
        );
        assert_eq!(
            sysctl_path("net.ipv4.conf.eth0/1.x"),
            "/proc/sys/net/ipv4/conf/eth0.1/x"
        );
        let bytes = Setting::sysctl("vm.dirty_bytes");
        assert_eq!(bytes.other_half(), Some(Setting::sysctl("vm.dirty_ratio")));
        assert!(!bytes.can_take("0\n") && bytes.can_take("1"));
        assert_eq!(
            Setting::sysctl("vm.dirty_expire_centisecs").other_half(),
            None
        );
        assert_eq!(rps_device(), Some("eth0".into()));
    }

    fn rps_device() -> Option<String> {
        let setting = Setting::file("/sys/class/net/eth0/queues/rx-0/rps_cpus");
        setting.device().map(str::to_owned)
    }
}
