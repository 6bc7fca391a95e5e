//! What could not be told. Every loss of every command comes through here: it is said on standard error, it is in the
//! `--json` output, and it is in the exit code. Nothing else decides about [`LOST`].

use std::fs::read_to_string;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::time::SystemTime;

use births::analysis::Census;
use process::Error;
use report::forms::Form;
use report::losses::{Loss, Origin, What};

use crate::exit::LOST;
use crate::ui::advice::explain;
use crate::ui::sink::Sink;

/// The most losses that are kept one by one. A process may forge without end what leads to one.
const MOST: usize = 1000;

/// When lancet began to look at this machine.
static BEGAN: OnceLock<SystemTime> = OnceLock::new();

/// From now on lancet looks at this machine, which its answers say.
pub fn note_beginning() {
    BEGAN.get_or_init(SystemTime::now);
}

/// Where and when lancet has looked; `None`: it reads a file.
fn looked() -> Option<Origin> {
    let began = *BEGAN.get()?;
    let since_1970 = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok();
        since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0))
    };
    let kernel = |name: &str| {
        let text = read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    Some(Origin {
        host: kernel("hostname").unwrap_or_default(),
        boot_id: kernel("random/boot_id"),
        lancet: env!("CARGO_PKG_VERSION"),
        began_ns: since_1970(began),
        ended_ns: since_1970(SystemTime::now()),
    })
}

/// The losses of a run so far.
#[derive(Debug, Default)]
pub struct Losses {
    all: Vec<Loss>,
    /// Those that are not in `all`.
    more: u64,
    /// The places in `all` of those that a report says itself.
    in_report: Vec<usize>,
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

    /// Something was lost, which the report itself says. It is told at the end where the form of the report leaves it out.
    pub fn note_in_report(&mut self, loss: Loss) {
        let known = self.all.len();
        self.note(loss);
        self.in_report.extend(known..self.all.len());
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
                None => self.note_in_report(loss),
            }
        }
    }

    /// Says what the report would say, where it has no place for it.
    pub fn say_reported(&self) {
        for text in self.reported() {
            tell!("{text}");
        }
    }

    fn reported(&self) -> Vec<String> {
        let all = self.in_report.iter().filter_map(|at| self.all.get(*at));
        let texts = all.map(|loss| match loss.pid {
            Some(pid) if !loss.text.starts_with("process ") => {
                format!("process {pid}: lost: {}", loss.text)
            }
            _ => format!("lost: {}", loss.text),
        });
        texts.collect()
    }

    /// All that are kept one by one.
    pub fn all(&self) -> &[Loss] {
        &self.all
    }

    /// Ends an answer: with them as its last record, where it consists of records.
    pub fn end(&self, sink: &mut Sink) -> io::Result<()> {
        if let Some(form) = sink.form {
            self.end_records(&mut sink.out, form)?;
        }
        sink.out.flush()
    }

    /// Writes them as the last record of an answer that this form shows, and says those that it does not show.
    pub fn end_records(&self, out: &mut dyn Write, form: &Form) -> io::Result<()> {
        report::losses::write(out, &self.all, self.more, looked().as_ref())?;
        if !form.says_losses() {
            self.say_reported();
        }
        Ok(())
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
    fn what_a_report_says_is_told_where_its_form_leaves_it_out() {
        let mut losses = Losses::default();
        losses.note(loss("said"));
        losses.note_in_report(loss("a"));
        losses.note_in_report(loss("a"));
        losses.note_in_report(Loss::new(None, What::Files, None, "b"));
        losses.note_in_report(loss("process 7: c"));
        assert_eq!(
            losses.reported(),
            ["process 7: lost: a", "lost: b", "lost: process 7: c"]
        );
        let forms = report::forms::FORMS.iter();
        let mute = forms.filter(|form| !form.says_losses());
        assert_eq!(format!("{:?}", mute.collect::<Vec<_>>()), "[csv, parquet]");
    }

    #[test]
    fn losses_without_end_are_counted() {
        let mut losses = Losses::default();
        for number in 0..MOST + 5 {
            losses.note(loss(&number.to_string()));
        }
        let mut out = Vec::new();
        let mut forms = report::forms::FORMS.iter();
        let json = forms.find(|form| form.is_json()).unwrap();
        losses.end_records(&mut out, json).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(record["more"], 5);
        assert_eq!(record["losses"][0]["what"], "records");
        assert_eq!(record["losses"].as_array().map(Vec::len), Some(MOST));
    }
}
