//! What could not be told. Every loss of every command comes through here: it is said on standard error, it is in the
//! `--json` output, and it is in the exit code. Nothing else decides about [`LOST`].

use std::io::{self, Write};

use births::analysis::Census;
use process::Error;
use report::losses::{Loss, What};

use crate::exit::LOST;
use crate::ui::advice::explain;

/// The most losses that are kept one by one. A process may forge without end what leads to one.
const MOST: usize = 1000;

/// The losses of a run so far.
#[derive(Debug, Default)]
pub struct Losses {
    all: Vec<Loss>,
    /// Those that are not in `all`.
    more: u64,
    /// What is to be said when the screen is ours no more; `None`: it is said at once.
    held: Option<Vec<String>>,
}

impl Losses {
    /// Nothing is lost yet. With `held`, nothing is said before [`Losses::say_held`].
    pub fn new(held: bool) -> Self {
        Losses {
            held: held.then(Vec::new),
            ..Losses::default()
        }
    }

    /// Says a text that is about no loss, now or when the screen is ours no more.
    pub fn talk(&mut self, text: String) {
        match &mut self.held {
            Some(held) => held.push(text),
            None => tell!("{text}"),
        }
    }

    /// From now on nothing is said before [`Losses::say_held`].
    pub fn hold(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Says what was held.
    pub fn say_held(&mut self) {
        for text in self.held.take().into_iter().flatten() {
            tell!("{text}");
        }
    }

    /// Something was lost, which is said now.
    pub fn say(&mut self, loss: Loss) {
        self.talk(loss.text.clone());
        self.note(loss);
    }

    /// Something was lost, and whoever saw it has said so.
    pub fn note(&mut self, loss: Loss) {
        if self.all.contains(&loss) {
            return;
        }
        if self.all.len() < MOST {
            self.all.push(loss);
        } else {
            self.more += 1;
        }
    }

    /// A process was lost, or could not be opened, for this reason; it is said with what to do about it.
    pub fn process(&mut self, error: Error) {
        let pid = error.pid();
        let text = format!("{:#}", explain(error));
        self.say(Loss::new(pid, What::Process, None, text));
    }

    /// A process could not be left as it was found.
    pub fn leaving(&mut self, error: Error) {
        let pid = error.pid();
        let text = format!("leaving: {:#}", explain(error));
        self.say(Loss::new(pid, What::Leaving, None, text));
    }

    /// What the agent of a process has lost by now, which a report says; in the place of what it had lost before.
    pub fn of_census(&mut self, census: &Census) {
        for lost in &census.losses {
            let what = report::losses::what(lost.what);
            let loss = Loss::new(Some(census.pid), what, lost.count, &*lost.text);
            let key = |loss: &Loss| {
                let words = loss.text.trim_start_matches(|c: char| c.is_ascii_digit());
                (loss.pid, loss.what, words.to_owned())
            };
            match self.all.iter_mut().find(|known| key(known) == key(&loss)) {
                Some(known) => *known = loss,
                None => self.note(loss),
            }
        }
    }

    /// Says what censuses lack, where the report has no place for it.
    pub fn say_counted(&self) {
        for loss in self.all.iter().filter(|loss| loss.is_counted()) {
            match loss.pid {
                Some(pid) => tell!("process {pid}: lost: {}", loss.text),
                None => tell!("lost: {}", loss.text),
            }
        }
    }

    /// All that are kept one by one.
    pub fn all(&self) -> &[Loss] {
        &self.all
    }

    /// Writes them as the last record of a JSON output.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        report::losses::write(out, &self.all, self.more)
    }

    /// Returns the exit code of a run that would end with `code`: that of a program or of a limit counts more.
    pub fn exit_code(&self, code: u8) -> u8 {
        if code == 0 && !self.all.is_empty() {
            LOST
        } else {
            code
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(text: &str) -> Loss {
        Loss::new(Some(7), What::Records, Some(3), text)
    }

    #[test]
    fn a_loss_is_in_the_exit_code_unless_there_is_another() {
        let mut losses = Losses::default();
        assert_eq!((losses.exit_code(0), losses.exit_code(3)), (0, 3));
        losses.note(loss("a"));
        assert_eq!((losses.exit_code(0), losses.exit_code(3)), (LOST, 3));
    }

    #[test]
    fn losses_without_end_are_counted() {
        let mut losses = Losses::default();
        for number in 0..MOST + 5 {
            losses.note(loss(&number.to_string()));
        }
        let mut out = Vec::new();
        losses.write(&mut out).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(record["more"], 5);
        assert_eq!(record["losses"][0]["what"], "records");
        assert_eq!(record["losses"].as_array().map(Vec::len), Some(MOST));
    }
}
