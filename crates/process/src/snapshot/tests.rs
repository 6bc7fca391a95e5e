//! How long a process stood still for a snapshot.

use std::process::{Child, Command};

use super::*;

/// How long a thread must have waited for a processor at least, in one look, for that look to show anything.
const LONG: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(60);

/// A shell that computes on processor 0, with this niceness.
struct Busy(Child);

impl Busy {
    fn start(niceness: &str) -> Busy {
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "nice", "-n", niceness, "sh", "-c"]);
        let child = command.arg("while :; do :; done").spawn();
        Busy(child.expect("taskset of util-linux"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A thread that waits for a processor does not stand still for lancet: it stops when it gets one. So a look may take long in which it stands
/// for a moment.
#[test]
fn a_wait_for_a_processor_is_no_standing_still() {
    let guest = Busy::start("10");
    let _others: Vec<Busy> = (0..3).map(|_| Busy::start("0")).collect();
    let pid = guest.0.id() as i32;
    let wanted = Wanted {
        must_stop: &|_| false,
        kept: &[],
    };
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < LIMIT, "it never waited for a processor");
        let maps = Maps::of(pid).expect("it lives");
        let asked = Instant::now();
        let taken = Snapshot::take(pid, &maps, &[], wanted, &mut |_, _| Vec::new());
        let took = asked.elapsed();
        match taken {
            // It got no processor within the budget of a stop.
            Err(Error::WouldNotStop { .. }) => {}
            Err(error) => panic!("{error}"),
            Ok(snapshot) if took >= LONG => {
                let stopped = snapshot.stopped;
                assert!(stopped < took / 2, "{stopped:?} of {took:?}");
                return;
            }
            Ok(_) => {}
        }
    }
}
