//! The doors from inside: the gem and the wheel, built, installed and tested from the built file, each by its own tests.
//!
//! | file | what is held |
//! |---|---|
//! | `gem` | `gem/`: built by rake, installed by `gem install FILE`, `gem/test/*_test.rb` on what was installed |
//! | `package` | a package is built once for all tests |
//! | `release` | the files of `make dist`: the same bytes whoever makes them; `make uninstall` |
//! | `wheel` | `python/`: built, installed by `pip install FILE`, `python/tests` on what was installed |
//!
//! The tests of each are in its own language, because what they test is what a program sees of itself. `LANCET_RUBIES` and
//! `LANCET_SCRIPTS` choose the versions, as everywhere. In roots of other versions the program must be static (`LANCET_BIN`, as
//! `make matrix` sets it).

mod gem;
mod package;
mod release;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod wheel;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use support::run;

/// A test file has many tests, and machines are busy.
const LIMIT: Duration = Duration::from_secs(400);

/// A folder of the repository.
fn folder(name: &str) -> PathBuf {
    support::fixtures().with_file_name(name)
}

/// Runs a command to its good end; its standard output.
fn succeeds(command: &mut Command) -> String {
    let output = run(command, LIMIT);
    assert_eq!(
        output.code(),
        0,
        "{command:?}:\n{}\n{}",
        output.stdout,
        output.stderr
    );
    output.stdout
}
