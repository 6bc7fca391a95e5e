//! What the live screen knows: the samples of the last seconds, and how the user wants to see them. Used by `screen` and
//! `live`.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use frames::profile::{By, Function, Mode, Profile};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use report::profile::function::{Beside, beside};
use report::profile::{called, listed, share, shown, threads, verdict};

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

/// Bytes that all seconds may take: a program that makes new functions all the while has more in a few than others in a minute.
const MOST_BYTES: usize = 128 << 20;

/// What the user has asked to see.
#[derive(Clone, Copy, Debug, Default)]
pub struct View {
    /// Which time of threads.
    pub mode: Mode,
    /// What a row is.
    pub by: By,
    /// Rows are in the order of their total shares.
    pub by_total: bool,
}

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
    pub(super) seconds: VecDeque<Profile>,
    /// Those of all seconds.
    whole: Profile,
    /// Older ones found no room, once.
    pub(super) is_full: bool,
    /// How many seconds are to be shown.
    window: usize,
    pub(super) view: View,
    /// What of these is shown.
    shown: Profile,
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
    pub fn new(who: String, view: View) -> Self {
        State {
            who,
            now: Profile::default(),
            since: Instant::now(),
            seconds: VecDeque::new(),
            whole: Profile::default(),
            is_full: false,
            window: SECONDS,
            view,
            shown: Profile::default(),
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
        self.is_full |= crop(&mut self.seconds, MOST_BYTES);
        self.add_up();
        self.show();
    }

    /// Which seconds are shown, in words.
    pub(super) fn span(&self) -> String {
        let (window, kept) = (self.window, self.seconds.len());
        match self.is_full && kept < window {
            true => format!("the last {kept} s (there is no room for more)"),
            false => format!("the last {window} s"),
        }
    }

    /// Adds up the seconds that are shown.
    fn add_up(&mut self) {
        let mut sum = Profile::default();
        for second in self.seconds.iter().take(self.window) {
            sum.add_all(second);
        }
        self.shown = shown(sum, self.view.mode).grouped(self.view.by);
    }

    /// Makes all that stands on the screen anew.
    fn show(&mut self) {
        self.verdict = verdict(&self.shown);
        self.threads = threads(&self.shown);
        self.waits = listed(&self.shown);
        self.items = match self.opened.last() {
            Some(function) => calls(&self.shown, function),
            None => self.functions(),
        };
        let (function, before) = &self.chosen;
        let is_it = |item: &Item| function.is_some() && item.function == *function;
        let now = self.items.iter().position(is_it);
        self.choose(now.unwrap_or(*before));
    }

    fn functions(&self) -> Vec<Item> {
        let shown = &self.shown;
        let mut rows = shown.functions();
        if self.view.by_total {
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
            KeyCode::Char('s') => self.view.by_total = !self.view.by_total,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('+') => self.widen(self.window + 5),
            KeyCode::Char('-') => self.widen(self.window.saturating_sub(5)),
            KeyCode::Tab => self.waits_first = !self.waits_first,
            _ => return Action::Stay,
        }
        self.show();
        Action::Stay
    }

    /// Shows so many seconds.
    fn widen(&mut self, window: usize) {
        self.window = window.clamp(SECONDS, MOST_SECONDS);
        self.add_up();
    }

    /// Goes into the function that is chosen.
    fn open(&mut self) {
        if let Some(function) = self.chosen.0.take() {
            self.opened.push(function);
            self.chosen = (None, 0);
        }
    }
}

/// Drops the oldest of these seconds until all together take no more bytes; the last one stays. Returns whether one was dropped.
pub(super) fn crop(seconds: &mut VecDeque<Profile>, most: usize) -> bool {
    let mut sum = 0;
    let fits = |second: &&Profile| {
        sum += second.memory();
        sum <= most
    };
    let fitting = seconds.iter().take_while(fits).count();
    let (all, kept) = (seconds.len(), fitting.max(1));
    seconds.truncate(kept);
    kept < all
}

/// Who calls a function, and what it calls.
fn calls(shown: &Profile, function: &Function) -> Vec<Item> {
    let around = shown.around(function);
    let heading = |name: &str| Item {
        name: name.to_owned(),
        ..Item::default()
    };
    let item = |row: Beside| Item {
        shares: vec![share(row.samples, shown)],
        name: row.text,
        function: Some(row.function.clone()),
    };
    let mut items = Vec::new();
    let titles = ["it is called by", "it calls"].into_iter();
    for (title, rows) in titles.zip(beside(&around)) {
        items.push(heading(title));
        items.extend(rows.into_iter().map(item));
    }
    items
}
