//! What is said of a guest when its functions are hooked.

use super::Guest;
use crate::Message;
use hooks::Refused;
use std::collections::BTreeMap;
use std::time::Duration;

impl Guest {
    /// Says what was hooked when it was hooked first, and what could not be.
    pub(super) fn announce(&self, asked: usize, refused: &[Refused], took: Duration) {
        let tracing = &self.tracing;
        self.messages.say(Message::Hooked {
            pid: tracing.pid(),
            hooked: tracing.hooked(),
            asked,
            system_calls: tracing.system_calls(),
            took,
            stopped: tracing.timing().longest_stop,
        });
        self.say_refused(refused);
        self.say_awaited();
        self.say_no_lines();
    }

    /// Says why calls will have no script lines; a program that has just begun may still make a VM.
    pub(super) fn say_no_lines(&self) {
        if let Some(reason) = self.tracing.no_lines()
            && !self.tracing.awaits_script()
        {
            let reason = reason.to_string();
            self.messages.say(Message::NoScriptLines { reason });
        }
    }

    /// Says which functions were refused: one message a reason.
    pub(super) fn say_refused(&self, refused: &[Refused]) {
        let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for refused in refused {
            let names = by_reason.entry(&refused.reason).or_default();
            names.push(refused.function.name.clone());
        }
        for (reason, names) in by_reason {
            let reason = reason.to_owned();
            self.messages.say(Message::Refused { names, reason });
        }
    }
}
