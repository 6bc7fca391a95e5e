//! What `lancet mem` says of the running processes that it has opened ([`births::attached`]). Used by `run`.

use std::thread::sleep;
use std::time::{Duration, Instant};

use births::analysis::Census;
use births::attached::Attached;
use births::native;
use births::watching::{Notice, Watching};
use inject::Image;
use report::losses::{Loss, What};

use super::MemArgs;
use super::cost::{self, Allowed, Answer, Cost};
use crate::agent::AGENT;
use crate::losses::Losses;
use crate::ui::advice::explain;
use crate::ui::interrupt;

/// Between two looks at who has come and gone. A forked worker counts on by itself until we find it.
const LOOK: Duration = Duration::from_millis(100);

/// The running processes of `lancet mem`, and what was lost of them.
pub struct Guests {
    attached: Box<dyn Watching>,
    collect: bool,
    /// The per cent of the time for which looks may hold a process (`--budget`), as the message about a late look says
    /// it.
    budget: u32,
    /// A look came later than asked for.
    delayed: bool,
    /// What a look may cost; `None`: nobody asks.
    allowed: Option<Allowed>,
    /// The processes of the command line.
    named: Vec<i32>,
    /// Whether the processes of the command line are being opened, before there is a screen.
    opening: bool,
    losses: Losses,
}

impl Guests {
    /// Opens what the command line names. A single process that cannot be opened is an error; of
    /// several, those that can are. With `on_screen`, talk waits until the end.
    pub fn open(args: &MemArgs, on_screen: bool) -> anyhow::Result<Self> {
        let mut guests = Guests {
            attached: match args.native {
                true => Box::new(native::attached::Attached::new(args.native()?)),
                false => Box::new(Attached::new(Image::parse(AGENT)?, args.options())),
            },
            collect: args.gc(),
            budget: args.options().budget,
            delayed: false,
            allowed: (!args.native && args.companion.is_none()).then(|| Allowed::by(args)),
            named: args.pids.clone(),
            opening: true,
            losses: Losses::new(on_screen),
        };
        for pid in &args.pids {
            if !guests.may_look(*pid, args)? {
                continue;
            }
            match guests.attached.open(*pid) {
                Ok(()) => guests.say_notices(),
                Err(error) if args.pids.len() == 1 => return Err(explain(error)),
                Err(error) => guests.losses.process(error),
            }
        }
        // Asked before anybody looks again: a process that was opened and is gone by then is a loss, and said as one.
        if guests.is_empty() {
            anyhow::bail!("none of the processes could be opened");
        }
        guests.refresh(false);
        guests.opening = false;
        Ok(guests)
    }

    /// Asks the heap of a process what a look at it costs.
    fn cost(&self, pid: i32) -> Option<(Cost, Allowed)> {
        let allowed = self.allowed?;
        Some((cost::of(pid, allowed.collects)?, allowed))
    }

    /// Says what a look costs: before there is a screen, because behind it comes too late.
    fn warn(&mut self, text: String) {
        match self.opening {
            true => tell!("{text}"),
            false => self.losses.talk(text),
        }
    }

    /// Says what a look at a process costs that nobody has named: it was opened to follow another.
    fn warn_of_child(&mut self, pid: i32) {
        let Some((cost, allowed)) = self.cost(pid) else {
            return;
        };
        if let Some(text) = cost.warning(pid, allowed) {
            self.warn(text);
        }
    }

    /// Says what a look at a large heap costs; whether it costs no more than is allowed. Of a single process that is an error. A program that has asked
    /// for it knows itself.
    fn may_look(&mut self, pid: i32, args: &MemArgs) -> anyhow::Result<bool> {
        let Some((cost, allowed)) = self.cost(pid) else {
            return Ok(true);
        };
        match cost.answer(pid, allowed) {
            Answer::Small => return Ok(true),
            Answer::Said(text) => self.warn(text),
            Answer::Refused(text) if args.pids.len() == 1 => anyhow::bail!("{text}"),
            Answer::Refused(text) => {
                let loss = Loss::new(Some(pid), What::Process, None, text);
                self.losses.say(loss);
                return Ok(false);
            }
        }
        self.attached.expect(cost.least());
        Ok(true)
    }

    fn say_notices(&mut self) {
        for notice in self.attached.notices() {
            match notice {
                Notice::Opened {
                    pid,
                    counted,
                    forked,
                    took,
                    timing,
                } => {
                    let how = if forked {
                        "followed the fork to"
                    } else {
                        "opened"
                    };
                    self.losses.talk(format!(
                        "{how} process {pid} ({counted}) in {:.1} ms; it stood still for {:.2} ms",
                        took.as_secs_f64() * 1e3,
                        timing.stopped.as_secs_f64() * 1e3,
                    ));
                    if !self.named.contains(&pid) {
                        self.warn_of_child(pid);
                    }
                }
                Notice::Ended(pid) => {
                    let text = format!("process {pid} ended; what it held at its end is not known");
                    let loss = Loss::new(Some(pid), What::Process, None, text);
                    self.losses.say(loss);
                }
                Notice::Lost(error) => self.losses.process(error),
                Notice::Said(pid, why) => self.losses.talk(format!("process {pid}: {why}")),
            }
        }
    }

    /// Notices who has ended and, with `--children`, who has come; `counting` if a census comes next.
    pub fn refresh(&mut self, counting: bool) {
        self.attached.poll(counting);
        self.say_notices();
    }

    /// Whether nobody is left.
    pub fn is_empty(&self) -> bool {
        self.attached.is_empty()
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
            self.refresh(until.is_some_and(|until| Instant::now() >= until));
        }
        // A child that was forked while the last look was under way is counted too.
        if interrupt::asked() {
            self.refresh(true);
        }
    }

    /// Counts the living in every guest; those that cannot be counted are said, and the others are
    /// counted all the same.
    pub fn census(&mut self) -> Vec<Census> {
        let found = self.attached.census(self.collect);
        found
            .iter()
            .for_each(|census| self.losses.of_census(census));
        self.say_notices();
        found
    }

    /// How long to wait for the next look if `interval` was asked for: longer if looks take long. Says so the first time.
    pub fn until_next(&mut self, interval: Duration) -> Duration {
        let now = Instant::now();
        let wait = self.attached.next_look().saturating_duration_since(now);
        if wait <= interval {
            return interval;
        }
        if !self.delayed {
            self.delayed = true;
            self.losses.talk(format!(
                "a look takes long here: the next comes after {:.1} s, so that they hold the process for no more than {} % of the time (--budget)",
                wait.as_secs_f64(),
                self.budget,
            ));
        }
        wait
    }

    /// Leaves all; what was lost or refused until then.
    pub fn leave(mut self) -> Losses {
        for error in self.attached.leave() {
            self.losses.leaving(error);
        }
        self.say_notices();
        self.losses.say_held();
        self.losses
    }
}
