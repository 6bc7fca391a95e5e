//! Servers and libraries of Debian, asked and given work, that keep nothing they do not need: nobody is suspected, although what a
//! framework loads (classes, modules, routes, compiled code) is most of the memory. Those whose packages only `make soak` installs are a part of
//! the long forms. A healthy Django is in `django`, a php-fpm in `php`.

use super::holders::asked;
use crate::support::{Guest, fixtures, get, skip, soak};

/// A command in `fixtures/healthy`, what must succeed where the program is installed, and what a server says before its port.
struct Healthy {
    name: &'static str,
    installed: &'static str,
    command: &'static str,
    before_port: Option<&'static str>,
    /// `make soak` alone installs it.
    is_long: bool,
}

const HEALTHY: [Healthy; 4] = [
    Healthy {
        name: "Sinatra on puma",
        installed: "ruby -e 'require \"sinatra/base\"' && command -v puma",
        command: "exec puma -b tcp://127.0.0.1:0 shop.ru 2>&1",
        before_port: Some("Listening on http://127.0.0.1:"),
        is_long: false,
    },
    Healthy {
        name: "FastAPI on uvicorn",
        installed: "/usr/bin/python3 -c 'import fastapi, uvicorn'",
        command: "exec /usr/bin/python3 -m uvicorn fast:app --port 0 2>&1",
        before_port: Some("running on http://127.0.0.1:"),
        is_long: true,
    },
    Healthy {
        name: "pandas",
        installed: "/usr/bin/python3 -c 'import pandas'",
        command: "exec /usr/bin/python3 frames.py",
        before_port: None,
        is_long: true,
    },
    Healthy {
        name: "Mojolicious",
        installed: "/usr/bin/perl -MMojolicious -e1",
        command: "exec /usr/bin/perl shop.pl daemon -l http://127.0.0.1:0 2>&1",
        before_port: Some("available at http://127.0.0.1:"),
        is_long: true,
    },
];

/// How often a server is asked before its heap is.
const REQUESTS: usize = 300;

#[test]
fn what_frameworks_load_is_no_suspect() {
    for healthy in HEALTHY {
        if healthy.is_long && !soak() {
            skip(
                "heap healthy",
                format_args!("{} is a long form", healthy.name),
            );
            continue;
        }
        let mut installed = std::process::Command::new("sh");
        let installed = installed.args(["-c", healthy.installed]).output();
        if !installed.is_ok_and(|output| output.status.success()) {
            skip("heap healthy", format_args!("no {}", healthy.name));
            continue;
        }
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", healthy.command])
            .current_dir(fixtures().join("healthy"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let guest = Guest::start(healthy.name, command);
        if let Some(before) = healthy.before_port {
            let said = guest.find_within(before);
            let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
            let port = digits.parse().unwrap_or_else(|_| panic!("{said}"));
            for _ in 0..REQUESTS {
                assert!(!get(port, "/").is_empty(), "{}", healthy.name);
            }
        } else {
            guest.find_within("ready");
        }
        let output = asked(guest.pid);
        let has_no_suspect = output.stdout.contains("\nno suspect: ");
        assert!(has_no_suspect, "{}: {}", healthy.name, output.stdout);
    }
}
