//! A setting of a process that a remedy has changed: a limit, an option of a socket. Its journal is in the guest like that of patches.
//! Used by `remedies::nodelay`, `remedies::nofile` and others here, and by the crates `report` and `lancet`.
//!
//! ```text
//!   words of a record (`journal`): id, target, identity, old (2), new (2); texts: remedy, –, what, –
//! ```

use crate::journal::{encoded, texts};

/// A setting: what it was and what it was changed to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// The number by which users name it; no patch and no other setting of the process has it.
    pub id: u64,
    /// What is set; the remedy says what the number means (a resource, a descriptor).
    pub target: u64,
    /// By what the target is known to be the same still (the number of a socket's file), or 0.
    pub identity: u64,
    /// Its values before the remedy changed it.
    pub old: [u64; 2],
    /// Its values since the remedy changed it.
    pub new: [u64; 2],
    /// The name of the remedy that changed it.
    pub remedy: String,
    /// A description for the user.
    pub what: String,
}

/// What a remedy is about to set.
#[derive(Debug)]
pub struct SettingsPlan {
    /// Each with its values before and after; they have no numbers yet.
    pub settings: Vec<Setting>,
    /// How many more could be set, for which one command has no room.
    pub left: usize,
    /// What is to be known of the undoing.
    pub note: &'static str,
}

impl Setting {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers = [
            self.id,
            self.target,
            self.identity,
            self.old[0],
            self.old[1],
            self.new[0],
            self.new[1],
        ];
        encoded(&numbers, [&self.remedy, "", &self.what, ""])
    }

    /// The setting, if a lancet can have written it.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let words = bytes.as_chunks::<8>().0;
        let word = |at: usize| words.get(at).map(|word| u64::from_le_bytes(*word));
        let mut texts = texts(bytes)?.into_iter();
        let setting = Setting {
            id: word(0)?,
            target: word(1)?,
            identity: word(2)?,
            old: [word(3)?, word(4)?],
            new: [word(5)?, word(6)?],
            remedy: texts.next()?,
            what: texts.nth(1)?,
        };
        (setting.id != 0).then_some(setting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_were_written() {
        let setting = Setting {
            id: 4,
            target: 7,
            identity: 9,
            old: [1024, 4096],
            new: [4096, u64::MAX],
            remedy: "nofile".into(),
            what: "open files".into(),
        };
        assert_eq!(Setting::from_bytes(&setting.to_bytes()), Some(setting));
        assert_eq!(Setting::from_bytes(&[0; 768]), None);
        assert_eq!(Setting::from_bytes(&[1; 40]), None);
    }
}
