//! What shows calls one by one: as records, as lines, in files for threads; and whether lines have colours. Used by `args`.

use super::args::SyscallsArgs;
use super::separate;
use super::shown::Colours;
use crate::ui::terminal::Stream;
use calls::consumer::Consumer;
use calls::signatures::Signatures;
use report::syscalls::{Coloured, Json, Lines, Naming, Palette, Separate};
use std::io::Write;

impl SyscallsArgs {
    /// What shows calls one by one.
    pub(super) fn lines<'a>(
        &'a self,
        signatures: &'a Signatures,
        naming: Naming,
        out: Box<dyn Write>,
    ) -> Box<dyn Consumer + 'a> {
        let layout = self.layout();
        if self.has_records() {
            return Box::new(Json::new(layout, signatures, naming, out));
        }
        match self.common.output.as_deref().filter(|_| self.is_separate()) {
            Some(path) => {
                let output = move |thread| Ok(self.coloured(separate::output(path, thread)?));
                Box::new(Separate::new(layout, signatures, naming, Box::new(output)))
            }
            None => {
                let out = self.coloured(out);
                Box::new(Lines::new(layout, signatures, naming, out))
            }
        }
    }

    /// The output, of lines in colours where these are asked for.
    fn coloured(&self, out: Box<dyn Write>) -> Box<dyn Write> {
        let are_welcome = || {
            let to_terminal = self.common.output.is_none();
            to_terminal && Stream::beside(&self.common.program).style().color
        };
        let has_colours = match self.shown.color {
            Colours::Auto => are_welcome(),
            Colours::Always => true,
            Colours::Never => false,
        };
        let custom = || std::env::var("STRACE_COLORS").unwrap_or_default();
        match has_colours {
            true => Box::new(Coloured::new(Palette::new(&custom()), out)),
            false => out,
        }
    }
}
