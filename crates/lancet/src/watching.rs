//! What the commands that watch calls have in common: they open guests, a program or a recording, hand its events to a
//! format or a recording until it is over, say what was lost, and leave.

pub mod args;
pub mod flags;
pub mod losses;
mod messages;
pub mod now;
mod repeated;
mod run;

pub use run::{LACKS, LOST_UNTIL_NOW, READY, run};

use args::Common;
use calls::consumer::Consumer;
use calls::message::Messages;
use calls::options::Options;
use calls::signatures::Signatures;
use report::forms::Form;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a command was asked for.
pub trait Asked {
    /// The flags that all these commands have.
    fn common(&self) -> &Common;

    /// What cannot be asked together, though each can: what is wrong.
    fn flaw(&self) -> Option<String>;

    /// What the library is to do; `messages` takes what it has to say.
    fn options(&self, messages: Messages) -> Options;

    /// Files with prototypes of the user's own.
    fn prototypes(&self) -> &[PathBuf];

    /// The recording to be shown, if that is what PROGRAM names.
    fn recording(&self) -> Option<&Path> {
        self.common().recording()
    }

    /// The file to record in.
    fn record(&self) -> Option<&Path> {
        self.common().record.as_deref()
    }

    /// The file to write to, instead of a standard stream.
    fn output(&self) -> Option<&Path> {
        self.common().output.as_deref()
    }

    /// How long to watch.
    fn watch_for(&self) -> Option<Duration> {
        self.common().watch_for
    }

    /// Whether events are shown, and not only recorded.
    fn shows(&self) -> bool;

    /// Whether a signal that has killed PROGRAM ends lancet too.
    fn ends_as_program(&self) -> bool {
        false
    }

    /// Whether our standard input and output are let go once PROGRAM has them, so that it alone decides when pipes end.
    fn lets_streams_go(&self) -> bool {
        false
    }

    /// Whether they are counted, and a table is shown at the end.
    fn counts(&self) -> bool;

    /// Whether everything is said about what is not seen, and at once.
    fn tells_all(&self) -> bool;

    /// What shows their records, of which the losses of the run are the last; `None`: they are shown as a text of the command's own.
    fn form(&self) -> Option<&'static Form>;

    /// Whether it is said that a process is seen by ptrace where nothing speaks against hooks.
    fn tells_tracing(&self) -> bool {
        true
    }

    /// Whether it is said that a process is left because it runs another program.
    fn tells_leaving(&self) -> bool {
        true
    }

    /// Whether it is said which processes are attached to and left, and a signal that ends lancet is the one it ends by: what
    /// scripts around strace wait for.
    fn ends_as_strace(&self) -> bool {
        false
    }

    /// Makes what shows events.
    fn consumer<'a>(
        &'a self,
        options: &Options,
        signatures: &'a Signatures,
        out: Box<dyn Write>,
    ) -> Box<dyn Consumer + 'a>;
}
