//! What the browser shows: the pages that Tab goes through, those that were opened over them, and what the keys do.
//! Used by `browse` and `screen`.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::page::{Item, Page};
use super::view::View;

/// What a key asks of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Show what the key has changed, and wait for the next one.
    Stay,
    /// Make a new snapshot, and show what is new in it.
    Again,
    /// Leave the browser, which ends the command.
    Quit,
}

/// What is on the screen and what was typed, for one snapshot. The loop gives it every key and paints it afterwards; a new snapshot gets a state
/// of its own.
#[derive(Debug)]
pub struct State<'a> {
    pub(super) view: View<'a>,
    pub(super) color: bool,
    /// A new snapshot can be made: it is of a process.
    pub(super) can_renew: bool,
    /// What is new is to be counted from this snapshot on.
    pub(super) is_mark: bool,
    pub(super) tops: Vec<Page>,
    pub(super) top: usize,
    /// Pages that were opened over the top one, the last one is shown.
    pub(super) opened: Vec<Page>,
    /// What is being typed to be searched for.
    pub(super) typed: Option<String>,
    /// A message that stands in the place of the list of keys until the next key is pressed.
    pub(super) message: Option<String>,
    /// What is said of the chosen row; made anew when another is chosen.
    pub(super) detail: String,
    /// Rows on the screen, as far as the last painting knows.
    pub(super) room: usize,
}

impl<'a> State<'a> {
    /// Returns the state that shows the first page, or, of a snapshot that was compared with another, the page of what is new.
    pub fn new(view: View<'a>, color: bool, can_renew: bool) -> Self {
        let tops = view.tops();
        let top = match view.diff {
            Some(_) => tops.len() - 1,
            None => 0,
        };
        let mut state = State {
            view,
            color,
            can_renew,
            is_mark: false,
            tops,
            top,
            opened: Vec::new(),
            typed: None,
            message: None,
            detail: String::new(),
            room: 10,
        };
        state.renew();
        state
    }

    /// The page that is shown.
    pub(super) fn page(&self) -> &Page {
        self.opened.last().unwrap_or(&self.tops[self.top])
    }

    pub(super) fn page_mut(&mut self) -> &mut Page {
        match self.opened.last_mut() {
            Some(page) => page,
            None => &mut self.tops[self.top],
        }
    }

    /// The page that is shown, with the view of the snapshot.
    fn both(&mut self) -> (&View<'a>, &mut Page) {
        let page = match self.opened.last_mut() {
            Some(page) => page,
            None => &mut self.tops[self.top],
        };
        (&self.view, page)
    }

    /// Whether the user has chosen this snapshot as the one from which on is counted what is new.
    pub fn is_mark(&self) -> bool {
        self.is_mark
    }

    /// Does what a key asks for, and returns what is left to the loop.
    pub fn press(&mut self, key: KeyEvent) -> Action {
        if key.kind == KeyEventKind::Release {
            return Action::Stay;
        }
        // The terminal is in raw mode, so Ctrl-C is a key and no signal.
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Action::Quit;
        }
        self.message = None;
        let action = match self.typed.take() {
            Some(typed) => {
                self.type_on(typed, key.code);
                Action::Stay
            }
            None => self.obey(key.code),
        };
        self.renew();
        action
    }

    fn obey(&mut self, key: KeyCode) -> Action {
        let screen = isize::try_from(self.room).unwrap_or(1).max(1);
        match key {
            KeyCode::Char('q') => return Action::Quit,
            KeyCode::Esc if self.opened.is_empty() => return Action::Quit,
            KeyCode::Esc | KeyCode::Backspace => {
                self.opened.pop();
            }
            KeyCode::Up | KeyCode::Char('k') => self.page_mut().go(-1),
            KeyCode::Down | KeyCode::Char('j') => self.page_mut().go(1),
            KeyCode::PageUp => self.page_mut().go(-screen),
            KeyCode::PageDown => self.page_mut().go(screen),
            KeyCode::Home => self.page_mut().go(isize::MIN),
            KeyCode::End => self.page_mut().choose(usize::MAX),
            KeyCode::Enter => self.open(),
            KeyCode::Right => {
                let (view, page) = self.both();
                view.open_node(page);
            }
            KeyCode::Left => {
                let (view, page) = self.both();
                view.close_node(page);
            }
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(self.tops.len() - 1),
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('t') => self.open_tree(),
            KeyCode::Char('/') => self.typed = Some(String::new()),
            KeyCode::Char('n') if self.can_renew => return Action::Again,
            KeyCode::Char('n') => {
                self.say("a file does not change: lancet heap -p PID --live makes new snapshots");
            }
            KeyCode::Char('m') if self.can_renew => {
                self.is_mark = true;
                self.say("what is new will be counted from this snapshot on: n makes the next one");
            }
            _ => {}
        }
        Action::Stay
    }

    fn say(&mut self, message: &str) {
        self.message = Some(message.into());
    }

    /// Shows the next of the pages that Tab goes through.
    fn turn(&mut self, by: usize) {
        self.opened.clear();
        self.top = (self.top + by) % self.tops.len();
    }

    fn sort(&mut self) {
        match self.page().next_sort() {
            Some(next) => {
                let (view, page) = self.both();
                page.sort = next;
                view.sort(page);
            }
            None => self.say("this page has an order of its own: what retains most is first"),
        }
    }

    fn open(&mut self) {
        let page = self.page();
        let Some(item) = page.item() else {
            return;
        };
        match self.view.behind(page, item) {
            Some(next) => self.opened.push(next),
            None => self.say("there is no object behind this row"),
        }
    }

    /// Opens the tree of dominators below the object at hand.
    fn open_tree(&mut self) {
        let page = self.page();
        let object = match page.item() {
            Some(Item::Object(object)) => Some(object),
            _ => page.object,
        };
        match object {
            Some(object) => {
                let tree = self.view.tree(Some(object));
                match tree.items.is_empty() {
                    true => self.say("it dominates nothing: what it refers to, others hold too"),
                    false => self.opened.push(tree),
                }
            }
            None => self.say("t shows what an object dominates: choose an object first"),
        }
    }

    fn type_on(&mut self, mut typed: String, key: KeyCode) {
        match key {
            KeyCode::Esc => return,
            KeyCode::Enter => return self.search(typed.trim()),
            KeyCode::Backspace if typed.is_empty() => return,
            KeyCode::Backspace => {
                typed.pop();
            }
            KeyCode::Char(letter) => typed.push(letter),
            _ => {}
        }
        self.typed = Some(typed);
    }

    /// Opens the object at an address, or the types whose name has this text in it.
    fn search(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        let digits = text.strip_prefix("0x");
        if let Some(address) = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()) {
            let snapshot = self.view.answers.analysis.snapshot();
            match snapshot.at(address) {
                Some(object) => self.opened.push(self.view.page_of(object)),
                None => self.say(&format!("there is no object at {address:#x}")),
            }
            return;
        }
        let wanted = text.to_lowercase();
        let mut types = self
            .view
            .types(&|name| name.to_lowercase().contains(&wanted));
        if types.items.is_empty() {
            return self.say(&format!(
                "no living object is of a type with `{text}` in its name"
            ));
        }
        types.title = format!("Types with `{text}`");
        self.opened.push(types);
    }

    /// Makes anew what is said of the chosen row.
    fn renew(&mut self) {
        let page = self.page();
        self.detail = match page.item() {
            Some(item) => self.view.detail(page, item),
            None => String::new(),
        };
    }
}
