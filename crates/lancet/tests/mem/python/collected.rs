//! Collections that a Python whose main thread waits is brought to run by itself.

use super::{guest, pythons, records};
use crate::support::{Guest, LIMIT, mem, run};

/// The counts of the guest's collector, and how often it has collected the oldest generation.
fn counts(guest: &mut Guest) -> [u64; 4] {
    guest.tell("say");
    let said = guest.find("counts ");
    let numbers = said
        .split(' ')
        .map(|number| number.parse().expect("a number"));
    let numbers: Vec<u64> = numbers.collect();
    numbers.try_into().expect("four numbers")
}

/// Where no thread makes objects nothing is collected, the counts are as before, and the look says that garbage may be included.
#[test]
fn where_nobody_makes_objects_nothing_is_collected() {
    for python in pythons("idle") {
        let mut guest = guest(&python, "counts", &[]);
        let before = counts(&mut guest);
        let mut command = mem(guest.pid);
        command.args(["--for", "100ms"]);
        let output = run(&mut command, LIMIT);
        assert_eq!(output.code(), 0, "{python}: {}", output.stderr);
        let look = &records(&output.stdout, "look")[0];
        assert_eq!(look["garbage_included"], true, "{python}: {look}");
        let [young, middle, old, collections] = counts(&mut guest);
        assert_eq!([old, collections], before[2..], "{python}");
        assert!(
            middle <= before[1] + 1 && young < before[0] + 300,
            "{python}: {before:?}, now {young}, {middle}"
        );
        guest.tell("");
        guest.ends_with("answer 0");
    }
}
