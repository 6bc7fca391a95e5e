//! What the kernel's interpreter copies is what that of crate `capture` copies, for the same words over the same memory.

use capture::{CopyLimits, Op, Registers, Returned, Source, Width, run};
use std::collections::BTreeMap;
use tracepoint::{Copied, Copies, Record, Refused, Tells, Watch, Whose};

/// Numbers that no system call has: each bears one program, and does nothing.
const FIRST: u64 = 475;
const LAST: u64 = 510;

/// Every byte that was copied, by its address.
type Bytes = BTreeMap<u64, u8>;

fn bytes(copied: &Copied) -> Bytes {
    let pieces = copied.pieces();
    let each = pieces.flat_map(|(at, bytes)| (at..).zip(bytes.iter().copied()));
    each.collect()
}

/// Memory that is there, and behind it a page that is not.
struct Memory {
    at: *mut u8,
    length: usize,
}

const PAGE: usize = 4096;

impl Memory {
    fn new(pages: usize) -> Self {
        let length = pages * PAGE;
        // SAFETY: a new mapping, of which the last page is made unreadable; the others are written whole, which brings them into memory.
        let at = unsafe {
            let at = libc::mmap(
                std::ptr::null_mut(),
                length + PAGE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(at.byte_add(length), PAGE, libc::PROT_NONE),
                0
            );
            libc::memset(at, 0x41, length);
            at.cast()
        };
        Memory { at, length }
    }

    fn address(&self, at: usize) -> u64 {
        self.at as u64 + at as u64
    }

    fn words(&self, at: usize, words: &[u64]) {
        for (index, word) in words.iter().enumerate() {
            self.put(at + 8 * index, &word.to_ne_bytes());
        }
    }

    fn put(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.length);
        // SAFETY: within the mapping, which nobody else uses.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.at.add(at), bytes.len()) };
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let from = at.wrapping_sub(self.at as u64) as usize;
        let is_there = from
            .checked_add(into.len())
            .is_some_and(|end| end <= self.length);
        if is_there {
            // SAFETY: within the mapping, as was just looked at.
            unsafe {
                std::ptr::copy_nonoverlapping(self.at.add(from), into.as_mut_ptr(), into.len())
            };
        }
        is_there
    }
}

/// What crate `capture` copies.
fn expected(program: &[u64], arguments: [u64; 6], result: Option<u64>, memory: &Memory) -> Bytes {
    let registers = Registers {
        gp: arguments,
        ..Registers::default()
    };
    let returned = result.map(|rax| Returned {
        rax,
        ..Returned::default()
    });
    let mut copied = Bytes::new();
    let limits = CopyLimits {
        bytes: 1 << 20,
        steps: 1 << 20,
    };
    let mut guest = (
        |at: u64, into: &mut [u8]| memory.read(at, into),
        |at: u64, bytes: &[u8]| {
            copied.extend((at..).zip(bytes.iter().copied()));
            true
        },
    );
    run(program, &registers, returned.as_ref(), limits, &mut guest);
    copied
}

/// Asks the kernel for something that it does not know.
fn ask(number: u64, [a, b, c, d, e, f]: [u64; 6]) {
    // SAFETY: no system call has this number, so the kernel does nothing.
    let answer = unsafe { libc::syscall(number as i64, a, b, c, d, e, f) };
    assert_eq!(answer, -1);
}

/// Checks that both interpreters copy the same for each program, at the call and at its return.
fn same(programs: &[Vec<Op>], arguments: [u64; 6], memory: &Memory) {
    assert!(programs.len() as u64 <= LAST - FIRST);
    let words = |ops: &[Op]| ops.iter().map(|op| op.encode()).collect::<Vec<u64>>();
    let asked = |number: u64| -> Option<Copies> {
        let program = programs.get(number.checked_sub(FIRST)? as usize)?;
        Some([words(program), words(program)])
    };
    let mut watch = match Watch::begin(&Tells::Calls(&asked), Whose::Alone) {
        Ok(watch) => watch,
        Err(refused @ (Refused::Lacks { .. } | Refused::Forbidden)) => {
            return println!("SKIPPED: {refused}");
        }
        Err(refused) => panic!("{refused}"),
    };
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() };
    watch.add(std::process::id() as i32).expect("room");
    for number in (FIRST..).take(programs.len()) {
        ask(number, arguments);
    }
    watch.remove(std::process::id() as i32);
    let (mut calls, mut returns) = (Vec::new(), Vec::new());
    watch.read(|record| match record {
        Record::Call { tid, copied, .. } if tid == own => calls.push(bytes(&copied)),
        Record::Return { tid, copied, .. } if tid == own => returns.push(bytes(&copied)),
        _ => {}
    });
    assert_eq!([calls.len(), returns.len()], [programs.len(); 2]);
    let unknown = -i64::from(libc::ENOSYS) as u64;
    for (at, program) in programs.iter().enumerate() {
        let program_words = words(program);
        let call = expected(&program_words, arguments, None, memory);
        assert_eq!(calls[at], call, "{at} {program:?} {arguments:x?}");
        let back = expected(&program_words, arguments, Some(unknown), memory);
        assert_eq!(
            returns[at], back,
            "at the return: {program:?} {arguments:x?}"
        );
    }
}

