//! A real Perl process to look into.

use std::path::{Path, PathBuf};

use vm::perl::{Facts, Interpreter, Perl};

use crate::process::{self, ProcessMemory, Script, Symbols, hex};

/// The versions there are roots for, oldest first.
const VERSIONS: [&str; 5] = ["5.32", "5.36", "5.40", "5.42", "5.44"];

const PRELUDE: &str = include_str!("prelude.pl");

/// Runs `test` on a guest of this machine's Perl, of every version there is a root for, and of the program
/// in `$LANCET_PERL`, if that is set (a Perl without threads, of which Debian has none, was tried that way); says which
/// versions were skipped.
pub fn each_version(script: &str, test: impl Fn(&str, &mut Guest)) {
    let mut seen = 0;
    let mut try_one = |name: &str, root: &Path, program: &str| {
        if !root.join(program.trim_start_matches('/')).exists() {
            println!(
                "SKIPPED: {name}: there is no {program} in {}",
                root.display()
            );
            return;
        }
        seen += 1;
        test(name, &mut Guest::start(root, program, script));
    };
    try_one("this machine's perl", Path::new("/"), "/usr/bin/perl");
    if let Some(program) = std::env::var_os("LANCET_PERL") {
        try_one("$LANCET_PERL", Path::new("/"), &program.to_string_lossy());
    }
    for version in VERSIONS {
        try_one(
            &format!("perl {version}"),
            &process::root(&format!("perl-{version}")),
            "/usr/bin/perl",
        );
    }
    if seen == 0 {
        println!("SKIPPED: everything: there is no Perl to look into");
    }
}

/// A running Perl.
pub struct Guest {
    pub script: Script,
    pub root: PathBuf,
    pub memory: ProcessMemory,
    pub facts: Facts,
    /// The main thread's.
    thread_pointer: u64,
}

impl Guest {
    /// Starts a script; its first stop is right after the prelude.
    fn start(root: &Path, program: &str, script: &str) -> Guest {
        let mut command = process::command(root, program);
        for name in ["PERL5OPT", "PERL5LIB", "PERL5DB"] {
            command.env_remove(name);
        }
        command.args([
            "-e",
            &format!("BEGIN {{\n{PRELUDE}\nready();\n}}\n#line 1 \"script.pl\"\n{script}"),
        ]);
        let mut script = Script::start(command);
        assert!(script.wait(), "the script ended too early");
        let thread_pointer = script.lines[0].strip_prefix("thread\t").map(hex);
        let memory = script.memory();
        let perl = Symbols::find(script.pid(), program).expect("perl is mapped");
        let libc = Symbols::find(script.pid(), "/libc").expect("libc is mapped");
        let facts = Facts::find(&memory, &|name| {
            perl.address(name).or_else(|| libc.address(name))
        });
        Guest {
            script,
            root: root.to_owned(),
            memory,
            facts: facts.expect("facts"),
            thread_pointer: thread_pointer.expect("a thread pointer"),
        }
    }

    /// Lets it go on to its next stop; false if it has ended.
    pub fn next(&mut self) -> bool {
        self.script.resume();
        self.script.wait()
    }

    pub fn perl(&self) -> Perl<'_, ProcessMemory> {
        Perl::new(&self.memory, self.facts).expect("a known version")
    }

    /// The interpreter of the main thread.
    pub fn interpreter(&self) -> Interpreter {
        let perl = self.perl();
        let interpreter = perl
            .interpreter(self.thread_pointer)
            .expect("a readable thread")
            .expect("an interpreter");
        assert_eq!(interpreter, perl.main_interpreter());
        interpreter
    }
}
