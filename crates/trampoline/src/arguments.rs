//! How many bytes of stack arguments a function may read. Used by `hooks::text`.
//!
//! The routine gives the original function a copy of its stack arguments (`routine::code`), so it must know how many bytes to copy.
//! Where there is no prototype, only the function's own code can tell. The code is followed from its entry; for rsp, and for
//! registers copied from it, the analysis keeps their distance in bytes from the return address:
//!
//! ```text
//!   push rbp             rsp = -8
//!   mov rbp, rsp         rbp = -8
//!   sub rsp, 64          rsp = -72
//!   mov rax, [rbp+24]    reads 16..24: the second word behind the return address → 16 bytes of arguments
//!   lea rax, [rbp+16]    the address of the first: `va_start`, a structure that is passed on → all of them may be read
//! ```
//!
//! The analysis also finds functions that work on their own return address ([`Stack::OwnReturn`]): `setjmp` saves it, a context
//! switch returns to it from another stack, a thunk replaces it. Such a function would find the return address of our frame instead.
//! Only code before the function's first call counts: code behind a call that does not return may belong to another function, whose
//! stack differs from the one assumed here.
//!
//! A direct jump out of the function is followed, because a tail call reads the same arguments and a cold part is the same function.
//! A jump that cannot be followed (through a pointer, with rsp as at the entry) gives [`Stack::Unproven`].

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use hashbrown::HashSet;

use core::ops::Range;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    InstructionInfoOptions, Mnemonic, OpAccess, OpKind, Register,
};

/// What a function does with its stack arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// It reads at most this many bytes.
    Reads(u32),
    /// It reads at most this many bytes, and ends by a jump to a function that could not be followed and may read more.
    Unproven(u32),
    /// It takes their address, and may read any number.
    All,
    /// It reads or changes its own return address.
    OwnReturn,
}

impl Stack {
    /// Combines what two parts of a function do.
    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Stack::OwnReturn, _) | (_, Stack::OwnReturn) => Stack::OwnReturn,
            (Stack::All, _) | (_, Stack::All) => Stack::All,
            (Stack::Reads(one), Stack::Reads(other)) => Stack::Reads(one.max(other)),
            (
                Stack::Reads(one) | Stack::Unproven(one),
                Stack::Reads(other) | Stack::Unproven(other),
            ) => Stack::Unproven(one.max(other)),
        }
    }
}

/// Limit of instructions followed outside of the function's own bounds, where it jumps with its frame in place: its cold part, and
/// the code behind that in the text, because the call that ends the cold part (`abort`) is not known to never return.
const MOST_OUTSIDE: usize = 1_000;
/// Limit of functions followed from tail call to tail call.
const MOST_TAILS: usize = 2_000;
/// General registers, which iced-x86 numbers from 0.
const REGISTERS: usize = 16;

/// What is known at an instruction: for each general register, how many bytes above the return address it points. It is copied at
/// every instruction and so kept small.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Known {
    registers: [i32; REGISTERS],
    /// Whether a call was made on the way here.
    called: bool,
}

impl Known {
    const NOTHING: i32 = i32::MIN;

    /// Returns what is known at a function's first instruction: rsp points to the return address.
    fn at_entry() -> Self {
        let mut known = Known {
            registers: [Self::NOTHING; REGISTERS],
            called: false,
        };
        known.set(Register::RSP.number(), Some(0));
        known
    }

    fn get(&self, register: usize) -> Option<i64> {
        let at = *self.registers.get(register)?;
        (at != Self::NOTHING).then_some(at.into())
    }

    /// Sets how far above the return address `register` points. A distance over 2 GiB cannot be within a stack and counts as
    /// unknown.
    fn set(&mut self, register: usize, to: Option<i64>) {
        let to = to.and_then(|to| i32::try_from(to).ok());
        if let Some(known) = self.registers.get_mut(register) {
            *known = to.unwrap_or(Self::NOTHING);
        }
    }

    /// Returns the distances of rsp and rbp, and whether a call was made.
    fn pointers(&self) -> (i32, i32, bool) {
        (
            self.registers[Register::RSP.number()],
            self.registers[Register::RBP.number()],
            self.called,
        )
    }
}

