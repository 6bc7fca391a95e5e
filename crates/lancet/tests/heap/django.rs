//! A Django application on gunicorn, asked without a pause: each holder that one request has planted is the first suspect of its worker, and no
//! request fails. And gunicorn's arbiter, which forks workers and waits for them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use process::guest::Status;

use super::holders::{asked, first_suspect};
use super::taken::taken;
use super::unseen::children as unwaited;
use crate::support::{
    Guest, Interpreter, LIMIT, Load, TempDir, children, fixtures, get, installed, say, skip, until,
};

/// Which holder, and what the answer must say of the suspect and its path.
const HOLDERS: [(&str, &[&str]); 3] = [
    ("cache", &["dict @global cache of module ordering retains "]),
    (
        "closure",
        &[
            "list @captured variable remembered of cell retains ",
            "module ordering → global hooks",
        ],
    ),
    // The cycle: the session holds its cart, which holds the session.
    (
        "session",
        &["ordering.Session", "module ordering → global sessions"],
    ),
];

fn is_right(number: u64, answer: &str) -> bool {
    answer == format!("number {number}\n")
}

/// A gunicorn with two workers that have imported the application, and its port; `None` where there is none.
fn gunicorn() -> Option<(Guest, u16)> {
    let python = Interpreter::system("python");
    let mut command = python.command();
    let has_django = command.args(["-c", "import django"]).output();
    if !installed("gunicorn") || !has_django.is_ok_and(|output| output.status.success()) {
        skip("heap django", "no gunicorn or no Django");
        return None;
    }
    let mut command = std::process::Command::new("sh");
    command
        .args([
            "-c",
            "exec gunicorn -w 2 --threads 4 -k gthread -b 127.0.0.1:0 ordering:application 2>&1",
        ])
        .current_dir(fixtures().join("python/heap"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let guest = Guest::start("gunicorn", command);
    let said = guest.find_within("Listening at: http://127.0.0.1:");
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    let port = digits.parse().unwrap_or_else(|_| panic!("{said}"));
    until(LIMIT, "two workers", || {
        (children(guest.pid).len() == 2).then_some(())
    });
    Some((guest, port))
}

#[test]
fn each_holder_of_a_worker_is_its_first_suspect() {
    for (holder, wanted) in HOLDERS {
        let Some((guest, port)) = gunicorn() else {
            return;
        };
        // A healthy worker: what Django loads is nobody's fault.
        let healthy = asked(children(guest.pid)[0]);
        let has_no_suspect = healthy.stdout.contains("\nno suspect: ");
        assert!(has_no_suspect, "{}", healthy.stdout);
        let load = Load::start(port, 3, is_right);
        let worker = get(port, &format!("/hold?{holder}"));
        let worker: i32 = worker.trim().parse().expect("a worker's id");
        let before = load.answers();
        let output = asked(worker);
        let meanwhile = load.answers() - before;
        let suspect = first_suspect(&output);
        for part in wanted {
            assert!(suspect.contains(part), "{holder}: no {part} in {suspect}");
        }
        assert!(
            suspect.contains("100,000 × ordering.Order"),
            "{holder}: {suspect}"
        );
        let answers = load.end();
        say(format_args!(
            "{holder}: {answers} answers, {meanwhile} of them meanwhile, all right; {}",
            output.stderr.trim()
        ));
        assert_eq!(unwaited(worker), "", "its copy is gone");
        kill(Pid::from_raw(guest.pid), Signal::SIGTERM).expect("it is ours");
    }
}

#[test]
fn an_arbiter_forks_and_waits_as_before() {
    let Some((guest, _)) = gunicorn() else {
        return;
    };
    let folder = TempDir::new("arbiter");
    for more in 1..=3 {
        // One more worker.
        kill(Pid::from_raw(guest.pid), Signal::SIGTTIN).expect("it is ours");
        taken(guest.pid, &folder.join("heap"));
        until(LIMIT, "one more worker", || {
            (children(guest.pid).len() == 2 + more).then_some(())
        });
        let child = children(guest.pid)[0];
        kill(Pid::from_raw(child), Signal::SIGKILL).expect("its worker");
        taken(guest.pid, &folder.join("heap"));
        until(LIMIT, "another worker", || {
            let workers = children(guest.pid);
            let runs = |pid: &i32| Status::read(*pid).is_ok_and(|status| status.state != 'Z');
            let all = workers.len() == 2 + more && workers.iter().all(runs);
            (all && !workers.contains(&child)).then_some(())
        });
    }
    kill(Pid::from_raw(guest.pid), Signal::SIGTERM).expect("it is ours");
}
