//! A real Ruby process to look into.

use std::path::{Path, PathBuf};

use vm::ruby::Facts;

use crate::process::{self, Script, Symbols};
pub use crate::process::{ProcessMemory, hex};

/// The versions with a layout, oldest first.
fn versions() -> impl Iterator<Item = String> {
    let versions = vm::ruby::Layout::all().iter().map(|layout| layout.version);
    versions.map(|(major, minor)| format!("{major}.{minor}"))
}

/// What every script may use: unspoilt methods, addresses, and a place to wait.
const PRELUDE: &str = include_str!("prelude.rb");

/// Runs prelude and script as if they were files.
const RUN: &str = "ARGV.each { |script| eval(script.dup.force_encoding('UTF-8'), TOPLEVEL_BINDING, 'script.rb') }";

/// Runs `test` on a guest of every version there is a root for, with `script` running in it up to its
/// first `ready`; says which versions were skipped.
pub fn each_version(script: &str, test: impl Fn(&str, &mut Guest)) {
    each_version_with(None, script, test);
}

/// The same with a library that the guest's loader puts before all others.
pub fn each_version_with(library: Option<&Path>, script: &str, test: impl Fn(&str, &mut Guest)) {
    let mut seen = 0;
    for version in versions() {
        let version = version.as_str();
        match root(version) {
            Some(root) => {
                seen += 1;
                let mut guest = Guest::start(&root, version, script, library);
                test(version, &mut guest);
            }
            None => println!(
                "skipped: ruby {version}: there is no {}",
                process::root(&format!("ruby-{version}")).display()
            ),
        }
    }
    if seen == 0 {
        println!("skipped: everything: there is no Ruby to look into");
    }
}

fn root(version: &str) -> Option<PathBuf> {
    let root = process::root(&format!("ruby-{version}"));
    root.join(format!("usr/bin/ruby{version}"))
        .exists()
        .then_some(root)
}

/// A running Ruby.
pub struct Guest {
    script: Script,
    /// What it printed up to the last `ready`.
    pub lines: Vec<String>,
    pub memory: ProcessMemory,
    pub facts: Facts,
    /// There as long as the guest.
    #[expect(dead_code)]
    library: Option<Lent>,
}

/// A file that is in a root for a while.
struct Lent {
    path: PathBuf,
    /// Its name in there.
    inside: String,
}

impl Lent {
    fn to(root: &Path, file: &Path) -> Lent {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let inside = format!("/tmp/{}-{name}", std::process::id());
        let path = root.join(&inside[1..]);
        std::fs::create_dir_all(root.join("tmp")).expect("a folder in the root");
        std::fs::copy(file, &path).expect("a file in the root");
        Lent { path, inside }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // Already gone is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Guest {
    /// Starts it and waits for its first `ready`.
    fn start(root: &Path, version: &str, script: &str, library: Option<&Path>) -> Guest {
        let program = format!("/usr/bin/ruby{version}");
        // For the guest's loader alone, not for that of chroot.
        let library = library.map(|library| Lent::to(root, library));
        let mut command = match &library {
            Some(library) => {
                let mut command = process::command(root, "/usr/bin/env");
                command.args([&format!("LD_PRELOAD={}", library.inside), &program]);
                command
            }
            None => process::command(root, &program),
        };
        command.args([
            "--disable-gems",
            "-EUTF-8:UTF-8",
            "-W0",
            "-e",
            RUN,
            PRELUDE,
            script,
        ]);
        let script = Script::start(command);
        let memory = script.memory();
        let mut guest = Guest {
            script,
            lines: Vec::new(),
            memory,
            facts: Facts::default(),
            library,
        };
        guest.wait();
        guest
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.script.pid()
    }

    /// Lets the script go on to its next `ready`.
    pub fn resume(&mut self) {
        self.script.resume();
        self.wait();
    }

    fn wait(&mut self) {
        assert!(self.script.wait(), "the script ended too early");
        self.lines = std::mem::take(&mut self.script.lines);
        self.memory = self.script.memory();
        let libruby = Symbols::find(self.script.pid(), "/libruby").expect("libruby is mapped");
        self.facts = Facts::find(&self.memory, &|name| libruby.address(name)).expect("facts");
    }
}
