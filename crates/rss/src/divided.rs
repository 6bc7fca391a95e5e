//! The memory of an allocator that has taken malloc's place, divided by what that says of itself.

use crate::other::Figures;
use crate::{Ledger, VmHeap};
use languages::resident::rows::{Bytes, Kind, Row, sort};

impl Ledger {
    /// Divides the row of another allocator's memory by what that says of it; the sums stay as they are. What is free or its own is in
    /// memory, as a rule; of what is in use some was never touched, so that takes what is left. Behind that there is what others have mapped.
    pub fn divide(&mut self, figures: Figures) {
        let Some(other) = &mut self.other else {
            return;
        };
        other.figures = Some(figures);
        let name = other.name;
        let is_it = |row: &Row| row.kind == Kind::OtherAllocator && row.of == name;
        let Some(at) = self.rows.iter().position(is_it) else {
            return;
        };
        let whole = self.rows.swap_remove(at).bytes;
        // A VM's pages that lie in the allocator's memory have rows of their own.
        let pages: u64 = self.heaps.iter().map(|heap: &VmHeap| heap.in_malloc).sum();
        let parts = [
            (Kind::OtherPages, figures.pages),
            (Kind::OtherRecords, figures.records.unwrap_or(0)),
            (Kind::OtherFree, figures.free),
            (Kind::OtherUsed, figures.used.saturating_sub(pages)),
        ];
        let mut left = whole;
        for (kind, bytes) in parts {
            let rss = bytes.min(left.rss);
            let share = |of: u64| match whole.rss {
                0 => 0,
                all => (u128::from(of) * u128::from(rss) / u128::from(all)) as u64,
            };
            let bytes = Bytes {
                rss,
                pss: share(whole.pss),
                swap: share(whole.swap),
            };
            left = Bytes {
                rss: left.rss - bytes.rss,
                pss: left.pss.saturating_sub(bytes.pss),
                swap: left.swap.saturating_sub(bytes.swap),
            };
            self.add_row(kind, name, bytes);
        }
        self.add_row(Kind::Anonymous, "", left);
        sort(&mut self.rows);
    }

    fn add_row(&mut self, kind: Kind, of: &str, bytes: Bytes) {
        if bytes == Bytes::default() {
            return;
        }
        let mut rows = self.rows.iter_mut();
        match rows.find(|row| row.kind == kind && row.of == of) {
            Some(row) => row.bytes.add(bytes),
            None => self.rows.push(Row {
                kind,
                of: of.to_owned(),
                bytes,
            }),
        }
    }
}