/// What is known of the functions of one text. Each function is followed once, however many others end by a jump to it.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// By address of the function: what it does itself, and the addresses that it jumps to as tail calls.
    followed: BTreeMap<u64, (Stack, Vec<u64>)>,
}

impl Stacks {
    /// Follows the function with the bounds `function` in the text `code`, which begins at address `at`. `starts` are the addresses
    /// at which functions begin, ascending.
    pub fn of(&mut self, code: &[u8], at: u64, function: Range<u64>, starts: &[u64]) -> Stack {
        let (mut most, mut seen) = (Stack::Reads(0), BTreeSet::new());
        let mut pending = alloc::vec![function];
        while let Some(function) = pending.pop() {
            if !seen.insert(function.start) {
                continue;
            }
            let entry = self.followed.entry(function.start);
            let (own, tails) = entry.or_insert_with(|| follow(code, at, function, starts));
            most = most.and(*own);
            if most == Stack::OwnReturn {
                return most;
            }
            if seen.len() > MOST_TAILS {
                return Stack::All;
            }
            let end = at + code.len() as u64;
            if tails.iter().any(|tail| !(at..end).contains(tail)) {
                // The code is not of this module: the function was replaced (`lancet patch`) or another tool has hooked it.
                return Stack::All;
            }
            pending.extend(tails.iter().map(|tail| {
                let next = starts.partition_point(|start| start <= tail);
                *tail..starts.get(next).copied().unwrap_or(at + code.len() as u64)
            }));
        }
        most
    }
}

/// Follows the function from its entry over all paths. Returns what it does itself, and the addresses that it jumps to as tail
/// calls.
fn follow(code: &[u8], at: u64, function: Range<u64>, starts: &[u64]) -> (Stack, Vec<u64>) {
    let known = Known::at_entry();
    let mut walk = Walk {
        code,
        at,
        own: function.clone(),
        starts,
        factory: InstructionInfoFactory::new(),
        // Most functions have no more instructions than this.
        seen: HashSet::with_capacity(128),
        pending: alloc::vec![(function.start, known)],
        most: Stack::Reads(0),
        tables: Vec::new(),
        tails: Vec::new(),
    };
    let most_steps = MOST_OUTSIDE + usize::try_from(function.end - function.start).unwrap_or(0);
    let (mut steps, mut swept) = (0, BTreeSet::new());
    loop {
        while let Some((ip, known)) = walk.pending.pop() {
            walk.block(ip, known, &mut steps, most_steps);
            if steps > most_steps {
                walk.most = walk.most.and(Stack::All);
                return (walk.most, Vec::new());
            }
            if walk.most == Stack::OwnReturn {
                return (walk.most, Vec::new());
            }
        }
        // The entries of a jump table are not read: all code around the jump is followed, with what was known at the jump.
        let Some((jump, known)) = walk.tables.pop() else {
            return (walk.most, walk.tails);
        };
        if swept.insert(jump) {
            walk.around(jump, known);
        }
    }
}

struct Walk<'a> {
    code: &'a [u8],
    at: u64,
    own: Range<u64>,
    starts: &'a [u64],
    factory: InstructionInfoFactory,
    /// Instructions that were followed, each with the positions of rsp and rbp: code behind a call that does not return seems to be
    /// reached with another stack, and is followed once for each.
    seen: HashSet<(u64, (i32, i32, bool))>,
    pending: Vec<(u64, Known)>,
    most: Stack,
    tables: Vec<(u64, Known)>,
    /// Addresses that the function jumps to as tail calls. There only the place of the return address is known.
    tails: Vec<u64>,
}

fn number(register: Register) -> Option<usize> {
    let full = register.full_register();
    full.is_gpr64().then(|| full.number())
}