/// A call whose argument was not there, and which has nothing to copy at its return, gets nothing of what another call copies at its.
#[test]
fn a_return_without_a_program_copies_nothing() {
    let memory = Memory::new(1);
    let words = |ops: &[Op]| ops.iter().map(|op| op.encode()).collect::<Vec<u64>>();
    let text = |number| words(&[Op::Value(Source::Gp(number)), Op::Text { unit: 1, max: 8 }]);
    let asked = |number: u64| -> Option<Copies> {
        match number {
            // The program that comes first of all, which is of read(2).
            0 => Some([Vec::new(), text(1)]),
            FIRST => Some([text(0), Vec::new()]),
            _ => None,
        }
    };
    let mut watch = match Watch::begin(&Tells::Calls(&asked), Whose::Alone) {
        Ok(watch) => watch,
        Err(refused @ (Refused::Lacks { .. } | Refused::Forbidden)) => {
            return println!("SKIPPED: {refused}");
        }
        Err(refused) => panic!("{refused}"),
    };
    // SAFETY: takes nothing.
    let own = unsafe { libc::gettid() };
    watch.add(std::process::id() as i32).expect("room");
    let missing = memory.address(PAGE);
    ask(FIRST, [missing, memory.address(0), 8, 0, 0, 0]);
    watch.remove(std::process::id() as i32);
    let mut told = Vec::new();
    watch.read(|record| match record {
        Record::Call {
            tid,
            missed,
            copied,
            ..
        } if tid == own => told.push((missed, bytes(&copied))),
        Record::Return {
            tid, copied, again, ..
        } if tid == own => {
            told.push((false, bytes(&copied)));
            told.push((false, bytes(&again)));
        }
        _ => {}
    });
    let nothing = Bytes::new;
    assert_eq!(
        told,
        [(true, nothing()), (false, nothing()), (false, nothing())]
    );
}

