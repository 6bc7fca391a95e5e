//! The verdict on leaks as sentences, for the head of a report. Used by `json` and `table`, and by
//! `lancet::commands::mem::live::screen`.

use births::analysis::{
    Census, Growing, LEAST_INTERVALS, LEAST_SECONDS, Leak, MERGED_PID, Resident, Uncollected,
    Verdict,
};

use super::label::label_of_key;
use crate::figures::{grouped, plural, size, span};

/// So many leaks are named; the others stand among the first rows.
const NAMED: usize = 3;

/// Returns the verdict in sentences, safe to print, and whether a leak is named.
pub fn sentences(verdict: &Verdict, census: &Census) -> (Vec<String>, bool) {
    let intervals = &census.intervals;
    let count = intervals.len();
    let each = match count {
        0 => 0.0,
        count => intervals.iter().sum::<f64>() / count as f64,
    };
    let all = format!("each of {count} intervals of {}", span(each));
    let [_, many] = census.counted();
    let text = match verdict {
        Verdict::Leaks(leaks) => {
            let mut said: Vec<String> = leaks
                .iter()
                .take(NAMED)
                .map(|leak| sentence(leak, &all, census))
                .collect();
            let more = leaks.len().saturating_sub(NAMED) as u64;
            if more > 0 {
                let rows = plural(more, "row", "rows");
                said.push(format!(
                    "      and {} more {rows}, which stand below them",
                    grouped(more)
                ));
            }
            said.extend(doubts(census));
            said.extend(census.resident.map(|grown| unexplained(grown, census)));
            return (said, true);
        }
        Verdict::CollectorOff => {
            return (vec![COLLECTOR_OFF.into()], true);
        }
        Verdict::None { .. } if let Some(grown) = census.resident => {
            return (vec![unexplained(grown, census)], true);
        }
        Verdict::None { slowing, .. } if let Some(first) = slowing.first() => {
            let rows = slowing.len() as u64;
            format!(
                "no leak yet: {} {} grew in {all}, each time by less than before: a cache that fills, or a leak while the load falls; a longer --for tells. Most memory: {}, +{}",
                grouped(rows),
                plural(rows, "row", "rows"),
                label_of_key(&first.key, first.before, &census.root),
                size(first.counts.bytes)
            )
        }
        Verdict::None { replaced: 0, .. } if !census.followed => {
            format!(
                "no leak by number: of no row more and more {many} live in {all}. Whether single {many} hold more and more is not known: {} {} in {} were too few (a longer --for; looks take at most --budget percent of the time)",
                census.looks,
                plural(u64::from(census.looks), "look", "looks"),
                span(census.seconds)
            )
        }
        Verdict::None { replaced: 0, .. } => {
            format!("no leak: neither {many} nor what they hold grew in {all}")
        }
        Verdict::None { replaced, .. } => {
            let rows = *replaced as u64;
            format!(
                "no leak: {} {} grew in {all}, and as many older {many} of the type died",
                grouped(rows),
                plural(rows, "row", "rows")
            )
        }
        Verdict::TooEarly => too_early(&census.intervals),
        Verdict::Unseen(births) => {
            let text = format!(
                "no verdict on leaks: {} births were not counted; no line whose births were leaks",
                grouped(*births)
            );
            let resident = census.resident.map(|grown| unexplained(grown, census));
            return ([text].into_iter().chain(resident).collect(), false);
        }
        Verdict::Garbage => {
            "no verdict on leaks: no GC was run before the count, and garbage looks like a leak"
                .into()
        }
    };
    (vec![text], false)
}

/// What is said first where it is so, because no figure of the report means anything else.
const COLLECTOR_OFF: &str = "garbage collection is switched off in this process (GC.disable): nothing is freed, and it grows by all that it makes";

/// Why no collection was run before a count of a Python for which one was wanted.
pub fn why_uncollected(census: &Census) -> Option<&'static str> {
    match census.uncollected {
        Uncollected::Ran | Uncollected::Unasked => None,
        Uncollected::Blocked => {
            Some("the main thread was blocked in a call: no collection can be run there")
        }
        Uncollected::Off => Some("the program has switched its collector off (gc.disable)"),
        Uncollected::Unknown => {
            Some("it is not known whether the program has switched its collector off")
        }
        Uncollected::UnderWay => Some("a collection of the program's own was running"),
        Uncollected::Uncalled => {
            Some("its VM counts references, and lancet does not have it look for cycles")
        }
    }
}

