//! Which instructions around a probe's nop are stolen.

use alloc::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::pads::crosses_page;
use crate::plan::{Function, Options, Patch, ends, movable};
use crate::refusal::Refusal;
use crate::relocate::Relocated;
use crate::stub::{Destination, Stub, long_jump, probe};
use crate::targets::Targets;

/// A probe that can be hooked.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// The nop.
    pub site: u64,
    /// Where the patch begins: the nop, or before it.
    pub patch_at: u64,
    bytes: [u8; 5],
    before: Relocated,
    after: Relocated,
}

/// Decides how the probe at `site` is hooked, an address within `function` (or behind any place where an instruction is known
/// to begin: the function is decoded from its entry on).
///
/// # Errors
/// What could not be proven.
pub fn plan(
    function: &Function<'_>,
    site: u64,
    targets: &Targets,
    options: Options,
) -> Result<ProbePlan, Refusal> {
    let decoder = Decoder::with_ip(64, function.code, function.entry, DecoderOptions::NONE);
    let mut near: Vec<Instruction> = Vec::new();
    for instruction in decoder {
        // Five bytes on both sides of the nop.
        if instruction.ip() >= site + 6 {
            break;
        }
        if instruction.next_ip() + 5 > site {
            near.push(instruction);
        }
    }
    let nop = near
        .iter()
        .position(|instruction| instruction.ip() == site && instruction.mnemonic() == Mnemonic::Nop)
        .ok_or(Refusal::Undecodable)?;
    let mut first = Refusal::TooShort;
    for start in (0..=nop).rev() {
        match steal(function, &near[start..], nop - start, targets, options) {
            Ok(plan) => return Ok(plan),
            Err(refusal) if start == nop => first = refusal,
            Err(_) => {}
        }
    }
    Err(first)
}

fn steal(
    function: &Function<'_>,
    near: &[Instruction],
    nop: usize,
    targets: &Targets,
    options: Options,
) -> Result<ProbePlan, Refusal> {
    let at = near.first().ok_or(Refusal::TooShort)?.ip();
    let (mut length, mut count, mut ended) = (0, 0, false);
    while length < 5 || count <= nop {
        let Some(instruction) = near.get(count).filter(|_| !ended) else {
            return Err(Refusal::TooShort);
        };
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable);
        }
        if count < nop && instruction.flow_control() != FlowControl::Next {
            return Err(Refusal::Immovable);
        }
        length += instruction.len();
        movable(instruction, length, 5)?;
        if instruction.mnemonic() == Mnemonic::Call && options.shadow_stack {
            return Err(Refusal::ShadowStack);
        }
        ended = ends(instruction);
        count += 1;
    }
    if !targets.within(at + 1..at + 5).is_empty() || targets_the_nop(targets, at, near[nop].ip()) {
        return Err(Refusal::BranchInto);
    }
    if crosses_page(at, 5) {
        return Err(Refusal::PageCrossing);
    }
    let offset = (at - function.entry) as usize;
    let bytes = function.code.get(offset..).and_then(<[u8]>::first_chunk);
    Ok(ProbePlan {
        site: near[nop].ip(),
        patch_at: at,
        bytes: *bytes.ok_or(Refusal::TooShort)?,
        before: Relocated::of(&near[..nop], false)?,
        after: Relocated::of(&near[nop..count], !ended)?,
    })
}

/// Whoever jumps straight to the nop would not be seen, where the patch begins before it and is longer than five bytes.
fn targets_the_nop(targets: &Targets, at: u64, nop: u64) -> bool {
    nop != at && !targets.within(nop..nop + 1).is_empty()
}

impl ProbePlan {
    /// The stub for address `at`; `to.routine` is `trampoline_probe`. It has no `original`: [`Stub::original`] is where it goes on
    /// behind the probe's routine.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the code refers to places more than 2 GiB from there.
    pub fn stub(&self, at: u64, to: Destination) -> Result<Stub, Refusal> {
        let whole = probe(&self.before, &self.after, to).ok_or(Refusal::Immovable)?;
        let encoded = whole.encode(at)?;
        let after = encoded.moves.iter().find(|(from, _)| *from == self.site);
        Ok(Stub {
            at,
            original: after.map_or(at, |(_, to)| *to),
            bytes: encoded.bytes,
            moves: encoded.moves,
        })
    }

    /// A stub of this plan is never longer.
    pub fn most(&self) -> usize {
        self.before.most() + self.after.most() + 6 * 16
    }

    /// What is written into the module.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the stub is more than 2 GiB away.
    pub fn patch(&self, stub: u64) -> Result<Patch, Refusal> {
        Ok(Patch {
            at: self.patch_at,
            old: self.bytes.to_vec(),
            new: long_jump(self.patch_at, stub)?,
        })
    }
}
