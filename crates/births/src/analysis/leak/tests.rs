//! Which rows leak, and what is said where that cannot be told.

use super::*;
use crate::analysis::census::{Loss, Lost, Resident, SiteCount};

fn row(alive: &[u64], died_late: u64) -> Trend {
    let mut counts = Counts {
        died_late,
        ..Counts::default()
    };
    counts.alive.0[..alive.len()].copy_from_slice(alive);
    Trend::of(&counts, alive.len())
}

#[test]
fn what_goes_on_is_a_leak_and_what_stops_is_none() {
    for steady in [
        &[35, 35, 35, 35][..],
        &[35, 105, 70, 35],
        &[14, 42, 28, 160],
        &[5, 5, 5, 5],
        &[100, 90, 80, 70, 60, 50, 40, 30],
    ] {
        assert!(row(steady, 0).leaks, "{steady:?}");
    }
    for other in [
        &[9000, 120, 0, 0][..],
        &[9000, 800, 90, 12],
        &[0, 0, 0, 60],
        &[0, 0, 12, 60],
        &[0, 3000, 0, 3000],
        &[35, 35, 35],
        &[4, 4, 4, 4],
    ] {
        assert!(!row(other, 0).leaks, "{other:?}");
    }
}

/// A cache of translations that is nearly full grows all the time, and each time by less.
#[test]
fn what_grows_by_less_each_time_slows() {
    for slows in [[1300, 750, 560, 440], [400, 300, 220, 150]] {
        assert!(row(&slows, 0).slows, "{slows:?}");
    }
    // By chance, with a step that is none, and with a load that falls slowly.
    for goes_on in [
        [35, 30, 26, 22],
        [1300, 750, 760, 440],
        [1000, 930, 860, 800],
    ] {
        assert!(!row(&goes_on, 0).slows, "{goes_on:?}");
    }
}

/// What several threads keep of their last request is of several intervals, and dies with the next one.
#[test]
fn what_dies_late_is_no_leak() {
    assert!(row(&[35, 35, 35, 35], 3).leaks);
    assert!(!row(&[35, 35, 35, 35], 30).leaks);
}

/// One String that gets longer is one object; its row leaks although it holds one only.
#[test]
fn a_row_whose_objects_hold_more_and_more_leaks() {
    let of = |grown| {
        let counts = Counts {
            live: 1,
            growing: 1,
            grown,
            ..Counts::default()
        };
        let trend = Trend::of(&counts, 4);
        (trend.leaks, trend.growing())
    };
    assert_eq!(of(1 << 20), (true, Growing::InSize));
    assert!(!of(1 << 10).0);
}

/// Fifty threads of 50 MiB come before ten thousand small Strings.
#[test]
fn the_leak_with_most_memory_comes_first() {
    let of = |bytes, alive: [u64; 4]| {
        let mut counts = Counts {
            bytes,
            ..Counts::default()
        };
        counts.alive.0[..4].copy_from_slice(&alive);
        Trend::of(&counts, 4)
    };
    let (threads, texts) = (of(50 << 20, [12, 13, 12, 13]), of(400 << 10, [2500; 4]));
    assert!(threads.leaks && texts.leaks && threads > texts);
}

#[test]
fn the_steadiest_comes_first() {
    let order = [
        row(&[35, 35, 35, 35], 0),
        row(&[9000, 800, 90, 37], 0),
        row(&[90, 0, 0, 3000], 0),
        row(&[0, 0, 0, 30_000], 0),
    ];
    assert!(order.is_sorted_by(|a, b| a > b), "{order:?}");
}

fn alive(of: [u64; 4]) -> Alive {
    let mut alive = Alive::default();
    alive.0[..4].copy_from_slice(&of);
    alive
}

/// A row of objects of that type, as many born in each of four intervals and alive now.
fn line(kind: &str, each: u64, bytes: u64) -> (Key, Counts) {
    let key = Key::Type { kind: kind.into() };
    let counts = Counts {
        live: 4 * each,
        bytes,
        alive: alive([each; 4]),
        ..Counts::default()
    };
    (key, counts)
}

/// A look after twelve seconds in four intervals, at sites with these rows.
fn census(rows: &[(Key, Counts)]) -> Census {
    let sites = rows.iter().map(|(key, counts)| SiteCount {
        frames: Vec::new(),
        kind: key.to_string().into(),
        internal: false,
        counts: *counts,
    });
    Census {
        intervals: vec![3.0; 4],
        sites: sites.collect(),
        uncollected: Uncollected::Ran,
        ..Census::default()
    }
}

fn verdict(census: &Census, rows: &[(Key, Counts)]) -> Option<Verdict> {
    let rows: Vec<_> = rows
        .iter()
        .map(|(key, counts)| ((key.clone(), false), *counts))
        .collect();
    Verdict::of(census, rows.iter().map(|(row, counts)| (row, counts)))
}

#[test]
fn the_row_that_leaks_is_named_and_no_other() {
    let rows = [line("Order", 40, 4000), line("Hash", 0, 9000)];
    let census = census(&rows);
    let found = verdict(&census, &rows);
    let Some(Verdict::Leaks(named)) = &found else {
        panic!("{found:?}");
    };
    let named: Vec<_> = named.iter().map(|leak| (&leak.key, leak.growing)).collect();
    assert_eq!(named, [(&rows[0].0, Growing::InNumber)]);
    assert!(leaks(found.as_ref(), &rows[0].0, false));
    assert!(!leaks(found.as_ref(), &rows[0].0, true));
    assert!(!leaks(found.as_ref(), &rows[1].0, false));
    assert!(!leaks(None, &rows[0].0, false));
    let quiet = [line("Hash", 0, 9000)];
    assert_eq!(
        verdict(&census, &quiet),
        Some(Verdict::None {
            replaced: 0,
            slowing: Vec::new()
        })
    );
}

