//! Texts of a snapshot: each different one is held once and named by its number. Used by `build`, `snapshot` and others
//! here, and by the crates `languages`, `lancet` and `report`.

use foldhash::HashMap;

/// The number of a text in its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(pub(crate) u32);

impl TextId {
    /// The number, counted from 0 in the order in which texts were first given.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Texts by their numbers. They are bytes of the guest's, in whatever encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub bytes: Vec<u8>,
    /// Where each ends; it begins where the one before ends.
    pub ends: Vec<u32>,
}

impl Texts {
    /// The text, or none of that number.
    pub fn get(&self, id: TextId) -> Option<&[u8]> {
        let at = id.0 as usize;
        let end = *self.ends.get(at)?;
        let begin = match at {
            0 => 0,
            _ => self.ends[at - 1],
        };
        self.bytes.get(begin as usize..end as usize)
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    fn push(&mut self, text: &[u8]) -> TextId {
        let id = TextId(self.ends.len() as u32);
        self.bytes.extend_from_slice(text);
        self.ends.push(self.bytes.len() as u32);
        id
    }
}

/// What is shown in place of a text that found no room.
pub(crate) const NO_ROOM: &[u8] = "…".as_bytes();

/// Gives each different text a number.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    pub texts: Texts,
    known: HashMap<Box<[u8]>, TextId>,
}

impl Interner {
    /// The number of a text; none if it is new and would need more than `most` bytes in all, or a number beyond
    /// `numbers`.
    pub fn intern(&mut self, text: &[u8], most: u64, numbers: u32) -> Option<TextId> {
        if let Some(id) = self.known.get(text) {
            return Some(*id);
        }
        let bytes = self.texts.bytes.len() as u64 + text.len() as u64;
        if bytes > most || self.texts.len() >= numbers as usize {
            return None;
        }
        let id = self.texts.push(text);
        self.known.insert(text.into(), id);
        Some(id)
    }
}
