//! What `lancet calls` can lose, in the words of all commands ([`report::losses`]). Used by `run` and `messages`.

use calls::consumer::Forgotten;
use calls::message::{Lost, Message};
use calls::options::Options;
use process::limits::forbids_mapping;
use prototypes::filter::Filter;
use report::figures::grouped;
use report::losses::{Loss, What};

use crate::losses::Losses;

/// Room that a process with less of can lack for the rings and tables of its threads.
const LEAST_TABLE: u64 = 64 << 20;

/// The loss that a message is about, if it is about one. The message itself has been printed.
pub fn of_message(message: &Message) -> Option<Loss> {
    let (what, pid) = match message.lost()? {
        Lost::Process(pid) => (What::Process, pid),
        Lost::Leaving(pid) => (What::Leaving, pid),
        Lost::Records(pid) => (What::Records, Some(pid)),
        Lost::Counts(pid) => (What::Counts, Some(pid)),
        Lost::Gap(pid) => (What::Gap, Some(pid)),
        Lost::Agent(pid) => (What::Agent, Some(pid)),
        Lost::Hooks => (What::Hooks, None),
        Lost::Unseen(pid) => (What::Unseen, Some(pid)),
        Lost::Recording => (What::Recording, None),
    };
    Some(Loss::new(pid, what, message.count(), message.to_string()))
}

/// Whether a message says of functions that they are not hooked, or not any more.
pub fn lacks_hooks(message: &Message) -> bool {
    matches!(
        message,
        Message::Refused { .. } | Message::NotHooked { .. } | Message::TooHot { .. }
    ) || matches!(message.lost(), Some(Lost::Hooks))
}

/// Whether a message says that something is hooked.
pub fn says_hooked(message: &Message) -> bool {
    match message {
        Message::Hooked {
            hooked,
            system_calls: [places, _],
            ..
        } => *hooked + *places != 0,
        Message::LibraryHooked { .. }
        | Message::DefinedHooked { .. }
        | Message::Led { .. }
        | Message::LedByBpf { .. }
        | Message::NotByBpf { .. }
        | Message::ByTracing { .. }
        | Message::ByBpf { .. } => true,
        _ => false,
    }
}

/// Says that nothing was ever hooked: what was asked for was called by nobody, or by somebody whom nobody has seen.
pub fn say_nothing_hooked(losses: &mut Losses, asked: &Options) {
    let mut text = "nothing was hooked, so no call could be seen: what was asked for (-x, -e, -l, --preset) is in none of the processes".to_owned();
    let mut filters = asked.x.iter().chain(&asked.e);
    if let Some(rule) = filters.find_map(Filter::doubtful) {
        text += &format!(
            "; `{rule}` was taken for a rule of its own: a sign that belongs to a library's name has a backslash before it (`\\{rule}`)"
        );
    }
    losses.say(Loss::new(None, What::Hooks, None, text));
}

/// What records that were lost are missing from, and what would help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Each call is shown or recorded.
    Shown,
    /// Calls are counted (`-c`) by their records, because guests cannot count them so.
    Counted,
}

impl Use {
    fn lost_records(self) -> &'static str {
        match self {
            Use::Shown => {
                "calls and returns are not shown, because the process made them faster than lancet could read them: name fewer functions, choose with --where or --min-time, or count with -c"
            }
            Use::Counted => {
                "calls and returns are not counted, because the process made them faster than lancet could read them: name fewer functions, or choose with --where or --min-time"
            }
        }
    }
}

/// Why calls were not counted where a limit of the process leaves no room for a table of counts.
const NO_TABLE: &str = "calls were not counted, because there was no memory for a table of counts";

/// Says what the rings of each process have lost.
pub fn say_rings(losses: &mut Losses, of: &[(i32, calls::Losses)], use_of: Use) {
    for (pid, lost) in of {
        if lost.sum() == 0 {
            continue;
        }
        let beginning = format!("process {pid}: ");
        for (what, count, words) in [
            (What::Records, lost.records, use_of.lost_records()),
            (
                What::Threads,
                lost.without_ring,
                "calls were not seen, because there was no memory for the ring of their thread, or no stack that their hook could run on",
            ),
            (
                What::Counts,
                lost.uncounted,
                "calls were not counted, because a thread made them in more rows (function and line) than its tables hold, or there was no memory for a table: name fewer functions",
            ),
            (
                What::Values,
                lost.uncopied,
                "pieces of memory that arguments lead to were not read, because a seccomp filter of the process, or its kernel, does not allow process_vm_readv, or because they were not in memory as BPF programs saw a program begin another one: texts and structs are shown as addresses, arguments of probes in memory as 0, and conditions on texts do not hold",
            ),
        ] {
            if count != 0 {
                let count_in_words = grouped(count);
                let is_memory = matches!(what, What::Threads | What::Counts);
                let limit = is_memory
                    .then(|| forbids_mapping(*pid, LEAST_TABLE))
                    .flatten();
                let words = match (&limit, what) {
                    // As long as no table can be made, fewer functions are of no help.
                    (Some(_), What::Counts) => NO_TABLE,
                    _ => words,
                };
                let why = limit.map_or(String::new(), |limit| format!("; {limit}"));
                let text = format!("{beginning}{count_in_words} {words}{why}");
                losses.say(loss(*pid, what, count, text));
            }
        }
        if lost.lines != 0 {
            let text = format!(
                "{beginning}{} lines of scripts are more than lancet keeps of one process: calls from there are told without a line",
                grouped(lost.lines)
            );
            losses.say(loss(*pid, What::Lines, lost.lines, text));
        }
        if lost.panics != 0 {
            let text = format!(
                "process {pid}: lancet's own code in it failed and was switched off: what it called after that is missing; please report this"
            );
            losses.say(loss(*pid, What::Agent, lost.panics, text));
        }
    }
}

