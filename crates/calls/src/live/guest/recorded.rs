//! Writes the records of a guest into a file as they are.

use super::Guest;
use super::straight::{Look, Straight, Taking};
use crate::event::Event;
use crate::recorder::Recording;
use hooks::rings::RingEventKind;

impl Guest {
    /// Writes the records of all rings into the file. Returns whether there were any.
    pub(super) fn record(&mut self, most: u64, tell: &mut dyn FnMut(Event)) -> bool {
        let Some(mut straight) = self.straight.take() else {
            return false;
        };
        let (pid, clock) = (self.tracing.pid(), self.clock);
        let recording = straight.recording().clone();
        let (known, vforks, budget) = (&mut self.known, &self.vforks, &mut self.budget);
        let (any, written) = {
            let mut store = recording.borrow_mut();
            let mut taking = Taking::new(&mut straight, &mut store, budget, || {
                Look::new(pid, known, vforks, &clock)
            });
            let any = self.tracing.rings().for_each_of_ring(most, &mut taking);
            (any, taking.written)
        };
        let period = clock.period();
        for (event, rest) in straight.aside() {
            self.tell_one(&event, &rest, period, tell);
            self.learn(&mut straight, &recording, &event.kind);
        }
        if let Err(error) = written {
            recording.borrow_mut().fail(error);
        }
        self.straight = Some(straight);
        matches!(any, Ok(true))
    }

    /// Notes what calls from the place of this one are, so that the next one can be written at
    /// once.
    fn learn(&mut self, straight: &mut Straight, recording: &Recording, kind: &RingEventKind) {
        let RingEventKind::Call {
            hook,
            place,
            library,
            caller,
            ..
        } = *kind
        else {
            return;
        };
        let edge = self
            .known
            .edge(&self.tracing, &self.selection, hook, caller);
        let [line, other] =
            [place, library].map(|line| line.and_then(|at| self.known.line(&mut self.tracing, at)));
        let site = edge.map(|edge| {
            let lines = [line.as_ref(), other.as_ref()];
            recording.borrow_mut().site(&edge, caller, lines)
        });
        let number = |line: Option<usize>| line.map_or(0, |line| line + 1);
        // An error of the file is returned with the next event.
        if let Ok(site) = site.transpose() {
            straight.learn((hook, caller, number(place), number(library)), site);
        }
    }
}
