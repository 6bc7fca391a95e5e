//! Which processes are chosen: by what the kernel and the processes say of themselves. Used by `config`, `run`, `check` and
//! others.
//!
//! Whoever runs a process decides what it is called, so a name alone is no proof of whose it is: with `user` it is one.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use process::guest::{Status, command_words};
use process::proc_file;
use process::sockets::Sockets;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::itself;

/// The thread of the kernel that has made all others, in the first PID namespace.
const KERNEL: i32 = 2;
/// How long a user's number is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a process must be; all that is said must hold.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Choice {
    /// The name of its main thread, of its program, or of the script that it runs.
    #[serde(default, deserialize_with = "text")]
    program: Option<String>,
    /// What stands in its command line.
    #[serde(default, deserialize_with = "text")]
    command: Option<String>,
    /// Who runs it, by name or number.
    #[serde(default, deserialize_with = "user")]
    user: Option<u32>,
    /// What stands in the path of its control group.
    #[serde(default, deserialize_with = "text")]
    cgroup: Option<String>,
    /// The unit of systemd that it belongs to.
    #[serde(default, deserialize_with = "text")]
    unit: Option<String>,
    /// The UID of its pod.
    #[serde(default, deserialize_with = "text")]
    pod: Option<String>,
    /// The port of TCP at which it waits for connections.
    port: Option<u16>,
}

/// A process: with the time of its start it is told from any other of this boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// As [`Status::start`].
    pub start: u64,
}

impl Process {
    /// The one with this id; `None`: there is none.
    pub fn of(pid: i32) -> Option<Self> {
        let status = Status::read(pid).ok()?;
        Some(Process {
            pid,
            start: status.start,
        })
    }

    /// The one of a [`Process::key`].
    pub fn of_key(key: &str) -> Option<Self> {
        let (pid, start) = key.split_once(':')?;
        Some(Process {
            pid: pid.parse().ok()?,
            start: start.parse().ok()?,
        })
    }

    /// Whether it has not ended.
    pub fn is_there(&self) -> bool {
        Process::of(self.pid) == Some(*self)
    }

    /// When it began, as CLOCK_BOOTTIME has it: ticks are hundredths of a second on every x86-64.
    pub fn began(&self) -> Duration {
        Duration::from_millis(self.start.saturating_mul(10))
    }

    /// Its name among those that were looked at.
    pub fn key(&self) -> String {
        format!("{}:{}", self.pid, self.start)
    }
}

/// Finds the processes of each choice. Neither a lancet nor a thread of the kernel is among them.
pub fn processes<'a>(choices: impl Iterator<Item = &'a Choice> + Clone) -> Vec<Vec<Process>> {
    let mut found: Vec<Vec<Process>> = choices.clone().map(|_| Vec::new()).collect();
    let mut sockets = HashMap::new();
    // In a PID namespace it may be any process: only the kernel's has no program.
    let is_kernel = |two: Status| two.parent == 0 && two.check_to_watch().is_err();
    let has_kernel = Status::read(KERNEL).is_ok_and(is_kernel);
    for pid in proc_file::numbers("/proc") {
        let Ok(status) = Status::read(pid) else {
            continue;
        };
        if has_kernel && status.parent == KERNEL || status.name == "lancet" {
            continue;
        }
        let mut seen = Seen {
            status,
            words: None,
            groups: None,
        };
        for (choice, found) in choices.clone().zip(&mut found) {
            if choice.fits(&mut seen, &mut sockets) && seen.status.check_to_watch().is_ok() {
                found.push(Process {
                    pid,
                    start: seen.status.start,
                });
            }
        }
    }
    found
}

/// What was read of a process, which is read once for all choices.
struct Seen {
    status: Status,
    words: Option<Vec<String>>,
    groups: Option<Vec<String>>,
}

impl Seen {
    fn words(&mut self) -> &[String] {
        let pid = self.status.pid;
        self.words.get_or_insert_with(|| command_words(pid))
    }

    /// The paths of its control groups.
    fn groups(&mut self) -> &[String] {
        let pid = self.status.pid;
        self.groups.get_or_insert_with(|| {
            let text = proc_file::of_process(pid, "cgroup").unwrap_or_default();
            let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
            paths.map(str::to_owned).collect()
        })
    }

    /// The name of its main thread, and those of its program and script, as its command line has them.
    fn is_called(&mut self, name: &str) -> bool {
        if self.status.name == name {
            return true;
        }
        let words = self.words();
        let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
        let mut both = words.first().into_iter().chain(script);
        // A server writes more behind its name: `puma: cluster worker 0`.
        both.any(|word| {
            let first = word.split([' ', ':']).next().unwrap_or_default();
            first.rsplit('/').next() == Some(name)
        })
    }
}

/// The sockets of each network namespace, by its inode.
type Known = HashMap<u64, Sockets>;

impl Choice {
    /// Whether nothing is said, so that every process would be chosen.
    pub fn is_empty(&self) -> bool {
        let Choice {
            program,
            command,
            user,
            cgroup,
            unit,
            pod,
            port,
        } = self;
        let texts = [program, command, cgroup, unit, pod];
        user.is_none() && port.is_none() && texts.iter().all(|text| text.is_none())
    }

