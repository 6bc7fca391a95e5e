//! Having an open guest evaluate Ruby.

use super::{Options, Session};
use inject::image::Image;
use inject::script;
use process::error::Result;
use wire::{Purpose, Request};

impl Session {
    /// Opens a process to evaluate Ruby in it; nothing is watched.
    pub fn open_for_evaluation(pid: i32, image: &Image) -> Result<Self> {
        Self::open_for(pid, image, Options::NONE, Purpose::Evaluation, &[])
    }

    /// The string that this Ruby evaluates to, at a safe point of the VM, with its lock. Whatever it raises it must rescue.
    ///
    /// # Errors
    /// It is too long, it raised, or it evaluated to something else; or the guest did not come to a safe point, and it will not be
    /// evaluated any more.
    pub fn evaluate(&mut self, text: &str) -> Result<String> {
        script::write(&self.memory, &self.resident, text)?;
        self.ask(Request::Evaluate, 0, "evaluate a text")?;
        script::answer(&self.memory, &self.resident)
    }
}
