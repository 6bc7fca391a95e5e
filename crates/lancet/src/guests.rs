//! The processes of one run of `lancet mem`: opened, followed, counted, left.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::{Duration, Instant};

use analysis::Census;
use process::{Error, Image, Options, Session, guest};

use crate::census::{Frames, Source, census_of};
use crate::cli::MemArgs;
use crate::ui::advice::explain;
use crate::ui::interrupt;

/// The agent's program, built by `build.rs`.
pub const AGENT: &[u8] = include_bytes!(env!("LANCET_AGENT"));

/// Between two looks at who has come and gone. A forked worker counts on by itself until we find it.
const LOOK: Duration = Duration::from_millis(100);

/// One open process.
struct Guest {
    session: Session,
    since: Instant,
}

/// See the module's text.
pub struct Guests {
    image: Image,
    options: Options,
    collect: bool,
    children: bool,
    /// Those the user named.
    roots: Vec<i32>,
    open: BTreeMap<i32, Guest>,
    /// Children that could not be opened, so as to say it once.
    refused: BTreeSet<i32>,
    /// Frames as the analysis knows them, by the reader's own.
    frames: Frames,
    lost: bool,
    /// What is to be said when the screen is ours no more; `None` = say it at once.
    held: Option<Vec<String>>,
}

impl Guests {
    /// Opens what the command line names. A single process that cannot be opened is an error; of
    /// several, those that can are. With `on_screen`, talk waits until the end.
    pub fn open(args: &MemArgs, on_screen: bool) -> anyhow::Result<Self> {
        let mut guests = Guests {
            image: Image::parse(AGENT)?,
            options: Options {
                depth: args.stacks.unwrap_or(1),
                follow: args.children,
            },
            collect: args.gc(),
            children: args.children,
            roots: args.pids.clone(),
            open: BTreeMap::new(),
            refused: BTreeSet::new(),
            frames: Frames::default(),
            lost: false,
            held: on_screen.then(Vec::new),
        };
        for pid in guests.roots.clone() {
            if let Err(error) = guests.open_one(pid) {
                if guests.roots.len() == 1 {
                    return Err(explain(error));
                }
                guests.talk(format!("{:#}", explain(error)));
                guests.lost = true;
            }
        }
        guests.refresh();
        if guests.is_empty() {
            anyhow::bail!("none of the processes could be opened");
        }
        Ok(guests)
    }

    fn open_one(&mut self, pid: i32) -> Result<(), Error> {
        if self.open.contains_key(&pid) {
            return Ok(());
        }
        let since = Instant::now();
        let session = Session::open(pid, &self.image, self.options)?;
        self.announce(&session, since, "opened");
        self.open.insert(pid, Guest { session, since });
        Ok(())
    }

    fn talk(&mut self, text: String) {
        match &mut self.held {
            Some(held) => held.push(text),
            None => eprintln!("lancet: {text}"),
        }
    }

    fn announce(&mut self, session: &Session, since: Instant, how: &str) {
        let timing = session.timing();
        self.talk(format!(
            "{how} process {} (Ruby {}) in {:.1} ms; it stood still for {:.2} ms",
            session.pid(),
            session.ruby().version(),
            since.elapsed().as_secs_f64() * 1e3,
            timing.stopped.as_secs_f64() * 1e3,
        ));
    }

    /// Notices who has ended and, with `--children`, who has come.
    pub fn refresh(&mut self) {
        process::stop::tend_stragglers();
        let mut gone = Vec::new();
        self.open.retain(|pid, guest| {
            if !guest.session.is_alive() {
                gone.push(format!("process {pid} ended; what it held is not known"));
            } else if let Ok(Some(why)) = guest.session.farewell() {
                gone.push(Error::Left { pid: *pid, why }.to_string());
            } else {
                return true;
            }
            false
        });
        for text in gone {
            self.talk(text);
            self.lost = true;
        }
        if self.children {
            let mut found = Vec::new();
            for root in &self.roots {
                descendants(*root, &mut found);
            }
            for (parent, pid) in found {
                if !self.open.contains_key(&pid) && !self.refused.contains(&pid) {
                    self.take_in(parent, pid);
                }
            }
        }
    }

    /// A child: one that was forked from an open guest carries our agent, another is opened anew.
    fn take_in(&mut self, parent: i32, pid: i32) {
        let since = Instant::now();
        let adopted = self
            .open
            .get(&parent)
            .and_then(|guest| Some((guest.session.adopt(pid).ok()?, guest.since)));
        if let Some((session, since_parent)) = adopted {
            self.announce(&session, since, "followed the fork to");
            let guest = Guest {
                session,
                since: since_parent,
            };
            self.open.insert(pid, guest);
            return;
        }
        match self.open_one(pid) {
            Ok(()) | Err(Error::NoSuchProcess(_) | Error::Gone(_) | Error::Zombie(_)) => {}
            Err(error) => {
                self.refused.insert(pid);
                let not_ruby = matches!(error, Error::NotARuby { .. });
                // A server's helpers in other languages are none of this command's business.
                if !not_ruby {
                    self.talk(format!("{:#}", explain(error)));
                    self.lost = true;
                }
            }
        }
    }

    /// Whether nobody is left.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Waits until that time (`None` = for ever), Ctrl-C, or the end of the last guest.
    pub fn watch_until(&mut self, until: Option<Instant>) {
        while !interrupt::asked() && !self.is_empty() {
            let left = match until {
                Some(until) => until.saturating_duration_since(Instant::now()),
                None => LOOK,
            };
            if left.is_zero() {
                return;
            }
            sleep(left.min(LOOK));
            self.refresh();
        }
    }

    /// Counts the living in every guest; those that cannot be counted are said, and the others are
    /// counted all the same.
    pub fn census(&mut self) -> Vec<Census> {
        let mut found = Vec::new();
        let mut failed = Vec::new();
        for (pid, guest) in &mut self.open {
            match guest.session.census(self.collect) {
                Ok(tally) => {
                    let source = Source {
                        pid: *pid,
                        command: guest.session.command(),
                        ruby: &guest.session.ruby().version().to_string(),
                        seconds: guest.since.elapsed().as_secs_f64(),
                    };
                    let census = census_of(source, &tally, &mut self.frames);
                    self.lost |= !census.losses.is_empty();
                    found.push(census);
                }
                Err(error) => failed.push((*pid, error)),
            }
        }
        for (pid, error) in failed {
            let over = matches!(
                error,
                Error::Left { .. } | Error::Replaced(_) | Error::Gone(_) | Error::NoSuchProcess(_)
            );
            self.talk(format!("{:#}", explain(error)));
            self.lost = true;
            if over {
                self.open.remove(&pid);
            }
        }
        found
    }

    /// Leaves all; whether anything was lost or refused on the way.
    pub fn leave(mut self) -> bool {
        for guest in std::mem::take(&mut self.open).into_values() {
            if let Err(error) = guest.session.leave() {
                self.talk(format!("leaving: {:#}", explain(error)));
                self.lost = true;
            }
        }
        for text in self.held.take().into_iter().flatten() {
            eprintln!("lancet: {text}");
        }
        self.lost
    }
}

/// Every process below `pid`, with its parent; parents first.
fn descendants(pid: i32, found: &mut Vec<(i32, i32)>) {
    for child in guest::children(pid) {
        found.push((pid, child));
        descendants(child, found);
    }
}
