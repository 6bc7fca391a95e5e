//! A real PHP process to look into.

use std::path::Path;

use vm::php::{Facts, Php};

use crate::process::{self, ProcessMemory, Script, Symbols};

/// The versions there are roots for, oldest first.
const VERSIONS: [&str; 5] = ["7.4", "8.2", "8.4", "8.5", "8.6"];

/// Runs `test` on a guest of this machine's PHP, of every version there is a root for, and of the program in
/// `$LANCET_PHP`, if that is set; says which versions were skipped.
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
    try_one("this machine's php", Path::new("/"), "/usr/bin/php");
    if let Some(program) = std::env::var_os("LANCET_PHP") {
        try_one("$LANCET_PHP", Path::new("/"), &program.to_string_lossy());
    }
    for version in VERSIONS {
        try_one(
            &format!("php {version}"),
            &process::root(&format!("php-{version}")),
            &format!("/usr/bin/php{version}"),
        );
    }
    if seen == 0 {
        println!("SKIPPED: everything: there is no PHP to look into");
    }
}

/// A running PHP.
pub struct Guest {
    pub script: Script,
    pub memory: ProcessMemory,
    pub facts: Facts,
}

impl Guest {
    /// Starts a script and waits for its first stop.
    fn start(root: &Path, program: &str, script: &str) -> Guest {
        let mut command = process::command(root, program);
        command.args([
            "-n",
            "-d",
            "extension=mysqlnd",
            "-d",
            "extension=mysqli",
            "-d",
        ]);
        command.args([
            "error_reporting=E_ALL & ~E_DEPRECATED & ~E_WARNING",
            "-r",
            script,
        ]);
        let mut script = Script::start(command);
        assert!(script.wait(), "the script ended too early");
        let memory = script.memory();
        let symbols = Symbols::find(script.pid(), "/bin/php").expect("php is mapped");
        let facts = Facts::find(&memory, &|name| symbols.address(name)).expect("facts");
        Guest {
            script,
            memory,
            facts,
        }
    }

    /// Lets it go on to its next stop; false if it has ended.
    pub fn next(&mut self) -> bool {
        self.script.resume();
        self.script.wait()
    }

    pub fn php(&self) -> Php<'_, ProcessMemory> {
        Php::new(&self.memory, self.facts).expect("a known version")
    }
}
