//! `-c`: counts calls by function and script line, and has a format write the rows when nothing comes any more. Used by
//! `lancet::commands::syscalls::args` and `lancet::commands::calls::args`.

use super::Processes;
use super::format::{Counted, Format};
use crate::forms::Chosen;
use calls::consumer::{Consumer, Forgotten, SourceEnd};
use calls::event::Event;
use calls::summary::{Order, Rows};
use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

/// Collects rows and writes them when nothing comes any more.
pub struct Summary {
    processes: Processes,
    rows: Rows,
    /// The order that was asked for.
    order: Option<Order>,
    /// When what runs was begun to be watched; `None` = it was recorded.
    began: Option<(Instant, SystemTime)>,
    chosen: Chosen<Format>,
    out: Box<dyn Write>,
}

impl Summary {
    /// Adds events to `rows` and writes them at the end.
    pub fn new(
        rows: Rows,
        order: Option<Order>,
        chosen: Chosen<Format>,
        out: Box<dyn Write>,
    ) -> Self {
        Summary {
            processes: Processes::default(),
            rows,
            order,
            began: None,
            chosen,
            out,
        }
    }
}

impl Summary {
    /// Of what runs, from now on.
    pub fn live(self) -> Self {
        Summary {
            began: Some((Instant::now(), SystemTime::now())),
            ..self
        }
    }

    /// How long what is counted lasted: of a recording, from the first call to the last.
    fn lasted(&self) -> Duration {
        let watched = self.began.map(|(began, _)| began.elapsed());
        watched.or(self.rows.lasted()).unwrap_or_default()
    }
}

impl Consumer for Summary {
    fn take(&mut self, event: Event) -> io::Result<()> {
        self.processes.note(&event);
        self.rows.take(event);
        Ok(())
    }

    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self, end: SourceEnd) -> io::Result<()> {
        self.rows.finish(&end);
        let counted = Counted {
            processes: &self.processes,
            rows: &self.rows.sorted(self.order.unwrap_or_default()),
            order: self.order,
            are_noted: self.rows.are_noted(),
            began: self.began.map(|(_, at)| at),
            lasted: self.lasted(),
            unit: self.rows.unit(),
            still_open: self.rows.still_open(),
            not_freed: self.rows.not_freed(),
            end: &end,
            stacks: self.chosen.stacks(),
        };
        (self.chosen.format.counts)(&mut self.out, &counted)?;
        self.out.flush()
    }

    fn forgotten(&self) -> Forgotten {
        self.rows.forgotten()
    }
}
