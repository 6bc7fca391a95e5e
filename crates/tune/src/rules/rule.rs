//! What a rule is: data that explains itself (`--explain`) and a function that looks at the machine and answers. Used
//! by `failures`, `process` and others here, and by the crates `report` and `lancet`.
//!
//! It is apart from the list of rules, so that each family of rules needs this file and nothing needs all of them.

use crate::machine::Machine;
use crate::tree::Cannot;
use crate::verdict::Outcome;

/// The kernel in whose source the rules were checked: Debian's package linux-source-6.12.
pub const KERNEL: &str = "6.12.107";

/// How much can go wrong when a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Risk {
    /// Nothing that would be noticed.
    Low,
    /// A short interruption, or worse figures for other work.
    Medium,
    /// Security or availability is at risk.
    High,
}

/// One check, with all that explains it.
#[derive(Debug)]
pub struct Rule {
    /// Its id, `T01` and so on, which is never given to another rule.
    pub id: &'static str,
    /// What the rule is about, in a few words.
    pub title: &'static str,
    /// Whether it was in the list of 2009.
    pub of_2009: bool,
    /// Files, ioctls and netlink requests.
    pub reads: &'static str,
    /// Why it matters, and which value is good for whom.
    pub why: &'static str,
    /// The document or program that gives the advice.
    pub source: &'static str,
    /// When the advice was given, and whether it still stands.
    pub dated: &'static str,
    /// The change, in words.
    pub change: &'static str,
    /// How to take the change back, in words.
    pub undo: &'static str,
    /// How much the change risks.
    pub risk: Risk,
    /// Whether the change takes effect only after a reboot.
    pub reboot: bool,
    /// Whether it judges the growth of counters, which takes two looks.
    pub counts: bool,
    /// Where in the source of Linux [`KERNEL`] what it says of the kernel was read: file and a word that stands there. Empty
    /// for what is not the kernel's. A test looks all of them up in a tree (`LANCET_LINUX`).
    pub checked: &'static [(&'static str, &'static str)],
    pub(super) check: fn(&Machine) -> Result<Outcome, Cannot>,
}

/// The undo of most rules.
pub(super) const WRITE_BACK: &str =
    "lancet tune --undo last: writes the saved value back and reads it again";
/// The undo of rules whose subject cannot be changed from here.
pub(super) const NOTHING: &str = "nothing to undo";

impl Rule {
    /// Looks at the machine and returns the finding.
    pub fn check(&self, machine: &Machine) -> Finding {
        let outcome = (self.check)(machine).unwrap_or_else(Outcome::from);
        Finding {
            id: self.id,
            title: self.title,
            outcome,
        }
    }
}

/// A rule's answer about one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The id of the rule.
    pub id: &'static str,
    /// What the rule is about.
    pub title: &'static str,
    /// What the rule found.
    pub outcome: Outcome,
}
