//! Interpreters of the four languages: this machine's own, and those of roots made by `fixtures/roots/make`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Guest, fixtures, installed, is_root, join, skip};

/// One interpreter of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// `ruby`, `python`, `perl` or `php`.
    pub language: &'static str,
    /// `system`, or the version of a root.
    pub version: String,
}

/// Those of a language that `LANCET_RUBIES` (`system 2.7 3.1`) or `LANCET_SCRIPTS` (`python-system php-8.4`) asks for, this
/// machine's own unless it is set. One that does not run here is a printed skip.
pub fn chosen(language: &'static str, test: &str) -> Vec<Interpreter> {
    join();
    let variable = if language == "ruby" {
        "LANCET_RUBIES"
    } else {
        "LANCET_SCRIPTS"
    };
    let Ok(chosen) = std::env::var(variable) else {
        return present(language, ["system"].into_iter(), test);
    };
    let prefix = format!("{language}-");
    let versions = chosen.split_whitespace().filter_map(|name| {
        if language == "ruby" {
            return Some(name);
        }
        name.strip_prefix(&prefix)
    });
    present(language, versions, test)
}

/// This machine's own of a language and every version in `versions` that there is a root for.
pub fn all(language: &'static str, versions: &[&str]) -> Vec<Interpreter> {
    join();
    let versions = ["system"].iter().chain(versions).copied();
    present(language, versions, language)
}

/// The Rubies that `LANCET_RUBIES` asks for.
pub fn rubies(test: &str) -> Vec<Interpreter> {
    chosen("ruby", test)
}

/// Whether this Ruby has Ractors and does not bear them beside a hook on births.
pub fn bears_no_ractors(ruby: &Interpreter) -> bool {
    let output = ruby.command().args(["-e", "print RUBY_VERSION"]).output();
    let version = String::from_utf8(output.expect("it runs").stdout).expect("a version");
    let numbers: Vec<u32> = version.split('.').flat_map(str::parse).collect();
    match numbers[..] {
        [3, 0, _] | [3, 2..=4, _] | [4, ..] => true,
        [3, 1, patch] => patch < 4,
        _ => false,
    }
}

/// The Rubies that have Ractors and do not bear them beside a hook on births.
pub fn rubies_without_ractors(test: &str) -> Vec<Interpreter> {
    let mut rubies = rubies(test);
    rubies.retain(|ruby| {
        let has = bears_no_ractors(ruby);
        if !has {
            skip(test, format_args!("{ruby} has no Ractors, or bears them"));
        }
        has
    });
    rubies
}

/// Those versions that run here; of each of the others says why it is skipped.
fn present<'a>(
    language: &'static str,
    versions: impl Iterator<Item = &'a str>,
    test: &str,
) -> Vec<Interpreter> {
    let interpreters = versions.map(|version| Interpreter {
        language,
        version: version.into(),
    });
    interpreters
        .filter(|interpreter| {
            let missing = interpreter.missing();
            if let Some(why) = missing {
                skip(test, format_args!("{interpreter}: {why}"));
            }
            missing.is_none()
        })
        .collect()
}

impl Interpreter {
    /// This machine's own.
    pub fn system(language: &'static str) -> Self {
        Interpreter {
            language,
            version: "system".into(),
        }
    }

    /// Whether it is this machine's own.
    pub fn is_system(&self) -> bool {
        self.version == "system"
    }

    /// The folder that is `/` for it where [`Interpreter::chrooted`] starts it.
    pub fn root(&self) -> PathBuf {
        if self.is_system() {
            return "/".into();
        }
        let roots = std::env::var_os("LANCET_ROOTS").map_or_else(
            || {
                PathBuf::from(std::env::var_os("HOME").unwrap_or_default())
                    .join(".cache/lancet/roots")
            },
            PathBuf::from,
        );
        roots.join(format!("{}-{}", self.language, self.version))
    }

    /// Its program, below its root.
    fn program(&self) -> String {
        match (self.language, &*self.version) {
            // A `python3` found by PATH may be a shell script.
            ("python", "system") => "/usr/bin/python3".into(),
            (language, "system") => language.into(),
            ("ruby" | "perl", _) => format!("/usr/bin/{}", self.language),
            (language, version) => format!("/usr/bin/{language}{version}"),
        }
    }

    fn missing(&self) -> Option<&'static str> {
        if self.is_system() {
            let program = self.program();
            let here = Path::new(&program).is_file() || installed(&program);
            (!here).then_some("it is not installed")
        } else if !self.root().join(".lancet-root").exists() {
            Some("no root; make it with fixtures/roots/make")
        } else if !is_root() {
            Some("a root is entered as root")
        } else {
            None
        }
    }

    /// A command that becomes this interpreter, with the same process id. In a root it is in a mount namespace of its own;
    /// paths to the fixtures and to `/tmp` mean the same there.
    pub fn command(&self) -> Command {
        self.command_of(Path::new(&self.program()))
    }

    /// The same of another program that is there for it, as one that it has installed below `/tmp`.
    pub fn command_of(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if !self.is_system() {
            command = Command::new(fixtures().join("roots/enter"));
            command
                .arg(format!("{}-{}", self.language, self.version))
                .arg(program);
        }
        command.current_dir("/tmp");
        command
    }

    /// A command that becomes this interpreter, in its root by `chroot` alone: its files have other names outside, and it
    /// sees no file of this machine.
    pub fn chrooted(&self) -> Command {
        if self.is_system() {
            return Command::new(self.program());
        }
        let mut command = Command::new("chroot");
        command.arg(self.root()).arg(self.program());
        command
    }

    /// A Ruby's major and minor number.
    pub fn numbers(&self) -> (u32, u32) {
        let mut command = self.command();
        let output = command
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

    /// Options that load the database drivers: no maintainer script has enabled PHP's extensions in a root.
    fn drivers(&self) -> &'static [&'static str] {
        if self.language == "php" && !self.is_system() {
            &["-dextension=mysqlnd", "-dextension=mysqli"]
        } else {
            &[]
        }
    }

    /// Whether it runs this code, which needs a library.
    pub fn runs(&self, test: &str, code: &str) -> bool {
        let option = match self.language {
            "python" => "-c",
            "php" => "-r",
            _ => "-e",
        };
        let mut command = self.command();
        let output = command
            .args(self.drivers())
            .arg(format!("{option}{code}"))
            .output();
        let output = output.expect("it has run before");
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = text.lines().last().unwrap_or_default();
            skip(test, format_args!("{self}: {last}"));
        }
        output.status.success()
    }

    /// Starts `fixtures/LANGUAGE/calls/NAME` and waits for its `ready`.
    pub fn start(&self, name: &str, arguments: &[&str]) -> Guest {
        self.start_with(self.drivers(), name, arguments)
    }

    /// The same, with options for the interpreter.
    pub fn start_with(&self, options: &[&str], name: &str, arguments: &[&str]) -> Guest {
        let mut command = self.command();
        command
            .args(options)
            .arg(self.fixture(name))
            .args(arguments);
        let guest = Guest::start(&format!("{self} {name}"), command);
        guest.expect("ready");
        guest
    }

    /// The path of `fixtures/LANGUAGE/calls/NAME.EXTENSION`.
    pub fn fixture(&self, name: &str) -> PathBuf {
        let extension = match self.language {
            "ruby" => "rb",
            "python" => "py",
            "perl" => "pl",
            _ => "php",
        };
        let folder = fixtures().join(self.language).join("calls");
        folder.join(format!("{name}.{extension}"))
    }
}

impl std::fmt::Display for Interpreter {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{} {}", self.language, self.version)
    }
}
