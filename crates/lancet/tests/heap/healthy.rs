//! Servers and libraries of Debian, asked and given work, that keep nothing they do not need: nobody is suspected, although what a
//! framework loads (classes, modules, routes, compiled code) is most of the memory. Those whose packages only `make soak` installs are a part of
//! the long forms. A healthy Django is in `django`, a php-fpm in `php`.

use super::holders::asked;
use crate::support::{Guest, TempDir, children, fixtures, get, skip, soak};

/// What shows that a program may be looked at.
enum Begun {
    /// A server says its port after this text, and is asked first.
    Port(&'static str),
    /// Its work is done when it says this.
    Said(&'static str),
}

/// A command in `fixtures/healthy`, and what must succeed where the program is installed. Its folder for files is `$PLACE`.
struct Healthy {
    name: &'static str,
    installed: &'static str,
    command: &'static str,
    begun: Begun,
    /// `make soak` alone installs it.
    is_long: bool,
}

const HEALTHY: [Healthy; 8] = [
    Healthy {
        name: "Sinatra on puma",
        installed: "ruby -e 'require \"sinatra/base\"' && command -v puma",
        command: "exec puma -b tcp://127.0.0.1:0 shop.ru 2>&1",
        begun: Begun::Port("Listening on http://127.0.0.1:"),
        is_long: false,
    },
    Healthy {
        name: "FastAPI on uvicorn",
        installed: "/usr/bin/python3 -c 'import fastapi, uvicorn'",
        command: "exec /usr/bin/python3 -m uvicorn fast:app --port 0 2>&1",
        begun: Begun::Port("running on http://127.0.0.1:"),
        is_long: true,
    },
    Healthy {
        name: "pandas",
        installed: "/usr/bin/python3 -c 'import pandas'",
        command: "exec /usr/bin/python3 frames.py",
        begun: Begun::Said("ready"),
        is_long: true,
    },
    Healthy {
        name: "supervisord",
        installed: "command -v supervisord",
        command: "exec supervisord -c supervisord.conf",
        begun: Begun::Said("19 entered RUNNING state"),
        is_long: true,
    },
    Healthy {
        name: "Mojolicious",
        installed: "/usr/bin/perl -MMojolicious -e1",
        command: "exec /usr/bin/perl shop.pl daemon -l http://127.0.0.1:0 2>&1",
        begun: Begun::Port("available at http://127.0.0.1:"),
        is_long: true,
    },
    Healthy {
        name: "starman",
        installed: "command -v starman",
        // It takes no port of 0.
        command: "export PORT=$(/usr/bin/python3 -c 'import socket; it = socket.create_server((\"127.0.0.1\", 0)); print(it.getsockname()[1])')
            exec starman --listen 127.0.0.1:$PORT --workers 1 shop.psgi 2>&1",
        begun: Begun::Port("loaded by a worker of port "),
        is_long: true,
    },
    Healthy {
        name: "sidekiq",
        installed: "command -v sidekiq && command -v redis-server",
        command: "export SOCKET=$PLACE/redis
            setpriv --pdeathsig KILL redis-server --save '' --port 0 --unixsocket $SOCKET >/dev/null &
            until [ -S $SOCKET ]; do sleep 0.1; done
            exec sidekiq -c 5 -r ./jobs.rb",
        begun: Begun::Said("ready"),
        is_long: true,
    },
    Healthy {
        name: "rubocop",
        installed: "ruby -e 'require \"rubocop\"'",
        command: "exec ruby offenses.rb",
        begun: Begun::Said("ready"),
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
        let place = TempDir::new("healthy");
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", healthy.command])
            .current_dir(fixtures().join("healthy"))
            .env("PLACE", place.join("."))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let guest = Guest::start(healthy.name, command);
        let looked_at = match healthy.begun {
            Begun::Said(text) => {
                guest.find_within(text);
                vec![guest.pid]
            }
            Begun::Port(before) => {
                ask(healthy.name, &guest.find_within(before));
                // And its workers.
                [vec![guest.pid], children(guest.pid)].concat()
            }
        };
        for pid in looked_at {
            let output = asked(pid);
            let has_no_suspect = output.stdout.contains("\nno suspect: ");
            assert!(has_no_suspect, "{}: {}", healthy.name, output.stdout);
        }
    }
}

/// Asks a server again and again, whose port begins this text.
fn ask(name: &str, said: &str) {
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    let port = digits.parse().unwrap_or_else(|_| panic!("{said}"));
    for _ in 0..REQUESTS {
        assert!(!get(port, "/").is_empty(), "{name}");
    }
}
