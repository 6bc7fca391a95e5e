//! A program of which the objects of its VM are counted. Used by `started`.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use births::analysis::Census;
use births::census::{Source, census_of};
use births::earlier::Earlier;
use births::intervals::OfGuest;
use births::program::{News, Program};
use births::session::{Event, Shared};
use inject::Image;
use process::Error;
use vm::Language;

use super::super::MemArgs;
use super::program::{Heard, Started};
use crate::agent::AGENT;
use crate::losses::Losses;
use crate::ui::advice::explain;

/// The program, and what is remembered of its processes from one look to the next.
pub struct Objects {
    program: Program,
    earlier: Earlier,
    started: Instant,
    /// How often each process was begun to be watched, which is the number of the watch: one that runs another program is
    /// watched anew, and so is one that gets an id again.
    watches: HashMap<i32, u64>,
    collect: bool,
    watched: bool,
    /// A verdict on leaks is given.
    seeks_leaks: bool,
}

impl Objects {
    /// Starts the program.
    pub fn start(args: &MemArgs) -> anyhow::Result<Self> {
        let shared = Shared {
            image: Image::parse(AGENT)?,
            options: args.options(),
            collect_at_end: args.gc(),
        };
        Ok(Objects {
            program: Program::start(&args.program, shared).map_err(explain)?,
            earlier: Earlier::default(),
            started: Instant::now(),
            watches: HashMap::new(),
            collect: args.gc(),
            watched: false,
            seeks_leaks: args.seeks_leaks(),
        })
    }

    /// What one piece of news means; the exit code when the program has ended.
    fn handle(&mut self, news: News, heard: &mut Heard) -> Option<i32> {
        match news {
            News::Event(Event::Watching(pid)) => {
                self.watched = true;
                *self.watches.entry(pid).or_default() += 1;
                self.earlier.forget(pid);
            }
            News::Event(Event::Final {
                pid,
                command,
                language,
                version,
                tally,
                how,
            }) => {
                let source = Source {
                    pid,
                    watch: self.watches.get(&pid).copied().unwrap_or(0),
                    command: &command,
                    root: process::guest::working_directory(pid).unwrap_or_default(),
                    language,
                    version: &version,
                    seconds: self.started.elapsed().as_secs_f64(),
                    intervals: self.intervals(),
                };
                let (intervals, now) = (source.intervals.clone(), Instant::now());
                let mut census = census_of(source, &tally);
                self.earlier.join(&mut census, &tally, &intervals, now);
                self.earlier.forget(pid);
                census.losses.extend(how.loss());
                heard.losses.of_census(&census);
                heard.last.push(census);
            }
            News::Replaced(pid) => {
                tell!(
                    "process {pid} runs another program now; what the last one held is not known"
                );
            }
            News::Unwatched(_, error) => {
                heard.losses.process(error);
            }
            News::Ended(code) => return Some(code),
        }
        None
    }

    /// None where no verdict on leaks is wanted.
    fn intervals(&self) -> OfGuest {
        if !self.seeks_leaks {
            return OfGuest::default();
        }
        let intervals = self.program.intervals();
        intervals.of_guest(self.started, Instant::now())
    }
}

impl Started for Objects {
    fn wait(&self, most: Duration) {
        self.program.wait(most);
    }

    fn poll(&mut self, heard: &mut Heard) -> (bool, Option<i32>) {
        let news = self.program.poll();
        let any = !news.is_empty();
        let code = news.into_iter().find_map(|news| self.handle(news, heard));
        (any, code)
    }

    fn census(&mut self, losses: &mut Losses) -> Vec<Census> {
        let mut found = Vec::new();
        let intervals = self.intervals();
        for session in self.program.sessions() {
            match session.census(self.collect) {
                Ok(tally) => {
                    let source = Source {
                        pid: session.pid(),
                        watch: self.watches.get(&session.pid()).copied().unwrap_or(0),
                        command: session.command(),
                        root: process::guest::working_directory(session.pid()).unwrap_or_default(),
                        language: session.language(),
                        version: &session.version(),
                        seconds: self.started.elapsed().as_secs_f64(),
                        intervals: intervals.clone(),
                    };
                    let (intervals, now) = (source.intervals.clone(), Instant::now());
                    let mut census = census_of(source, &tally);
                    self.earlier.join(&mut census, &tally, &intervals, now);
                    losses.of_census(&census);
                    found.push(census);
                }
                // It is ending, at an exec, or before a Ractor: the next look sees to that.
                Err(_) if matches!(session.awaits_last_count(), Ok(true)) => {}
                Err(process::Error::AtEvent { .. } | process::Error::Stopped(_)) => {}
                Err(error) if error.is_left() => {}
                Err(error) => losses.process(error),
            }
        }
        found
    }

    fn leave(&mut self) -> Vec<Error> {
        self.program.leave()
    }

    fn code(&mut self) -> Option<i32> {
        self.program.code()
    }

    fn why_nothing(&self) -> Option<String> {
        let counted = Language::those(enter::counts_births, " and no ");
        (!self.watched).then(|| {
            format!(
                "the program started no {counted} of its own, and mem counts what these make; if its children run one, add --children"
            )
        })
    }
}
