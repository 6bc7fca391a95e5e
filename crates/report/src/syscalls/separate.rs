//! Lines of each thread in a file of its own (`-ff -o FILE`). Used by `lancet::commands::syscalls::args`.

use super::{Layout, Lines, Naming};
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::{Event, EventKind};
use calls::signatures::Signatures;
use std::collections::HashMap;
use std::io::{self, Write};

/// Makes the output of a thread.
pub type Outputs<'a> = Box<dyn Fn(u32) -> io::Result<Box<dyn Write>> + 'a>;

/// Writes the lines of each thread into a file of its own.
pub struct Separate<'a> {
    layout: Layout,
    signatures: &'a Signatures,
    naming: Naming,
    outputs: Outputs<'a>,
    threads: HashMap<u32, Lines<'a>>,
}

impl<'a> Separate<'a> {
    /// Makes it; no thread is known yet.
    #[must_use]
    pub fn new(
        layout: Layout,
        signatures: &'a Signatures,
        naming: Naming,
        outputs: Outputs<'a>,
    ) -> Self {
        Separate {
            layout,
            signatures,
            naming,
            outputs,
            threads: HashMap::new(),
        }
    }
}

impl Consumer for Separate<'_> {
    fn take(&mut self, event: Event) -> io::Result<()> {
        let thread = match event.kind {
            // What is known of descriptors is shared, and no line is written.
            EventKind::Opened(_) => {
                self.naming.opened(event.at.process);
                return Ok(());
            }
            EventKind::Ended(_) => event.at.process as u32,
            _ => event.at.tid,
        };
        if !self.threads.contains_key(&thread) {
            let out = (self.outputs)(thread)?;
            let lines = Lines::new(
                self.layout.clone(),
                self.signatures,
                self.naming.clone(),
                out,
            );
            self.threads.insert(thread, lines);
        }
        match self.threads.get_mut(&thread) {
            Some(lines) => lines.take(event),
            None => Ok(()),
        }
    }

    fn rest(&mut self) -> io::Result<()> {
        self.threads.values_mut().try_for_each(Lines::rest)
    }

    fn forgotten(&self) -> Forgotten {
        self.threads.values().map(Consumer::forgotten).sum()
    }

    fn finish(&mut self, _: SourceEnd) -> io::Result<()> {
        let mut threads = self.threads.values_mut();
        threads.try_for_each(|lines| lines.finish(SourceEnd::default()))
    }
}
