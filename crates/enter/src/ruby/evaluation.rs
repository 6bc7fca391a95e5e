//! Makes an open guest evaluate Ruby.

use super::{Opening, Ruby};
use crate::interpreter::Interpreter;
use crate::script;
use inject::image::Image;
use process::error::Result;
use wire::{Purpose, Request};

impl Ruby {
    /// Opens a process to evaluate Ruby in it. Births are not watched.
    ///
    /// # Errors
    /// Those of [`Ruby::open`].
    pub fn open_for_evaluation(pid: i32, image: &Image) -> Result<Self> {
        Self::open(pid, image, Opening::plain(Purpose::Evaluation))
    }
}

impl Interpreter for Ruby {
    fn evaluate(&mut self, text: &str) -> Result<String> {
        script::write(&self.memory, &self.resident, text)?;
        self.ask(Request::Evaluate, 0, "evaluate a text")?;
        script::answer(&self.memory, &self.resident)
    }

    fn leave(mut self: Box<Self>) -> Result<()> {
        Ruby::leave(&mut self).map(drop)
    }
}
