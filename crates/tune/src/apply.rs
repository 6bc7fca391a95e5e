//! Makes the changes that rules propose, and takes them back. Used by the crates `lancet` and `report`.
//!
//! ```text
//! apply:  for each change   read before ─► journal the intent, fsync ─► write ─► read again ─► journal
//! undo:   in reverse order  read now ─► is it what we left? ─► write before ─► read again
//!         and again from the front, until everything reads as before or nothing moves any more
//! ```
//!
//! The reverse order puts pairs back correctly: whatever was turned on as the condition of another (scatter-gather for
//! TSO) is turned off behind it, and the other way round. The second pass is for settings that change each other, where
//! one write undid the one before.

use std::collections::HashSet;
use std::path::Path;

use crate::journal::{self, Intent, Journal, JournalError, Journals, Origin, Step};
use crate::machine::Machine;
use crate::net::namespace;
use crate::owners::{self, Owner};
use crate::setting::Setting;
use crate::tree::{Cannot, Tree};

/// How many times undo goes over all steps: writing one setting may change another, which the
/// next pass puts back.
const PASSES: usize = 3;

/// Why something was not changed or not taken back.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Another program sets it, and would set it again.
    #[error("{setting} belongs to {}", owner.who)]
    Owned {
        /// The setting that was to be changed.
        setting: Setting,
        /// The program it belongs to, and where its value should be changed instead.
        owner: Owner,
    },
    /// A setting could not be read or written.
    #[error(transparent)]
    Cannot(#[from] Cannot),
    /// The kernel accepted the write, and the setting reads another value than was written.
    #[error("{setting} was given `{wanted}` and reads `{reads}`")]
    NotTaken {
        /// The setting that was written.
        setting: Setting,
        /// The value that was written.
        wanted: String,
        /// The value that was read afterwards.
        reads: String,
    },
    /// The caller wants no more changes to be made.
    #[error("interrupted")]
    Interrupted,
    /// The journal failed; nothing was written that is not in it.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal was written in an earlier boot, whose settings are gone.
    #[error("{0} is of an earlier boot, which took its changes along")]
    OtherBoot(String),
    /// The journal was written in another network namespace.
    #[error("{journal} is of network namespace {theirs}, this is {ours}")]
    OtherNetwork {
        /// The path of the journal.
        journal: String,
        /// The namespace it was written in.
        theirs: String,
        /// The namespace lancet looks at.
        ours: String,
    },
}

/// A change that the user wants made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The id of the rule that proposes it, or the key that the user named.
    pub rule: String,
    /// The setting to write.
    pub setting: Setting,
    /// The value to write.
    pub value: String,
}

/// What [`apply`] did about a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: the setting had the value already.
    Already,
    /// It wrote the value; the text is what the setting read before.
    From(String),
}

