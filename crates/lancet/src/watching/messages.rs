//! What the library says while it works ([`Message`]): printed as it comes, and kept as far as the end of the command depends on it.
//! Used by `run`.

use super::repeated::Repeated;
use super::{Asked, LACKS, losses};
use crate::losses::Losses;
use crate::ui::advice::next_step;
use crate::ui::terminal::Stream;
use calls::message::Message;
use std::cell::{Cell, RefCell};
use std::time::Duration;

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
    /// How long the only process was watched; `None`: they are several, or none.
    pub watched: Cell<Option<Duration>>,
    /// Which messages wait until a table was shown.
    waits: Waits,
    later: RefCell<Vec<Later>>,
}

/// A message that waits.
struct Later {
    /// The process that it is about.
    pid: Option<i32>,
    /// With how many it is about, and it in few words; none: others say it.
    brief: (usize, String),
    whole: String,
}

/// Which messages wait until a table was shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// None: there is no table, or all of them are asked for (`-v`).
    Nothing,
    /// Those about what is not seen: nobody can act on them at once.
    Gaps,
    /// Also what was hooked: the table is to be the first that a person sees.
    Hooks,
}

impl Waits {
    fn of(args: &dyn Asked) -> Self {
        let at_a_terminal = || Stream::Stdout.is_terminal() && Stream::Stderr.is_terminal();
        match args.counts() && args.common().companion.is_none() && !args.tells_all() {
            false => Waits::Nothing,
            true if at_a_terminal() && args.common().program.is_empty() => Waits::Hooks,
            true => Waits::Gaps,
        }
    }
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
            watched: Cell::new(None),
            waits: Waits::of(args),
            later: RefCell::default(),
        }
    }

    /// Prints a message, unless it is hidden or was printed of another process, and notes what follows from it.
    pub fn hear(&self, message: &Message) {
        if self.has_companion && losses::lacks_hooks(message) {
            tell!("{LACKS}{message}");
        } else if !self.is_hidden(message) && self.repeated.is_new(message) {
            match self.brief(message) {
                Some(brief) => self.later.borrow_mut().push(Later {
                    pid: process(message),
                    brief,
                    whole: whole(message),
                }),
                None => tell!("{}", whole(message)),
            }
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

    /// What is said of a message behind the table; `None`: it is said at once.
    fn brief(&self, message: &Message) -> Option<(usize, String)> {
        match (self.waits, message) {
            (Waits::Nothing, _) => None,
            (Waits::Gaps, Message::Hooked { .. }) => None,
            _ => message.brief(),
        }
    }

    /// Says in one line what was kept until the table was shown; a single message is said whole.
    pub fn say_later(&self) {
        let later = self.later.take();
        // Where nothing was hooked, why not is the answer.
        if later.len() == 1 || !self.is_hooked() {
            later.iter().for_each(|one| tell!("{}", one.whole));
            return;
        }
        let briefs = in_brief(&later);
        if !briefs.is_empty() {
            tell!("{briefs}; run it again with -v to be told all");
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

/// The process that a message is about which waits.
fn process(message: &Message) -> Option<i32> {
    match message {
        Message::Hooked { pid, .. }
        | Message::NotHooked { pid, .. }
        | Message::Unseen { pid, .. } => Some(*pid),
        _ => None,
    }
}

/// Messages in few words, each once; where they are about several processes each says which.
fn in_brief(later: &[Later]) -> String {
    let mut pids: Vec<i32> = later.iter().filter_map(|one| one.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    let mut briefs: Vec<(usize, Option<i32>, &str)> = Vec::new();
    for one in later.iter().filter(|one| !one.brief.1.is_empty()) {
        let (count, words) = &one.brief;
        let pid = one.pid.filter(|_| pids.len() > 1);
        match briefs
            .iter_mut()
            .find(|(_, of, known)| (*of, *known) == (pid, words))
        {
            Some((sum, ..)) => *sum += count,
            None => briefs.push((*count, pid, words)),
        }
    }
    let briefs = briefs.into_iter().map(|(count, pid, words)| {
        let who = pid.map_or(String::new(), |pid| format!("process {pid}: "));
        match count {
            0 => format!("{who}{words}"),
            count => format!("{who}{count} {words}"),
        }
    });
    briefs.collect::<Vec<_>>().join("; ")
}

/// A message with the next step, where one is known.
fn whole(message: &Message) -> String {
    match message.remediable().and_then(next_step) {
        Some(step) => format!("{message}: {step}"),
        None => message.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_processes_each_message_says_which() {
        let later = |pid, count, brief: &str| Later {
            pid,
            brief: (count, brief.into()),
            whole: String::new(),
        };
        let mut all = vec![
            later(Some(7), 0, "it stood still for 0.3 ms"),
            later(None, 3, "places not hooked"),
            later(None, 4, "places not hooked"),
            later(Some(7), 0, ""),
        ];
        let said = "it stood still for 0.3 ms; 7 places not hooked";
        assert_eq!(in_brief(&all), said);
        all.push(later(Some(8), 0, "it stood still for 0.3 ms"));
        assert_eq!(
            in_brief(&all),
            "process 7: it stood still for 0.3 ms; 7 places not hooked; process 8: it stood still for 0.3 ms"
        );
    }
}
