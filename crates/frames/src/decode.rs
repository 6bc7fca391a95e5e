//! Determines from a function's code how deep it takes the stack. Used by `scan` and `chains`.
//!
//! The instructions of one function are decoded once and then followed along every branch, keeping for each
//! register what is known of it: a distance from the CFA (see `cfi`), a constant, or nothing. The frame is the
//! furthest below the CFA that rsp is seen. That covers what compilers do:
//!
//! ```text
//!   push %rbp; mov %rsp,%rbp; sub $N,%rsp           the usual
//!   mov $N,%eax; sub %rax,%rsp                      a constant by way of a register
//!   lea -N(%rsp),%r11                               stack clash protection: each page is touched on
//!   L: sub $4096,%rsp; orq $0,(%rsp)                the way down; behind the loop rsp is r11
//!      cmp %r11,%rsp; jne L
//!   lea 8(%rsp),%r10; and $-64,%rsp; push -8(%r10)  a realigned frame: the padding depends on the caller
//!   sub %rdi,%rsp                                   alloca, a VLA: the amount is not in the code
//! ```
//!
//! Padding is counted at its largest and a dynamic amount as nothing, both as gcc's `-fstack-usage` does,
//! and both are flagged.

mod effect;
mod probe;
mod value;

use std::collections::BTreeMap;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};

use crate::cfi::{Base, Described};
use effect::Effects;
pub(crate) use value::{State, Value};

/// Limit of a function's bytes; a larger size is damaged data.
const LONGEST: u64 = 32 << 20;

/// Limit of how often one instruction may be followed again with less known about its registers. Each of 16 registers
/// can become unknown only once, so it is never reached; it makes the bound explicit.
const MOST_VISITS: u8 = 24;

/// How deep a function takes the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Depth {
    /// The furthest below the CFA that rsp comes, the return address included.
    pub bytes: u64,
    /// The address of the instruction after which rsp is there.
    pub at: u64,
    /// Whether an amount is decided at run time; it is not counted in `bytes`.
    pub dynamic: bool,
    /// How many of `bytes` may be padding, because the frame is aligned to more than 16 bytes.
    pub padding: u64,
    /// Whether the function keeps a frame pointer in rbp.
    pub frame_pointer: bool,
    /// Whether the stack is touched page by page on the way down (stack clash protection).
    pub probed: bool,
    /// Whether some bytes were no instruction: data between code, or damage.
    pub unclear: bool,
}

/// Computes the depth of one function. `code` is all of `range`; `described` is what its CFI says, if there is any.
pub fn depth(code: &[u8], range: &Range<u64>, described: Option<&Described>) -> Option<Depth> {
    if code.len() as u64 > LONGEST || code.is_empty() {
        return None;
    }
    let mut walk = Walk::new(code, range);
    // A part that lies elsewhere is entered by a jump with the frame already made; only its CFI says how large that
    // is.
    let entry = with_cfi(described, range.start, State::at_entry());
    walk.run(&entry, described);
    Some(walk.result(&entry))
}

/// Returns whether a function may leave by a jump to a pointer (a tail call). At such a jump nothing but the return address is on
/// the stack. Where more is, the jump is one through the table of a `switch`, and so is one whose target was added up: such tables
/// hold distances.
pub(crate) fn leaves_by_pointer(code: &[u8], range: &Range<u64>) -> bool {
    const RETURN_ADDRESS: u64 = 8;
    if code.len() as u64 > LONGEST {
        return true;
    }
    let mut walk = Walk::new(code, range);
    walk.run(&State::at_entry(), None);
    // How rsp comes back from an alignment is not always seen.
    let aligned = walk.depth.padding > 0;
    walk.tables
        .iter()
        .any(|(at, state)| (aligned || state.depth() <= RETURN_ADDRESS) && !walk.is_added_up(*at))
}

/// Returns a state, completed by what CFI says of an address.
fn with_cfi(described: Option<&Described>, at: u64, mut state: State) -> State {
    if let Some(row) = described.and_then(|described| described.row(at)) {
        match row.base {
            Base::Stack => state.set(Register::RSP, Value::Cfa(row.offset.wrapping_neg())),
            Base::Frame => state.set(Register::RBP, Value::Cfa(row.offset.wrapping_neg())),
            Base::Other | Base::Expression => {}
        }
    }
    state
}

