//! Redmine on puma, asked without a pause: each holder that one request has planted is the first suspect, with the line that made what it
//! holds and the path to it, and no request fails. In the long form only: Redmine starts in ten seconds.

use std::process::Command;

use nix::sys::signal::Signal;

use super::holders::{first_suspect, held};
use super::unseen::children as unwaited;
use crate::support::{Guest, Load, Redmine, Watch, get, lancet, say};

/// Which holder, and what the answer must say of the suspect and its path.
const HOLDERS: [(&str, &[&str]); 3] = [
    ("cache", &["Hash @global $order_cache retains "]),
    (
        "callback",
        &[
            "Array @local variable remembered of ",
            "constant Planted Class Planted → constant CALLBACKS Array",
        ],
    ),
    ("thread", &["Array @thread local orders of Thread puma "]),
];

const PATHS: [&str; 5] = [
    "/issues",
    "/issues/7",
    "/projects/project-3/issues",
    "/projects",
    "/search?q=issue",
];

/// The server, and its port.
fn served(redmine: &Redmine) -> (Guest, u16) {
    let mut puma = Command::new("sh");
    puma.args(["-c", "exec puma -t 5:5 -b tcp://127.0.0.1:0 \"$0\" 2>&1"]);
    puma.arg(Redmine::configuration());
    puma.env("REDMINE", redmine.place());
    let guest = Guest::start("puma", puma);
    let said = guest.find_within("Listening on http://127.0.0.1:");
    let port = said.trim().parse();
    (guest, port.unwrap_or_else(|_| panic!("{said}")))
}

fn is_right(_: u64, answer: &str) -> bool {
    answer.trim_end().ends_with("</html>")
}

#[test]
fn each_holder_of_a_redmine_is_its_first_suspect() {
    let Some(redmine) = Redmine::prepare("heap redmine") else {
        return;
    };
    let planted = Redmine::configuration().with_file_name("planted.rb");
    let script = std::fs::read_to_string(&planted).expect("it is there");
    let line = script.lines().position(|line| line.contains("Order.new("));
    let made = format!(
        "× Planted::Order, made at {}:{}",
        planted.display(),
        line.expect("they are made there") + 1
    );
    for (holder, wanted) in HOLDERS {
        let (guest, port) = served(&redmine);
        let load = Load::asking(3, is_right, move |number| {
            get(port, PATHS[number as usize % PATHS.len()])
        });
        let mut command = lancet();
        command.args(["heap", "-p", &guest.pid.to_string(), "--births", "60s"]);
        let watch = Watch::open(command);
        assert_eq!(
            get(port, &format!("/hold?{holder}")),
            format!("{}\n", guest.pid)
        );
        let before = load.answers();
        let output = watch.interrupt();
        let meanwhile = load.answers() - before;
        assert_eq!(output.code(), 0, "{output:?}");
        let suspect = first_suspect(&output);
        for part in wanted {
            assert!(suspect.contains(part), "{holder}: no {part} in {suspect}");
        }
        assert!(suspect.contains(&made), "{holder}: {suspect}");
        // A few are on the machine stack besides, as far as the VM can know.
        let held = held(&suspect);
        assert!((99_900..=100_000).contains(&held), "{holder}: {suspect}");
        let answers = load.end();
        say(format_args!(
            "{holder}: {answers} answers, {meanwhile} of them meanwhile, all right; {}",
            output.stderr.trim()
        ));
        assert_eq!(unwaited(guest.pid), "", "its copy is gone");
        guest.signal(Signal::SIGTERM);
    }
}
