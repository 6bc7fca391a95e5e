//! How much of an object is shown as text. Used by `perl::script`, `php::script` and others here, and by the crates
//! `agent` and `languages`.

/// How much of an object is written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Characters of a text, or bytes of a byte string; `…` stands for the rest.
    pub text: u64,
    /// Items of a container that are written; `…` stands for the rest.
    pub items: u64,
    /// Arguments of a call that are written; `…` stands for the rest.
    pub arguments: u64,
    /// Nesting of containers; deeper ones are written as `[…]`.
    pub depth: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            text: 200,
            items: 16,
            arguments: 16,
            depth: 2,
        }
    }
}

impl Limits {
    pub(crate) fn deeper(&self) -> Option<Limits> {
        Some(Limits {
            depth: self.depth.checked_sub(1)?,
            ..*self
        })
    }
}