struct Walk {
    instructions: Vec<Instruction>,
    /// For each byte of the function, the number of the instruction that starts there, plus one.
    starts: Vec<u32>,
    start: u64,
    /// The state on entry to an instruction that is branched to, or at which a walk began.
    states: Vec<Option<Box<State>>>,
    /// Whether some branch leads to the instruction: paths meet there, and the state must be kept.
    meetings: Vec<bool>,
    visits: Vec<u8>,
    todo: Vec<usize>,
    effects: Effects,
    /// How deep each instruction leaves the stack, as of when it was last followed: by then its state holds on every
    /// path, and the first round of a loop no longer determines it.
    deep: Vec<u64>,
    /// The state at each jump through a table. Code behind it that no known branch leads to (a case of a `switch`)
    /// begins with that state.
    tables: BTreeMap<usize, State>,
    /// The state at the deepest call. Landing pads begin with it, because they are reached from calls.
    call: Option<State>,
    /// Paths that go on behind a call at an instruction to which other branches lead as well. If the call does not
    /// return, the state behind it (arguments pushed for it, say) does not hold there; so the other paths are followed
    /// first.
    behind_calls: Vec<(usize, State)>,
    depth: Depth,
}

impl Walk {
    fn new(code: &[u8], range: &Range<u64>) -> Walk {
        let mut decoder = Decoder::with_ip(64, code, range.start, DecoderOptions::NONE);
        let mut instructions = Vec::with_capacity(code.len() / 4);
        let mut starts = vec![0u32; code.len()];
        let mut unclear = false;
        while decoder.can_decode() {
            let at = decoder.position();
            let instruction = decoder.decode();
            if instruction.is_invalid() {
                unclear = true;
                // Data between code: decoding goes on at the next byte.
                let _ = decoder.set_position(at + 1);
                decoder.set_ip(range.start + at as u64 + 1);
                continue;
            }
            instructions.push(instruction);
            starts[at] = instructions.len() as u32;
        }
        let count = instructions.len();
        let mut meetings = vec![false; count];
        for instruction in &instructions {
            let target = instruction.near_branch_target().wrapping_sub(range.start);
            let number = usize::try_from(target)
                .ok()
                .and_then(|target| starts.get(target));
            if let Some(meeting) =
                number.and_then(|&number| meetings.get_mut((number as usize).wrapping_sub(1)))
            {
                *meeting = true;
            }
        }
        Walk {
            meetings,
            instructions,
            starts,
            start: range.start,
            states: vec![None; count],
            visits: vec![0; count],
            todo: Vec::new(),
            effects: Effects::default(),
            deep: vec![0; count],
            tables: BTreeMap::new(),
            call: None,
            behind_calls: Vec::new(),
            depth: Depth {
                unclear,
                ..Depth::default()
            },
        }
    }

    fn run(&mut self, entry: &State, described: Option<&Described>) {
        if self.instructions.is_empty() {
            return;
        }
        self.reach(0, entry, None);
        let mut next_gap = 0;
        loop {
            while let Some(at) = self.todo.pop() {
                if let Some(state) = self.states[at].as_deref().cloned() {
                    self.follow(at, state);
                }
            }
            if let Some((at, state)) = self.behind_calls.pop() {
                if self.visits[at] == 0 {
                    self.reach(at, &state, None);
                }
                continue;
            }
            // Code that no known branch leads to.
            let gap = (next_gap..self.instructions.len())
                .find(|&at| self.visits[at] == 0 && !is_padding(&self.instructions[at]));
            let Some(gap) = gap else { return };
            next_gap = gap + 1;
            let table = self.tables.range(..gap).next_back().map(|(_, state)| state);
            let state = table.or(self.call.as_ref()).unwrap_or(entry).clone();
            let state = with_cfi(described, self.instructions[gap].ip(), state);
            self.reach(gap, &state, None);
        }
    }

    /// Follows the code from an instruction until the path ends or meets an instruction that was followed already.
    fn follow(&mut self, first: usize, mut state: State) {
        let mut at = first;
        while let Some(instruction) = self.instructions.get(at).copied() {
            if at != first {
                // Another path leads to this instruction.
                if self.visits[at] > 0 || self.states[at].is_some() {
                    self.reach(at, &state, Some(at - 1));
                    return;
                }
                if self.meetings[at] {
                    self.states[at] = Some(Box::new(state.clone()));
                }
            }
            self.visits[at] = self.visits[at].saturating_add(1);
            self.note(&instruction);
            match instruction.flow_control() {
                FlowControl::Next | FlowControl::Interrupt | FlowControl::XbeginXabortXend => {
                    if !self.is_probe(at) {
                        self.apply(&instruction, at, &mut state);
                    }
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    if instruction.near_branch_target() == instruction.next_ip()
                        && instruction.is_call_near()
                    {
                        // Position-independent code reads its own address in this way.
                        state.push(8);
                        self.deep[at] = state.depth();
                    } else {
                        let next = self.instructions.get(at + 1);
                        state.forget_across_call(next.is_some_and(takes_rax_off_the_stack));
                        if self
                            .call
                            .as_ref()
                            .is_none_or(|call| call.depth() < state.depth())
                        {
                            self.call = Some(state.clone());
                        }
                        let meets = self.meetings.get(at + 1) == Some(&true);
                        if meets && self.visits[at + 1] == 0 && self.states[at + 1].is_none() {
                            self.behind_calls.push((at + 1, state));
                            return;
                        }
                    }
                }
                FlowControl::UnconditionalBranch => {
                    self.branch(&instruction, &state, at);
                    return;
                }
                FlowControl::ConditionalBranch => match self.probing_loop(at, &state) {
                    Some(limit) => {
                        self.leave_probing_loop(at, limit, state);
                        return;
                    }
                    None => self.branch(&instruction, &state, at),
                },
                FlowControl::IndirectBranch => {
                    self.tables.insert(at, state);
                    return;
                }
                FlowControl::Return | FlowControl::Exception => return,
            }
            at += 1;
        }
    }

