//! The effect of one instruction on the registers. Used by `decode`.

use iced_x86::{Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register};

use super::value::{State, Value};

/// Applies instructions to states; keeps iced's factory that describes the rare ones.
#[derive(Default)]
pub(super) struct Effects {
    factory: Option<InstructionInfoFactory>,
}

impl Effects {
    /// Changes `state` to what holds after `instruction`, which is not a branch.
    pub(super) fn apply(&mut self, instruction: &Instruction, state: &mut State) {
        let target = instruction.op0_register();
        let to_register = instruction.op0_kind() == OpKind::Register;
        match instruction.mnemonic() {
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Nop | Mnemonic::Endbr64 => {}
            Mnemonic::Push | Mnemonic::Pushfq | Mnemonic::Pushf => {
                state.push(i64::from(
                    instruction.stack_pointer_increment().wrapping_neg(),
                ));
            }
            Mnemonic::Pop | Mnemonic::Popfq | Mnemonic::Popf => {
                state.set(
                    Register::RSP,
                    state
                        .stack()
                        .plus(i64::from(instruction.stack_pointer_increment())),
                );
                if to_register {
                    state.set(target, Value::Unknown);
                }
            }
            Mnemonic::Leave => {
                let frame = state.get(Register::RBP);
                state.set(Register::RSP, frame.plus(8));
                state.set(Register::RBP, Value::Unknown);
            }
            Mnemonic::Enter => {
                state.push(8);
                state.set(Register::RBP, state.stack());
                state.push(i64::from(instruction.immediate16()));
            }
            Mnemonic::Mov if to_register => {
                let value = match instruction.op1_kind() {
                    OpKind::Register if target.is_gpr64() => state.get(instruction.op1_register()),
                    OpKind::Memory => Value::Unknown,
                    // A 32-bit move clears the upper half.
                    _ if target.is_gpr32() => number(instruction)
                        .map_or(Value::Unknown, |number| {
                            Value::Constant(number & 0xffff_ffff)
                        }),
                    _ if target.is_gpr64() => {
                        number(instruction).map_or(Value::Unknown, Value::Constant)
                    }
                    _ => Value::Unknown,
                };
                state.set(target, value);
            }
            Mnemonic::Mov => {}
            Mnemonic::Lea => state.set(target, address(instruction, state)),
            Mnemonic::Add | Mnemonic::Sub if to_register => {
                let sign = if instruction.mnemonic() == Mnemonic::Sub {
                    -1
                } else {
                    1
                };
                let value = state.get(target);
                let amount = match instruction.op1_kind() {
                    OpKind::Register => match state.get(instruction.op1_register()) {
                        Value::Constant(number) => Some(number),
                        _ => None,
                    },
                    OpKind::Memory => None,
                    _ => number(instruction),
                };
                let result = match amount {
                    _ if !target.is_gpr64() => Value::Unknown,
                    Some(amount) => value.plus(amount.wrapping_mul(sign)),
                    None => value.moved(),
                };
                state.set(target, result);
            }
            Mnemonic::And if to_register && target.is_gpr64() => {
                let align = number(instruction)
                    .filter(|mask| *mask < 0)
                    .map(|mask| mask.wrapping_neg())
                    .filter(|align| align.count_ones() == 1 && *align > 0);
                let value = state.get(target);
                // An odd mask on a pointer into the stack takes an unknown amount.
                let result = align.map_or(value.moved(), |align| value.aligned(align));
                state.set(target, result);
            }
            Mnemonic::Xor if to_register && instruction.op1_kind() == OpKind::Register => {
                let same = target == instruction.op1_register();
                state.set(
                    target,
                    if same {
                        Value::Constant(0)
                    } else {
                        Value::Unknown
                    },
                );
            }
            Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Or
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
                if to_register =>
            {
                state.set(target, Value::Unknown);
            }
            _ => self.rare(instruction, state),
        }
    }

    /// After a rare instruction the registers that it writes are unknown.
    fn rare(&mut self, instruction: &Instruction, state: &mut State) {
        let vector_only = to_vector(instruction);
        if vector_only {
            return;
        }
        let factory = self.factory.get_or_insert_with(InstructionInfoFactory::new);
        for used in factory.info(instruction).used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            if writes {
                state.set(used.register(), Value::Unknown);
            }
        }
    }
}

/// Returns whether its only target is a vector register, so that no general register changes.
fn to_vector(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_vector_register()
}

/// Returns the address that a `lea` computes.
fn address(instruction: &Instruction, state: &State) -> Value {
    if !instruction.op0_register().is_gpr64() {
        return Value::Unknown;
    }
    let base = match instruction.memory_base() {
        Register::RIP | Register::EIP => return Value::Unknown,
        Register::None => Value::Constant(0),
        base => state.get(base),
    };
    let displacement = instruction.memory_displacement64().cast_signed();
    let scale = i64::from(instruction.memory_index_scale());
    let index = match instruction.memory_index() {
        Register::None => Value::Constant(0),
        index => state.get(index),
    };
    match (base, index) {
        (base, Value::Constant(number)) => base.plus(number.wrapping_mul(scale)).plus(displacement),
        (Value::Constant(number), index) if scale == 1 => index.plus(number).plus(displacement),
        (base, _) => base.plus(displacement).moved(),
    }
}

/// Returns the last operand, if it is a number.
fn number(instruction: &Instruction) -> Option<i64> {
    let last = instruction.op_count().checked_sub(1)?;
    instruction.try_immediate(last).ok().map(u64::cast_signed)
}
