//! Which line is the application's: not that of a launcher, not that of a wrapper which is skipped; and where there is none, that
//! is said.

use std::path::PathBuf;
use std::process::Command;

use crate::lines::{of, shown};
use crate::support::{Guest, Interpreter, LIMIT, TempDir, chosen, run, until};
use crate::watch::{calls, hooked, left};

/// A program that a package manager has written (pip), its server, which works for itself too, and an application whose
/// queries all go through one function. Each is a file as it would be installed.
const FILES: [(&str, &str); 3] = [
    (
        "bin/serve",
        "import re\nimport sys\nfrom served import run\nif __name__ == '__main__':\n    \
         sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])\n    sys.exit(run())\n",
    ),
    (
        "lib/python3/dist-packages/served.py",
        "import os, sys\nimport app\ndef wait():\n    os.umask(0o1)\ndef run():\n    print('ready', flush=True)\n    \
         for line in sys.stdin:\n        wait()\n        app.request()\n        print('done', flush=True)\n",
    ),
    (
        "app.py",
        "import os\ndef query():\n    os.umask(0o2)\ndef request():\n    query()\n",
    ),
];

struct Served {
    guest: Guest,
    folder: TempDir,
}

/// Starts the server.
fn served(python: &Interpreter, test: &str) -> Served {
    let folder = TempDir::new(&format!("{test}-{python}").replace(' ', "-"));
    for (name, text) in FILES {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let packages = folder.join("lib/python3/dist-packages");
    let paths: Vec<PathBuf> = vec![packages, folder.join("")];
    let mut command: Command = python.command();
    command.arg(folder.join("bin/serve"));
    command.env(
        "PYTHONPATH",
        std::env::join_paths(paths).expect("plain paths"),
    );
    let guest = Guest::start("served", command);
    guest.expect("ready");
    Served { guest, folder }
}

impl Served {
    fn request(&mut self) {
        self.guest.tell("go");
        self.guest.expect("done");
    }

    /// The lines of both calls of one request.
    fn lines(&mut self, options: &[&str]) -> [String; 2] {
        let out = self.folder.join("out").display().to_string();
        let mut arguments = vec!["-ttT", "-x", "umask", "-o", &out];
        arguments.extend(options);
        let watch = hooked(calls(self.guest.pid, &arguments));
        self.request();
        let told = until(LIMIT, "both calls", || {
            let told = shown(&std::fs::read_to_string(&out).unwrap_or_default());
            (of(&told, "umask").len() == 2).then_some(told)
        });
        left(watch, "served");
        let line = |argument: &str| {
            let calls = of(&told, "umask");
            let one = calls.iter().find(|call| call.arguments == argument);
            one.unwrap_or_else(|| panic!("{told:?}")).line.clone()
        };
        [line("01"), line("02")]
    }
}

#[test]
fn work_of_no_application_is_said_to_be_that() {
    for python in chosen("python", "served") {
        let mut served = served(&python, "nobody");
        let app = served.folder.join("app.py").display().to_string();
        let nobody = "(no application line) (served.py:4)";
        let own = format!("{app}:3 in 'query'");
        assert_eq!(served.lines(&[]), [nobody, &own], "{python}");
        // The wrapper is passed over: its caller is told, and what was passed over behind it.
        let skipped = served.lines(&["--skip", "app.py:3"]);
        let outer = format!("{app}:5 in 'request' (");
        assert_eq!(skipped[0], nobody, "{python}");
        assert!(
            skipped[1].starts_with(&outer) && skipped[1].ends_with("/app.py:3)"),
            "{python}: {skipped:?}"
        );
        let all = served.lines(&["--skip", "app.py"]);
        assert!(
            all[1].starts_with("(no application line) (") && all[1].ends_with("/app.py:3)"),
            "{python}: {all:?}"
        );
        let nearest = served.lines(&["--nearest"]);
        assert!(
            nearest[0].ends_with("served.py:4 in 'wait'"),
            "{python}: {nearest:?}"
        );
    }
}

/// What waits within a server waits at no line of the application: the launcher is none for `stack --for` and `--now` either.
#[test]
fn what_waits_in_a_server_is_no_line_of_its_launcher() {
    for python in chosen("python", "served") {
        let mut served = served(&python, "waiting");
        served.request();
        let pid = served.guest.pid.to_string();
        for (arguments, wanted) in [
            (
                &["stack", "--for", "300ms"][..],
                "served.py:7 in run: asleep",
            ),
            (
                &["calls", "--now"],
                " ← (no application line) (served.py:7)",
            ),
        ] {
            let mut command = crate::support::lancet();
            let output = run(command.args(arguments).args(["-p", &pid]), LIMIT);
            assert!(
                output.stdout.contains(wanted) && !output.stdout.contains("bin/serve:"),
                "{python} {arguments:?}: {output:?}"
            );
        }
    }
}

/// The table that the process counts itself has the same lines, and so has that of a recording.
#[test]
fn tables_say_the_same() {
    for python in chosen("python", "served") {
        let mut served = served(&python, "tables");
        let file = served.folder.join("calls.lancet").display().to_string();
        for options in [&["-c"][..], &["-c", "--record", &file]] {
            let mut arguments = vec!["-x", "umask"];
            arguments.extend(options);
            let watch = hooked(calls(served.guest.pid, &arguments));
            (0..5).for_each(|_| served.request());
            let output = left(watch, "tables");
            let table = &output.stdout;
            let own = format!(
                " 5 umask ← {}:3 in 'query'",
                served.folder.join("app.py").display()
            );
            assert!(table.contains(&own), "{python} {options:?}: {table}");
            let nobody = " 5 umask ← (no application line)";
            assert!(table.contains(nobody), "{python} {options:?}: {table}");
        }
        let mut replay = crate::support::lancet();
        let output = run(replay.args(["calls", "-c", &file]), LIMIT);
        assert!(
            output.stdout.contains(" 5 umask ← (no application line)"),
            "{output:?}"
        );
    }
}
