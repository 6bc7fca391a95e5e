//! Code made by eval and anonymous classes: they go, their memory is used again, and what was born
//! there still has its own line.

use std::collections::BTreeMap;

use crate::support::{Guest, Watch, mem, rubies, soak};

/// `row 40 gen_3.rb:17:String` as the guest prints it.
fn survivors(guest: &Guest) -> BTreeMap<String, u64> {
    let mut rows = BTreeMap::new();
    loop {
        let line = guest.line().expect("an answer");
        if line.starts_with("answer ") {
            return rows;
        }
        let mut words = line.split_whitespace();
        if let (Some("row"), Some(count), Some(row)) = (words.next(), words.next(), words.next()) {
            rows.insert(row.into(), count.parse().expect("a count"));
        }
    }
}

#[test]
fn what_eval_made_has_its_line_when_the_code_is_gone() {
    for ruby in rubies("eval") {
        let rounds = if soak() { "40000" } else { "4000" };
        let mut guest = Guest::held(&ruby, "nasty/eval.rb", &[rounds]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        let wanted = survivors(&guest);
        let report = watch.report();
        let got: BTreeMap<String, u64> = report
            .of(guest.pid)
            .iter()
            .filter(|(row, counts)| row.starts_with("gen_") && counts.live > 0)
            .filter(|(row, _)| row.ends_with(":String") || row.ends_with(":Array"))
            .map(|(row, counts)| (row.clone(), counts.live))
            .collect();
        assert_eq!(got, wanted, "{ruby}");
        guest.tell("");
        let (_, status) = guest.end();
        assert!(status.success(), "{ruby}: {status}");
    }
}

#[test]
fn anonymous_classes_that_come_and_go_are_not_mistaken() {
    for ruby in rubies("classes") {
        let mut guest = Guest::held(&ruby, "nasty/classes.rb", &["4000"]);
        let watch = Watch::open(mem(guest.pid));
        guest.tell("");
        guest.find("answer ");
        let report = watch.report();
        let rows = report.of(guest.pid);
        // Every hundredth class has a name and a living instance; the others and theirs are gone,
        // but for what a stale stack slot may hold.
        let named = rows
            .iter()
            .filter(|(row, counts)| row.contains("classes.rb:16:Named") && counts.live > 0);
        let (kinds, living) = named.fold((0, 0), |(kinds, living), (_, counts)| {
            (kinds + 1, living + counts.live)
        });
        assert_eq!((kinds, living), (40, 40), "{ruby}: {rows:#?}");
        let nameless = rows
            .get("classes.rb:16:#<Class>")
            .map_or(0, |counts| counts.live);
        assert!(
            nameless <= 2,
            "{ruby}: {nameless} instances of dropped classes"
        );
        guest.tell("");
        let (_, status) = guest.end();
        assert!(status.success(), "{ruby}: {status}");
    }
}

/// As many sites as evals: what the agent keeps of code that is gone must not grow with them.
#[test]
fn the_agents_memory_stays_bounded_over_many_evals() {
    for ruby in rubies("evals") {
        let count = if soak() { "1000000" } else { "100000" };
        let (unwatched, _) = growth(&ruby, count, false);
        let (watched, evals) = growth(&ruby, count, true);
        assert!(
            watched < unwatched + (20 << 20),
            "{ruby}: {count} evals make the guest {watched} bytes larger, unwatched {unwatched}"
        );
        // a hundred files, ten lines of each; the count itself is right.
        assert_eq!(evals.to_string(), count, "{ruby}");
    }
}

/// How much larger the guest is after the evals, and how many arrays lancet saw at their lines.
fn growth(ruby: &crate::support::Interpreter, count: &str, watched: bool) -> (u64, u64) {
    let mut guest = Guest::script(ruby, "live/evals.rb", &[]);
    guest.expect("ready");
    // The heap finds its size first.
    guest.tell("20000");
    guest.expect("done");
    let watch = watched.then(|| Watch::open(mem(guest.pid)));
    let before = guest.resident();
    guest.tell(count);
    guest.expect("done");
    let grown = guest.resident().saturating_sub(before);
    let born = watch.map_or(0, |watch| {
        let report = watch.report();
        let rows = report.of(guest.pid);
        rows.iter()
            .filter(|(row, _)| row.starts_with("evals_") && row.ends_with(":Array"))
            .map(|(_, counts)| counts.born)
            .sum()
    });
    guest.ends_with("answer right");
    (grown, born)
}
