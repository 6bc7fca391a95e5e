//! One look at each of some running processes, for the commands that show what threads do now.

use std::io::{self, Write};

use frames::live::circles::deadlocks;
use frames::live::open::{Live, Look, Wanted};
use process::guest::{self, Status};
use process::programs;
use report::losses::{Loss, What};
use report::stack::Subject;

use crate::losses::Losses;
use crate::ui::advice::explain;

/// Looks at each process and hands on what was seen. A single process that cannot be opened is an error; of several,
/// those that can be are shown.
pub fn each(
    pids: &[i32],
    wanted: Wanted,
    losses: &mut Losses,
    mut show: impl FnMut(&Subject, &mut Losses) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for &pid in pids {
        match open(pid, wanted) {
            Ok((live, look)) => {
                let subject = Subject {
                    pid,
                    command: &guest::command_line(pid),
                    modules: live.modules(),
                    memory: live.memory(),
                    languages: live.languages(),
                    from_core: false,
                    look: &look,
                };
                show(&subject, losses)?;
            }
            Err(error) if pids.len() == 1 => return Err(error),
            Err(error) => {
                let text = format!("{error:#}");
                losses.say(Loss::new(Some(pid), What::Process, None, text));
            }
        }
    }
    Ok(())
}

/// What is written of several processes: those with a deadlock come first, so that nobody has to find it among the workers of a
/// server that are well.
#[derive(Default)]
pub struct Written {
    stuck: Vec<Vec<u8>>,
    well: Vec<Vec<u8>>,
}

impl Written {
    /// Keeps what was written of a process.
    pub fn add(&mut self, subject: &Subject, text: Vec<u8>) {
        match deadlocks(&subject.look.stacks).is_empty() {
            true => self.well.push(text),
            false => self.stuck.push(text),
        }
    }

    /// Writes all of it, with an empty line between two processes.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for (number, text) in self.stuck.iter().chain(&self.well).enumerate() {
            if number > 0 {
                writeln!(out)?;
            }
            out.write_all(text)?;
        }
        out.flush()
    }
}

fn open(pid: i32, wanted: Wanted) -> anyhow::Result<(Live, Look)> {
    programs::at_present(pid, || {
        let mut live = attach(pid)?;
        let look = live.look(wanted).map_err(plain)?;
        Ok((live, look))
    })
}

/// Opens a process as far as that is possible without stopping it.
pub fn attach(pid: i32) -> anyhow::Result<Live> {
    Status::read(pid)
        .and_then(|status| status.check_to_look())
        .map_err(explain)?;
    Live::open(pid).map_err(plain)
}

/// Returns the error with what to do about it.
pub fn plain(error: frames::Error) -> anyhow::Error {
    match error {
        frames::Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}
