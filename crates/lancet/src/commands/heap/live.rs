//! The snapshot of a running process: made, its cost said, written to a file.

use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use dump::{Options, Taken};
use heap::Snapshot;
use inject::Image;

use crate::agent::AGENT;
use crate::ui::advice::explain;
use crate::ui::file::private_file;

/// Makes a snapshot of a process.
pub fn take(pid: i32, wanted: &Options) -> anyhow::Result<Snapshot> {
    let image = Image::parse(AGENT)?;
    let taken = dump::take(pid, &image, wanted).map_err(explain)?;
    say_cost(pid, &taken);
    Ok(taken.snapshot)
}

fn say_cost(pid: i32, taken: &Taken) {
    tell!(
        "process {pid} stood still for {:.1} ms to be copied; its copy lived for {:.2} s; {} objects, {} references, {} left out as garbage",
        milliseconds(taken.pause),
        taken.lived.as_secs_f64(),
        taken.snapshot.len(),
        taken.snapshot.edge_count(),
        taken.garbage,
    );
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Writes a snapshot to a file that only the user can read.
pub fn save(snapshot: &Snapshot, path: &Path) -> anyhow::Result<()> {
    let mut out = BufWriter::new(private_file(path)?);
    let written = snapshot.write(&mut out).and_then(|()| out.flush());
    written.with_context(|| format!("cannot write to {}", path.display()))
}
