//! A panic of the agent in a hook of `mem`: the guest goes on, the command says what happened, and the next command counts
//! again.

use crate::support::{Guest, Spoilt, Watch, born, mem, rubies};

#[test]
fn a_panic_at_a_birth_ends_the_session_and_not_the_next_one() {
    for ruby in rubies("panics") {
        let mut guest = Guest::script(&ruby, "live/births.rb", &[]);
        guest.expect("ready");
        let watch = Watch::open(mem(guest.pid));
        let spoilt = Spoilt::make(guest.pid, "add_new_key");
        guest.tell("1000");
        guest.find("made ");
        let output = watch.interrupt();
        let said = output.stderr.contains("it found a fault of its own");
        assert!(said, "{ruby}: {}", output.stderr);
        assert_eq!(output.code(), 4, "{ruby}: {output:?}");
        spoilt.mend();

        let watch = Watch::open(mem(guest.pid));
        guest.tell("1000");
        guest.find("made ");
        let report = watch.report();
        let rows = report.of(guest.pid);
        assert_eq!(born(rows, "births.rb:9:String"), 1000, "{ruby}: {rows:#?}");
        guest.tell("quit");
        guest.ends_with("answer 0");
    }
}
