//! How deep does the stack get: the chains of direct calls within a file. Used by `report::stack::chains` and
//! `report::stack::chains::table`.
//!
//! Each function's code is decoded. A call of another function of the file puts that one's frame below its own, a jump to
//! one (a tail call) puts it in the place of its own. The bytes of a chain are the sum of its frames, each at its largest.
//! A call of a function of the file through the procedure linkage table, or through its slot, is taken for one of that function,
//! though a library that is loaded before may have put another in its place.
//!
//! That is a bound for the calls that are seen, and the others are said: calls and jumps by a pointer or to other files, whose
//! stack is not known here, and recursion, which takes another round of the same frames each time. They are said of a chain if
//! any function does so that its first one leads to, on the deepest way or beside it: another way may be the deepest then.
//! A chain takes no function twice, so of functions that call each other it is one that exists, not always the deepest.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

use crate::{Frame, Scan, decode};

/// A chain of calls, from a function that no other of the file calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The sum of its frames.
    pub bytes: u64,
    /// Its functions, the outermost first; the second of a pair is called, or jumped to.
    pub frames: Vec<Frame>,
    /// A function that its first one leads to is called again, or jumped to from a deeper frame, while it waits already.
    pub recursive: bool,
    /// A function that its first one leads to goes on to something whose stack is not known here, or takes an amount decided
    /// at run time.
    pub open: bool,
}

/// What a function does that others need to know.
#[derive(Debug, Default)]
struct Node {
    calls: Vec<usize>,
    jumps: Vec<usize>,
    /// It goes on to something unknown, or takes an unknown amount; once it is done, also: something that it leads to does.
    open: bool,
    called: bool,
    state: State,
    /// How many calls lead from the start to it, while it waits.
    level: usize,
    /// The bytes from here on.
    bytes: u64,
    next: Option<usize>,
    /// It goes back to a function that waits in a frame above; once it is done, also: something that it leads to does.
    recursive: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    New,
    Waits,
    Done,
}

/// The chains of a file.
#[derive(Debug)]
pub struct Found {
    /// The wanted chains, the deepest first.
    pub rows: Vec<Chain>,
    /// How many chains there are.
    pub count: usize,
    /// How many take more than the limit, among the rows or not.
    pub larger: u64,
}

/// Finds the chains of a file: the `rows` deepest of them, and how many take more than `max`. A chain has as many frames as it is
/// long, so no others are put together.
pub fn of(scan: &Scan, rows: usize, max: Option<u64>) -> Found {
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
    starts.sort_by_key(|start| Reverse(nodes[*start].bytes));
    let larger = starts.iter();
    let larger = larger.filter(|start| max.is_some_and(|max| nodes[**start].bytes > max));
    Found {
        count: starts.len(),
        larger: larger.count() as u64,
        rows: starts
            .iter()
            .take(rows)
            .map(|start| chain(&nodes, frames, *start))
            .collect(),
    }
}

/// Where calls and jumps lead.
struct Targets<'a> {
    scan: &'a Scan,
    /// The functions by their addresses.
    starts: BTreeMap<u64, usize>,
    /// The functions that are reached by a stub, by the stub's address.
    stubs: RefCell<BTreeMap<u64, Option<usize>>>,
}

impl Targets<'_> {
    /// Returns the function that an instruction calls or jumps to, if it is one of the file.
    fn of(&self, instruction: &Instruction) -> Option<usize> {
        // A stub first: that of a table with call frame information is the beginning of a function, too.
        let through = || {
            let own = self.scan.imports().own(self.scan.image(), instruction)?;
            self.starts.get(&own).copied()
        };
        match instruction.near_branch_target() {
            0 => through(),
            address => {
                let mut stubs = self.stubs.borrow_mut();
                let known = stubs.entry(address).or_insert_with(through);
                known.or_else(|| self.starts.get(&address).copied())
            }
        }
    }
}

/// Decodes all functions.
fn nodes(scan: &Scan) -> Vec<Node> {
    let frames = scan.frames();
    let starts = frames
        .iter()
        .enumerate()
        .map(|(at, frame)| (frame.range.start, at));
    let targets = Targets {
        scan,
        starts: starts.collect(),
        stubs: RefCell::default(),
    };
    let decoded = frames.iter().map(|frame| node(scan, frame, &targets));
    let mut nodes: Vec<Node> = decoded.collect();
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

/// Decodes a function: what it calls, and what it jumps to.
fn node(scan: &Scan, frame: &Frame, targets: &Targets<'_>) -> Node {
    let mut node = Node {
        open: frame.dynamic,
        ..Node::default()
    };
    let pieces = || std::iter::once(&frame.range).chain(&frame.parts);
    for piece in pieces() {
        let Some(code) = scan.image().code_of(piece) else {
            node.open = true;
            continue;
        };
        let mut by_pointer = false;
        for instruction in Decoder::with_ip(64, code, piece.start, DecoderOptions::NONE).iter() {
            let address = instruction.near_branch_target();
            let is_within = address != 0 && pieces().any(|piece| piece.contains(&address));
            let target = || targets.of(&instruction);
            match instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => match target() {
                    Some(target) => node.calls.push(target),
                    None => node.open = true,
                },
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch if is_within => {}
                FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                    match target() {
                        Some(target) => node.jumps.push(target),
                        None => node.open = true,
                    }
                }
                FlowControl::IndirectBranch => match target() {
                    Some(target) => node.jumps.push(target),
                    None => by_pointer = true,
                },
                _ => {}
            }
        }
        if by_pointer {
            node.open |= *piece != frame.range || decode::leaves_by_pointer(code, piece);
        }
    }
    for others in [&mut node.calls, &mut node.jumps] {
        others.sort_unstable();
        others.dedup();
    }
    node
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
        let level = node.level + usize::from(seen < node.calls.len());
        match nodes[other].state {
            State::New => {
                (nodes[other].state, nodes[other].level) = (State::Waits, level);
                waiting.push((other, 0));
            }
            State::Waits if level > nodes[other].level => nodes[at].recursive = true,
            // A loop of nothing but jumps takes no more stack, but what `other` goes on to is not known yet.
            State::Waits => nodes[at].open |= at != other,
            State::Done => {}
        }
    }
}

/// Takes the deepest of what a function goes on to, and what is to be said of any of it.
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
    let others = || nodes[at].calls.iter().chain(&nodes[at].jumps);
    let open = others().any(|other| nodes[*other].open);
    let recursive = others().any(|other| nodes[*other].recursive);
    let node = &mut nodes[at];
    node.open |= open;
    node.recursive |= recursive;
    (node.bytes, node.next, node.state) = (bytes, next, State::Done);
}

fn chain(nodes: &[Node], frames: &[Frame], start: usize) -> Chain {
    let on_it = std::iter::successors(Some(start), |at| nodes[*at].next);
    Chain {
        bytes: nodes[start].bytes,
        recursive: nodes[start].recursive,
        open: nodes[start].open,
        frames: on_it.map(|at| frames[at].clone()).collect(),
    }
}