impl<'a> Walk<'a> {
    fn bytes(&self, ip: u64) -> Option<&'a [u8]> {
        self.code
            .get(usize::try_from(ip.checked_sub(self.at)?).ok()?..)
    }

    /// Follows the code from `ip` until the path ends or meets an instruction that was followed with the same stack.
    fn block(&mut self, mut ip: u64, mut known: Known, steps: &mut usize, most: usize) {
        // Most of what a jump table may lead to was followed already; a decoder takes longer to make than that to be seen.
        if self.seen.contains(&(ip, known.pointers())) {
            return;
        }
        let bytes = self.bytes(ip).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
        loop {
            if !self.seen.insert((ip, known.pointers())) {
                return;
            }
            *steps += 1;
            if !decoder.can_decode() {
                self.most = self.most.and(Stack::Unproven(0));
                return;
            }
            let instruction = decoder.decode();
            if instruction.is_invalid() || *steps > most || self.most == Stack::OwnReturn {
                return;
            }
            self.reads(&instruction, &known);
            let moved = self.moved(&instruction, &known);
            match instruction.flow_control() {
                FlowControl::ConditionalBranch => {
                    self.jump(instruction.near_branch_target(), moved);
                }
                FlowControl::UnconditionalBranch => {
                    self.jump(instruction.near_branch_target(), moved);
                    return;
                }
                FlowControl::IndirectBranch => {
                    let through_memory = instruction.op0_kind() == OpKind::Memory
                        && instruction.memory_index() == Register::None;
                    match known.get(Register::RSP.number()) {
                        // With rsp as at the entry, the jump is a tail call.
                        Some(0) if through_memory => self.most = self.most.and(Stack::Unproven(0)),
                        at => {
                            if at == Some(0) {
                                self.most = self.most.and(Stack::Unproven(0));
                            }
                            self.tables.push((ip, moved));
                        }
                    }
                    return;
                }
                FlowControl::Return | FlowControl::Exception | FlowControl::Interrupt => return,
                _ => {}
            }
            known = moved;
            ip = instruction.next_ip();
            // A call at a function's end is taken for one that does not return.
            let called = instruction.mnemonic() == Mnemonic::Call;
            if called && (ip == self.own.end || self.starts.binary_search(&ip).is_ok()) {
                return;
            }
        }
    }

    fn jump(&mut self, to: u64, known: Known) {
        // Behind a call, rsp may be where it was at the entry although no frame was taken down.
        let stack = Known {
            called: false,
            ..known
        };
        // It is a tail call only where a function begins: code that seems to follow a call may belong to another function, and the
        // jump may lead back into that one.
        let begins = !known.called || self.starts.binary_search(&to).is_ok();
        if stack == Known::at_entry() && begins && !self.own.contains(&to) {
            self.tails.push(to)
        } else {
            self.pending.push((to, known))
        }
    }

    /// Notes what an instruction reads above the return address.
    fn reads(&mut self, instruction: &Instruction, known: &Known) {
        let at_return = !known.called && known.get(Register::RSP.number()) == Some(0);
        if at_return && instruction.mnemonic() == Mnemonic::Pop {
            self.most = Stack::OwnReturn;
            return;
        }
        let memory = (0..instruction.op_count())
            .any(|operand| instruction.op_kind(operand) == OpKind::Memory);
        let Some(base) = number(instruction.memory_base()).filter(|_| memory) else {
            return;
        };
        let Some(from) = known.get(base) else { return };
        let place = from.wrapping_add(instruction.memory_displacement64() as i64);
        if instruction.mnemonic() == Mnemonic::Nop {
            return;
        }
        if (0..8).contains(&place) {
            let exact = instruction.memory_index() == Register::None;
            // `or $0,(%rsp)` only touches the stack's next page (stack probing).
            let touches = matches!(instruction.mnemonic(), Mnemonic::Or | Mnemonic::Lea);
            if exact && !touches && !known.called {
                self.most = Stack::OwnReturn;
            }
            return;
        }
        if place < 8 {
            return;
        }
        if instruction.mnemonic() == Mnemonic::Lea || instruction.memory_index() != Register::None {
            // A `lea` into rsp takes a frame down; the address goes to no other register.
            let own = matches!(instruction.op0_register(), Register::RSP);
            if !(own && instruction.mnemonic() == Mnemonic::Lea) {
                self.most = self.most.and(Stack::All);
            }
            return;
        }
        let size = instruction.memory_size().size().max(8) as i64;
        let bytes = u32::try_from(place - 8 + size).unwrap_or(u32::MAX);
        self.most = self.most.and(Stack::Reads(bytes.next_multiple_of(8)));
    }

    /// Returns what is known behind an instruction.
    fn moved(&mut self, instruction: &Instruction, known: &Known) -> Known {
        let mut after = *known;
        let rsp = Register::RSP.number();
        let value = |operand: u32| match instruction.op_kind(operand) {
            OpKind::Register => number(instruction.op_register(operand)).and_then(|n| known.get(n)),
            _ => None,
        };
        let is64 =
            instruction.op0_kind() == OpKind::Register && instruction.op0_register().is_gpr64();
        let target = number(instruction.op0_register()).filter(|_| is64);
        let stack = known.get(rsp);
        let calls = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        ) && instruction.mnemonic() == Mnemonic::Call;
        // What it does to memory is not asked.
        let options = InstructionInfoOptions::NO_MEMORY_USAGE;
        let info = self.factory.info_options(instruction, options);
        for register in info.used_registers() {
            if matches!(
                register.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            ) && let Some(number) = number(register.register())
            {
                after.set(number, None);
            }
        }
        if calls {
            after.called = true;
            // Registers that a callee may change by the ABI.
            for register in [
                Register::RAX,
                Register::RCX,
                Register::RDX,
                Register::RSI,
                Register::RDI,
                Register::R8,
                Register::R9,
                Register::R10,
                Register::R11,
            ] {
                after.set(register.number(), None);
            }
            after.set(rsp, stack);
            return after;
        }
        let (code, immediate) = (instruction.mnemonic(), instruction.try_immediate(1).ok());
        match (code, target) {
            (Mnemonic::Mov, Some(to)) => after.set(to, value(1)),
            (Mnemonic::Add, Some(to)) => {
                let sum = known.get(to).zip(immediate);
                after.set(to, sum.map(|(at, by)| at.wrapping_add(by as i64)));
            }
            (Mnemonic::Sub, Some(to)) => {
                let difference = known.get(to).zip(immediate);
                after.set(to, difference.map(|(at, by)| at.wrapping_sub(by as i64)));
            }
            // An alignment lowers rsp by an unknown number of bytes, so its position is no longer known.
            (Mnemonic::And, Some(to)) if to == rsp => after.set(to, None),
            (Mnemonic::Lea, Some(to)) if instruction.memory_index() == Register::None => {
                let base = number(instruction.memory_base()).and_then(|base| known.get(base));
                let by = instruction.memory_displacement64() as i64;
                after.set(to, base.map(|at| at.wrapping_add(by)));
            }
            (Mnemonic::Leave, _) => {
                let frame = known.get(Register::RBP.number());
                after.set(rsp, frame.map(|at| at.wrapping_add(8)));
            }
            (Mnemonic::Enter, _) | (Mnemonic::Xchg, _) => after.set(rsp, None),
            _ if instruction.is_stack_instruction() => {
                let by = i64::from(instruction.stack_pointer_increment());
                after.set(rsp, stack.map(|at| at.wrapping_add(by)));
            }
            _ => {}
        }
        after
    }

    /// Follows the rest of the function for a jump by table: every instruction that no other one runs on to may be its target.
    fn around(&mut self, jump: u64, known: Known) {
        let Some(bytes) = self.bytes(jump) else {
            return;
        };
        let next = self.starts.partition_point(|start| *start <= jump);
        let end = if self.own.contains(&jump) {
            Some(&self.own.end)
        } else {
            self.starts.get(next)
        };
        let length = end.and_then(|end| usize::try_from(end - jump).ok());
        let length = length.unwrap_or(usize::MAX);
        let bytes = &bytes[..length.min(bytes.len())];
        let mut decoder = Decoder::with_ip(64, bytes, jump, DecoderOptions::NONE);
        let mut reached = Vec::new();
        let mut falls = false;
        while decoder.can_decode() {
            let ip = decoder.ip();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                break;
            }
            if !falls && ip != jump {
                // Some of this code is also reached otherwise, with another stack.
                let known = Known {
                    called: true,
                    ..known
                };
                reached.push((ip, known));
            }
            falls = !crate::plan::ends(&instruction);
        }
        self.pending.append(&mut reached);
    }
}

#[cfg(test)]
mod tests;
