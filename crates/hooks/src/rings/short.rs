//! A call followed in its ring by its own return, with only integer registers recorded: two events in one. Nearly all calls that return
//! soon are of this form. Used by `hostile`, `read` and others here, and by crate `calls`.
//!
//! The records of two calls from one place mostly agree word for word in what does not change. So these words are passed on as they are, as
//! the call's [`identity`](ShortCall::identity), and decoded only for an identity that the reader has not met before.

use super::record::Decoder;
use wire::calls::kind;
use wire::calls::record::{self, Shape};

/// Both records of one such call, lent to [`Events::short`](super::Events::short) for as long as that runs. Times and registers are decoded;
/// hook, frame, return address and lines are decoded when they are asked for.
#[derive(Clone, Copy, Debug)]
pub struct ShortCall<'d> {
    /// The kernel's id of the thread, in the PID namespace of the process.
    pub tid: u32,
    /// The number of the ring, as in [`RingEvent::ring`](super::RingEvent::ring).
    pub ring: u32,
    /// Two calls of one ring with the same identity have the same hook, return address, script line and frame, and the same registers were
    /// recorded of them.
    pub identity: [u64; 4],
    /// The time-stamp counter at the call.
    pub began: u64,
    /// The time-stamp counter at the return.
    pub ended: u64,
    /// rdi, rsi, rdx, rcx, r8, r9 at the call.
    pub arguments: [u64; 6],
    /// rax and rdx at the return.
    pub results: [u64; 2],
    decoder: &'d Decoder,
}

impl ShortCall<'_> {
    /// The number of the hook.
    #[inline]
    pub fn hook(&self) -> u32 {
        let [_, time, stack, _] = self.identity;
        record::hook([time << record::TIME, stack])
    }

    /// The stack pointer at the call.
    #[inline]
    pub fn frame(&self) -> u64 {
        record::address(self.identity[2])
    }

    /// The return address of the call.
    #[inline]
    pub fn caller(&self) -> u64 {
        record::address(self.identity[3])
    }

    /// `place` and `library` of [`RingEventKind::Call`](super::RingEventKind::Call).
    pub fn lines(&self) -> [Option<usize>; 2] {
        let [_, _, stack, caller] = self.identity;
        self.decoder.lines([stack, caller])
    }
}

/// How the two records of a short call are decoded, by the lower halves of their first words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    headers: u64,
    /// Which registers were recorded of the call, and the number of words that its integer registers take.
    shape: Shape,
    words: usize,
    /// Whether rax is in the upper half of the word with the cycles.
    has_narrow_result: bool,
    second_result: bool,
    /// Number of words of the return behind its first two.
    behind: usize,
}

impl Pair {
    /// Returns how the two records are decoded; `None` if they are no short call.
    #[inline(never)]
    fn of(headers: u64) -> Option<Self> {
        let (header, next) = (headers & 0xffff_ffff, headers >> 32);
        let (shape, back) = (Shape::of_header(header), Shape::of_header(next));
        let pair = Pair {
            headers,
            shape,
            words: shape.integer_words(),
            has_narrow_result: back.has_narrow_result(),
            second_result: back.second_result(),
            behind: usize::from(!back.has_narrow_result()) + usize::from(back.second_result()),
        };
        let is_short = header >> 16 & 0xff == kind::ENTRY
            && next >> 16 & 0xff == kind::RETURNED
            && (header & 0xffff) as usize == record::ENTRY as usize + pair.words
            && (next & 0xffff) as usize == record::ROOM as usize + pair.behind
            && shape.vectors() | back.vector_results() | back.x87_words() == 0;
        is_short.then_some(pair)
    }
}

impl Decoder {
    /// Decodes a call's record together with its return's, if `following` begins with that and the two are a short call. Returns the call
    /// and the records behind it. `of`: the thread and the number of the ring.
    #[inline(always)]
    pub fn short<'d, 'r>(
        &'d mut self,
        of: (u32, u32),
        record: &[u64],
        following: &'r [u64],
        now: u64,
    ) -> Option<(ShortCall<'d>, &'r [u64])> {
        let [header, time, stack, caller, words @ ..] = record else {
            return None;
        };
        let [next, took, after @ ..] = following else {
            return None;
        };
        let headers = header & 0xffff_ffff | next << 32;
        if headers != self.pair.headers {
            self.pair = Pair::of(headers)?;
        }
        let pair = &self.pair;
        if words.len() != pair.words || after.len() < pair.behind {
            return None;
        }
        let (results, after) = after.split_at(pair.behind);
        let rax = if pair.has_narrow_result {
            took >> 32
        } else {
            results[0]
        };
        let rdx = match results {
            [.., rdx] if pair.second_result => *rdx,
            _ => 0,
        };
        let began = record::ticks(*time, now);
        let hook = time >> record::TIME;
        let call = ShortCall {
            tid: of.0,
            ring: of.1,
            identity: [
                headers,
                hook | u64::from(self.learned) << 16,
                *stack,
                *caller,
            ],
            began,
            ended: began.wrapping_add(took & 0xffff_ffff),
            arguments: pair.shape.integer_registers(words),
            results: [rax, rdx],
            decoder: self,
        };
        Some((call, after))
    }
}
