//! Takes out functions whose hooks cost more than the budget ([`Budget`](super::budget::Budget)). Used by
//! `life::watched`.

use super::Guest;
use super::budget::hottest;
use crate::message::Message;
use std::cmp::Reverse;
use std::time::Instant;

impl Guest {
    /// Takes out the hottest functions if hooks cost more than they may.
    pub(super) fn keep_budget(&mut self) {
        let Some(share) = self.budget.look(&self.tracing) else {
            return;
        };
        if share <= self.budget.most {
            self.budget.exceeded = None;
            return;
        }
        let now = self.budget.calls(&mut self.tracing);
        let Some((since, before)) = self.budget.exceeded.take() else {
            self.budget.exceeded = Some((Instant::now(), now));
            return;
        };
        let seconds = since.elapsed().as_secs_f64();
        let more = now.into_iter().map(|(hook, count)| {
            let before = before.get(&hook).copied().unwrap_or(0);
            (hook, count.saturating_sub(before))
        });
        let hot = hottest(more.collect(), share, self.budget.most);
        let numbers = hot.iter().map(|(hook, _)| *hook).collect();
        match self.tracing.unhook(&numbers) {
            Ok(gone) => {
                if gone.is_empty() {
                    self.budget.samples = None;
                    return;
                }
                self.plan
                    .leave_out(gone.iter().map(|(_, function)| function.address));
                let rate = |hook: u32| {
                    let count = hot.iter().find(|(of, _)| *of == hook);
                    count.map_or(0, |(_, count)| (*count as f64 / seconds) as u64)
                };
                let named = gone.iter().map(|(hook, of)| (of.name.clone(), rate(*hook)));
                let mut functions: Vec<(String, u64)> = named.collect();
                functions.sort_by_key(|(name, rate)| (Reverse(*rate), name.clone()));
                self.messages.say(Message::TooHot {
                    pid: self.pid(),
                    share,
                    budget: self.budget.most,
                    functions,
                });
            }
            // Its main thread stands at an event; the next look comes soon.
            Err(process::Error::AtEvent { .. }) => {}
            Err(error) if error.is_left() => {}
            Err(error) => {
                self.budget.samples = None;
                let pid = self.pid();
                self.messages.say(Message::Failed { pid, error });
            }
        }
    }
}
