//! Decides from the targets what is meant: running processes, core files, or files to be ranked.

use frames::live::core::Core;
use report::stack::ranking::{json, table};

use super::{StackArgs, files, live};
use crate::exit::{EXCEEDED, LOST};
use crate::ui::sink::Sink;
use crate::ui::terminal::Stream;

/// Runs `lancet stack` and returns the exit code.
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
    let ranking = files::rank(&args)?;
    let mut sink = Sink::open(args.output.as_deref(), Stream::Stdout)?;
    if args.json {
        json::write(&mut sink.out, &ranking)?;
    } else {
        table::write(&mut sink.out, &ranking)?;
    }
    sink.out.flush()?;
    for (what, why) in &ranking.refused {
        tell!("{}: {why}", what.display());
    }
    if let Some(max) = args.max
        && ranking.larger > 0
    {
        let frames = report::figures::plural(ranking.larger, "frame is", "frames are");
        tell!("{} {frames} larger than {max} bytes", ranking.larger);
        return Ok(EXCEEDED);
    }
    Ok(if ranking.refused.is_empty() { 0 } else { LOST })
}
