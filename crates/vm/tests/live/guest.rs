//! A real Ruby process to look into.

use std::path::{Path, PathBuf};

use vm::ruby::Facts;

use crate::process::{self, Script, Symbols};
pub use crate::process::{ProcessMemory, hex};

/// The versions with a layout, oldest first.
const VERSIONS: [&str; 6] = ["2.7", "3.0", "3.1", "3.2", "3.3", "3.4"];

/// What every script may use: unspoilt methods, addresses, and a place to wait.
const PRELUDE: &str = include_str!("prelude.rb");

/// Runs prelude and script as if they were files.
const RUN: &str = "ARGV.each { |script| eval(script.dup.force_encoding('UTF-8'), TOPLEVEL_BINDING, 'script.rb') }";

/// Runs `test` on a guest of every version there is a root for, with `script` running in it up to its
/// first `ready`; says which versions were skipped.
pub fn each_version(script: &str, test: impl Fn(&str, &mut Guest)) {
    let mut seen = 0;
    for version in VERSIONS {
        match root(version) {
            Some(root) => {
                seen += 1;
                let mut guest = Guest::start(&root, version, script);
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
}

impl Guest {
    /// Starts it and waits for its first `ready`.
    fn start(root: &Path, version: &str, script: &str) -> Guest {
        let mut command = process::command(root, &format!("/usr/bin/ruby{version}"));
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
        };
        guest.wait();
        guest
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
