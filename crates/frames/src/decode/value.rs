//! What is known of the registers at one point of a function. Used by `decode`, `effect` and `probe`.

use iced_x86::Register;

/// What is known of one register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// Nothing is known of the register.
    Unknown,
    /// The CFA plus this many bytes, modulo 2^64.
    Cfa(i64),
    /// The CFA plus this, minus an amount that the code does not show.
    Below(i64),
    /// A number that does not depend on the stack.
    Constant(i64),
}

impl Value {
    /// Returns the value after a known amount was added.
    pub(crate) fn plus(self, amount: i64) -> Value {
        match self {
            Value::Unknown => Value::Unknown,
            Value::Cfa(at) => Value::Cfa(at.wrapping_add(amount)),
            Value::Below(at) => Value::Below(at.wrapping_add(amount)),
            Value::Constant(number) => Value::Constant(number.wrapping_add(amount)),
        }
    }

    /// Returns the value after an unknown amount was added or subtracted.
    pub(crate) fn moved(self) -> Value {
        match self {
            Value::Cfa(at) | Value::Below(at) => Value::Below(at),
            Value::Unknown | Value::Constant(_) => Value::Unknown,
        }
    }

    /// Returns the value rounded down to a multiple of `align`, a power of two, as far down as that can lead.
    ///
    /// The CFA is a multiple of 16 (psABI §3.2.2), so up to 16 the result is certain. Beyond, the caller decides; the
    /// worst is `align - 16` more.
    pub(crate) fn aligned(self, align: i64) -> Value {
        let down = |at: i64| {
            let within_16 = at.rem_euclid(16);
            match align {
                ..=16 => at.wrapping_sub(at.rem_euclid(align)),
                _ => at.wrapping_sub(align - 16 + within_16),
            }
        };
        match self {
            Value::Cfa(at) => Value::Cfa(down(at)),
            Value::Below(at) => Value::Below(down(at)),
            Value::Constant(number) => Value::Constant(number & -align),
            Value::Unknown => Value::Unknown,
        }
    }
}

/// What is known of the sixteen general registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    registers: [Value; 16],
}

/// Registers a callee may change (psABI §3.2.1).
const SCRATCH: [Register; 9] = [
    Register::RAX,
    Register::RCX,
    Register::RDX,
    Register::RSI,
    Register::RDI,
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
];

impl State {
    /// The state right after a call: the return address lies below the CFA.
    pub(crate) fn at_entry() -> State {
        let mut state = State {
            registers: [Value::Unknown; 16],
        };
        state.set(Register::RSP, Value::Cfa(-8));
        state
    }

    pub(crate) fn get(&self, register: Register) -> Value {
        if register.is_gpr64() {
            self.registers[register.number()]
        } else {
            Value::Unknown
        }
    }

    pub(crate) fn set(&mut self, register: Register, value: Value) {
        let full = register.full_register();
        if !full.is_gpr64() {
            return;
        }
        // rsp comes from a place that cannot be followed (a saved context, an epilogue); it is assumed not to be
        // deeper than before.
        if full == Register::RSP && !matches!(value, Value::Cfa(_) | Value::Below(_)) {
            return;
        }
        self.registers[full.number()] = value;
    }

    pub(crate) fn stack(&self) -> Value {
        self.get(Register::RSP)
    }

    /// Returns how far rsp lies below the CFA, as far as the code shows it.
    pub(crate) fn depth(&self) -> u64 {
        match self.stack() {
            Value::Cfa(at) | Value::Below(at) => u64::try_from(at.saturating_neg()).unwrap_or(0),
            Value::Unknown | Value::Constant(_) => 0,
        }
    }

    /// Returns whether rsp lies an unknown amount further down.
    pub(crate) fn takes_dynamic(&self) -> bool {
        matches!(self.stack(), Value::Below(_))
    }

    /// Returns how much of what an alignment took from rsp, which was `before`, depends on the caller.
    pub(crate) fn padding_since(&self, before: Value) -> u64 {
        match (before, self.stack()) {
            (Value::Cfa(before), Value::Cfa(now)) if before.wrapping_sub(now) >= 16 => {
                u64::try_from(before.wrapping_sub(now)).unwrap_or(0)
            }
            _ => 0,
        }
    }

    pub(crate) fn push(&mut self, size: i64) {
        self.set(Register::RSP, self.stack().plus(-size));
    }

    pub(crate) fn forget_across_call(&mut self, keep_rax: bool) {
        for register in SCRATCH {
            if !(keep_rax && register == Register::RAX) {
                self.set(register, Value::Unknown);
            }
        }
    }

    /// Keeps only what holds in both states, and returns whether anything was lost. rsp is kept: where paths meet it
    /// is the same, or one of them is never taken.
    pub(crate) fn meet(&mut self, other: &State) -> bool {
        let mut changed = false;
        for (number, (mine, theirs)) in self.registers.iter_mut().zip(&other.registers).enumerate()
        {
            if *mine == *theirs || *mine == Value::Unknown {
                continue;
            }
            let met = match (number == Register::RSP.number(), *mine, *theirs) {
                (true, Value::Cfa(at), Value::Below(_)) => Value::Below(at),
                (true, ..) => continue,
                (false, Value::Cfa(at), Value::Below(other)) if at == other => Value::Below(at),
                (false, Value::Below(at), Value::Cfa(other)) if at == other => continue,
                (false, ..) => Value::Unknown,
            };
            *mine = met;
            changed = true;
        }
        changed
    }
}
