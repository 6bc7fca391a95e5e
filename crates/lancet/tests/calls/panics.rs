//! A panic of the agent inside a hook: the call goes on, the gate is closed, and the command says at the end that
//! calls are missing.
//!
//! No input is known that makes the agent panic. So the agent's own code is changed in the guest: where a thread is
//! given its ring, on the way of its first hooked call, stands a jump into `core`'s panics.

use crate::machine::{program, start};
use crate::support::Spoilt;
use crate::watch::{calls, hooked};

/// Rounds of the program.
const ROUNDS: &str = "3000";

#[test]
fn a_panic_in_a_hook_ends_the_session_and_not_the_guest() {
    let Some(path) = program("calls.cpp") else {
        return;
    };
    let mut guest = start(&path, "exceptions");
    guest.tell(ROUNDS);
    let truth = guest.find("answer ");
    for more in [
        &["-x", "h_*"][..],
        &["-x", "h_*", "-c"],
        &["-x", "h_*", "-x", "malloc"],
        &["-S"],
    ] {
        let mut guest = start(&path, "exceptions");
        let watch = hooked(calls(guest.pid, more));
        Spoilt::make(guest.pid, "ring9introduce");
        guest.tell(ROUNDS);
        assert_eq!(
            guest.find("answer "),
            truth,
            "{more:?}: the guest computes what it would"
        );
        // While the guest lives: what is known of the panic is in its memory.
        let output = watch.interrupt();
        let said = output.stderr.contains("lancet's own code in it failed");
        assert!(said, "{more:?}: {}", output.stderr);
        assert_eq!(output.code(), 4, "{more:?}: {}", output.stderr);
        guest.ends_with_nothing("panics");
    }
}
