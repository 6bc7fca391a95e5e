//! Requests of a php-fpm.

use super::functions;
use crate::support::fastcgi::{asked, fpm};
use crate::support::{LIMIT, Snapshot, TempDir, Watch, fixtures, lancet, mem, skip, until};

/// What a worker answers: how many blocks it has kept, the bytes in use, its id.
fn answer(text: &str) -> (u64, u64, i32) {
    let words: Vec<&str> = text.split(' ').collect();
    let [kept, used, pid] = words[..] else {
        panic!("no answer: {text:?}");
    };
    let number = |word: &str| word.parse().expect("a number");
    (number(kept), number(used), pid.parse().expect("an id"))
}

/// Blocks of a request are dead when it ends, whether its end is an error of the memory limit or not, and the VM's heap begins anew each
/// time. What a worker holds does not grow over hundreds of requests; when lancet has left, or was killed, all is as before.
#[test]
fn blocks_of_a_request_are_dead_when_it_ends() {
    let folder = TempDir::new("served-php");
    let Some((guest, socket, workers)) = fpm(&folder, 1) else {
        return skip("requests", "there is no php-fpm8.2");
    };
    let script = fixtures().join("php/births/request.php");
    let ask = |number: u64| asked(&socket, &script, number);
    let pid = workers[0];
    ask(50_000);
    let first = answer(&ask(50_000));
    assert_eq!((first.0, first.2), (50_000, pid));
    let (before, own) = (Snapshot::take(pid), functions(pid));
    for is_killed in [false, true, false] {
        let watch = Watch::open(mem(pid));
        for _ in 0..40 {
            assert_eq!(ask(0), "", "the memory limit");
            assert_eq!(answer(&ask(500)).0, 500);
            assert_eq!(answer(&ask(50_000)), first, "the heap begins anew");
        }
        if is_killed {
            watch.kill();
            assert_eq!(answer(&ask(50_000)), first);
            continue;
        }
        let report = watch.report();
        let rows = report.of(pid);
        let row = rows
            .iter()
            .find(|(name, _)| name.ends_with("request.php:12:(block)"));
        let (_, counts) = row.unwrap_or_else(|| panic!("{rows:?}"));
        let made = 40 * 50_500;
        assert!((made..made + 4_000).contains(&counts.born), "{counts:?}");
        let lives: u64 = rows.values().map(|counts| counts.live).sum();
        assert_eq!(lives, 0, "{rows:?}");
        assert_eq!(functions(pid), own);
        before.holds(pid, "after requests");
    }
    // The worker ends well while it is watched.
    let watch = Watch::open(mem(pid));
    guest.signal(nix::sys::signal::Signal::SIGQUIT);
    let output = watch.end();
    assert!(
        output.stderr.contains("ended") || output.code() == 0,
        "{output:?}"
    );
    drop(guest);
    let log = std::fs::read_to_string(folder.join("php.log")).expect("a log");
    assert!(!log.contains("exited on signal"), "{log}");
}

/// lancet comes while PHP code runs behind the end of a request, in its session's handler, which holds 80 MB in cycles: the heap begins anew
/// all the same, and the next request is counted.
#[test]
fn an_attach_behind_the_end_of_a_request_lets_the_heap_begin_anew() {
    let folder = TempDir::new("late-php");
    let Some((_guest, socket, workers)) = fpm(&folder, 1) else {
        return skip("late", "there is no php-fpm8.2");
    };
    let script = folder.join("sessions.php");
    std::fs::copy(fixtures().join("php/births/sessions.php"), &script).expect("a copy");
    // opcache keeps a file that is older than two seconds, and the figures are others then: from the first request on.
    let file = std::fs::File::options().write(true).open(&script);
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    file.expect("the copy").set_modified(old).expect("older");
    let (ask, pid) = (|number: u64| asked(&socket, &script, number), workers[0]);
    let all = || [0, 2].map(ask);
    all();
    let (first, own) = (all(), functions(pid));
    let watch = std::thread::scope(|scope| {
        let ends = scope.spawn(|| ask(1));
        let waits = folder.join("waits");
        until(LIMIT, "the handler", || waits.exists().then_some(()));
        let watch = Watch::open(mem(pid));
        std::fs::write(folder.join("goes"), "").expect("a file");
        ends.join().expect("an answer");
        watch
    });
    for round in 0..2 {
        assert_eq!(all(), first, "round {round}");
    }
    let report = watch.report();
    let rows = report.of(pid);
    let large = rows.keys().any(|name| name.contains("sessions.php"));
    assert!(large, "the requests behind it are counted: {rows:?}");
    assert_eq!(functions(pid), own);
}

/// A master and its workers are opened together.
#[test]
fn workers_are_found_from_their_master() {
    let folder = TempDir::new("workers-php");
    let Some((guest, socket, workers)) = fpm(&folder, 2) else {
        return skip("workers", "there is no php-fpm8.2");
    };
    let script = fixtures().join("php/births/request.php");
    let mut command = lancet();
    command.args(["mem", "--format", "json", "--children", "--no-gc", "-p"]);
    command.arg(guest.pid.to_string());
    let mut watch = Watch::open(command);
    for worker in &workers {
        watch.until(&format!("lancet: opened process {worker}"));
    }
    for _ in 0..20 {
        asked(&socket, &script, 1000);
    }
    let report = watch.report();
    let born: u64 = workers
        .iter()
        .flat_map(|worker| report.of(*worker))
        .filter(|(name, _)| name.ends_with("request.php:12:(block)"))
        .map(|(_, counts)| counts.born)
        .sum();
    assert!((20_000..20_500).contains(&born), "{born}");
}
