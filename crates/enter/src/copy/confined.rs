//! Runs code of the process in a copy of it that is confined by seccomp (`agent::snapshot::confined`), and ends the copy
//! afterwards. Used by `dump::compaction` and `dump::allocator`.

use crate::copy::{Copy, ENDED};
use process::error::Result;
use process::maps::Maps;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::snapshot::{Opened, Stage};

/// Time between two looks at the copy's stage.
const LOOK: Duration = Duration::from_millis(1);

/// The result of running code in a copy.
pub enum Outcome {
    /// The copy has reached the expected stage.
    Done,
    /// The copy could not be confined, or the code has failed.
    Refused,
    /// The copy has ended; the text says why that may be.
    Ended(String),
    /// The copy did not reach the stage in time.
    Late,
}

/// Starts the copy's work and waits until it has reached the stage `wanted`.
///
/// # Errors
/// The list of mappings shared with other processes cannot be read, or is too long.
pub fn run(copy: &Copy, what: Opened, wanted: Stage, patience: Duration) -> Result<Outcome> {
    copy.tell_shared(&shared(copy.pid())?)?;
    copy.begin(what)?;
    let until = Instant::now() + patience;
    loop {
        process::stop::poll_stragglers();
        let stage = copy.stage();
        if copy.has_ended() {
            return Ok(Outcome::Ended(ENDED.trim_start_matches("it ").to_owned()));
        }
        match stage? {
            stage if stage == wanted as u32 => return Ok(Outcome::Done),
            stage if stage == Stage::Refused as u32 => return Ok(Outcome::Refused),
            _ if Instant::now() > until => return Ok(Outcome::Late),
            _ => sleep(LOOK),
        }
    }
}

/// Address and bytes of each writable mapping that the copy shares with other processes.
fn shared(pid: i32) -> Result<Vec<[u64; 2]>> {
    let maps = Maps::of(pid)?;
    let mappings = maps.iter().filter(|mapping| {
        let permissions = mapping.permissions;
        permissions.shared && permissions.write
    });
    Ok(mappings
        .map(|mapping| [mapping.start, mapping.size()])
        .collect())
}
