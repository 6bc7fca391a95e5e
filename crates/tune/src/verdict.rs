//! The outcome of a check: a verdict, its reason, the evidence, and the changes that would improve it. Used by
//! `rules::placement`, `rules::polling` and others here, and by the crates `report` and `lancet`.

use crate::setting::Setting;
use crate::tree::Cannot;

/// The seven verdicts, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It does damage: it loses data, has a hole, breaks connections.
    Harmful,
    /// It costs, and something measured or documented says so.
    Bad,
    /// It may be worth changing; the reason says for whom.
    Consider,
    /// The advice is of another time; nothing is to be done, or a leftover can go.
    Obsolete,
    /// It could not be found out; the reason says what is missing for that.
    CannotTell,
    /// The setting is as it should be.
    Good,
    /// The machine has nothing that the check is about.
    NotApplicable,
}

impl Verdict {
    /// All of them, the worst first.
    pub const ALL: [Self; 7] = [
        Self::Harmful,
        Self::Bad,
        Self::Consider,
        Self::Obsolete,
        Self::CannotTell,
        Self::Good,
        Self::NotApplicable,
    ];

    /// Returns the verdict as programs read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::CannotTell => "cannot_tell",
            Self::NotApplicable => "not_applicable",
            other => other.words(),
        }
    }

    /// Returns the verdict as people read it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Harmful => "harmful",
            Self::Bad => "bad",
            Self::Consider => "consider",
            Self::Obsolete => "obsolete",
            Self::CannotTell => "cannot tell",
            Self::Good => "good",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// What the machine is used for, where the right value depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Short times to answer.
    Latency,
    /// Much work per second.
    Throughput,
}

/// Something that was read: where, and the value there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// The file, request or counter.
    pub from: String,
    /// The value as it stands there, white space made single.
    pub value: String,
}

/// One write that would change the verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The setting to write.
    pub setting: Setting,
    /// The value to write.
    pub value: String,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How bad it is.
    pub verdict: Verdict,
    /// The reason, in one line.
    pub says: String,
    /// The values the verdict rests on, each with where it was read.
    pub evidence: Vec<Evidence>,
    /// What `--apply` would write, in this order.
    pub changes: Vec<Change>,
    /// What must be done after the changes before they take effect.
    pub then: Option<&'static str>,
    /// Something fails now or has just failed: a counter of failures rose, or nothing is left of what is handed out. It
    /// is shown before what is only set.
    pub fails: bool,
    /// It could not be told because something that is there could not be read.
    pub unread: bool,
}

impl Outcome {
    /// Returns an outcome without evidence or changes.
    pub fn new(verdict: Verdict, says: impl Into<String>) -> Self {
        Self {
            verdict,
            says: says.into(),
            evidence: Vec::new(),
            changes: Vec::new(),
            then: None,
            fails: false,
            unread: false,
        }
    }

    /// Returns the outcome that a setting is as it should be.
    pub fn good(says: impl Into<String>) -> Self {
        Self::new(Verdict::Good, says)
    }

    /// Returns the outcome that a change is worth a thought.
    pub fn consider(says: impl Into<String>) -> Self {
        Self::new(Verdict::Consider, says)
    }

    /// Returns the outcome that a setting costs.
    pub fn bad(says: impl Into<String>) -> Self {
        Self::new(Verdict::Bad, says)
    }

    /// Returns the outcome that a setting does damage.
    pub fn harmful(says: impl Into<String>) -> Self {
        Self::new(Verdict::Harmful, says)
    }

    /// Returns the outcome that the advice is of another time.
    pub fn obsolete(says: impl Into<String>) -> Self {
        Self::new(Verdict::Obsolete, says)
    }

    /// Returns the outcome that the verdict could not be found.
    pub fn cannot_tell(says: impl Into<String>) -> Self {
        Self::new(Verdict::CannotTell, says)
    }

    /// Returns the outcome that the machine has nothing that the check is about.
    pub fn not_applicable(says: impl Into<String>) -> Self {
        Self::new(Verdict::NotApplicable, says)
    }

    /// Adds evidence. An error in place of the value names the file that `from` names already; that is not repeated.
    pub fn saw(mut self, from: impl Into<String>, value: impl ToString) -> Self {
        let from = from.into();
        let value = value.to_string();
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        let value = match value.split_once(' ') {
            Some((file, rest)) if file.starts_with('/') && from.contains(file) => rest.to_owned(),
            _ => value,
        };
        let value = value
            .strip_prefix(&format!("{from} "))
            .map_or(value.clone(), str::to_owned);
        self.evidence.push(Evidence { from, value });
        self
    }

