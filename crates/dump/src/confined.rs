//! A copy of a process that runs code of the process's, confined (`agent::snapshot::confined`), and is ended when that is done.

use crate::copy::{Copy, ENDED};
use process::error::Result;
use process::maps::Maps;
use std::thread::sleep;
use std::time::{Duration, Instant};
use wire::snapshot::{Opened, Stage};

/// Time between two looks at the copy's stage.
const LOOK: Duration = Duration::from_millis(1);

/// How such a copy has fared.
pub enum Outcome {
    /// It has come to the stage that was waited for.
    Done,
    /// It could not be confined, or what was run has failed.
    Refused,
    /// It has ended: why that may be.
    Ended(String),
    /// It had not come there in time.
    Late,
}

/// Has the copy begin, and waits until it has done.
///
/// # Errors
/// What it shares with others cannot be read, or there is too much of that.
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

/// Address and bytes of what the copy could change for others too.
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
