//! How deep does the stack get: the chains of direct calls within a file.
//!
//! Each function's code is decoded. A call of another function of the file puts that one's frame below its own, a jump to
//! one (a tail call) puts it in the place of its own. The bytes of a chain are the sum of its frames, each at its largest.
//!
//! That is a bound for the calls that are seen, and the others are said: calls by a pointer and calls of other files, whose
//! stack is not known here, and recursion, which takes another round of the same frames each time. A chain takes no
//! function twice, so of functions that call each other it is one that exists, not always the deepest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl};

use crate::{Frame, Scan};

/// A chain of calls, from a function that no other of the file calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The sum of its frames.
    pub bytes: u64,
    /// Its functions, the outermost first; the second of a pair is called, or jumped to.
    pub frames: Vec<Frame>,
    /// A function of it calls another of it, or itself, that waits already.
    pub recursive: bool,
    /// A function of it calls something whose stack is not known here, or takes an amount decided at run time.
    pub open: bool,
}

/// What a function does that others need to know.
#[derive(Debug, Default)]
struct Node {
    calls: Vec<usize>,
    jumps: Vec<usize>,
    open: bool,
    called: bool,
    state: State,
    /// The bytes from here on.
    bytes: u64,
    next: Option<usize>,
    recursive: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    New,
    Waits,
    Done,
}

/// Returns the chains of a file, the deepest first.
pub fn of(scan: &Scan) -> Vec<Chain> {
    let frames = scan.frames();
    let mut nodes = nodes(scan);
    // From those that nobody calls first, then from what is left: functions that call only each other.
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|at| (nodes[*at].called, frames[*at].range.start));
    let mut starts = Vec::new();
    for start in order {
        if nodes[start].state == State::New {
            follow(&mut nodes, frames, start);
            starts.push(start);
        }
    }
    let mut chains: Vec<Chain> = starts
        .into_iter()
        .map(|start| chain(&nodes, frames, start))
        .collect();
    chains.sort_by_key(|chain| Reverse(chain.bytes));
    chains
}

/// Decodes all functions.
fn nodes(scan: &Scan) -> Vec<Node> {
    let frames = scan.frames();
    let starts: BTreeMap<u64, usize> = frames
        .iter()
        .enumerate()
        .map(|(at, frame)| (frame.range.start, at))
        .collect();
    let mut nodes: Vec<Node> = frames.iter().map(|_| Node::default()).collect();
    for (at, frame) in frames.iter().enumerate() {
        let node = &mut nodes[at];
        node.open = frame.dynamic;
        for piece in std::iter::once(&frame.range).chain(&frame.parts) {
            let code = scan.image().code_of(piece).unwrap_or_default();
            for instruction in Decoder::with_ip(64, code, piece.start, DecoderOptions::NONE).iter()
            {
                let target = starts.get(&instruction.near_branch_target()).copied();
                match (instruction.flow_control(), target) {
                    (FlowControl::Call, Some(target)) => node.calls.push(target),
                    (FlowControl::Call | FlowControl::IndirectCall, _) => node.open = true,
                    (
                        FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch,
                        Some(target),
                    ) if target != at => node.jumps.push(target),
                    _ => {}
                }
            }
        }
        for others in [&mut node.calls, &mut node.jumps] {
            others.sort_unstable();
            others.dedup();
        }
    }
    for at in 0..nodes.len() {
        let others: Vec<usize> = nodes[at]
            .calls
            .iter()
            .chain(&nodes[at].jumps)
            .copied()
            .collect();
        for other in others.into_iter().filter(|other| *other != at) {
            nodes[other].called = true;
        }
    }
    nodes
}

/// Finds the bytes of the function `start` and of all that it calls. Not by recursion: a chain may be as long as the file has
/// functions.
fn follow(nodes: &mut [Node], frames: &[Frame], start: usize) {
    let mut waiting = vec![(start, 0)];
    nodes[start].state = State::Waits;
    while let Some((at, seen)) = waiting.pop() {
        let node = &nodes[at];
        let other = node.calls.iter().chain(&node.jumps).nth(seen).copied();
        let Some(other) = other else {
            settle(nodes, frames, at);
            continue;
        };
        waiting.push((at, seen + 1));
        match nodes[other].state {
            State::New => {
                nodes[other].state = State::Waits;
                waiting.push((other, 0));
            }
            // A loop by jumps takes no more stack.
            State::Waits if seen < nodes[at].calls.len() => nodes[at].recursive = true,
            State::Waits | State::Done => {}
        }
    }
}

/// Takes the deepest of what a function goes on to.
fn settle(nodes: &mut [Node], frames: &[Frame], at: usize) {
    let own = frames[at].bytes;
    let done = |other: &&usize| nodes[**other].state == State::Done;
    let called = nodes[at].calls.iter().filter(done);
    let called = called.map(|other| (own.saturating_add(nodes[*other].bytes), Some(*other)));
    let jumped = nodes[at].jumps.iter().filter(done);
    let jumped = jumped.map(|other| (nodes[*other].bytes, Some(*other)));
    // Of equals the one that comes last in the file's ranking; the frame alone only if nothing is deeper.
    let (bytes, next) = std::iter::once((own, None))
        .chain(called)
        .chain(jumped)
        .max_by_key(|(bytes, next)| (*bytes, *next))
        .unwrap_or((own, None));
    let node = &mut nodes[at];
    (node.bytes, node.next, node.state) = (bytes, next, State::Done);
}

fn chain(nodes: &[Node], frames: &[Frame], start: usize) -> Chain {
    let on_it = std::iter::successors(Some(start), |at| nodes[*at].next);
    let on_it: Vec<usize> = on_it.collect();
    Chain {
        bytes: nodes[start].bytes,
        recursive: on_it.iter().any(|at| nodes[*at].recursive),
        open: on_it.iter().any(|at| nodes[*at].open),
        frames: on_it.iter().map(|at| frames[*at].clone()).collect(),
    }
}