/// What may be among the rows that grow and is no leak, as lines.
fn doubts(census: &Census) -> impl Iterator<Item = String> {
    let garbage = why_uncollected(census).map(|why| {
        format!("      no GC was run before the count, because {why}: cycles that nobody holds may be among them")
    });
    let dead = census.unseen_deaths().map(|lost| {
        let [_, many] = census.counted();
        format!(
            "      {} births and deaths were not counted: {many} that have died may be among them",
            grouped(lost)
        )
    });
    garbage.into_iter().chain(dead)
}

/// Whether a row that grows is a leak for certain.
pub fn is_certain(census: &Census) -> bool {
    doubts(census).next().is_none()
}

/// What rows that grow are called: where garbage, or what has died, may be among what was counted, it may be that which grows.
fn leaks(census: &Census) -> &'static str {
    if is_certain(census) {
        "leak"
    } else {
        "perhaps a leak"
    }
}

/// Says that the resident memory has grown by more than the objects have.
fn unexplained(Resident { grown, objects }: Resident, census: &Census) -> String {
    let [_, many] = census.counted();
    let objects = match objects {
        0 => format!("all {many} together did not grow"),
        objects => format!("all {many} together grew by {}", size(objects)),
    };
    let (grown, of) = (size(grown), of(census));
    format!("{objects}, resident memory grew by {grown}: lancet heap --rss{of} says where it is")
}

/// Names the process to another command; nothing where several were merged.
fn of(census: &Census) -> String {
    match census.pid {
        MERGED_PID => String::new(),
        pid => format!(" -p {pid}"),
    }
}

/// What is missing: time, or looks, which come late on a machine or in a process that has other things to do.
fn too_early(intervals: &[f64]) -> String {
    let (looks, watched) = (intervals.len(), intervals.iter().sum::<f64>());
    if watched < LEAST_SECONDS {
        return format!("no verdict on leaks yet: that takes {LEAST_SECONDS} s of watching");
    }
    format!(
        "no verdict on leaks yet: that takes {LEAST_INTERVALS} looks, and there were {looks} in {watched:.1} s"
    )
}

fn sentence(leak: &Leak, all: &str, census: &Census) -> String {
    let count = census.intervals.len();
    let counts = &leak.counts;
    let name = label_of_key(&leak.key, leak.before, &census.root);
    let leaks = leaks(census);
    if leak.growing == Growing::InSize {
        let growing = grouped(counts.growing);
        let [one, many] = census.counted();
        let (objects, hold) = match counts.growing {
            1 => (one, "holds"),
            _ => (many, "hold"),
        };
        let (grown, of) = (size(counts.grown), of(census));
        return format!(
            "{leaks}: {name}: {growing} {objects} {hold} more at each look, +{grown}; lancet heap{of} says what keeps it"
        );
    }
    let (bytes, live) = (size(counts.bytes), grouped(counts.live));
    let died = match counts.dead {
        0 => "nothing of it died".into(),
        _ => format!("{live} of {} born still live", grouped(counts.born)),
    };
    let each = grouped(counts.live / (count.max(1) as u64));
    let beside = if leak.of_threads {
        " without their stacks"
    } else {
        ""
    };
    format!("{leaks}: {name} grew in {all}, +{live} (+{each} each), +{bytes}{beside}, {died}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use births::analysis::{Loss, Lost};

    /// What died unseen counts as living, and may be all that grows.
    #[test]
    fn where_deaths_were_lost_a_leak_is_not_certain() {
        let said = |what: Lost, count: u64| {
            let loss = Loss {
                what,
                count: Some(count),
                text: String::new(),
            };
            let census = Census {
                losses: vec![loss],
                uncollected: Uncollected::Ran,
                ..Census::default()
            };
            (
                leaks(&census),
                sentences(&Verdict::Leaks(Vec::new()), &census).0,
            )
        };
        let (word, lines) = said(Lost::BirthsAndDeaths, 1000);
        assert_eq!(word, "perhaps a leak");
        assert_eq!(
            lines,
            [
                "      1,000 births and deaths were not counted: objects that have died may be among them"
            ]
        );
        for (what, count) in [(Lost::BirthsAndDeaths, 19), (Lost::Births, 1000)] {
            assert_eq!(said(what, count), ("leak", Vec::new()), "{what:?}");
        }
    }
}
