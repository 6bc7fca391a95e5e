//! Interpreters of the four languages: this machine's own, and those of roots.

use std::process::Command;

use crate::harness::{Guest, fixtures, is_root, rubies, skip};

/// One interpreter of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// `ruby`, `python`, `perl` or `php`.
    pub language: &'static str,
    /// `system`, or the version of a root.
    pub version: String,
}

/// This machine's own of a language, or those that `LANCET_RUBIES` and `LANCET_SCRIPTS` name.
pub fn of(language: &'static str, test: &str) -> Vec<Interpreter> {
    let interpreter = |version: &str| Interpreter {
        language,
        version: version.into(),
    };
    if language == "ruby" {
        let rubies = rubies(test);
        return rubies.iter().map(|ruby| interpreter(&ruby.name)).collect();
    }
    let asked = std::env::var("LANCET_SCRIPTS");
    let asked = asked.unwrap_or_else(|_| "python-system perl-system php-system".into());
    let versions = asked.split_whitespace().filter_map(|name| {
        let (of, version) = name.split_once('-')?;
        (of == language).then(|| interpreter(version))
    });
    versions
        .filter(|interpreter| {
            let answer = interpreter.command().arg(interpreter.asks("1;")).output();
            let here = answer.as_ref().is_ok_and(|answer| answer.status.success());
            if !here {
                let why = match is_root() {
                    true => "it does not run; a root is made by fixtures/roots/make",
                    false => "it does not run; a root is entered as root",
                };
                skip(test, format_args!("{interpreter}: {why}"));
            }
            here
        })
        .collect()
}

impl Interpreter {
    /// A command that becomes this interpreter, with the same process id.
    pub fn command(&self) -> Command {
        let program = match (self.language, &*self.version) {
            // A `python3` found by PATH may be a shell script.
            ("python", "system") => "/usr/bin/python3".into(),
            (language, "system") => language.into(),
            ("ruby" | "perl", _) => format!("/usr/bin/{}", self.language),
            (language, version) => format!("/usr/bin/{language}{version}"),
        };
        let mut command = match &*self.version {
            "system" => Command::new(program),
            version => {
                let mut command = Command::new(fixtures().join("roots/enter"));
                command
                    .arg(format!("{}-{version}", self.language))
                    .arg(program);
                command
            }
        };
        command.current_dir("/tmp");
        command
    }

    /// What makes its drivers known: no maintainer script has switched extensions on in a root.
    fn drivers(&self) -> &'static [&'static str] {
        match (self.language, &*self.version) {
            ("php", version) if version != "system" => {
                &["-dextension=mysqlnd", "-dextension=mysqli"]
            }
            _ => &[],
        }
    }

    /// An argument by which it runs this code.
    fn asks(&self, code: &str) -> String {
        let option = if self.language == "php" { "-r" } else { "-e" };
        match self.language {
            "python" => format!("-c{code}"),
            _ => format!("{option}{code}"),
        }
    }

    /// Whether it runs this code, which needs a library.
    pub fn runs(&self, test: &str, code: &str) -> bool {
        let mut command = self.command();
        let output = command.args(self.drivers()).arg(self.asks(code)).output();
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
    pub fn fixture(&self, name: &str) -> std::path::PathBuf {
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
