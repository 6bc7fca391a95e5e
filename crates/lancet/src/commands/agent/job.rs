//! A lancet of our own at work on one answer, beside the agent, which goes on. Used by `work`.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use process::proc_file;
use process::rss::resident_now;
use process::status_file::StatusFile;

use super::budget;
use super::choose::Process;
use crate::itself;

/// How long a command may take beyond the time that it watches.
const PATIENCE: Duration = Duration::from_secs(120);
/// The most bytes of an answer.
const MOST: u64 = 64 << 20;

/// A command that is to be run.
pub struct Job {
    /// The words of its command line, without the name of the program.
    pub words: Vec<String>,
    /// The file of its answer, which is there and open.
    pub out: Option<(PathBuf, File)>,
    /// How long it watches.
    pub lasts: Duration,
    /// The memory that it may have, with what we have.
    pub memory: u64,
    /// The processor time that it may use; `None`: what it takes.
    pub cpu: Option<Duration>,
    /// The process that it is about.
    pub process: Option<Process>,
}

/// What has become of it.
pub struct Done {
    /// Its exit code; `None`: a signal has ended it.
    pub code: Option<i32>,
    /// The last line that it has said.
    pub said: String,
    /// The processor time that it has used.
    pub cpu: Duration,
    /// The most memory that it was seen to have, with what we have.
    pub memory: u64,
    /// Why it was ended before it was done.
    pub ended_for: Option<Ended>,
}

impl Done {
    /// Why it has given no answer.
    pub fn why(&self) -> String {
        match (self.ended_for, self.said.as_str()) {
            (Some(Ended::Memory), _) => "it had more memory than it may".into(),
            (Some(Ended::Cpu), _) => "it used more processor time than can be paid for".into(),
            (Some(Ended::Size), _) => format!("its answer had more than {} MiB", MOST >> 20),
            (Some(Ended::Time), "") => "it did not end in time".into(),
            (None, "") => "it was ended, or has failed, and said nothing".into(),
            (_, said) => said.to_owned(),
        }
    }
}

/// Why a command was ended before it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It had more memory than it may.
    Memory,
    /// Its answer was too large.
    Size,
    /// It used more processor time than it may.
    Cpu,
    /// It took too long, or nobody waits for it any more.
    Time,
}

/// One that is running.
pub struct Running {
    thread: JoinHandle<io::Result<Done>>,
    over: Arc<AtomicBool>,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// There are too many threads.
    pub fn start(job: Job) -> io::Result<Self> {
        let over = Arc::<AtomicBool>::default();
        let asked = over.clone();
        let thread = thread::Builder::new().spawn(move || run(job, &asked))?;
        Ok(Running { thread, over })
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.thread.is_finished()
    }

    /// Asks it to end; its answer is what it knows.
    pub fn ask_to_end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It could not be started, or its process has ended before.
    pub fn end(self) -> io::Result<Done> {
        let failed = || Err(io::Error::other("the thread that waited for it has failed"));
        self.thread.join().unwrap_or_else(|_| failed())
    }
}

fn run(job: Job, asked: &AtomicBool) -> io::Result<Done> {
    // The pages of the program itself are the same for both, and are counted there.
    let own = StatusFile::own().ok().and_then(|own| own.bytes("RssAnon"));
    let own = own.unwrap_or(0);
    let most = AtomicU64::new(0);
    let ended = [const { AtomicBool::new(false) }; 3];
    let (path, out) = job.out.unzip();
    let is_over = |pid: i32| {
        let memory = own + resident_now(pid).unwrap_or(0);
        most.fetch_max(memory, Ordering::Relaxed);
        let size = path.as_ref().and_then(|path| path.metadata().ok());
        let is = [
            memory > job.memory,
            size.is_some_and(|size| size.len() > MOST),
            job.cpu.is_some_and(|most| used_by(pid) > most),
        ];
        for (ended, is) in ended.iter().zip(is) {
            ended.fetch_or(is, Ordering::Relaxed);
        }
        is.contains(&true) || asked.load(Ordering::Relaxed)
    };
    // One at a time is run, so all that is more by then is its.
    let before = budget::used_by_children();
    if job.process.is_some_and(|process| !process.is_there()) {
        // The last moment before it is named by its number alone.
        return Err(io::Error::other("it has ended before it was looked at"));
    }
    let run = itself::Run {
        words: &job.words,
        out,
        most: job.lasts + PATIENCE,
        is_over: &is_over,
    };
    let cannot = |error| io::Error::other(format!("lancet cannot be started: {error}"));
    let answer = itself::run(run).map_err(cannot)?;
    let ended = match ended.map(AtomicBool::into_inner) {
        [true, ..] => Ended::Memory,
        [_, true, _] => Ended::Size,
        [_, _, true] => Ended::Cpu,
        _ => Ended::Time,
    };
    let said = answer.said.text.lines().last().unwrap_or_default();
    Ok(Done {
        code: answer.code,
        said: said.trim_start_matches("lancet: ").to_owned(),
        cpu: budget::used_by_children().saturating_sub(before),
        memory: most.into_inner(),
        ended_for: answer.is_cut_short.then_some(ended),
    })
}

/// The processor time that a process has used, in hundredths of a second; nothing, if it has ended.
fn used_by(pid: i32) -> Duration {
    let stat = proc_file::of_process(pid, "stat").unwrap_or_default();
    let field = |number| proc_file::stat_field(&stat, number)?.parse::<u64>().ok();
    let ticks = field(14).unwrap_or(0) + field(15).unwrap_or(0);
    Duration::from_millis(ticks.saturating_mul(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(words: &[&str]) -> Job {
        Job {
            words: words.iter().map(ToString::to_string).collect(),
            out: None,
            lasts: Duration::ZERO,
            memory: u64::MAX,
            cpu: None,
            process: None,
        }
    }

    #[test]
    fn nothing_is_begun_of_a_process_that_has_ended() {
        let process = Some(Process {
            pid: 1,
            start: u64::MAX,
        });
        let job = Job {
            process,
            ..job(&["tune"])
        };
        let running = Running::start(job).expect("a thread");
        let error = running.end().map(|_| ()).expect_err("it is not there");
        assert_eq!(error.to_string(), "it has ended before it was looked at");
    }

    #[test]
    fn processor_time_is_measured() {
        let own = std::process::id() as i32;
        let before = used_by(own);
        while used_by(own) < before + Duration::from_millis(20) {}
        assert!(used_by(own) <= budget::used_here() + Duration::from_millis(10));
        assert_eq!(used_by(-1), Duration::ZERO);
    }
}
