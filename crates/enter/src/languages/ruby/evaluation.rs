//! Makes an open guest evaluate Ruby. Used by `entry`.

use super::Ruby;
use crate::interpreter::Interpreter;
use crate::opening::Opening;
use crate::script;
use inject::image::Image;
use process::error::Result;
use wire::{Purpose, Request};

/// Opens a process to evaluate Ruby in it. Births are not watched.
pub fn open(pid: i32, image: &Image) -> Result<Box<dyn Interpreter>> {
    let opening = Opening::plain(Purpose::Evaluation);
    Ok(Box::new(Ruby::open(pid, image, opening)?))
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
