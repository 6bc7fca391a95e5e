//! No sentence of a report of `lancet mem` is contradicted by a number of the same report. Censuses are made at random.

use births::analysis::{
    Alive, By, Census, Counts, Fold, Frame, Growing, Order, Report, Resident, SiteCount, Trend,
    Verdict, View,
};
use proptest::prelude::*;
use report::Style;
use report::mem::table;
use std::sync::Arc;

const STYLE: Style = Style {
    color: false,
    width: None,
};

/// A line that makes objects: how many of each of four intervals live, and how many died; how many bytes the living take; what single objects
/// of it hold more, and how many do.
type Line = ([u64; 4], u64, u64, (u64, u64));

fn line() -> impl Strategy<Value = Line> {
    let alive = prop_oneof![
        prop::array::uniform4(0_u64..40),
        (5_u64..3000).prop_map(|each| [each; 4]),
        (20_u64..9000).prop_map(|first| [first, first / 30, 0, 0]),
        (500_u64..9000).prop_map(|first| [first, first * 3 / 5, first * 2 / 5, first / 4]),
    ];
    let grown = prop_oneof![
        4 => Just((0, 0)),
        1 => (1_u64..1 << 28, 1_u64..4),
    ];
    (alive, 0_u64..100, 0_u64..1 << 30, grown)
}

fn census(lines: &[Line], resident: Option<(u64, u64)>, intervals: usize) -> Census {
    let sites = lines.iter().enumerate().map(|(number, line)| {
        let (parts, dead, bytes, (grown, growing)) = *line;
        let mut alive = Alive::default();
        for (place, part) in alive.0.iter_mut().zip(parts) {
            *place = part;
        }
        let live = parts.iter().sum();
        SiteCount {
            frames: vec![Arc::new(Frame {
                path: "app.rb".into(),
                line: number as u32 + 1,
                method: "m".into(),
            })],
            kind: "String".into(),
            internal: false,
            counts: Counts {
                alive,
                died_late: dead / 2,
                allocated: bytes,
                grown,
                growing: growing.min(live),
                ..Counts::of_births(live + dead, live, bytes)
            },
        }
    });
    Census {
        pid: 7,
        command: vec!["ruby".into(), "app.rb".into()],
        language: "Ruby",
        version: "3.1.2".into(),
        seconds: 5.0 * intervals as f64,
        sites: sites.collect(),
        intervals: vec![5.0; intervals],
        resident: resident.map(|(grown, objects)| Resident { grown, objects }),
        ..Census::default()
    }
}

/// The number right behind a word: `+1,204`.
fn behind(text: &str, words: &str) -> Option<u64> {
    let rest = text.split_once(words)?.1;
    let digits: String = rest
        .chars()
        .take_while(|one| one.is_ascii_digit() || *one == ',')
        .collect();
    digits.replace(',', "").parse().ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_mem_says_agrees_with_its_rows(
        lines in prop::collection::vec(line(), 0..8),
        resident in prop::option::of((1_u64 << 22..1 << 30, prop_oneof![Just(0), 1_u64..1 << 24])),
        intervals in 2_usize..5,
    ) {
        let census = census(&lines, resident, intervals);
        let view = View {
            by: By::Line,
            fold: Fold::Nothing,
            internal: false,
            order: Order::Growth,
            min: 0,
            top: None,
        };
        let report = Report::new(&census, &view);
        let mut out = Vec::new();
        table::write(&mut out, &census, &report, &STYLE).expect("memory");
        let text = String::from_utf8(out).expect("text");
        let leaking = report.rows.iter().filter(|row| Trend::of(&row.counts, intervals).leaks).count();
        let said: Vec<&str> = text.lines().filter(|line| line.starts_with("leak: ")).collect();
        prop_assert!(said.len() <= leaking, "{text}");
        if text.contains("no leak: neither objects nor what they hold grew") {
            prop_assert_eq!(leaking, 0, "{}", text);
            prop_assert!(said.is_empty() && census.resident.is_none(), "{text}");
            let all = format!("each of {intervals} intervals");
            prop_assert!(text.contains(&all), "{text}");
        }
        if let Some(rest) = text.split("no leak yet: ").nth(1) {
            let slowing: usize = rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
            prop_assert!((1..=leaking).contains(&slowing) && said.is_empty(), "{text}");
        }
        // What the objects hold together is said of all, because a line may have grown all the same.
        prop_assert!(said.is_empty() || !text.contains("the objects did not grow"), "{text}");
        let Some(Verdict::Leaks(leaks)) = &report.verdict else {
            prop_assert!(said.is_empty(), "{text}");
            return Ok(());
        };
        prop_assert!(!text.contains("no leak"), "{text}");
        for (leak, said) in leaks.iter().zip(&said) {
            let row = report.rows.iter().find(|row| row.key == leak.key && row.before == leak.before);
            let counts = row.expect("a leak has a row").counts;
            if leak.growing == Growing::InSize {
                let growing = format!(": {} object", counts.growing);
                prop_assert!(said.contains(&growing) && counts.grown != 0, "{text}");
            } else {
                let live = behind(said, "intervals of 5.0 s, +");
                prop_assert_eq!(live, Some(counts.live), "{}", text);
            }
            prop_assert!(!said.contains("nothing of it died") || counts.dead == 0, "{text}");
            if said.contains(" born still live") {
                let last = said.rsplit_once(" of ").map(|(_, rest)| format!(" of {rest}"));
                let born = behind(&last.expect("a number"), " of ").expect("a number");
                prop_assert!(born >= counts.live, "{text}");
            }
        }
    }
}
