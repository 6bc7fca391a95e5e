//! One look at each of some running processes, for the commands that show what threads do now.

use std::io::{self, Write};

use frames::live::circles::deadlocks;
use frames::live::open::{Live, Look, Wanted};
use frames::live::scripts::NotRead;
use process::guest::{self, Status};
use process::programs;
use process::tries::Tries;
use report::figures::plural;
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
    let mut ended: Vec<(i32, Vec<i32>)> = pids
        .iter()
        .map(|pid| (*pid, guest::ended_children(*pid)))
        .collect();
    let is_left_out = |pid: &i32| ended.iter().any(|(_, children)| children.contains(pid));
    let there: Vec<i32> = pids
        .iter()
        .copied()
        .filter(|pid| !is_left_out(pid))
        .collect();
    for pid in there {
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
                note_unread(losses, pid, &look);
            }
            Err(error) if pids.len() == 1 => return Err(error),
            Err(error) => {
                let text = format!("{error:#}");
                losses.say(Loss::new(Some(pid), What::Process, None, text));
            }
        }
    }
    // A parent that waits for its children has done so meanwhile.
    for (pid, children) in &mut ended {
        let now = guest::ended_children(*pid);
        children.retain(|child| now.contains(child));
        let count = children.len() as u64;
        if count != 0 {
            tell!(
                "{count} {} of process {pid} {} ended, and nobody has waited for {} (zombies)",
                plural(count, "child", "children"),
                plural(count, "has", "have"),
                plural(count, "it", "them"),
            );
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
        let stands = subject.look.standstill || !deadlocks(&subject.look.stacks).is_empty();
        match stands {
            true => self.stuck.push(text),
            false => self.well.push(text),
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
        let (mut live, mut tries) = (attach(pid)?, Tries::begin());
        loop {
            match live.look(wanted) {
                // Another lancet is there for a moment.
                Err(frames::Error::Process(error)) if is_traced(&error) && tries.again(&error) => {}
                look => return Ok((live, look.map_err(plain)?)),
            }
        }
    })
}

fn is_traced(error: &process::Error) -> bool {
    matches!(error, process::Error::Traced { .. })
}

/// Whether a look has failed because another lancet traced the process, as it does for a moment: the next look may succeed.
pub fn is_passing(error: &frames::Error) -> bool {
    matches!(error, frames::Error::Process(error) if is_traced(error) && error.may_pass())
}

/// Opens a process as far as that is possible without stopping it. Another lancet that traces it for a moment is waited for.
pub fn attach(pid: i32) -> anyhow::Result<Live> {
    let mut tries = Tries::begin();
    loop {
        match Status::read(pid).and_then(|status| status.check_to_look()) {
            Err(error) if is_traced(&error) && tries.again(&error) => {}
            checked => break checked.map_err(explain)?,
        }
    }
    Live::open(pid).map_err(plain)
}

/// Returns the error with what to do about it.
pub fn plain(error: frames::Error) -> anyhow::Error {
    match error {
        frames::Error::Process(error) => explain(error),
        error => anyhow::Error::new(error),
    }
}

/// Notes the VMs of which no script line could be read, and says by what those without a table are read.
pub fn note_unread(losses: &mut Losses, pid: i32, look: &Look) {
    for note in &look.notes {
        losses.talk(without_table(pid, note));
    }
    for why in &look.unread {
        losses.say(unread(pid, why));
    }
    for what in &look.not_read {
        losses.say(not_read(pid, what));
    }
}

/// Returns what is said of a process whose VM has no table.
pub fn without_table(pid: i32, note: &str) -> String {
    format!("process {pid}: {note}")
}

/// Returns the loss of a process of which no script line could be read, or less than was asked for.
pub fn unread(pid: i32, why: &str) -> Loss {
    let text = format!("process {pid}: {why}");
    Loss::new(Some(pid), What::Frames, None, text)
}

/// Returns the loss of what was asked for and not read of a VM, with how many stacks lack frames because of that.
pub fn not_read(pid: i32, what: &NotRead) -> Loss {
    let text = format!("process {pid}: {what}");
    let stacks = Some(what.stacks).filter(|stacks| *stacks != 0);
    Loss::new(Some(pid), What::Frames, stacks, text)
}

/// Returns the loss of a process whose list of parked stacks was not read to its end.
pub fn some_missed(pid: i32) -> Loss {
    let text = format!(
        "process {pid}: its list of objects changed while it was read, some that are parked may be missing; try again when it is less busy"
    );
    Loss::new(Some(pid), What::Stacks, None, text)
}
