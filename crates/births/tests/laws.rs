//! The laws of the arithmetic, on generated censuses: whatever the grouping, the cut, the merge or
//! the interval, no object gets lost and none is counted twice.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use births::analysis::{
    Alive, By, Census, Counts, Fold, Frame, Growth, Key, Loss, Lost, Order, Report, Row, SiteCount,
    Trend, TypeCount, View, merge,
};
use proptest::prelude::*;

const KINDS: [&str; 4] = ["String", "Array", "Shop::Order", "IMEMO"];
const PATHS: [&str; 4] = [
    "app.rb",
    "/usr/lib/ruby/3.1.0/json.rb",
    "/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb",
    "<internal:kernel>",
];

fn frame() -> impl Strategy<Value = Arc<Frame>> {
    (0..PATHS.len(), 0u32..3, 0..2u8).prop_map(|(path, line, method)| {
        Arc::new(Frame {
            path: PATHS[path].into(),
            line,
            method: format!("m{method}").into(),
        })
    })
}

fn site() -> impl Strategy<Value = SiteCount> {
    let figures = (
        0u64..1_000_000,
        0u64..1_000_000,
        0u64..1 << 40,
        any::<[u32; 4]>(),
    );
    (
        prop::collection::vec(frame(), 0..4),
        0..KINDS.len(),
        figures,
    )
        .prop_map(|(frames, kind, (live, dead, bytes, cuts))| SiteCount {
            frames,
            kind: KINDS[kind].into(),
            internal: KINDS[kind] == "IMEMO",
            counts: Counts {
                alive: spread(live, cuts),
                died_late: dead / 100,
                ..Counts::of_births(live + dead, live, bytes)
            },
        })
}

/// The living in four parts, as by four intervals.
fn spread(live: u64, cuts: [u32; 4]) -> Alive {
    let mut alive = Alive::default();
    let mut left = live;
    for (part, cut) in alive.0.iter_mut().zip(cuts) {
        *part = (left * u64::from(cut)) >> 32;
        left -= *part;
    }
    alive.0[3] += left;
    alive
}

fn census(pid: i32, seconds: f64) -> impl Strategy<Value = Census> {
    let before = prop::collection::vec((0..KINDS.len(), 0u64..1000, 0u64..1 << 30), 0..4);
    (prop::collection::vec(site(), 0..30), before).prop_map(move |(sites, before)| Census {
        pid,
        command: vec!["ruby".into(), "app.rb".into()],
        language: "Ruby",
        version: "3.1.2".into(),
        seconds,
        taken_at: None,
        sites,
        before: before
            .into_iter()
            .map(|(kind, live, bytes)| TypeCount {
                kind: KINDS[kind].into(),
                internal: KINDS[kind] == "IMEMO",
                counts: Counts {
                    live,
                    bytes,
                    ..Counts::default()
                },
            })
            .collect(),
        intervals: vec![5.0; 4],
        followed: true,
        uncollected: births::analysis::Uncollected::Ran,
        ..Census::default()
    })
}

fn view() -> impl Strategy<Value = View> {
    let by = prop::sample::select(vec![
        By::Line,
        By::Method,
        By::File,
        By::Gem,
        By::Type,
        By::Stack,
    ]);
    let order = prop::sample::select(vec![
        Order::Growth,
        Order::Live,
        Order::Bytes,
        Order::Born,
        Order::Allocated,
        Order::Dead,
    ]);
    let top = prop::option::of(0usize..20);
    let fold = prop::sample::select(vec![
        Fold::Nothing,
        Fold::Libraries { app: String::new() },
        Fold::Libraries { app: "json".into() },
    ]);
    let grouping = (by, fold);
    (grouping, order, any::<bool>(), 0u64..500_000, top).prop_map(
        |((by, fold), order, internal, min, top)| View {
            by,
            fold,
            internal,
            order,
            min,
            top,
        },
    )
}

