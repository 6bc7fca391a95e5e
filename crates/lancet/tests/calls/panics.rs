//! A panic of the agent inside a hook: the call goes on, the gate is closed, and the command says at the end that
//! calls are missing.
//!
//! No input is known that makes the agent panic. So the agent's own code is changed in the guest: where a thread is
//! given its ring, on the way of its first hooked call, stands a jump into `core`'s panics.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;

use object::{Object, ObjectSymbol};

use crate::machine::{program, start};
use crate::support::Door;
use crate::watch::{calls, hooked};

/// Rounds of the program.
const ROUNDS: &str = "3000";

/// Makes the agent in a guest panic when a thread gets its ring.
fn spoil(pid: i32) {
    let file = fs::read(env!("LANCET_AGENT")).expect("the agent, built by build.rs");
    let agent = object::File::parse(&*file).expect("an ELF file");
    let address = |name: &str| {
        let found = agent.symbols().find(|symbol| {
            let known = symbol.name().unwrap_or_default();
            known.contains(name)
        });
        found
            .unwrap_or_else(|| panic!("the agent has no {name}"))
            .address()
    };
    let door = Door::find(pid).expect("an agent");
    let image = door.control_page - address("CONTROL_PAGE");
    let (from, to) = (address("ring9introduce"), address("panicking9panic_fmt"));
    let distance = to.wrapping_sub(from + 5) as u32;
    let mut jump = [0xe9, 0, 0, 0, 0];
    jump[1..].copy_from_slice(&distance.to_le_bytes());
    let memory = OpenOptions::new()
        .write(true)
        .open(format!("/proc/{pid}/mem"));
    let memory = memory.expect("the guest's memory");
    memory.write_all_at(&jump, image + from).expect("written");
}

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
        spoil(guest.pid);
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
