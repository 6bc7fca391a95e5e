//! Makes an open guest evaluate Ruby.

use super::{Options, Session};
use inject::image::Image;
use inject::script;
use process::error::Result;
use wire::{Purpose, Request};

impl Session {
    /// Opens a process to evaluate Ruby in it. Births are not watched.
    pub fn open_for_evaluation(pid: i32, image: &Image) -> Result<Self> {
        Self::open_for(pid, image, Options::NONE, Purpose::Evaluation, &[])
    }

    /// Evaluates this Ruby at a safe point of the VM, with its lock, and returns the string that results. The text must rescue all
    /// exceptions.
    ///
    /// # Errors
    /// The text is too long, it raised, or it evaluated to something else; or the guest did not come to a safe point, and the text
    /// will not be evaluated later.
    pub fn evaluate(&mut self, text: &str) -> Result<String> {
        script::write(&self.memory, &self.resident, text)?;
        self.ask(Request::Evaluate, 0, "evaluate a text")?;
        script::answer(&self.memory, &self.resident)
    }
}
