//! Stands for a struct of which not all was copied, so that it is written with zeros for the rest. Used by `forms::network`,
//! `layout::custom::addresses`, `layout::custom::tracing` and others.

/// Bytes that stand for a struct of which not all was copied, at an address that no program has.
pub struct Overlay {
    /// As it is when the call returns, and as it was when it was made.
    pub now: Vec<u8>,
    pub before: Vec<u8>,
    /// So many bytes of it were copied; the others stand for zeros.
    pub there: u64,
}

impl Overlay {
    /// No address of a program: it is not canonical on x86-64.
    pub const AT: u64 = 1 << 63;

    /// Where an address lies in it.
    pub fn offset(&self, at: u64) -> Option<usize> {
        let offset = usize::try_from(at.checked_sub(Self::AT)?).ok()?;
        (offset < self.now.len()).then_some(offset)
    }

    /// How many bytes from there on were copied, if it lies in it.
    pub fn left(&self, at: u64) -> Option<u64> {
        let offset = self.offset(at)? as u64;
        Some(self.there.saturating_sub(offset))
    }
}
