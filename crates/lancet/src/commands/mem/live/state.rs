//! What the live screen knows: the last look, the one growth is counted from, and how the user
//! wants to see them. Used by `screen` and `live`.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;

use births::analysis::{
    By, Census, Counts, Delta, Growth, Key, MERGED_PID, Order, Report, Rest, Trend, Verdict, View,
    merge,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use report::mem::label;

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Show what the key has changed, and wait for the next one.
    Stay,
    /// Leave the screen; the last look is then written as a report.
    Quit,
}

/// What decides which row is on top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Live,
    Bytes,
    Growth,
}

/// A row with what it grew by.
#[derive(Clone, Debug)]
pub(super) struct LiveRow {
    pub name: String,
    pub counts: Counts,
    pub trend: Trend,
    pub delta: Delta,
    pub before: bool,
}

/// Everything the screen shows.
#[derive(Debug)]
pub struct State {
    view: View,
    pub(super) sort: Sort,
    paused: bool,
    pub(super) color: bool,
    /// The guests of the last look; the merged one first when there are several.
    guests: Vec<Census>,
    /// The looks growth is counted from, one a guest that is there; of one that has come since, its first one.
    pub(super) marks: Vec<Census>,
    /// Which of `guests` is shown.
    shown: usize,
    // What follows is made from the above whenever that changes.
    pub(super) rows: Vec<LiveRow>,
    pub(super) rest: Option<Rest>,
    pub(super) total: Counts,
    pub(super) grown: Delta,
    pub(super) verdict: Option<Verdict>,
}

impl State {
    /// Makes the state of a screen before the first look.
    pub fn new(view: View, color: bool) -> Self {
        Self {
            sort: match view.order {
                Order::Growth => Sort::Growth,
                Order::Bytes | Order::Allocated => Sort::Bytes,
                Order::Live | Order::Born | Order::Dead => Sort::Live,
            },
            // How many rows there is room for is the screen's to say.
            view: View { top: None, ..view },
            paused: false,
            color,
            guests: Vec::new(),
            marks: Vec::new(),
            shown: 0,
            rows: Vec::new(),
            rest: None,
            total: Counts::default(),
            grown: Delta::default(),
            verdict: None,
        }
    }

    /// Takes in a look at every guest.
    pub fn update(&mut self, mut censuses: Vec<Census>) {
        let shown = self.guest().map(|census| census.pid);
        if censuses.len() > 1 {
            censuses.splice(0..0, merge(&censuses));
        }
        self.guests = censuses;
        // Workers come and go: stay with the one the user looks at, else show all of them.
        self.shown = self
            .guests
            .iter()
            .position(|census| Some(census.pid) == shown)
            .unwrap_or(0);
        let (marks, each) = (&mut self.marks, each(&self.guests));
        marks.retain(|mark| each.iter().any(|census| census.is_of_same(mark)));
        for census in each {
            if !marks.iter().any(|mark| mark.is_of_same(census)) {
                marks.push(census.clone());
            }
        }
        self.renew();
    }

    /// Does what a key asks for, and returns what is left to the loop.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Stay;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            // The terminal is in raw mode, so Ctrl-C is a key and no signal.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Action::Quit;
            }
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Live => Sort::Bytes,
                    Sort::Bytes => Sort::Growth,
                    Sort::Growth => Sort::Live,
                };
            }
            KeyCode::Char('g') => {
                self.view.by = match self.view.by {
                    By::Line | By::Stack => By::Method,
                    By::Method => By::File,
                    By::File => By::Gem,
                    By::Gem => By::Type,
                    By::Type => By::Line,
                };
            }
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('m') => self.marks = each(&self.guests).to_vec(),
            KeyCode::Tab if !self.guests.is_empty() => {
                self.shown = (self.shown + 1) % self.guests.len();
            }
            _ => return Action::Stay,
        }
        self.renew();
        Action::Stay
    }

    /// Whether the user wants no more looks for now.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// The guests of the last look, without the merged one.
    pub fn into_censuses(mut self) -> Vec<Census> {
        if self.guests.len() > 1 {
            self.guests.remove(0);
        }
        self.guests
    }

    /// The guest that is shown.
    pub(super) fn guest(&self) -> Option<&Census> {
        self.guests.get(self.shown)
    }

    /// How many guests there are to choose from.
    pub(super) fn choices(&self) -> usize {
        self.guests.len()
    }

    /// What makes a row.
    pub(super) fn by(&self) -> By {
        self.view.by
    }

    /// How long growth has been counted for.
    pub(super) fn grown_for(&self) -> f64 {
        match (self.guest(), self.mark()) {
            (Some(guest), Some(mark)) => guest.seconds - mark.seconds,
            _ => 0.0,
        }
    }

    /// The look that growth of the guest that is shown is counted from. That of all together is the sum of their own, so that
    /// what a new worker has got by its fork is no growth.
    fn mark(&self) -> Option<Cow<'_, Census>> {
        let guest = self.guest()?;
        if guest.pid == MERGED_PID {
            return merge(&self.marks).map(Cow::Owned);
        }
        let mut marks = self.marks.iter();
        marks.find(|mark| mark.is_of_same(guest)).map(Cow::Borrowed)
    }

    /// Makes the rows anew.
    fn renew(&mut self) {
        let Some(guest) = self.guest() else {
            return;
        };
        let report = Report::new(guest, &self.view);
        let growth = self.mark().and_then(|mark| {
            // A mark of another grouping or order is the same mark: only the arithmetic differs.
            Growth::new(
                &mark,
                guest,
                &View {
                    min: 0,
                    top: None,
                    ..self.view.clone()
                },
            )
            .ok()
        });
        let grown = growth
            .as_ref()
            .map(|growth| growth.total)
            .unwrap_or_default();
        let deltas: HashMap<(Key, bool), Delta> = growth
            .into_iter()
            .flat_map(|growth| growth.rows)
            .map(|row| ((row.key, row.before), row.delta))
            .collect();
        let intervals = guest.intervals.len();
        let mut rows: Vec<LiveRow> = report
            .rows
            .into_iter()
            .map(|row| LiveRow {
                name: label(&row, &guest.root),
                counts: row.counts,
                trend: Trend::of(&row.counts, intervals),
                before: row.before,
                delta: deltas
                    .get(&(row.key, row.before))
                    .copied()
                    .unwrap_or_default(),
            })
            .collect();
        // The sort keeps the report's order, by name at last, among equals.
        match self.sort {
            Sort::Live => {
                rows.sort_by_key(|row| (row.before, Reverse((row.counts.live, row.counts.bytes))));
            }
            Sort::Bytes => {
                rows.sort_by_key(|row| (row.before, Reverse((row.counts.bytes, row.counts.live))));
            }
            Sort::Growth => {
                rows.sort_by_key(|row| Reverse((row.trend, row.delta.live, row.delta.bytes)));
            }
        }
        self.rows = rows;
        self.verdict = report.verdict;
        self.rest = report.rest;
        self.total = report.total;
        self.grown = grown;
    }
}

/// The guests of a look without the merged one, which is the first of several.
fn each(guests: &[Census]) -> &[Census] {
    match guests {
        [merged, each @ ..] if !each.is_empty() && merged.pid == MERGED_PID => each,
        all => all,
    }
}
