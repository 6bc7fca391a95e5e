//! What collections take, timed in the process.
//!
//! The agent that `lancet mem` puts in sets another hook here, on the collector's own events; nothing else is hooked. It
//! tells how long each collection *marked*: that is where stacks are scanned. Sweeping is done later, in pieces, and
//! costs the same whatever lies on the stacks.

use std::io::Write;
use std::time::{Duration, Instant};

use export::figures::{pause, plural};
use process::{Image, Session};
use serde_json::json;

use crate::guests::AGENT;
use crate::ui::advice::explain;
use crate::ui::interrupt;

/// Between two looks at what has been timed.
const LOOK: Duration = Duration::from_millis(20);

/// What marking took, the quickest first.
#[derive(Debug, Default)]
pub struct Marked {
    minor: Vec<Duration>,
    full: Vec<Duration>,
}

/// Times collections of process `pid`: those that happen, or those that it is made to do.
pub fn time(pid: i32, length: Duration, collect: Option<u32>) -> anyhow::Result<Marked> {
    interrupt::catch();
    let image = Image::parse(AGENT)?;
    let mut session = Session::open_for_collections(pid, &image).map_err(explain)?;
    let mut marked = Marked::default();
    let timed = match collect {
        Some(times) => ask(&mut session, times, &mut marked),
        None => wait(&mut session, length, &mut marked),
    };
    if session.is_alive() {
        session.leave().map_err(explain)?;
    }
    timed.map_err(explain)?;
    marked.minor.sort_unstable();
    marked.full.sort_unstable();
    Ok(marked)
}

/// One of all objects first: after it none is new, and each of the young ones finds the same.
fn ask(session: &mut Session, times: u32, marked: &mut Marked) -> process::Result<()> {
    session.collect(true)?;
    for _ in 0..times {
        if interrupt::asked() {
            break;
        }
        session.collect(false)?;
        marked.read(session)?;
    }
    marked.read(session)
}

fn wait(session: &mut Session, length: Duration, marked: &mut Marked) -> process::Result<()> {
    let end = Instant::now() + length;
    while Instant::now() < end && !interrupt::asked() {
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        marked.read(session)?;
        if let Some(why) = session.farewell()? {
            return Err(process::Error::Left {
                pid: session.pid(),
                why,
            });
        }
    }
    Ok(())
}

impl Marked {
    fn read(&mut self, session: &mut Session) -> process::Result<()> {
        for collection in session.collections()? {
            let took = Duration::from_nanos(collection.nanos);
            match collection.full {
                0 => self.minor.push(took),
                _ => self.full.push(took),
            }
        }
        Ok(())
    }

    /// Writes it behind the prediction, which is `stacks`.
    pub fn write(
        &self,
        out: &mut dyn Write,
        pid: i32,
        stacks: Duration,
        json: bool,
    ) -> std::io::Result<()> {
        if !json {
            writeln!(out)?;
        }
        if !json && self.minor.is_empty() && self.full.is_empty() {
            return writeln!(
                out,
                "measured: no collection came; wait longer (--measure=60s), or have some made (--collect N)"
            );
        }
        for (kind, took) in [("minor", &self.minor), ("full", &self.full)] {
            let [Some(least), Some(median), Some(most)] =
                [took.first(), took.get(took.len() / 2), took.last()]
            else {
                continue;
            };
            let microseconds = |of: &Duration| of.as_secs_f64() * 1e6;
            if json {
                let line = json!({
                    "record": "collections",
                    "pid": pid,
                    "kind": kind,
                    "count": took.len(),
                    "least_us": microseconds(least),
                    "median_us": microseconds(median),
                    "most_us": microseconds(most),
                });
                writeln!(out, "{line}")?;
                continue;
            }
            let share = 100.0 * stacks.as_secs_f64() / least.as_secs_f64().max(1e-9);
            writeln!(
                out,
                "measured: {} {kind} {} marked for {} at least, {} in the median, {} at most; the stacks' share of the least is {:.0}%",
                took.len(),
                plural(took.len() as u64, "collection", "collections"),
                pause(*least),
                pause(*median),
                pause(*most),
                share.min(100.0),
            )?;
        }
        Ok(())
    }
}