/// Returns the boot and the network namespace of a tree.
pub fn origin(tree: &Tree) -> Origin {
    let boot = tree
        .word("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default();
    let network = match tree.root() {
        None => namespace::current().unwrap_or_default(),
        Some(root) => root.display().to_string(),
    };
    Origin { boot, network }
}

/// Returns an error if a wish is about a setting that another program owns; nothing is written.
pub fn check_owners(machine: &Machine, wishes: &[Wish]) -> Result<(), ApplyError> {
    for wish in wishes {
        if let Some(owner) = owners::of(machine, &wish.setting, &wish.value) {
            let setting = wish.setting.clone();
            return Err(ApplyError::Owned { setting, owner });
        }
    }
    Ok(())
}

/// Returns an error if a wish is about a setting that cannot be read; nothing is written.
pub fn check_readable(tree: &Tree, wishes: &[Wish]) -> Result<(), ApplyError> {
    for wish in wishes {
        wish.setting.read(tree)?;
    }
    Ok(())
}

/// Returns whether any setting that the journal names reads another value than before.
pub fn left_changes(tree: &Tree, path: &Path) -> Result<bool, ApplyError> {
    let (_, steps) = journal::read(path)?;
    Ok(!steps.iter().all(|step| reads_as_before(tree, step)))
}

/// Makes the changes in their order, each journalled first. Stops at the first that fails; what was done until then is
/// in the journal. Between two of them the callback decides whether to go on.
pub fn apply(
    tree: &Tree,
    journal: &mut Journal,
    wishes: &[Wish],
    go_on: impl Fn() -> bool,
    mut tell: impl FnMut(&Wish, &Applied),
) -> Result<(), ApplyError> {
    let mut next = 0;
    for wish in wishes {
        if !go_on() {
            return Err(ApplyError::Interrupted);
        }
        let before = wish.setting.read(tree)?;
        if wish.setting.same(&before, &wish.value) {
            tell(wish, &Applied::Already);
            continue;
        }
        let mut intent = |setting: &Setting, before: &str, wanted: Option<&str>| {
            let intent = Intent {
                intent: next,
                rule: wish.rule.clone(),
                setting: setting.clone(),
                identity: setting.identity(tree),
                before: before.into(),
                wanted: wanted.map(str::to_owned),
            };
            next += 1;
            journal.intend(&intent).map(|()| intent.intent)
        };
        // The other half is journalled first, so that a reverse walk writes it last.
        let half = wish
            .setting
            .other_half()
            .filter(|half| half.read(tree).is_ok());
        let half = match half {
            Some(half) => Some((intent(&half, &half.read(tree)?, None)?, half)),
            None => None,
        };
        let number = intent(&wish.setting, &before, Some(&wish.value))?;
        wish.setting.write(tree, &wish.value)?;
        let after = wish.setting.read(tree)?;
        journal.done(number, after.clone())?;
        if let Some((number, half)) = half {
            journal.done(number, half.read(tree)?)?;
        }
        if !wish.setting.same(&after, &wish.value) {
            return Err(ApplyError::NotTaken {
                setting: wish.setting.clone(),
                wanted: wish.value.clone(),
                reads: after.trim().into(),
            });
        }
        tell(wish, &Applied::From(before));
    }
    Ok(())
}

/// What one step of an undo did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// The value was written back, and the setting reads as before.
    Restored,
    /// Nothing was written: the setting read as before already.
    Untouched,
    /// Another program has changed it since; it was left alone.
    Foreign {
        /// The value it reads now.
        reads: String,
    },
    /// It reads another value, and its device has another address than it had: nobody knows whether it is another device. It was
    /// left alone.
    Doubtful,
    /// The device or process it was of is gone; the text says which.
    Gone(String),
    /// It could not be put back; the text says why.
    Failed(String),
}

impl Undone {
    /// Returns whether nothing is left to do about the step.
    pub fn is_settled(&self) -> bool {
        matches!(self, Self::Restored | Self::Untouched | Self::Gone(_))
    }
}

/// Takes back what a journal says, the last change first. The journal is retired when everything is settled.
pub fn undo(
    tree: &Tree,
    journals: &Journals,
    path: &Path,
    force: bool,
) -> Result<Vec<(Step, Undone)>, ApplyError> {
    let (written_in, all) = journal::read(path)?;
    if let Some(theirs) = written_in.filter(|_| !force) {
        same_origin(tree, path, theirs)?;
    }
    // For a setting that was changed several times the first step has the value from before.
    let mut known = HashSet::new();
    let is_first = |step: &&Step| known.insert(step.intent.setting.clone());
    let mut steps: Vec<Step> = all.iter().filter(is_first).cloned().collect();
    steps.reverse();
    let touched: Vec<bool> = steps
        .iter()
        .map(|step| !reads_as_before(tree, step))
        .collect();
    let those = |is: &dyn Fn(&Step) -> bool| -> HashSet<usize> {
        let all = steps.iter().enumerate();
        let these = all.filter(|(_, step)| !force && is(step));
        these.map(|(at, _)| at).collect()
    };
    let doubtful = those(&|step| Identities::of(tree, step).address_differs());
    let foreign = those(&|step| is_foreign(tree, step, &all));
    let left = foreign.union(&doubtful).copied().collect();
    let failures = write_back(tree, &steps, &left);
    let results: Vec<(Step, Undone)> = steps
        .into_iter()
        .zip(failures)
        .enumerate()
        .map(|(at, (step, failure))| {
            let undone = if let Some(why) = gone(tree, &step) {
                Undone::Gone(why)
            } else if reads_as_before(tree, &step) {
                if touched[at] {
                    Undone::Restored
                } else {
                    Undone::Untouched
                }
            } else {
                let reads = match step.intent.setting.read(tree) {
                    Ok(reads) => reads.trim().to_owned(),
                    Err(cannot) => cannot.to_string(),
                };
                match (foreign.contains(&at), failure) {
                    _ if doubtful.contains(&at) => Undone::Doubtful,
                    (true, _) => Undone::Foreign { reads },
                    (false, Some(why)) => Undone::Failed(why),
                    (false, None) => Undone::Failed(format!("it reads `{reads}`")),
                }
            };
            (step, undone)
        })
        .collect();
    if results.iter().all(|(_, undone)| undone.is_settled()) {
        journals.retire(path)?;
    }
    Ok(results)
}