/// The same view, nothing cut or added up: which rows of libraries are depends on which of them leak. Where the dead come first, what was
/// there before is no row.
fn whole(view: &View) -> View {
    View {
        order: match view.order {
            Order::Dead => Order::Live,
            order => order,
        },
        fold: Fold::Nothing,
        min: 0,
        top: None,
        ..view.clone()
    }
}

fn everything(census: &Census) -> Counts {
    let sites = census.sites.iter().map(|site| site.counts);
    sites
        .chain(census.before.iter().map(|before| before.counts))
        .sum()
}

fn rows(report: Report) -> HashMap<(Key, bool), Counts> {
    report
        .rows
        .into_iter()
        .map(|row| ((row.key, row.before), row.counts))
        .collect()
}

proptest! {
    #[test]
    fn a_report_loses_nothing(census in census(1, 1.0), view in view()) {
        let report = Report::new(&census, &view);
        let mut sum: Counts = report.rows.iter().map(|row| row.counts).sum();
        sum += report.rest.map(|rest| rest.counts).unwrap_or_default();
        if view.order == Order::Dead {
            sum += report.before;
        }
        prop_assert_eq!(sum, report.total);
        sum += report.hidden;
        prop_assert_eq!(sum, everything(&census));
        prop_assert!(report.rows.len() <= view.top.unwrap_or(usize::MAX));
        prop_assert!(report.rows.iter().all(|row| view.figure(&row.counts) >= view.min));
    }

    /// No leak gets lost by a cut, and what leaks stands before what does not.
    #[test]
    fn leaks_come_first(census in census(1, 20.0), view in view()) {
        let view = View { order: Order::Growth, ..view };
        let report = Report::new(&census, &view);
        prop_assert_eq!(&report.verdict, &Report::new(&census, &whole(&view)).verdict);
        let leaks = |row: &Row| Trend::of(&row.counts, census.intervals.len()).leaks;
        let places: Vec<&Row> = report.rows.iter().filter(|row| !row.before).collect();
        prop_assert!(places.iter().map(|row| leaks(row)).is_sorted_by(|a, b| a >= b));
    }

    #[test]
    fn a_report_is_ordered(census in census(1, 1.0), view in view()) {
        let intervals = census.intervals.len();
        let figure = |counts: &Counts| match view.order {
            Order::Growth => (Trend::of(counts, intervals), counts.live),
            Order::Live => (Trend::default(), counts.live),
            Order::Bytes => (Trend::default(), counts.bytes),
            Order::Born => (Trend::default(), counts.born),
            Order::Allocated => (Trend::default(), counts.allocated),
            Order::Dead => (Trend::default(), counts.dead),
        };
        let report = Report::new(&census, &view);
        let rank = |row: &Row| (row.before, Reverse(figure(&row.counts)));
        let ordered = report.rows.is_sorted_by_key(rank);
        prop_assert!(ordered);
        // The order is total: the same counts give the same rows.
        prop_assert_eq!(report, Report::new(&census, &view));
    }

    #[test]
    fn what_died_is_what_was_born_and_does_not_live(census in census(1, 1.0), view in view()) {
        for row in Report::new(&census, &view).rows {
            if row.before {
                prop_assert_eq!((row.counts.born, row.counts.dead), (0, 0));
            } else {
                prop_assert_eq!(row.counts.dead, row.counts.born - row.counts.live);
            }
        }
    }

    #[test]
    fn merging_adds_up(
        censuses in prop::collection::vec(census(1, 1.0), 1..4),
        view in view(),
    ) {
        let merged = merge(&censuses).expect("there is at least one");
        let total: Counts = censuses.iter().map(everything).sum();
        prop_assert_eq!(everything(&merged), total);

        // Row by row: the merged report is the sum of the reports.
        let mut expected: HashMap<(Key, bool), Counts> = HashMap::new();
        for census in &censuses {
            for (key, counts) in rows(Report::new(census, &whole(&view))) {
                *expected.entry(key).or_default() += counts;
            }
        }
        prop_assert_eq!(rows(Report::new(&merged, &whole(&view))), expected);
    }

    #[test]
    fn growth_and_the_old_make_the_new(
        older in census(1, 1.0),
        newer in census(1, 3.5),
        view in view(),
    ) {
        let growth = Growth::new(&older, &newer, &whole(&view)).unwrap();
        prop_assert_eq!(growth.seconds, 2.5);
        let old = rows(Report::new(&older, &whole(&view)));
        let mut new = old.clone();
        for row in &growth.rows {
            let counts = new.entry((row.key.clone(), row.before)).or_default();
            counts.born = counts.born.checked_add_signed(row.delta.born).unwrap();
            counts.live = counts.live.checked_add_signed(row.delta.live).unwrap();
            counts.bytes = counts.bytes.checked_add_signed(row.delta.bytes).unwrap();
            prop_assert_eq!(row.now.live, counts.live);
        }
        let flat = |rows: HashMap<(Key, bool), Counts>| -> HashMap<_, _> {
            rows.into_iter()
                .map(|(key, counts)| (key, (counts.born, counts.live, counts.bytes)))
                .filter(|(_, figures)| *figures != (0, 0, 0))
                .collect()
        };
        prop_assert_eq!(flat(new), flat(rows(Report::new(&newer, &whole(&view)))));
    }

    #[test]
    fn a_growth_loses_nothing(
        older in census(1, 1.0),
        newer in census(1, 3.5),
        view in view(),
    ) {
        let growth = Growth::new(&older, &newer, &view).unwrap();
        let mut sum: births::analysis::Delta = growth.rows.iter().map(|row| row.delta).sum();
        sum += growth.rest.map(|rest| rest.delta).unwrap_or_default();
        prop_assert_eq!(sum, growth.total);
        sum += growth.hidden;
        let (old, new) = (everything(&older), everything(&newer));
        prop_assert_eq!(sum, new - old);
    }
}

