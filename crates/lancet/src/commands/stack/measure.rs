//! Times the collections of a running process. Used by `live`.
//!
//! The agent that `lancet mem` puts in sets another hook here, on the collector's own events; nothing else is hooked.
//! It says how long each collection *marked*: that is where stacks are scanned. Sweeping is done later, in pieces, and
//! costs the same whatever lies on the stacks.

use std::time::{Duration, Instant};

use enter::CollectionTimer;
use inject::Image;
use report::stack::gc::Collections;

use crate::agent::AGENT;
use crate::ui::advice::explain;
use crate::ui::interrupt;

/// The time between two looks at what has been timed.
const LOOK: Duration = Duration::from_millis(20);

/// Times collections of process `pid`: those that happen, or those that it is made to do.
pub fn time(pid: i32, length: Duration, collect: Option<u32>) -> anyhow::Result<Collections> {
    interrupt::catch();
    let image = Image::parse(AGENT)?;
    let mut vm = enter::open_to_time(pid, &image).map_err(explain)?;
    let mut marked = Collections::default();
    let timed = match collect {
        Some(times) => ask(&mut *vm, times, &mut marked),
        None => wait(&mut *vm, length, &mut marked),
    };
    if vm.is_alive() {
        vm.leave().map_err(explain)?;
    }
    timed.map_err(explain)?;
    marked.minor.sort_unstable();
    marked.full.sort_unstable();
    Ok(marked)
}

/// Has the process collect all objects once, so that none is new, and then the young ones again and again: each of
/// these then finds the same.
fn ask(vm: &mut dyn CollectionTimer, times: u32, marked: &mut Collections) -> process::Result<()> {
    vm.collect(true)?;
    for _ in 0..times {
        if interrupt::asked() {
            break;
        }
        vm.collect(false)?;
        read(vm, marked)?;
    }
    read(vm, marked)
}

fn wait(
    vm: &mut dyn CollectionTimer,
    length: Duration,
    marked: &mut Collections,
) -> process::Result<()> {
    let end = Instant::now() + length;
    while Instant::now() < end && !interrupt::asked() {
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        read(vm, marked)?;
        if let Some(why) = vm.farewell()? {
            return Err(process::Error::Left { pid: vm.pid(), why });
        }
    }
    Ok(())
}

fn read(vm: &mut dyn CollectionTimer, marked: &mut Collections) -> process::Result<()> {
    for collection in vm.collections()? {
        let took = Duration::from_nanos(collection.nanos);
        match collection.full {
            0 => marked.minor.push(took),
            _ => marked.full.push(took),
        }
    }
    Ok(())
}
