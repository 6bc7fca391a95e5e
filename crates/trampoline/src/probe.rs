//! Probes in mid-function: at a nop that was compiled in for them (`usdt`), and around a `syscall` instruction. Used by
//! crate `hooks`.
//!
//! Registers and flags are left alone (`stub.rs`). Which instructions are stolen depends on what the probe is for:
//!
//! ```text
//!   nop      [mov …] nop [mov …]        it and what follows; where somebody jumps to just behind it, what precedes it
//!   before   [mov $39,%eax] syscall     what precedes it. The instruction stays where it is: what the kernel knows of a thread by
//!                                       its address (a restart, a cancellation, unwinding rules) stays right
//!   from     syscall [cmp …; ja …]      the instruction behind the system call and what follows
//!   way back stub: […] [jmp back]       where a hook has moved what precedes the system call: the jump at its end
//! ```

use alloc::vec::Vec;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

use crate::inline::{self, Inline};
use crate::pads::{Pads, crosses_page, padding};
use crate::plan::{Function, Options, Patch, ends, movable};
use crate::refusal::Refusal;
use crate::relocate::Relocated;
use crate::stub::{Destination, Stub, asking, long_jump, probe, short_jump};
use crate::system_call::leavings;
use crate::targets::Targets;

/// What the probe's instruction is, and so which others may be stolen: the drawing in the module's documentation has an example of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A nop. It may be stolen, and so may the instructions before and behind it.
    Nop,
    /// The instruction stays where it is. Threads pass the probe just before it; only the instructions before it may be stolen.
    Before,
    /// The instruction may be stolen with those behind it; those before it stay where they are.
    From,
}

/// A probe that can be hooked.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    /// Address of the probe's instruction: the nop, the system call, or the instruction behind the system call.
    pub site: u64,
    /// Where the patch begins.
    pub patch_at: u64,
    /// Bytes from there on that the stub runs instead.
    pub stolen: usize,
    bytes: Vec<u8>,
    /// Where a short jump to padding stands at `patch_at`: the address of the padding, which holds the long jump, and the bytes that
    /// were there.
    pad: Option<(u64, [u8; 5])>,
    before: Relocated,
    after: Relocated,
    /// Limit of the bytes of its [inline](Inline) code; 0 = it may have none.
    inline_most: usize,
}

/// Decides how the probe at `site` is hooked. `site` is an address within `function`. The function is decoded from its entry on, so
/// instead of the entry any address will do at which an instruction is known to begin.
///
/// # Errors
/// Returns what could not be proven.
pub fn plan(
    function: &Function<'_>,
    site: u64,
    spot: Spot,
    targets: &Targets,
    pads: &mut Pads,
    options: Options,
) -> Result<ProbePlan, Refusal> {
    let decoder = Decoder::with_ip(64, function.code, function.entry, DecoderOptions::NONE);
    let mut near: Vec<Instruction> = Vec::new();
    for instruction in decoder {
        // The patch can cover at most five bytes before the probe's instruction and five behind its beginning.
        if instruction.ip() >= site + 6 {
            break;
        }
        if instruction.next_ip() + 5 > site {
            near.push(instruction);
        }
    }
    let at = near
        .iter()
        .position(|instruction| {
            instruction.ip() == site
                && (spot != Spot::Nop || instruction.mnemonic() == Mnemonic::Nop)
        })
        .ok_or(Refusal::Undecodable)?;
    let around = Around {
        function,
        near: &near,
        at,
        targets,
        options,
    };
    let starts = match spot {
        Spot::Nop => 0..at + 1,
        Spot::Before => 0..at,
        Spot::From => at..at + 1,
    };
    let behind = match spot {
        Spot::Nop => None,
        Spot::Before => Some(near[at].next_ip()),
        Spot::From => Some(site),
    };
    let may_inline = behind.is_some_and(|next| {
        near[at].mnemonic() != Mnemonic::Call
            && leavings::are_free(function.code, function.entry, next)
    });
    let inline_most = match spot {
        _ if !may_inline => 0,
        Spot::From => inline::MOST_BEHIND,
        _ => inline::MOST_BEFORE,
    };
    let nearest = starts.end.saturating_sub(1);
    let mut first = Refusal::TooShort;
    for width in [5, 2] {
        for start in starts.clone().rev() {
            let stolen = match spot {
                Spot::Before => around.steal_before(start, width),
                Spot::Nop | Spot::From => around.steal(start, width),
            };
            match stolen.and_then(|plan| plan.take(width, pads)) {
                Ok(plan) if width == 5 => {
                    return Ok(ProbePlan {
                        inline_most,
                        ..plan
                    });
                }
                Ok(plan) => {
                    if let Some(pad) = pads.take_near(plan.patch_at) {
                        return Ok(ProbePlan {
                            pad: Some(pad),
                            inline_most,
                            ..plan
                        });
                    }
                }
                // Another start may give a better reason than this one.
                Err(Refusal::TooShort) if spot == Spot::Before => {}
                Err(refusal) if width == 5 && (start == nearest || first == Refusal::TooShort) => {
                    first = refusal;
                }
                Err(_) => {}
            }
        }
    }
    Err(first)
}

/// The instructions around a probe's instruction.
struct Around<'a> {
    function: &'a Function<'a>,
    near: &'a [Instruction],
    /// Index in `near` of the probe's instruction.
    at: usize,
    targets: &'a Targets,
    options: Options,
}