#[test]
fn two_guests_have_no_growth() {
    let empty = |pid, seconds| Census {
        pid,
        seconds,
        ..Census::default()
    };
    let view = View::default();
    let two = Growth::new(&empty(1, 1.0), &empty(2, 2.0), &view).unwrap_err();
    assert_eq!(
        two.to_string(),
        "these are two processes (1 and 2): growth is between two looks at one"
    );
    let backwards = Growth::new(&empty(1, 2.0), &empty(1, 1.0), &view).unwrap_err();
    assert!(matches!(
        backwards,
        births::analysis::Error::Backwards { .. }
    ));
}

#[test]
fn a_merge_names_its_guests() {
    let one = Census {
        pid: 11,
        command: vec!["puma: worker".into()],
        language: "Ruby",
        version: "3.1.2".into(),
        seconds: 3.0,
        taken_at: None,
        sites: Vec::new(),
        walk_pause: Duration::from_millis(4),
        followed: true,
        uncollected: births::analysis::Uncollected::Ran,
        ..Census::default()
    };
    let two = Census {
        pid: 12,
        seconds: 2.0,
        gc_pause: Some(Duration::from_millis(9)),
        walk_pause: Duration::from_millis(2),
        losses: vec![Loss {
            what: Lost::Births,
            count: Some(3),
            text: "3 births had no room".into(),
        }],
        uncollected: births::analysis::Uncollected::Unasked,
        ..one.clone()
    };
    let merged = merge(&[one, two]).unwrap();
    assert_eq!(merged.pid, births::analysis::MERGED_PID);
    assert_eq!(merged.command, ["2 processes: puma: worker"]);
    assert_eq!(merged.version, "3.1.2");
    assert_eq!(merged.seconds, 3.0);
    assert_eq!(merged.gc_pause, Some(Duration::from_millis(9)));
    assert_eq!(merged.walk_pause, Duration::from_millis(4));
    assert_eq!(merged.losses.len(), 1);
    assert_eq!(merged.losses[0].text, "PID 12: 3 births had no room");
    assert!(merged.includes_garbage());
    assert_eq!(merge(&[]), None);
}
