//! Makes an open guest evaluate Ruby.

use super::{Opening, VmSession};
use crate::{Interpreter, script};
use inject::image::Image;
use process::error::Result;
use wire::{Purpose, Request};

impl VmSession {
    /// Opens a process to evaluate Ruby in it. Births are not watched.
    ///
    /// # Errors
    /// Those of [`VmSession::open`].
    pub fn open_for_evaluation(pid: i32, image: &Image) -> Result<Self> {
        Self::open(pid, image, Opening::plain(Purpose::Evaluation))
    }
}

impl Interpreter for VmSession {
    fn evaluate(&mut self, text: &str) -> Result<String> {
        script::write(&self.memory, &self.resident, text)?;
        self.ask(Request::Evaluate, 0, "evaluate a text")?;
        script::answer(&self.memory, &self.resident)
    }

    fn leave(self: Box<Self>) -> Result<()> {
        VmSession::leave(*self).map(drop)
    }
}