/// What cannot be copied is refused, and not left out in silence.
#[test]
fn a_program_that_the_kernel_does_not_know_is_refused() {
    let wide = [Op::Value(Source::Gp(0)), Op::Text { unit: 4, max: 8 }];
    let asked = |number: u64| {
        let words = wide.iter().map(|op| op.encode()).collect();
        (number == FIRST).then(|| [words, Vec::new()])
    };
    match Watch::begin(&Tells::Calls(&asked), Whose::Alone) {
        Err(Refused::Copies) => {}
        Err(refused @ (Refused::Lacks { .. } | Refused::Forbidden)) => {
            println!("SKIPPED: {refused}")
        }
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn texts_numbers_and_nested_arrays_are_copied_alike() {
    let memory = Memory::new(4);
    let at = |offset| memory.address(offset);
    memory.put(0, b"a path\0 and more");
    memory.put(4 * PAGE - 4, b"last");
    memory.put(PAGE - 3, b"crosses a page\0");
    // Three vectors, of which the last is not there; a list of texts; numbers.
    memory.words(0x100, &[at(0), 7, at(PAGE - 3), 20, at(4 * PAGE + 8), 5]);
    memory.words(0x200, &[at(0), at(PAGE - 3), at(4 * PAGE - 4), 0, at(0)]);
    memory.words(0x300, &[u64::MAX - 2, 0x8000_0003_8000_0002, at(0x100), 3]);
    let (gp, text) = (
        |n| Op::Value(Source::Gp(n)),
        |max| Op::Text { unit: 1, max },
    );
    let int = Width {
        bytes: 4,
        signed: true,
        skip: 0,
    };
    let vectors = [
        Op::Each {
            stride: 16,
            skip: 4,
        },
        Op::Member(0),
        Op::CountMember(8, Width::WORD),
        Op::Array(1),
        Op::Close,
    ];
    let list = [
        Op::Constant(33),
        Op::ZeroEnded(8),
        Op::Each { stride: 8, skip: 3 },
        Op::Member(0),
        text(33),
        Op::Close,
    ];
    let programs = [
        vec![gp(0), text(4096)],
        vec![gp(0), text(3)],
        vec![gp(0), text(0)],
        vec![gp(1), text(4096), gp(2), text(2)],
        vec![gp(2), Op::Bytes(100)],
        vec![gp(0), Op::Bytes(4 * PAGE as u32 - 1)],
        [
            vec![gp(3), Op::Count(Source::Gp(5), Width::WORD), Op::Array(16)],
            vectors.to_vec(),
        ]
        .concat(),
        [
            vec![gp(3), Op::Count(Source::Gp(5), int), Op::AtMost(1)],
            vectors.to_vec(),
        ]
        .concat(),
        [vec![gp(4)], list.to_vec()].concat(),
        [vec![gp(4), Op::At(8)], list.to_vec()].concat(),
        vec![
            gp(4),
            Op::Open { skip: 8 },
            Op::At(0x100),
            Op::Open { skip: 5 },
            Op::CountMember(8, int),
            Op::AtMost(40),
            Op::At(0),
            Op::Array(1),
            Op::Close,
            Op::Close,
        ],
        vec![
            Op::OnlyIf {
                argument: 5,
                shift: 1,
                skip: 2,
                is: 1,
            },
            gp(0),
            Op::Bytes(9),
            Op::OnlyIf {
                argument: 5,
                shift: 0,
                skip: 2,
                is: 4,
            },
            gp(1),
            Op::Bytes(9),
        ],
        vec![
            Op::Constant(0x7_0000),
            Op::CommandSize(3),
            gp(0),
            Op::Array(1),
        ],
        vec![
            gp(0),
            Op::Constant(5),
            Op::OnlyNumber { skip: 1, is: 5 },
            Op::Bytes(1),
            Op::OnlyNumber { skip: 1, is: 6 },
            Op::Bytes(2),
            Op::Within(3),
            Op::CountedText { unit: 1, max: 100 },
        ],
        vec![
            gp(0),
            Op::Count(Source::Rax, Width::WORD),
            Op::AtMost(9),
            Op::Array(1),
        ],
        vec![
            gp(0),
            Op::Count(Source::Rax, Width::WORD),
            Op::Within(9),
            Op::Array(1),
        ],
        vec![
            Op::Value(Source::Rax),
            Op::Bytes(4),
            Op::Close,
            gp(0),
            Op::Bytes(4),
        ],
        vec![
            Op::Constant(0),
            Op::Bytes(4),
            Op::Open { skip: 1 },
            Op::Close,
            gp(0),
            Op::Bytes(4),
        ],
    ];
    let arguments = [
        at(0),
        at(PAGE - 3),
        at(4 * PAGE - 4),
        at(0x100),
        at(0x200),
        3,
    ];
    same(&programs, arguments, &memory);
}

/// Words that nobody would write: whatever they do, both do it.
#[test]
fn words_at_random_are_run_alike() {
    let memory = Memory::new(2);
    let at = |offset| memory.address(offset);
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    for place in (0..2 * PAGE).step_by(8) {
        let word = match next(4) {
            0 => at(next(2 * PAGE as u64 + 64) as usize),
            1 => next(70),
            2 => 0,
            _ => 0x4100_4242_4343_0044,
        };
        memory.words(place, &[word]);
    }
    for _ in 0..8 {
        let programs: Vec<Vec<Op>> = (0..30)
            .map(|_| {
                let ops = (0..3 + next(9)).map(|_| any(&mut next));
                // No jump leads out of a program.
                ops.chain([Op::Constant(0); 4]).collect()
            })
            .collect();
        let arguments = [0; 6].map(|_| match next(3) {
            0 => next(50),
            _ => at(next(2 * PAGE as u64) as usize),
        });
        same(&programs, arguments, &memory);
    }
}

fn any(next: &mut impl FnMut(u64) -> u64) -> Op {
    let source = match next(4) {
        0 => Source::Rax,
        _ => Source::Gp(next(6) as u8),
    };
    let width = Width {
        bytes: [1, 2, 4, 8][next(4) as usize],
        signed: next(2) == 0,
        skip: 0,
    };
    let (offset, skip) = (next(40) as u32, next(4) as u16);
    match next(16) {
        0 | 1 => Op::Value(source),
        2 => Op::Member(offset),
        3 => Op::At(offset),
        4 => Op::Bytes(offset),
        5 => Op::Array(offset),
        6 => Op::Text {
            unit: 1,
            max: offset,
        },
        7 => Op::CountedText {
            unit: 1,
            max: offset,
        },
        8 => Op::Count(source, width),
        9 => Op::CountMember(offset, width),
        10 => Op::AtMost(offset),
        11 => Op::Within(offset),
        12 => Op::ZeroEnded(8),
        13 => Op::Open { skip },
        14 => Op::Each {
            stride: offset,
            skip,
        },
        _ => Op::Close,
    }
}
