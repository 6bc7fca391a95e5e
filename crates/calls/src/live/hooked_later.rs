//! Processes that are seen by ptrace before they are hooked: how that begins, and how they change over
//! ([`super::stepped::Stands`]). Used by `process`.

use super::bpf::programs::Seen;
use super::guest::{Guest, Shared, table};
use super::leads::CALLS_OF_ALL;
use super::process::Process;
use super::stepped::{CALLS, Stands, Stepped};
use crate::message::Message;
use inject::lifecycle::{Over, Stage, Turn, Watched};
use inject::tracee::Tracee;
use std::rc::Rc;
use tracepoint::Whose;

/// The BPF programs that see calls of processes that are led, if the kernel allows them.
fn kernel(shared: &Shared<'_>) -> Option<Rc<Seen>> {
    let Shared {
        args, signatures, ..
    } = shared;
    let programs = &shared.programs;
    match programs.get(args, Whose::Alone, || table(args, signatures, false)) {
        Ok(seen) => Some(seen),
        Err(why) => {
            args.messages.say(Message::NotByBpf { why, calls: CALLS });
            None
        }
    }
}

impl Process {
    /// Watches a process that stands at its exec by ptrace for now; with `keep` lancet has started it.
    pub(super) fn begins_led(
        tracee: Tracee,
        keep: bool,
        shared: &Shared<'_>,
    ) -> Result<Stage<Self>, (Tracee, process::Error)> {
        let mut stepped = Stepped::begin(tracee, keep, shared)?;
        let leads = &shared.leads;
        stepped.is_led(keep, leads);
        if !leads.told.replace(true) {
            let messages = &shared.args.messages;
            messages.say(match shared.args.leads_by_bpf() {
                true => Message::LedByBpf {
                    calls: CALLS_OF_ALL,
                },
                false => Message::Led { calls: CALLS },
            });
        }
        Ok(Stage::Open(stepped.into()))
    }

    /// Hooks a process that stands still for that.
    pub(super) fn changes_over(&mut self, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) {
        let Process::Stepped(stepped) = self else {
            return;
        };
        match stepped.stands() {
            None => {}
            Some(Stands::ForHooks) => self.is_hooked_now(shared, turn),
            Some(Stands::AtExec) => self.begins_again(shared, turn),
            Some(Stands::ForKernel { within }) => {
                let kernel = kernel(shared);
                stepped.goes_on_by_kernel(kernel, within);
            }
        }
    }

    /// Hooks it in the middle of its program.
    fn is_hooked_now(&mut self, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) {
        let Process::Stepped(stepped) = self else {
            return;
        };
        match Guest::taken_over(stepped.pid(), stepped.is_kept(), shared) {
            Ok(guest) => {
                stepped.is_handed_over();
                let former = std::mem::replace(self, guest.into());
                turn.observer.over(former, Over::Left);
            }
            Err(why) => {
                let (pid, why, refused) = (stepped.pid(), Some(why), None);
                let messages = &shared.args.messages;
                messages.say(Message::ByTracing { pid, why, refused });
                stepped.goes_on();
            }
        }
    }

    /// Begins with a program that is hooked from its first instruction on.
    fn begins_again(&mut self, shared: &Shared<'_>, turn: &mut Turn<'_, Self>) {
        let Process::Stepped(stepped) = self else {
            return;
        };
        let (pid, keep) = (stepped.pid(), stepped.is_kept());
        stepped.leave_kernel_at_exec(&mut |event| turn.tell(event));
        turn.observer.begins(pid);
        let begun = Tracee::again_at_exec(pid, keep);
        let begun = begun
            .and_then(|tracee| Process::at_exec(tracee, keep, shared).map_err(|(_, error)| error));
        match begun {
            Ok(Stage::Open(process)) => {
                stepped.is_handed_over();
                let former = std::mem::replace(self, process);
                turn.observer.over(former, Over::Replaced);
            }
            Ok(Stage::Plain(_) | Stage::Starting(..)) => {}
            Err(error) => {
                turn.observer.unwatched(pid, error);
                stepped.goes_on();
            }
        }
    }
}