    /// Adds a write that would change the verdict.
    pub fn change(mut self, setting: Setting, value: impl ToString) -> Self {
        self.changes.push(Change {
            setting,
            value: value.to_string(),
        });
        self
    }

    /// Notes that something fails now.
    pub fn failing(mut self) -> Self {
        self.fails = true;
        self
    }

    /// Adds what must be done after the changes before they take effect.
    pub fn then(mut self, what: &'static str) -> Self {
        self.then = Some(what);
        self
    }

    /// Makes one outcome of those of several devices: it has the worst verdict and all evidence and changes, and fails if one of them does.
    pub fn of_devices(each: Vec<(String, Self)>) -> Self {
        let Some(worst) = each.iter().map(|(_, outcome)| outcome.verdict).min() else {
            return Self::not_applicable("no network device that is up");
        };
        let mut speakers: Vec<&(String, Self)> = each
            .iter()
            .filter(|(_, outcome)| outcome.verdict == worst)
            .collect();
        // What fails now says more than what is only set.
        speakers.sort_by_key(|(_, outcome)| !outcome.fails);
        let (name, first) = speakers[0];
        let others = match speakers.len() {
            1 => String::new(),
            2 => format!(" (and {})", speakers[1].0),
            more => format!(" (and {} more devices)", more - 1),
        };
        let says = format!("{name}: {}{others}", first.says);
        let mut all = Self::new(worst, says);
        for (name, outcome) in each {
            // A reason that is the same for all need not be repeated; any other must not be lost.
            if outcome.verdict != worst || all.says != format!("{name}: {}{others}", outcome.says) {
                all = all.saw(
                    &name,
                    format!("{}: {}", outcome.verdict.words(), outcome.says),
                );
            }
            // Evidence that belongs to no device is in every device's outcome, and is kept once.
            let new = outcome.evidence.into_iter();
            let new: Vec<Evidence> = new.filter(|seen| !all.evidence.contains(seen)).collect();
            all.evidence.extend(new);
            all.changes.extend(outcome.changes);
            all.unread |= outcome.unread;
            all.fails |= outcome.fails;
            all.then = all.then.or(outcome.then);
        }
        all
    }
}

/// `1 listener`, `2 listeners`.
pub(crate) fn several(count: usize, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}

impl From<Cannot> for Outcome {
    fn from(cannot: Cannot) -> Self {
        match cannot {
            Cannot::Unsupported { .. } | Cannot::Elsewhere(_) => {
                Self::not_applicable(cannot.to_string())
            }
            Cannot::Missing(_) | Cannot::NeedsLive(_) => Self::cannot_tell(cannot.to_string()),
            Cannot::Denied { .. } | Cannot::Odd { .. } | Cannot::Failed { .. } => Self {
                unread: true,
                ..Self::cannot_tell(cannot.to_string())
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_device_speaks_for_all() {
        let all = Outcome::of_devices(vec![
            ("eth0".into(), Outcome::good("on").saw("ioctl", "on\n")),
            ("eth1".into(), Outcome::bad("off")),
            ("eth2".into(), Outcome::bad("off too")),
        ]);
        assert_eq!(all.verdict, Verdict::Bad);
        assert_eq!(all.says, "eth1: off (and eth2)");
        assert!(all.evidence.iter().any(|seen| seen.value == "bad: off too"));
        assert!(all.evidence.iter().any(|seen| seen.value == "on"));
        assert!(!all.fails);
        let failing = Outcome::of_devices(vec![
            ("IPv4".into(), Outcome::bad("small")),
            (
                "IPv6".into(),
                Outcome::bad("full").failing().then("restart it"),
            ),
        ]);
        assert_eq!(failing.says, "IPv6: full (and IPv4)");
        assert!(failing.fails && failing.then == Some("restart it"));
        let denied = Outcome::good("").saw("/proc/1/fd of it", "/proc/1/fd needs root");
        assert_eq!(denied.evidence[0].value, "needs root");
        let other = Outcome::good("").saw("/proc/swaps", "/dev/sda 7");
        assert_eq!(other.evidence[0].value, "/dev/sda 7");
        let none = Outcome::of_devices(Vec::new());
        assert_eq!(none.verdict, Verdict::NotApplicable);
    }
}