    /// Returns whether the target of a jump is the sum of two registers.
    fn is_added_up(&self, jump: usize) -> bool {
        const FAR: usize = 16;
        let target = self.instructions[jump].op0_register();
        let before = self.instructions[jump.saturating_sub(FAR)..jump].iter();
        let last = before
            .rev()
            .find(|instruction| instruction.op0_register().full_register() == target);
        self.instructions[jump].op0_kind() == OpKind::Register
            && last.is_some_and(|last| {
                last.mnemonic() == Mnemonic::Add && last.op1_kind() == OpKind::Register
            })
    }

    fn apply(&mut self, instruction: &Instruction, at: usize, state: &mut State) {
        let before = state.stack();
        self.effects.apply(instruction, state);
        if instruction.mnemonic() == Mnemonic::And && instruction.op0_register() == Register::RSP {
            self.depth.padding = self.depth.padding.max(state.padding_since(before));
        }
        if state.takes_dynamic() {
            self.depth.dynamic = true;
        }
        self.deep[at] = state.depth();
    }

    fn result(self, entry: &State) -> Depth {
        let mut depth = self.depth;
        depth.bytes = entry.depth();
        depth.at = self.start;
        for (instruction, &bytes) in self.instructions.iter().zip(&self.deep) {
            if bytes > depth.bytes {
                depth.bytes = bytes;
                depth.at = instruction.next_ip();
            }
        }
        depth
    }

    /// Notes what an instruction shows besides the value of rsp.
    fn note(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Mov
            && instruction.op0_register() == Register::RBP
            && instruction.op1_register() == Register::RSP
            || instruction.mnemonic() == Mnemonic::Enter
        {
            self.depth.frame_pointer = true;
        }
    }

    fn index(&self, address: u64) -> Option<usize> {
        let at = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (*self.starts.get(at)? as usize).checked_sub(1)
    }

    fn branch(&mut self, instruction: &Instruction, state: &State, from: usize) {
        if !matches!(instruction.op0_kind(), OpKind::NearBranch64) {
            return;
        }
        if let Some(to) = self.index(instruction.near_branch_target()) {
            self.reach(to, state, Some(from));
        }
    }

    /// Joins a state into an instruction's, which is followed again if that changes its state.
    fn reach(&mut self, to: usize, state: &State, from: Option<usize>) {
        let Some(known) = self.states[to].as_deref_mut() else {
            // Straight code that was followed before any branch to it was known: its state was not kept, so it is
            // followed once more.
            if self.visits[to] >= MOST_VISITS {
                return;
            }
            self.states[to] = Some(Box::new(state.clone()));
            self.todo.push(to);
            return;
        };
        // rsp is lower in each round of a loop: the loop calls alloca.
        if from.is_some_and(|from| from >= to) && state.depth() > known.depth() {
            self.depth.dynamic = true;
        }
        if known.meet(state) && self.visits[to] < MOST_VISITS {
            self.todo.push(to);
        }
    }

    fn reach_next(&mut self, at: usize, state: &State) {
        if at + 1 < self.instructions.len() {
            self.reach(at + 1, state, Some(at));
        }
    }
}

/// Returns whether this is `sub %rax,%rsp` right after a call, which was then a probe that keeps rax
/// (`__rust_probestack`, `___chkstk_ms`).
fn takes_rax_off_the_stack(instruction: &Instruction) -> bool {
    instruction.mnemonic() == Mnemonic::Sub
        && instruction.op0_register() == Register::RSP
        && instruction.op1_kind() == OpKind::Register
        && instruction.op1_register() == Register::RAX
}

/// Returns whether compilers fill holes with this instruction.
fn is_padding(instruction: &Instruction) -> bool {
    matches!(
        instruction.mnemonic(),
        Mnemonic::Nop | Mnemonic::Int3 | Mnemonic::Ud2 | Mnemonic::Xchg | Mnemonic::Hlt
    ) || instruction.mnemonic() == Mnemonic::Lea
        && instruction.op0_register() == instruction.memory_base()
}
