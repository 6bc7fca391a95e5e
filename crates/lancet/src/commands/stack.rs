//! `lancet stack`: what is on the stack, and how many bytes is each frame?
//!
//! | module | for |
//! |---|---|
//! | [`live`] | a running process: stopped, copied, shown |
//! | [`listing`] | its stacks for people and for programs |
//! | [`repeats`] | rows that come again and again, told once |
//! | [`advice`] | what the stacks cost each collection |
//! | [`measure`] | what collections take, timed in the process |
//! | [`fold`] | many looks, folded |
//! | [`disk`] | files: which, read, merged |
//! | [`gem`] | the compiled extensions of a gem |
//! | [`table`] | the ranking for people |
//! | [`json`] | the same for programs |

mod advice;
mod disk;
mod fold;
mod gem;
mod json;
mod listing;
mod live;
mod measure;
mod repeats;
mod table;

use frames::live::core::Core;

use super::{EXCEEDED, LOST};
use crate::cli::StackArgs;
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Shows the stacks of processes, or ranks the frames of files.
pub fn run(args: StackArgs) -> anyhow::Result<u8> {
    if !args.pids.is_empty() {
        return live::run(&args);
    }
    let cores = args.files.iter().filter(|path| Core::is_one(path)).count();
    if cores > 0 {
        if cores < args.files.len() || !args.gems.is_empty() || args.process.is_some() {
            anyhow::bail!("cores and other files together: name the core files alone");
        }
        return live::cores(&args);
    }
    if args.gc {
        anyhow::bail!("--gc is about stacks: name a process (-p PID) or a core file");
    }
    if args.fibers {
        anyhow::bail!("--fibers is about stacks: name a process (-p PID) or a core file");
    }
    let ranking = disk::rank(&args)?;
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    match args.json {
        true => json::write(&mut sink.out, &ranking)?,
        false => table::write(&mut sink, &ranking)?,
    }
    sink.out.flush()?;
    for (what, why) in &ranking.refused {
        eprintln!("lancet: {}: {why}", what.display());
    }
    if let Some(max) = args.max
        && ranking.larger > 0
    {
        let frames = export::figures::plural(ranking.larger, "frame is", "frames are");
        eprintln!(
            "lancet: {} {frames} larger than {max} bytes",
            ranking.larger
        );
        return Ok(EXCEEDED);
    }
    Ok(if ranking.refused.is_empty() { 0 } else { LOST })
}