impl Around<'_> {
    fn code_from(&self, at: u64) -> &[u8] {
        let offset = (at - self.function.entry) as usize;
        self.function.code.get(offset..).unwrap_or_default()
    }

    /// Steals the instructions from index `start` up to the probe's own, which stays.
    fn steal_before(&self, start: usize, width: usize) -> Result<ProbePlan, Refusal> {
        let stolen = &self.near[start..self.at];
        let site = self.near[self.at].ip();
        let at = stolen.first().ok_or(Refusal::TooShort)?.ip();
        if stolen.iter().any(Instruction::is_invalid) {
            return Err(Refusal::Undecodable);
        }
        if stolen
            .iter()
            .any(|instruction| instruction.flow_control() != FlowControl::Next)
        {
            return Err(Refusal::Immovable);
        }
        let length = (site - at) as usize;
        if length < width {
            return Err(Refusal::TooShort);
        }
        // A thread that jumps to the instruction itself would not pass the probe.
        if !self.targets.within(at + 1..site + 1).is_empty() {
            return Err(Refusal::BranchInto);
        }
        if crosses_page(at, width as u64) {
            return Err(Refusal::PageCrossing);
        }
        Ok(ProbePlan {
            site,
            patch_at: at,
            stolen: length,
            bytes: self.code_from(at)[..width].to_vec(),
            pad: None,
            inline_most: 0,
            before: Relocated::of(stolen, false)?,
            after: Relocated::way_to(site)?,
        })
    }

    /// Steals the instructions from index `start` on, the probe's own included.
    fn steal(&self, start: usize, width: usize) -> Result<ProbePlan, Refusal> {
        let (near, nop) = (&self.near[start..], self.at - start);
        let at = near.first().ok_or(Refusal::TooShort)?.ip();
        let code = self.code_from(at);
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
            if instruction.mnemonic() == Mnemonic::Call && self.options.shadow_stack {
                return Err(Refusal::ShadowStack);
            }
            ended = ends(instruction);
            count += 1;
        }
        if !self.targets.within(at + 1..at + width as u64).is_empty()
            || targets_the_nop(self.targets, at, near[nop].ip())
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
            inline_most: 0,
            before: Relocated::of(&near[..nop], false)?,
            after: Relocated::of(&near[nop..count], !ended)?,
        })
    }
}

/// Whether code jumps straight to the nop although the patch begins before it: such a thread would not pass the probe.
fn targets_the_nop(targets: &Targets, at: u64, nop: u64) -> bool {
    nop != at && !targets.within(nop..nop + 1).is_empty()
}

impl ProbePlan {
    /// Takes the padding that the patch needs. Refuses if another hook has taken it.
    fn take(self, width: usize, pads: &mut Pads) -> Result<Self, Refusal> {
        let end = self.patch_at + width as u64;
        let stolen = self.patch_at + self.stolen as u64;
        if stolen >= end || pads.take(stolen..end) {
            Ok(self)
        } else {
            Err(Refusal::TooShort)
        }
    }

    /// The probe of a system call at `site` whose preceding instructions already run in a hook's stub: there they end, at `at`, with a
    /// jump back to `site`, which the probe replaces. `None` if there is no such jump.
    pub fn on_way_back(stub: &[u8], at: u64, site: u64) -> Option<Self> {
        let mut decoder = Decoder::with_ip(64, stub, at, DecoderOptions::NONE);
        let back = decoder.iter().find(|instruction| {
            instruction.code() == iced_x86::Code::Jmp_rel32_64
                && instruction.near_branch_target() == site
        })?;
        let offset = (back.ip() - at) as usize;
        if crosses_page(back.ip(), 5) {
            return None;
        }
        Some(ProbePlan {
            site,
            patch_at: back.ip(),
            stolen: back.len(),
            bytes: stub.get(offset..offset + 5)?.to_vec(),
            pad: None,
            inline_most: 0,
            before: Relocated::of(&[], false).ok()?,
            after: Relocated::way_to(site).ok()?,
        })
    }

    /// Makes the stub for address `at`; `to.routine` is `trampoline_probe`. With `inline` the stub does the work by itself, if it
    /// [may](Self::may_inline). [`Stub::original`] is the address where it goes on behind the probe's routine, because a probe has no
    /// original function.
    ///
    /// # Errors
    /// [`Refusal::OutOfReach`], if the code refers to places more than 2 GiB from there.
    pub fn stub(&self, at: u64, to: Destination, inline: Option<Inline>) -> Result<Stub, Refusal> {
        let inline = inline.filter(|_| self.may_inline());
        let made = match inline {
            None => asking(to),
            Some(inline) => inline.code(to).ok(),
        };
        let whole = probe(&self.before, &self.after, &made.ok_or(Refusal::Immovable)?);
        let encoded = whole.encode(at)?;
        let after = encoded.moves.iter().find(|(from, _)| *from == self.site);
        Ok(Stub {
            at,
            original: after.map_or(at, |(_, to)| *to),
            bytes: encoded.bytes,
            moves: encoded.moves,
        })
    }

    /// Whether no code reads what the system call leaves in rcx, r11 and the flags, so that its stub may do the work [inline](Inline).
    pub fn may_inline(&self) -> bool {
        self.inline_most != 0
    }

    /// Returns the largest number of bytes that a stub of this plan has.
    pub fn most(&self, inline: bool) -> usize {
        let own = if inline && self.may_inline() {
            self.inline_most
        } else {
            6 * 16
        };
        self.before.most() + self.after.most() + own
    }

    /// Returns the patches to the module, in the order in which they must be written.
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