/// Says how many lines nobody has read in time.
pub fn say_output(losses: &mut Losses, lines: u64) {
    if lines != 0 {
        let text = format!(
            "{} lines of output that nobody has read in time are missing",
            grouped(lines)
        );
        losses.say(Loss::new(None, What::Output, Some(lines), text));
    }
}

/// Says what was forgotten, because there was too much of it.
pub fn say_forgotten(losses: &mut Losses, forgotten: Forgotten) {
    let Forgotten {
        open,
        rows,
        statements,
        allocations,
    } = forgotten;
    for (what, count, words) in [
        (
            What::Records,
            open,
            "calls that had not returned were forgotten, because too many were open at the same time: when they returned, or were left, is not told; name fewer functions",
        ),
        (
            What::Counts,
            rows,
            "calls are counted in one row of others, because there are more rows than lancet keeps",
        ),
        (
            What::Counts,
            allocations,
            "allocations found no room in lancet's table: whether they were freed is not known",
        ),
        (
            What::Counts,
            statements,
            "statements were taken as over, or are not known by their text any more, because too many were prepared or open at the same time",
        ),
    ] {
        if count != 0 {
            let text = format!("{} {words}", grouped(count));
            losses.say(Loss::new(None, what, Some(count), text));
        }
    }
}

/// Says how many events are not in the recording.
pub fn say_recording(losses: &mut Losses, events: u64) {
    if events != 0 {
        let text = format!(
            "{} calls and returns are not in the recording, because its file took them too slowly",
            grouped(events)
        );
        losses.say(Loss::new(None, What::Recording, Some(events), text));
    }
}

fn loss(pid: i32, what: What, count: u64, text: String) -> Loss {
    Loss::new(Some(pid), what, Some(count), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_loss_of_rings_is_one() {
        let lost = calls::Losses {
            records: 1,
            without_ring: 2,
            uncounted: 3,
            lines: 4,
            panics: 5,
            uncopied: 7,
        };
        let mut losses = Losses::default();
        let of = [(7, lost), (8, calls::Losses::default())];
        say_rings(&mut losses, &of, Use::Shown);
        say_output(&mut losses, 6);
        say_output(&mut losses, 0);
        let kinds: Vec<_> = losses
            .all()
            .iter()
            .map(|loss| (loss.what, loss.count))
            .collect();
        let expected = [
            (What::Records, 1),
            (What::Threads, 2),
            (What::Counts, 3),
            (What::Values, 7),
            (What::Lines, 4),
            (What::Agent, 5),
            (What::Output, 6),
        ];
        assert_eq!(kinds, expected.map(|(what, count)| (what, Some(count))));
        assert_eq!(losses.exit_code(0), crate::exit::LOST);
    }

    /// The advice is not to do what is being done.
    #[test]
    fn who_counts_is_not_told_to_count() {
        let lost = calls::Losses {
            records: 79_511,
            ..calls::Losses::default()
        };
        let text = |use_of| {
            let mut losses = Losses::default();
            say_rings(&mut losses, &[(7, lost)], use_of);
            losses.all()[0].text.clone()
        };
        assert!(text(Use::Shown).contains("are not shown"));
        assert!(text(Use::Shown).contains("count with -c"));
        assert!(text(Use::Counted).contains("79,511 calls and returns are not counted"));
        assert!(!text(Use::Counted).contains("-c"));
    }

    #[test]
    fn a_gap_is_a_loss() {
        let gap = Message::Silent {
            pid: 7,
            from: Default::default(),
            to: std::time::Duration::from_secs(7),
        };
        let loss = of_message(&gap).expect("a loss");
        assert_eq!((loss.what, loss.pid), (What::Gap, Some(7)));
        assert_eq!(
            of_message(&Message::Ended {
                pid: 7,
                signal: Some(9),
                hook: false,
            }),
            None
        );
    }
}
