//! Which Rubies the tests run on.

use std::path::PathBuf;
use std::process::Command;

use super::{fixtures, installed, is_root, skip};

/// One Ruby of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruby {
    /// `system`, or the version of a root.
    pub name: String,
}

/// Those asked for that are here; those that are not are said to be skipped.
pub fn rubies(test: &str) -> Vec<Ruby> {
    let asked = std::env::var("LANCET_RUBIES").unwrap_or_else(|_| "system".into());
    let here = |name: &&str| {
        let why = missing(name);
        if let Some(why) = &why {
            skip(test, format_args!("ruby {name}: {why}"));
        }
        why.is_none()
    };
    asked
        .split_whitespace()
        .filter(here)
        .map(|name| Ruby { name: name.into() })
        .collect()
}

fn missing(name: &str) -> Option<&'static str> {
    if name == "system" {
        (!installed("ruby")).then_some("no ruby in the PATH")
    } else if !root(name).join(".lancet-root").exists() {
        Some("no root; make it with fixtures/roots/make")
    } else if !is_root() {
        Some("a root is entered as root")
    } else {
        None
    }
}

fn root(version: &str) -> PathBuf {
    let roots = std::env::var_os("LANCET_ROOTS").map_or_else(
        || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache/lancet/roots"),
        PathBuf::from,
    );
    roots.join(format!("ruby-{version}"))
}

impl Ruby {
    /// This machine's own.
    pub fn system() -> Self {
        Ruby {
            name: "system".into(),
        }
    }

    /// A command that becomes this Ruby, with the same process id.
    ///
    /// Those in a root live in a mount namespace of their own and below another root; paths to the
    /// fixtures and to `/tmp` mean the same there.
    pub fn command(&self) -> Command {
        let mut command = if self.name == "system" {
            Command::new("ruby")
        } else {
            let mut command = Command::new(fixtures().join("roots/ruby"));
            command.arg(&self.name);
            command
        };
        command.current_dir("/tmp");
        command
    }

    /// Its version: major and minor number.
    pub fn version(&self) -> (u32, u32) {
        let output = self
            .command()
            .args(["--disable-gems", "-e", "print RUBY_VERSION"])
            .output()
            .expect("ruby runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.split('.').map_while(|word| word.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) => (major, minor),
            _ => panic!("no version: {output:?}"),
        }
    }
}

impl std::fmt::Display for Ruby {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "ruby {}", self.name)
    }
}
