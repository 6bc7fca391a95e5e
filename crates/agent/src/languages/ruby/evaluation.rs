//! Makes the VM evaluate the command's text ([`SCRIPT`]). Used by `jobs`.

use super::births::agent::AGENT;
use crate::scripts::copy;
use crate::shared::SCRIPT;
use wire::Reply;
use wire::script::Outcome;

/// Evaluates the text as Ruby. The VM's lock is held, at a safe point.
pub fn evaluate() -> Reply {
    // SAFETY: the VM's lock is held, under which alone the agent and the text are used. The text is read no more when its answer is written.
    let (agent, text) = unsafe { (&mut *(&raw mut AGENT), &*(&raw const SCRIPT.text)) };
    // SAFETY: the VM's lock is held, at a safe point, as `evaluate` requires; the command has ended the text with a zero.
    let value = unsafe { agent.vm.evaluate(text) };
    let outcome = match (value, agent.names.reader()) {
        (None, _) => Outcome::Raised,
        (Some(_), None) => Outcome::Unreadable,
        (Some(value), Some(reader)) => match reader.text(value) {
            // Nothing is allocated meanwhile, so the string still exists.
            // SAFETY: the VM's lock is held, and the text has been evaluated.
            Ok(text) => unsafe { copy(text.address, text.len) },
            Err(_) => Outcome::Unreadable,
        },
    };
    // SAFETY: the VM's lock is held; the command reads the word only after the answer to the request.
    unsafe { (&raw mut SCRIPT.outcome).write(outcome as u64) };
    Reply::Done
}