/// Writes the values from before, but not those of the steps that are `left` alone, until all read so or a pass changes nothing.
/// Returns why the last write of each step failed.
fn write_back(tree: &Tree, steps: &[Step], left: &HashSet<usize>) -> Vec<Option<String>> {
    let mut failures = vec![None; steps.len()];
    for _ in 0..PASSES {
        let mut moved = false;
        for (at, step) in steps.iter().enumerate() {
            let Intent {
                setting, before, ..
            } = &step.intent;
            let skip = left.contains(&at)
                || gone(tree, step).is_some()
                || reads_as_before(tree, step)
                || !setting.can_take(before);
            if skip {
                continue;
            }
            moved = true;
            let written = setting.write(tree, before);
            failures[at] = written.err().map(|cannot| cannot.to_string());
        }
        if !moved {
            break;
        }
    }
    failures
}

fn same_origin(tree: &Tree, path: &Path, theirs: Origin) -> Result<(), ApplyError> {
    let ours = origin(tree);
    let journal = path.display().to_string();
    if theirs.boot != ours.boot {
        return Err(ApplyError::OtherBoot(journal));
    }
    if theirs.network != ours.network {
        return Err(ApplyError::OtherNetwork {
            journal,
            theirs: theirs.network,
            ours: ours.network,
        });
    }
    Ok(())
}

fn reads_as_before(tree: &Tree, step: &Step) -> bool {
    let Intent {
        setting, before, ..
    } = &step.intent;
    setting.read(tree).is_ok_and(|now| now == *before)
}

/// What tells the device of a step's setting from others ([`Setting::identity`]), when it was changed and now.
struct Identities {
    then: Option<String>,
    now: Option<String>,
}

impl Identities {
    fn of(tree: &Tree, step: &Step) -> Self {
        Identities {
            then: step.intent.identity.clone(),
            now: step.intent.setting.identity(tree),
        }
    }

    /// Whether it is another device, or none: the kernel does not give a number out twice in a network.
    fn number_differs(&self) -> bool {
        let number = |identity: &Option<String>| {
            let words = identity.as_deref();
            words.map(|words| words.split(' ').next().unwrap_or_default().to_owned())
        };
        number(&self.then) != number(&self.now)
    }

    /// Whether it has the same number and another address. Most such devices are the same: bonding, VRRP and whoever hides its
    /// address change it. But a number can be asked for, as when a device comes back from another network.
    fn address_differs(&self) -> bool {
        self.then != self.now && !self.number_differs()
    }
}

/// Returns whether what the step was about is gone: the device was removed, or another has its name now.
fn gone(tree: &Tree, step: &Step) -> Option<String> {
    let setting = &step.intent.setting;
    if Identities::of(tree, step).number_differs() {
        return Some("another device has that name now, or none".into());
    }
    match setting.read(tree) {
        Err(missing) if missing.is_missing() => Some(missing.to_string()),
        _ => None,
    }
}

/// Returns whether a value is neither ours nor the one before. Of a step without its `done` nobody knows what the
/// kernel made of the write, so it counts as ours; so does what any of several changes of it left.
fn is_foreign(tree: &Tree, step: &Step, all: &[Step]) -> bool {
    let Intent {
        setting, before, ..
    } = &step.intent;
    let Ok(now) = setting.read(tree) else {
        return false;
    };
    if now == *before {
        return false;
    }
    let ours = all.iter().filter(|other| other.intent.setting == *setting);
    let mut known = ours.map(|other| other.after.as_ref());
    known.all(|after| after.is_some_and(|after| !setting.same(after, &now)))
}
