//! IFUNCs that are wanted before they have picked (`indirect`): they are hooked themselves, and say what they pick.

use super::own::own;
use super::set::LANDING;
use super::{CALL_THROUGH, Tracing, Wanted};
use crate::functions::Function;
use wire::calls::want;

impl Tracing {
    /// The same, with the IFUNC itself in the place of what it has not picked yet.
    pub(super) fn with_pickers(&mut self, wanted: Vec<Wanted>) -> Vec<Wanted> {
        let wanted = wanted.into_iter().filter_map(|wanted| {
            if !wanted.function.picks {
                return Some(wanted);
            }
            let address = wanted.function.address;
            let known = self.pickers.insert(address, wanted.function.clone());
            *self.own.entry(address).or_default() |= want::PICKS;
            let picker = Function {
                picks: false,
                ..wanted.function
            };
            known
                .is_none()
                .then(|| own(picker, CALL_THROUGH, want::PICKS))
        });
        wanted.collect()
    }

    /// The IFUNC at `place` has picked `target`: which, and whether that is news.
    pub fn picked(&mut self, place: u64, target: u64) -> Option<(Function, bool)> {
        let mut places = [place, place - LANDING].into_iter();
        let picker = places.find_map(|address| self.pickers.get(&address))?;
        let picker = picker.clone();
        let news = self.functions.note_pick(picker.address, target);
        Some((picker, news))
    }

    /// IFUNCs that were wanted and have not picked yet.
    pub fn awaited_picks(&self) -> Vec<&Function> {
        let pickers = self.pickers.values();
        let mut awaited: Vec<&Function> = pickers
            .filter(|function| self.functions.pick_of(function.address).is_none())
            .collect();
        awaited.sort_by(|a, b| a.name.cmp(&b.name));
        awaited
    }
}
