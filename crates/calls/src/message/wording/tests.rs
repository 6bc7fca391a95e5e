//! Tests of the texts.

use super::*;
use std::time::Duration;

fn hooked(asked: usize, system_calls: [usize; 2]) -> String {
    in_stops(asked, system_calls, None)
}

fn in_stops(asked: usize, system_calls: [usize; 2], stops: Option<(u32, Duration)>) -> String {
    let message = Message::Hooked {
        pid: 7,
        hooked: asked,
        asked,
        system_calls,
        took: Duration::from_micros(1250),
        stopped: Duration::from_micros(340),
        stops,
    };
    message.to_string()
}

#[test]
fn what_was_hooked_is_named_once() {
    let end = "hooked in 1.2 ms; it stood still for 0.3 ms";
    assert_eq!(
        hooked(0, [0, 0]),
        format!("process 7: {NOTHING_FITS}; it stood still for 0.3 ms")
    );
    assert_eq!(
        hooked(0, [3, 4]),
        format!("process 7: system calls at 3 of 4 places {end}")
    );
    assert_eq!(
        hooked(2, [3, 4]),
        format!("process 7: 2 of 2 functions and system calls at 3 of 4 places {end}")
    );
    assert_eq!(
        in_stops(2, [0, 0], Some((9, Duration::from_millis(2)))),
        "process 7: 2 of 2 functions hooked in 1.2 ms; it stood still 9 times, for 0.3 ms at most and 2.0 ms in all"
    );
}

#[test]
fn a_process_is_named_once() {
    let gone = || process::Error::Gone(7);
    for (message, text) in [
        (
            Message::Failed {
                pid: 7,
                error: gone(),
            },
            "process 7 ended",
        ),
        (
            Message::CountsLost {
                pid: 7,
                error: gone(),
            },
            "what process 7 had counted is lost: it ended",
        ),
        (
            Message::NotFollowed {
                pid: 7,
                error: process::Error::Stopped(7).into(),
            },
            "process 7 is not followed: it is stopped (SIGSTOP, Ctrl-Z or a cgroup freezer)",
        ),
        (
            Message::NotFollowed {
                pid: 7,
                error: Error::NothingHooked(7),
            },
            "process 7 is not followed: nothing of what was asked for",
        ),
        (
            Message::Failed {
                pid: 7,
                error: process::Error::NoSuchProcess(7),
            },
            "process 7: there is no process 7",
        ),
    ] {
        let said = message.to_string();
        assert!(said.starts_with(text), "{said}");
    }
}

#[test]
fn a_long_list_of_names_is_cut() {
    let names = |count: usize| (0..count).map(|at| at.to_string()).collect();
    let reason = || "too short".to_owned();
    let all = Message::Refused {
        names: names(MOST_NAMED),
        reason: reason(),
    };
    assert!(all.to_string().ends_with("18, 19: too short"), "{all}");
    let cut = Message::Refused {
        names: names(MOST_NAMED + 2),
        reason: reason(),
    };
    assert!(
        cut.to_string().ends_with("18, 19 and 2 more: too short"),
        "{cut}"
    );
}
