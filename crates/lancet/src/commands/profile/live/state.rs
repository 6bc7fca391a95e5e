//! What the live screen knows: the samples of the last seconds, and how the user wants to see them. Used by `screen` and
//! `live`.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use frames::profile::{Function, Profile};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use report::profile::{at, called, listed, share, threads, verdict};

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Show what the key has changed.
    Stay,
    /// Leave the screen.
    Quit,
}

/// How many seconds the figures are of, at first, and at most.
const SECONDS: usize = 5;
const MOST_SECONDS: usize = 60;

/// A row of the first table.
#[derive(Clone, Debug, Default)]
pub(super) struct Item {
    /// Its shares in percent: own and total, or of a call that alone. None for a heading.
    pub shares: Vec<f64>,
    pub name: String,
    /// What Enter goes into.
    pub function: Option<Function>,
}

/// Everything the screen shows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) who: String,
    /// The samples since the last second began.
    pub(super) now: Profile,
    since: Instant,
    /// Those of the seconds before, the last one first.
    seconds: VecDeque<Profile>,
    /// Those of all seconds.
    whole: Profile,
    /// How many seconds are shown.
    pub(super) window: usize,
    pub(super) by_total: bool,
    paused: bool,
    /// The waits have more room than the functions.
    pub(super) waits_first: bool,
    /// The functions that the user has gone into.
    opened: Vec<Function>,
    /// The function that is chosen, and where it was; it stays chosen when others overtake it.
    chosen: (Option<Function>, usize),
    // What follows is made from the above whenever that changes.
    pub(super) verdict: String,
    pub(super) threads: String,
    pub(super) items: Vec<Item>,
    /// What threads waited for, with its share in percent.
    pub(super) waits: Vec<(f64, String)>,
}

impl State {
    /// The state of a screen before the first second is over.
    pub fn new(who: String) -> Self {
        State {
            who,
            now: Profile::default(),
            since: Instant::now(),
            seconds: VecDeque::new(),
            whole: Profile::default(),
            window: SECONDS,
            by_total: false,
            paused: false,
            waits_first: false,
            opened: Vec::new(),
            chosen: (None, 0),
            verdict: String::new(),
            threads: String::new(),
            items: Vec::new(),
            waits: Vec::new(),
        }
    }

    /// Whether the last second began so long ago.
    pub fn is_old(&self, age: Duration) -> bool {
        !self.paused && self.since.elapsed() >= age
    }

    /// Whether the user wants no more looks for now.
    pub fn paused(&self) -> bool {
        self.paused
    }

    /// All that was seen.
    pub fn into_profile(mut self) -> Profile {
        self.whole.add_all(&self.now);
        self.whole
    }

    /// Ends a second, and shows it with those before.
    pub fn renew(&mut self) {
        self.since = Instant::now();
        let second = std::mem::take(&mut self.now);
        self.whole.add_all(&second);
        self.seconds.push_front(second);
        self.seconds.truncate(MOST_SECONDS);
        self.show();
    }

    /// Makes all that is shown anew.
    fn show(&mut self) {
        let mut shown = Profile::default();
        for second in self.seconds.iter().take(self.window) {
            shown.add_all(second);
        }
        self.verdict = verdict(&shown);
        self.threads = threads(&shown);
        self.waits = listed(&shown);
        self.items = match self.opened.last() {
            Some(function) => calls(&shown, function),
            None => self.functions(&shown),
        };
        let (function, before) = &self.chosen;
        let is_it = |item: &Item| function.is_some() && item.function == *function;
        let now = self.items.iter().position(is_it);
        self.choose(now.unwrap_or(*before));
    }

    fn functions(&self, shown: &Profile) -> Vec<Item> {
        let mut rows = shown.functions();
        if self.by_total {
            rows.sort_by_key(|row| Reverse((row.total, row.own)));
        }
        let item = |row: &frames::profile::Row| Item {
            shares: [row.own, row.total]
                .map(|count| share(count, shown))
                .to_vec(),
            name: called(row.function, row.line()),
            function: Some(row.function.clone()),
        };
        rows.iter().map(item).collect()
    }

    /// The number of the row that is chosen.
    pub(super) fn chosen(&self) -> usize {
        self.chosen.1
    }

    fn choose(&mut self, at: usize) {
        let at = at.min(self.items.len().saturating_sub(1));
        let function = self.items.get(at).and_then(|item| item.function.clone());
        self.chosen = (function, at);
    }

    /// The function whose callers are shown.
    pub(super) fn opened(&self) -> Option<&Function> {
        self.opened.last()
    }

    /// Does what a key asks for, and returns what is left to the loop.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Stay;
        }
        let at = self.chosen.1;
        match key.code {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc if self.opened.is_empty() => return Action::Quit,
            // The terminal is in raw mode, so Ctrl-C is a key and no signal.
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Action::Quit;
            }
            KeyCode::Up | KeyCode::Char('k') => self.choose(at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.choose(at + 1),
            KeyCode::Home => self.choose(0),
            KeyCode::End => self.choose(usize::MAX),
            KeyCode::Enter => self.open(),
            KeyCode::Esc | KeyCode::Backspace => {
                if let Some(function) = self.opened.pop() {
                    self.chosen = (Some(function), 0);
                }
            }
            KeyCode::Char('s') => self.by_total = !self.by_total,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.window = (self.window + 5).min(MOST_SECONDS),
            KeyCode::Char('-') => self.window = self.window.saturating_sub(5).max(SECONDS),
            KeyCode::Tab => self.waits_first = !self.waits_first,
            _ => return Action::Stay,
        }
        self.show();
        Action::Stay
    }

    /// Goes into the function that is chosen.
    fn open(&mut self) {
        if let Some(function) = self.chosen.0.take() {
            self.opened.push(function);
            self.chosen = (None, 0);
        }
    }
}

/// Who calls a function, and what it calls.
fn calls(shown: &Profile, function: &Function) -> Vec<Item> {
    let around = shown.around(function);
    let heading = |name: &str| Item {
        name: name.to_owned(),
        ..Item::default()
    };
    let item = |count: u64, name: String, function: &Function| Item {
        shares: vec![share(count, shown)],
        name,
        function: Some(function.clone()),
    };
    let callers = around.callers.iter();
    let callees = around.callees.iter();
    let parts = [
        (
            "it is called by",
            callers
                .map(|(frame, count)| (*count, at(frame), &frame.function))
                .collect::<Vec<_>>(),
        ),
        (
            "it calls",
            callees
                .map(|(callee, count)| (*count, called(callee, None), *callee))
                .collect(),
        ),
    ];
    let mut items = Vec::new();
    for (title, mut part) in parts {
        part.sort_by_key(|(count, ..)| Reverse(*count));
        items.push(heading(title));
        items.extend(
            part.into_iter()
                .map(|(count, name, function)| item(count, name, function)),
        );
    }
    items
}