/// What cannot be told is said in the place of a verdict, whatever the rows are.
#[test]
fn what_cannot_be_told_is_said() {
    let rows = [line("Order", 40, 4000)];
    let of = |change: fn(&mut Census)| {
        let mut census = census(&rows);
        change(&mut census);
        verdict(&census, &rows)
    };
    assert_eq!(of(|census| census.intervals.clear()), None);
    assert_eq!(
        of(|census| census.collector_off = true),
        Some(Verdict::CollectorOff)
    );
    assert_eq!(
        of(|census| census.uncollected = Uncollected::Unasked),
        Some(Verdict::Garbage)
    );
    let early = Some(Verdict::TooEarly);
    assert_eq!(
        of(|census| census.intervals = vec![30.0; 3]),
        early,
        "too few intervals"
    );
    assert_eq!(
        of(|census| census.intervals = vec![2.0; 4]),
        early,
        "too short"
    );
    assert!(matches!(
        of(|census| census.intervals = vec![2.5; 4]),
        Some(Verdict::Leaks(_))
    ));
}

/// Where births were not counted no verdict says that nothing leaks; what leaks among those that were does so all the same.
#[test]
fn births_that_were_not_counted_may_leak() {
    let quiet = [line("Hash", 0, 9000)];
    let lost = |count: u64, what: Lost, rows: &[(Key, Counts)]| {
        let mut census = census(rows);
        census.losses.push(Loss {
            what,
            count: Some(count),
            text: String::new(),
        });
        verdict(&census, rows)
    };
    let none = Some(Verdict::None {
        replaced: 0,
        slowing: Vec::new(),
    });
    assert_eq!(lost(20, Lost::Births, &quiet), Some(Verdict::Unseen(20)));
    assert_eq!(lost(19, Lost::Births, &quiet), none, "fewer are no leak");
    assert_eq!(lost(20, Lost::Rows, &quiet), none);
    let leaking = [line("Order", 40, 4000)];
    let leaks = lost(1000, Lost::Births, &leaking);
    assert!(matches!(leaks, Some(Verdict::Leaks(_))), "{leaks:?}");
    let both = lost(20, Lost::BirthsAndDeaths, &quiet);
    assert_eq!(both, Some(Verdict::Unseen(20)));
}

/// A cache that throws out as many as it takes in is none; for a type that everything uses, deaths elsewhere explain nothing.
#[test]
fn a_container_that_replaces_its_objects_is_no_leak() {
    let replaced = |kind: &str, gone: u64| {
        let rows = [line(kind, 40, 4000)];
        let mut census = census(&rows);
        census.gone.insert(kind.into(), gone);
        verdict(&census, &rows)
            == Some(Verdict::None {
                replaced: 1,
                slowing: Vec::new(),
            })
    };
    // 80 of its objects are of the two intervals in between.
    assert!(replaced("Order", 80));
    assert!(replaced("Order", 41));
    assert!(!replaced("Order", 40));
    assert!(!replaced("String", 80));
}

/// What single objects come to hold is a leak of so many bytes, with or without intervals.
#[test]
fn growth_in_size_counts_its_own_bytes() {
    let counts = Counts {
        bytes: 9 << 20,
        grown: 1 << 20,
        growing: 1,
        ..Counts::default()
    };
    for intervals in [0, 4] {
        let trend = Trend::of(&counts, intervals);
        assert_eq!((trend.leaks, trend.bytes), (true, 1 << 20), "{intervals}");
    }
}

/// A row that grows by less each time is named without a verdict: a leak does so, too, while the load falls. What single objects of it hold
/// is a leak all the same.
#[test]
fn what_slows_down_is_named_and_not_cleared() {
    let slowing = |grown: u64| {
        let (key, mut counts) = line("Order", 1, 4000);
        counts.alive = alive([1300, 750, 560, 440]);
        counts.grown = grown;
        let rows = [(key, counts)];
        verdict(&census(&rows), &rows)
    };
    let Some(Verdict::None {
        replaced: 0,
        slowing: rows,
    }) = slowing(0)
    else {
        panic!("{:?}", slowing(0));
    };
    assert_eq!((rows.len(), rows[0].counts.bytes), (1, 4000));
    let Some(Verdict::Leaks(leaks)) = slowing(1 << 20) else {
        panic!("{:?}", slowing(1 << 20));
    };
    assert_eq!((leaks.len(), leaks[0].growing), (1, Growing::InSize));
}

/// Where resident memory grows beside the objects, threads come first: those of which a census has seen that they are, not those whose
/// class is called so.
#[test]
fn threads_are_what_the_vm_has_as_such() {
    let rows = [line("Thread", 400, 90_000), line("Worker", 40, 4000)];
    let mut census = census(&rows);
    census.threads.insert("Worker".into());
    census.resident = Some(Resident {
        grown: 64 << 20,
        objects: 0,
    });
    let Some(Verdict::Leaks(named)) = verdict(&census, &rows) else {
        panic!("no leak");
    };
    let named = named
        .iter()
        .map(|leak| (leak.key.to_string(), leak.of_threads));
    let expected = [("Worker".to_owned(), true), ("Thread".to_owned(), false)];
    assert_eq!(named.collect::<Vec<_>>(), expected);
}
