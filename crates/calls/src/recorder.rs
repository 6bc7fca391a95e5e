//! `--record`: writes calls into a file, and passes them on to the format that shows them, if there is one. Used by
//! `live::guest::recorded`, `live::guest::straight` and others here, and by crate `lancet`.
//!
//! There are two ways into the file, and both write it by [`Store`]. If nothing else is done with a call, its record goes from the ring
//! into the file as it is (`live::guest::straight`); a call that is shown too, or was read from another recording, comes as an [`Event`].

mod store;

use crate::consumer::{Consumer, Forgotten, SourceEnd};
use crate::event::Event;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;
pub use store::Store;

/// The destination of a recording. It may write in a thread of its own, so that nothing waits for a slow disk.
pub trait Destination: Write {
    /// Whether there is room for more events. If there is none in time, they are not written, and [`dropped`](Self::dropped) is called for
    /// each; what was written before stays valid.
    fn has_room(&mut self) -> bool;

    /// Notes that an event is not recorded.
    fn dropped(&mut self);
}

/// A file that is being recorded, shared by all that write to it.
pub type Recording = Rc<RefCell<Store>>;

/// A consumer that writes each event into the recording before it passes the event on. The losses, and the end of the file, are written
/// only by [`Consumer::finish`].
pub struct Recorder<'a> {
    store: Recording,
    next: Option<Box<dyn Consumer + 'a>>,
}

impl<'a> Recorder<'a> {
    /// Writes events to the file and hands them on.
    pub fn new(store: Recording, next: Option<Box<dyn Consumer + 'a>>) -> Self {
        Recorder { store, next }
    }
}

/// An error of the file, with its name.
pub fn not_recorded(path: &Path, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot write the recording {}: {error}; what was written before can be read",
        path.display()
    );
    io::Error::new(error.kind(), text)
}

impl Consumer for Recorder<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.store.borrow_mut().take(&event)?;
        match &mut self.next {
            Some(next) => next.take(event),
            None => Ok(()),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.store.borrow_mut().flush()?;
        match &mut self.next {
            Some(next) => next.rest(),
            None => Ok(()),
        }
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        self.store.borrow_mut().finish(&end)?;
        match &mut self.next {
            Some(next) => next.finish(end),
            None => Ok(()),
        }
    }

    fn forgotten(&self) -> Forgotten {
        self.next
            .as_ref()
            .map_or(Forgotten::default(), |next| next.forgotten())
    }
}
