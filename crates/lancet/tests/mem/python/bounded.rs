//! Guests with little memory: the books take a part of what is left, the guest lives, and what was not noted is said.

use super::{guest, pythons, records};
use crate::support::{Report, Watch, live, losses, mem};

/// Blocks that the guest keeps and the bytes of each, and the room that it has for them and for what is noted of them, in MiB: less than both
/// would take.
const BLOCKS: u64 = 240_000;
const BYTES: u64 = 33 + 431;
const ROOM: &str = "160";
const ROW: &str = "bounded.py:15:(PyObject)";

#[test]
fn a_guest_near_its_limit_lives_and_what_was_not_noted_is_said() {
    for python in pythons("bounded") {
        let mut guest = guest(&python, "bounded", &[ROOM]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("20000");
        guest.find("made ");
        guest.tell("100000");
        guest.find("made ");
        let output = watch.interrupt();
        assert_eq!(output.code(), 4, "{python}: {output:?}");
        let report = Report::parse(&output.stdout);
        let noted = live(report.of(guest.pid), ROW);
        assert!(
            (40_000..BLOCKS).contains(&noted),
            "{python}: what came first is noted: {noted}"
        );
        let rows = records(&output.stdout, "row");
        let bytes = rows
            .iter()
            .find(|row| row["place"]["line"] == 15 && row["type"] == "(PyObject)")
            .and_then(|row| row["bytes"].as_u64())
            .expect("the row");
        assert!(
            bytes.abs_diff(noted * BYTES) < 1000,
            "{python}: what is noted is right: {noted} blocks, {bytes} bytes"
        );
        let [(what, Some(lost))] = &losses(&output.stdout)[..] else {
            panic!("{python}: {}", output.stdout);
        };
        assert_eq!(what, "births", "{python}");
        assert!(noted + lost >= BLOCKS, "{python}: {noted}, {lost} lost");
        let verdict = &records(&output.stdout, "verdict")[0]["verdict"];
        assert_ne!(verdict, "none", "{python}");
        guest.tell("");
        guest.ends_with(&format!("answer {}", BLOCKS * 431));
    }
}
