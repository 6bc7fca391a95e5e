//! What the library says while it works ([`Message`]): printed as it comes, and kept as far as the end of the command depends on it.
//! Used by `run`.

use super::repeated::Repeated;
use super::{Asked, LACKS, losses};
use crate::losses::Losses;
use crate::ui::advice::next_step;
use calls::message::Message;
use std::cell::{Cell, RefCell};

/// What was said until now, and which messages are printed.
pub struct Heard {
    /// What was lost, as far as messages say it; the end of the command adds the rest.
    pub losses: RefCell<Losses>,
    /// Messages that came of several processes in the same words.
    pub repeated: Repeated,
    /// Processes that were asked for with `-p` and could not be opened.
    refused: RefCell<Vec<i32>>,
    hooked: Cell<bool>,
    /// Functions that could not be hooked, or were taken out because their hooks cost more than they may.
    given_up: RefCell<Vec<String>>,
    tells_tracing: bool,
    tells_leaving: bool,
    has_companion: bool,
}

impl Heard {
    /// Makes it for a command with these flags, before anything was said.
    pub fn new(args: &dyn Asked) -> Heard {
        Heard {
            losses: RefCell::default(),
            repeated: Repeated::default(),
            refused: RefCell::default(),
            hooked: Cell::new(false),
            given_up: RefCell::default(),
            tells_tracing: args.tells_tracing(),
            tells_leaving: args.tells_leaving(),
            has_companion: args.common().companion.is_some(),
        }
    }

    /// Prints a message, unless it is hidden or was printed of another process, and notes what follows from it.
    pub fn hear(&self, message: &Message) {
        if self.has_companion && losses::lacks_hooks(message) {
            tell!("{LACKS}{message}");
        } else if !self.is_hidden(message) && self.repeated.is_new(message) {
            print(message);
        }
        if let Message::NotOpened(_) = message
            && let Some(calls::message::Lost::Process(Some(pid))) = message.lost()
        {
            self.refused.borrow_mut().push(pid);
        }
        match message {
            Message::TooHot { functions, .. } => {
                let names = functions.iter().map(|(name, _)| name.clone());
                self.given_up.borrow_mut().extend(names);
            }
            Message::Refused { names, .. } => {
                self.given_up.borrow_mut().extend(names.iter().cloned());
            }
            _ => {}
        }
        if losses::says_hooked(message) {
            self.hooked.set(true);
        }
        if let Some(loss) = losses::of_message(message) {
            self.losses.borrow_mut().note(loss);
        }
    }

    /// Whether a message is about something that the user has asked for, and so is not told.
    fn is_hidden(&self, message: &Message) -> bool {
        match message {
            Message::ByTracing { why: None, .. } | Message::ByBpf { why: None, .. } => {
                !self.tells_tracing
            }
            Message::Detached { .. } => !self.tells_leaving,
            _ => false,
        }
    }

    /// Whether anything was hooked, or is seen in another way, in any process.
    pub fn is_hooked(&self) -> bool {
        self.hooked.get()
    }

    /// Functions that could not be hooked, or not to the end, because their hooks cost more than they may.
    pub fn given_up(&self) -> Vec<String> {
        self.given_up.borrow().clone()
    }

    /// Whether this process could not be opened.
    pub fn is_refused(&self, pid: i32) -> bool {
        self.refused.borrow().contains(&pid)
    }
}

/// Prints a message, with the next step where one is known.
fn print(message: &Message) {
    match message.remediable().and_then(next_step) {
        Some(step) => tell!("{message}: {step}"),
        None => tell!("{message}"),
    }
}