    /// Whether a process is one of them. What costs least is asked first.
    fn fits(&self, seen: &mut Seen, sockets: &mut Known) -> bool {
        let holds = |text: &Option<String>, is_it: &mut dyn FnMut(&str) -> bool| {
            text.as_deref().is_none_or(is_it)
        };
        self.user.is_none_or(|user| seen.status.user == user)
            && holds(&self.program, &mut |name| seen.is_called(name))
            && holds(&self.command, &mut |text| {
                seen.words().join(" ").contains(text)
            })
            && holds(&self.cgroup, &mut |text| {
                seen.groups().iter().any(|path| path.contains(text))
            })
            && holds(&self.unit, &mut |unit| {
                seen.groups().iter().any(|path| is_of_unit(path, unit))
            })
            && holds(&self.pod, &mut |pod| {
                seen.groups().iter().any(|path| is_of_pod(path, pod))
            })
            && self
                .port
                .is_none_or(|port| listens(seen.status.pid, port, sockets))
    }
}

/// Whether a control group is that of a unit of systemd, or below it.
fn is_of_unit(path: &str, unit: &str) -> bool {
    let named = |part: &str| part == unit || part.strip_suffix(".service") == Some(unit);
    path.split('/').any(named)
}

/// Whether a control group is that of a pod, or below it. A driver of systemd writes the UID with underscores.
fn is_of_pod(path: &str, uid: &str) -> bool {
    let wanted = format!("pod{}", uid.replace('_', "-"));
    let mut parts = path.split('/');
    parts.any(|part| {
        let part = part.replace('_', "-");
        part.trim_end_matches(".slice").ends_with(&wanted)
    })
}

/// Whether a process has a socket that waits for connections at this port.
fn listens(pid: i32, port: u16, sockets: &mut Known) -> bool {
    let namespace = fs::metadata(proc_file::path(pid, "ns/net"));
    let Ok(namespace) = namespace.map(|namespace| namespace.ino()) else {
        return false;
    };
    let Ok(descriptors) = proc_file::descriptors(pid) else {
        return false;
    };
    let sockets = sockets.entry(namespace).or_insert_with(|| Sockets::of(pid));
    let mut inodes =
        descriptors.filter_map(|one| proc_file::inode_of_link(one.target()?.to_str()?, "socket"));
    inodes.any(|inode| {
        let socket = sockets.socket(inode);
        socket.is_some_and(|socket| socket.listens_at(port))
    })
}

/// Reads what is looked for in a text. Nothing, a space and `/` would be found in every process's.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = String::deserialize(from)?;
    if text.chars().all(|c| c.is_whitespace() || c == '/') {
        let what = format!("`{text}` would choose every process: say more, or leave the key out");
        return Err(D::Error::custom(what));
    }
    Ok(Some(text))
}

/// Reads the name of a user, or the number.
fn user<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(u32),
        Name(String),
    }
    let name = match Written::deserialize(from)? {
        Written::Number(number) => return Ok(Some(number)),
        Written::Name(name) => name,
    };
    // As `inject::tracee::User` says: users may be in a directory service, which a static program cannot ask.
    let number = user_by_id(&name);
    let unknown = || {
        D::Error::custom(format!(
            "there is no user `{name}`: give the number, if it has one"
        ))
    };
    number.map(Some).ok_or_else(unknown)
}

/// Asks `id` for the number of a user; a directory service that does not answer is not waited for without end.
fn user_by_id(name: &str) -> Option<u32> {
    let mut command = Command::new("id");
    command.args(["-u", "--", name]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    if !itself::ends_within(&child, PATIENCE, &mut || {}).unwrap_or(false) {
        // It may have ended since.
        let _ = child.kill();
    }
    let output = child.wait_with_output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn groups_tell_units_and_pods() {
        let unit = "/system.slice/shop.service/worker";
        assert!(is_of_unit(unit, "shop") && is_of_unit(unit, "shop.service"));
        assert!(!is_of_unit(unit, "sho") && !is_of_unit("/shop", "shop.service"));
        let uid = "0f3c1e3a-8f1d-4a0e-9c1e-2b7c0a6d5e4f";
        for path in [
            "/kubepods/burstable/pod0f3c1e3a-8f1d-4a0e-9c1e-2b7c0a6d5e4f/abc",
            "/kubepods.slice/kubepods-pod0f3c1e3a_8f1d_4a0e_9c1e_2b7c0a6d5e4f.slice/cri-containerd-abc.scope",
        ] {
            assert!(is_of_pod(path, uid), "{path}");
            assert!(!is_of_pod(path, "8f1d"), "{path}");
        }
    }

    #[test]
    fn a_process_is_known_by_what_it_is() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        // A test is no process that may be chosen: a child of it has its socket.
        let socket = listener.as_fd().try_clone_to_owned().expect("a descriptor");
        let mut child = Command::new("sleep").arg("6007").stdin(socket).spawn();
        let child = child.as_mut().expect("a child");
        let process = Process::of(child.id() as i32).expect("it lives");
        let status = Status::read(process.pid).expect("it lives");
        let chosen = |text: &str| {
            let choice: Choice = toml::from_str(text).expect(text);
            processes([&choice].into_iter())[0].contains(&process)
        };
        let right = format!("port = {port}\nuser = {}\ncommand = '6007'", status.user);
        // It is ours until its exec.
        let began = std::time::Instant::now();
        while !chosen(&right) {
            assert!(began.elapsed() < std::time::Duration::from_secs(60));
        }
        assert!(chosen("program = 'sleep'"));
        assert!(!chosen(&format!(
            "port = {port}\nuser = {}",
            status.user + 1
        )));
        assert!(!chosen("program = 'sleep'\nport = 1"));
        assert!(!chosen("unit = 'there-is-none'"));
        child.kill().expect("it is ours");
        child.wait().expect("it ends");
        assert!(!process.is_there());
        assert!(toml::from_str::<Choice>("user = 'there is none'").is_err());
    }
}
