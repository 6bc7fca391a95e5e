//! Handles stack clash protection: loops that touch each page on the way down. The frame's size follows from where
//! such a loop ends, not from its steps. Used by `decode`.

use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::{State, Value, Walk};

/// A probing loop's body: `sub`, a touch, perhaps a `lea`, then the comparison.
const PROBE_BODY: usize = 4;

impl Walk {
    /// Whether this `sub` is the step of a probing loop, which is accounted for by the loop's end.
    pub(super) fn is_probe(&self, at: usize) -> bool {
        let instruction = &self.instructions[at];
        if instruction.mnemonic() != Mnemonic::Sub
            || instruction.op0_register() != Register::RSP
            || !is_immediate(instruction)
        {
            return false;
        }
        let body = self.instructions[at + 1..].iter().take(PROBE_BODY);
        let compares = body.clone().position(compares_stack);
        let Some(after) = compares.map(|compares| at + 1 + compares + 1) else {
            return false;
        };
        self.instructions.get(after).is_some_and(|jump| {
            jump.is_jcc_short_or_near()
                && self
                    .index(jump.near_branch_target())
                    .is_some_and(|to| to <= at && at - to < PROBE_BODY)
        })
    }

    /// For the conditional branch at `at`, returns the value that rsp is compared with, if that is an address in the
    /// stack. Only loops that walk down the stack make such a comparison.
    pub(super) fn probing_loop(&self, at: usize, state: &State) -> Option<Value> {
        let compare = self.instructions.get(at.checked_sub(1)?)?;
        if !compares_stack(compare) {
            return None;
        }
        let other = match compare.op0_register() {
            Register::RSP => compare.op1_register(),
            other => other,
        };
        let limit = state.get(other);
        matches!(limit, Value::Cfa(_) | Value::Below(_)).then_some(limit)
    }

    /// Continues behind the loop, with rsp at its limit. The loop itself only touches pages.
    pub(super) fn leave_probing_loop(&mut self, at: usize, limit: Value, mut state: State) {
        self.depth.probed = true;
        let jump = self.instructions[at];
        state.set(Register::RSP, limit);
        if state.takes_dynamic() {
            self.depth.dynamic = true;
        }
        self.deep[at] = state.depth();
        let target = self.index(jump.near_branch_target());
        // The loop ends when they are equal; for other comparisons the forward path is the exit.
        let ends_by_jumping = match jump.mnemonic() {
            Mnemonic::Je => true,
            Mnemonic::Jne => false,
            _ => jump.near_branch_target() > jump.ip(),
        };
        if !ends_by_jumping {
            self.reach_next(at, &state);
            return;
        }
        // The test comes before the body, which is skipped up to its last jump.
        let body = self.instructions[at + 1..].iter().take(PROBE_BODY + 1);
        for (distance, instruction) in body.enumerate() {
            let inside = at + 1 + distance;
            if Some(inside) == target {
                break;
            }
            self.visits[inside] = self.visits[inside].max(1);
            if instruction.flow_control() != FlowControl::Next {
                break;
            }
        }
        if let Some(target) = target {
            self.reach(target, &state, Some(at));
        }
    }
}

/// Returns whether this is a `cmp` of rsp with another register.
fn compares_stack(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Cmp
        && instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && (instruction.op0_register() == Register::RSP)
            != (instruction.op1_register() == Register::RSP)
}

fn is_immediate(instruction: &Instruction) -> bool {
    matches!(
        instruction.op1_kind(),
        OpKind::Immediate8 | OpKind::Immediate8to64 | OpKind::Immediate32to64 | OpKind::Immediate32
    )
}
