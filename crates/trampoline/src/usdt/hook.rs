//! Which instructions around a probe's nop are stolen.

use alloc::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::pads::{Pads, crosses_page, padding};
use crate::plan::{Function, Options, Patch, ends, movable};
use crate::refusal::Refusal;
use crate::relocate::Relocated;
use crate::stub::{Destination, Stub, long_jump, probe, short_jump};
use crate::targets::Targets;

/// A probe that can be hooked.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// The nop.
    pub site: u64,
    /// Where the patch begins: the nop, or before it.
    pub patch_at: u64,
    /// Bytes from there on that the stub runs in their place.
    pub stolen: usize,
    bytes: Vec<u8>,
    /// A short jump stands at `patch_at`, and the long one here; and what stood here.
    pad: Option<(u64, [u8; 5])>,
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
    pads: &mut Pads,
    options: Options,
) -> Result<ProbePlan, Refusal> {
    let offset = site.checked_sub(function.entry).map(|at| at as usize);
    let there = offset.and_then(|offset| function.code.get(offset..));
    let there = there.ok_or(Refusal::Undecodable)?;
    let there = Decoder::with_ip(64, there, site, DecoderOptions::NONE).decode();
    match there.mnemonic() {
        Mnemonic::Nop => plan_before(function, site, targets, pads, options),
        _ => Err(Refusal::Undecodable),
    }
}

/// The same for any instruction: what is told is how things are before it.
///
/// # Errors
/// What could not be proven.
pub fn plan_before(
    function: &Function<'_>,
    site: u64,
    targets: &Targets,
    pads: &mut Pads,
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
        .position(|instruction| instruction.ip() == site)
        .ok_or(Refusal::Undecodable)?;
    let mut first = Refusal::TooShort;
    for width in [5, 2] {
        for start in (0..=nop).rev() {
            match steal(
                function,
                &near[start..],
                nop - start,
                width,
                targets,
                options,
            ) {
                Ok(plan) if width == 5 => return Ok(plan),
                Ok(plan) => {
                    if let Some(pad) = pads.take_near(plan.patch_at) {
                        return Ok(ProbePlan {
                            pad: Some(pad),
                            ..plan
                        });
                    }
                }
                Err(refusal) if start == nop && width == 5 => first = refusal,
                Err(_) => {}
            }
        }
    }
    Err(first)
}

fn steal(
    function: &Function<'_>,
    near: &[Instruction],
    nop: usize,
    width: usize,
    targets: &Targets,
    options: Options,
) -> Result<ProbePlan, Refusal> {
    let at = near.first().ok_or(Refusal::TooShort)?.ip();
    let offset = (at - function.entry) as usize;
    let code = function.code.get(offset..).unwrap_or_default();
    let (mut length, mut count, mut ended) = (0, 0, false);
    while length < width || count <= nop {
        if ended {
            let rest = code.get(length..).unwrap_or_default();
            if count > nop && length + padding(rest, at + length as u64) >= width {
                break;
            }
            return Err(Refusal::TooShort);
        }
        let instruction = near.get(count).ok_or(Refusal::TooShort)?;
        if instruction.is_invalid() {
            return Err(Refusal::Undecodable);
        }
        if count < nop && instruction.flow_control() != FlowControl::Next {
            return Err(Refusal::Immovable);
        }
        length += instruction.len();
        movable(instruction, length, width)?;
        if instruction.mnemonic() == Mnemonic::Call && options.shadow_stack {
            return Err(Refusal::ShadowStack);
        }
        ended = ends(instruction);
        count += 1;
    }
    if !targets.within(at + 1..at + width as u64).is_empty()
        || targets_the_nop(targets, at, near[nop].ip())
    {
        return Err(Refusal::BranchInto);
    }
    if crosses_page(at, width as u64) {
        return Err(Refusal::PageCrossing);
    }
    Ok(ProbePlan {
        site: near[nop].ip(),
        patch_at: at,
        stolen: length,
        bytes: code.get(..width).ok_or(Refusal::TooShort)?.to_vec(),
        pad: None,
        before: Relocated::of(&near[..nop], false)?,
        after: Relocated::of(&near[nop..count], !ended)?,
    })
}

/// Whoever jumps straight to the nop would not be seen, where the patch begins before it and ends before it.
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

    /// What is written into the module, in this order.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the stub is more than 2 GiB away.
    pub fn patches(&self, stub: u64) -> Result<Vec<Patch>, Refusal> {
        let patch = |at, old: &[u8], new| Patch {
            at,
            old: old.to_vec(),
            new,
        };
        let at = self.patch_at;
        Ok(match self.pad {
            None => alloc::vec![patch(at, &self.bytes, long_jump(at, stub)?)],
            Some((pad, was)) => alloc::vec![
                patch(pad, &was, long_jump(pad, stub)?),
                patch(at, &self.bytes, short_jump(at, pad)),
            ],
        })
    }
}
