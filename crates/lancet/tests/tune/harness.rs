//! The tool, run and read; scratch trees; networks.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::support::{installed, is_root, schema, skip, tool};

/// Runs `lancet tune`.
pub fn tune(args: &[&str]) -> Output {
    Command::new(tool())
        .arg("tune")
        .args(args)
        .output()
        .unwrap()
}

/// A copy of lancet that every user can run.
pub fn for_everybody() -> (Scratch, PathBuf) {
    let scratch = Scratch::new();
    let copy = scratch.0.join("lancet");
    fs::copy(tool(), &copy).unwrap();
    fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    (scratch, copy)
}

/// What it wrote, as text.
pub fn text(output: &Output) -> String {
    let all = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8(all).unwrap()
}

/// Checks by id.
pub type Checks = BTreeMap<String, Value>;

/// Reads what `--json` wrote; it must have all of the fields a program relies on, and agree with its summary.
pub fn checks(output: &Output) -> Checks {
    let lines = schema::records(&["tune"], std::str::from_utf8(&output.stdout).unwrap());
    let (losses, lines) = lines.split_last().unwrap();
    // What could not be read is in the exit code and in the last record, or in neither.
    let unread: Vec<&Value> = losses["losses"].as_array().unwrap().iter().collect();
    assert!(
        unread.iter().all(|loss| loss["what"] == "files"),
        "{losses}"
    );
    let code = if unread.is_empty() { 0 } else { 4 };
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    let (summary, rest) = lines.split_last().unwrap();
    assert_eq!(summary["record"], "summary");
    assert_eq!(summary["checks"], rest.len());
    let all: Checks = rest
        .iter()
        .map(|check| {
            for field in [
                "verdict", "says", "evidence", "changes", "why", "source", "dated", "risk",
            ] {
                assert!(!check[field].is_null(), "{field} of {check}");
            }
            (check["id"].as_str().unwrap().to_owned(), check.clone())
        })
        .collect();
    for check in all.values() {
        let words = check["verdict"].as_str().unwrap();
        assert!(
            summary["verdicts"][words].as_u64().unwrap() > 0,
            "{words} in {summary}"
        );
    }
    all
}

/// The value that a check saw at a place.
pub fn seen<'a>(checks: &'a Checks, id: &str, from: &str) -> &'a str {
    let evidence = checks[id]["evidence"].as_array().unwrap();
    let found = evidence
        .iter()
        .find(|seen| seen["from"].as_str().unwrap().contains(from));
    let found = found.unwrap_or_else(|| panic!("{id} saw nothing at {from}: {evidence:#?}"));
    found["value"].as_str().unwrap()
}

/// A check's verdict.
pub fn verdict<'a>(checks: &'a Checks, id: &str) -> &'a str {
    checks[id]["verdict"].as_str().unwrap()
}

/// A directory of this test's own, gone when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// An empty one.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("lancet-tune-{}-{number}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A copy of a fixture.
    pub fn of(fixture: &str) -> Self {
        let scratch = Self::new();
        copy(&fixture_path(fixture), &scratch.0);
        scratch
    }

    /// Writes a file, with the directories on the way.
    pub fn put(&self, path: &str, text: &str) {
        let path = self.0.join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Its path as an argument.
    pub fn arg(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// All files below a directory of it, with their bytes.
    pub fn files(&self, below: &str) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut all = BTreeMap::new();
        collect(&self.0.join(below), &mut all);
        all
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn collect(directory: &Path, all: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, all);
        } else {
            all.insert(path.clone(), fs::read(path).unwrap());
        }
    }
}

/// Where a fixture lies.
pub fn fixture_path(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/tune");
    root.join(name).canonicalize().unwrap()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Whether the test may make networks; says why not.
pub fn may_make_networks(test: &str) -> bool {
    let why = match (is_root(), installed("ip")) {
        (true, true) => return true,
        (false, _) => "needs root to make a network namespace",
        (_, false) => "needs ip (package iproute2)",
    };
    skip(test, why);
    false
}

/// A network namespace with a pair of veth (`va`, `vb`, four queues each) and a tap (`tap0`), gone when dropped. Nothing
/// in it touches the machine's own network.
pub struct Network {
    name: String,
    /// Where journals of this network go.
    pub journals: Scratch,
}

impl Network {
    /// Makes one.
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("lancet-{}-{number}", std::process::id());
        let network = Self {
            name: name.clone(),
            journals: Scratch::new(),
        };
        ip(&["netns", "add", &name]);
        let inside = |words: &str| {
            let words: Vec<&str> = ["-n", &name].into_iter().chain(words.split(' ')).collect();
            ip(&words);
        };
        inside(
            "link add va numrxqueues 4 numtxqueues 4 type veth peer name vb numrxqueues 4 numtxqueues 4",
        );
        inside("tuntap add tap0 mode tap");
        for device in ["va", "vb", "tap0"] {
            inside(&format!("link set {device} up"));
        }
        network
    }

    /// Runs a program inside.
    pub fn run(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().unwrap()
    }

    /// A program inside, not yet started.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Runs `lancet tune` inside, with journals of its own.
    pub fn tune(&self, args: &[&str]) -> Output {
        let mut command = self.command(tool().to_str().unwrap());
        command.args(["tune", "--no-sample", "--journals", self.journals.arg()]);
        command.args(args).output().unwrap()
    }

    /// As `ip netns` calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The namespace's file.
    pub fn path(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.name)
    }

    /// Everything that `tune` sees of this network and could change, without what is measured anew each time.
    pub fn state(&self, goal: &str) -> String {
        let output = self.tune(&["--json", "--goal", goal]);
        let checks = checks(&output);
        let of_network = [
            "T04", "T07", "T09", "T15", "T16", "T17", "T18", "T20", "T21", "T22", "T24",
        ];
        let lines: Vec<String> = of_network
            .iter()
            .map(|id| checks[*id].to_string())
            .collect();
        lines.join("\n")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("ip")
            .args(["netns", "del", &self.name])
            .status();
    }
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", text(&output));
}

impl Network {
    /// Reads and writes settings inside, without the tool.
    pub fn inside<T: Send>(&self, what: impl FnOnce(&tune::tree::Tree) -> T + Send) -> T {
        let namespace = fs::File::open(self.path()).unwrap();
        std::thread::scope(|scope| {
            let inside = move || {
                nix::sched::setns(&namespace, nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                let mut tree = tune::tree::Tree::live();
                tune::net::namespace::align_sysfs(&mut tree).unwrap();
                what(&tree)
            };
            scope.spawn(inside).join().unwrap()
        })
    }

    /// Sets everything that tune can put right here to something else.
    pub fn detune(&self) {
        self.inside(|tree| {
            for name in [
                "tx-tcp-segmentation",
                "tx-generic-segmentation",
                "tx-scatter-gather",
            ] {
                let setting = tune::setting::Setting::Feature {
                    device: "va".into(),
                    name: name.into(),
                };
                setting.write(tree, "off").unwrap();
            }
            tree.write("/proc/sys/net/core/somaxconn", "128").unwrap();
        });
        let words = "qdisc replace dev tap0 root pfifo limit 77";
        let words: Vec<&str> = words.split(' ').collect();
        let output = self.run("tc", &words);
        assert!(output.status.success(), "tc: {}", text(&output));
    }
}
