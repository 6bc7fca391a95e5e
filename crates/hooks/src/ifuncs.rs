//! IFUNCs that are wanted before they have picked their implementation (`process::indirect`). The IFUNC itself is
//! hooked, and the agent posts a notice with the function that it picks. Used by `patcher`.

use crate::patcher::Patcher;
use crate::tracing::Tracing;
use crate::wanted::Wanted;
use process::functions::Function;
use std::collections::HashSet;
use wire::calls::want;

impl Patcher {
    /// Returns `wanted` with each IFUNC that has not picked yet in place of its implementation. Those that are
    /// hooked already are left out.
    pub(crate) fn with_pickers(&self, wanted: Vec<Wanted>) -> Vec<Wanted> {
        let known = self.table.pickers().map(|function| function.address);
        let mut known: HashSet<u64> = known.collect();
        let wanted = wanted.into_iter().filter_map(|wanted| {
            if !wanted.function.picks {
                return Some(wanted);
            }
            let picker = Function {
                picks: false,
                ..wanted.function
            };
            let is_new = known.insert(picker.address);
            is_new.then(|| Wanted::own(picker, want::PICKS))
        });
        wanted.collect()
    }
}

impl Tracing {
    /// Handles a notice that the IFUNC with the hook at `place` has picked the function at `target`. Returns the
    /// IFUNC, and whether this pick is new.
    pub fn picked(&mut self, place: u64, target: u64) -> Option<(Function, bool)> {
        let known = self.patcher.table.get(place)?;
        let is_picker = known.set && known.hook.want & want::PICKS != 0;
        let function = known.function.as_ref().filter(|_| is_picker)?;
        let picker = Function {
            picks: true,
            ..function.clone()
        };
        let news = self.target.functions.note_pick(picker.address, target);
        Some((picker, news))
    }

    /// IFUNCs that were asked for and have not picked yet, by name.
    pub fn awaited_picks(&self) -> Vec<&Function> {
        let pickers = self.patcher.table.pickers();
        let mut awaited: Vec<&Function> = pickers
            .filter(|function| self.target.functions.pick_of(function.address).is_none())
            .collect();
        awaited.sort_by(|a, b| a.name.cmp(&b.name));
        awaited
    }
}
