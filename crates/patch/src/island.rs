//! The page of code near a function: the jump to the new function, and the function as it was. Used by `finder`, `load`
//! and `apply`.

use crate::error::{Error, Result};
use crate::planned::Planned;
use inject::remote_call::RemoteThread;
use process::limits;
use trampoline::{Stub, Until};

const PAGE: u64 = wire::PAGE as u64;

/// Maps a page of code in reach of a function.
pub(crate) fn map_near(remote: &mut RemoteThread, one: &Planned) -> Result<u64> {
    let code = one.function.address..one.function.address + one.code.len() as u64;
    let pid = remote.pid();
    hooks::map_near(remote, code, PAGE)?.ok_or_else(|| {
        let limit = limits::forbids_mapping(pid, PAGE);
        let why = limit.unwrap_or_else(|| "no free addresses within 2 GiB of it".into());
        refused(one, why)
    })
}

/// The code of an island at this address.
pub(crate) fn stub(
    one: &Planned,
    island: u64,
    replacement: u64,
    until: Option<u64>,
) -> Result<Stub> {
    let stub = one.plan.replacement(island, replacement, until.map(Until));
    let stub = stub.map_err(|refusal| refused(one, refusal.to_string()))?;
    if stub.bytes.len() as u64 > PAGE {
        return Err(refused(
            one,
            "its first instructions take too much room elsewhere".into(),
        ));
    }
    Ok(stub)
}

/// Where the jump to an island is written, what stands there, and the jump.
pub(crate) fn patch(one: &Planned, island: u64) -> Result<(u64, [u8; 5], [u8; 5])> {
    let patches = one.plan.patches(island);
    let patches = patches.map_err(|refusal| refused(one, refusal.to_string()))?;
    let five = |bytes: &[u8]| <[u8; 5]>::try_from(bytes).ok();
    let only = patches.first().filter(|_| patches.len() == 1);
    only.and_then(|patch| Some((patch.at, five(&patch.old)?, five(&patch.new)?)))
        .ok_or_else(|| refused(one, "it is too short for a jump of five bytes".into()))
}

fn refused(one: &Planned, reason: String) -> Error {
    Error::Function {
        function: one.request.shown(),
        reason,
    }
}
