//! The interpreter of capture programs: it copies what a program's words say of a call. Used by `condition`, and by
//! most crates above.

use crate::describe::What;
use crate::format::{ConversionKind, Conversions};
use crate::op::{Op, Source, Width};

/// The registers of a call as the hook finds them: System V ABI, AMD64, section 3.2.3.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Registers {
    /// rdi, rsi, rdx, rcx, r8, r9.
    pub gp: [u64; 6],
    /// The low eight bytes of xmm0 to xmm7.
    pub sse: [u64; 8],
    /// Address of the arguments on the stack, above the return address.
    pub stack: u64,
}

/// The registers of a return.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Returned {
    /// The first integer word.
    pub rax: u64,
    /// The second integer word, of functions that return two (a struct of 9 to 16 bytes).
    pub rdx: u64,
    /// The low eight bytes of xmm0 and xmm1.
    pub sse: [u64; 2],
    /// st(0) and st(1): `long double` and its complex kin, ten bytes each.
    pub x87: [[u8; 10]; 2],
}

/// What one run may use at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// Bytes handed to `output`, at most.
    pub bytes: u32,
    /// Operations, chunks of at most [`CopyLimits::CHUNK`] bytes read, and characters of formats, together at most.
    pub steps: u32,
}

impl CopyLimits {
    /// Bytes that are read or handed on at once, at most: the interpreter keeps them on the guest's stack.
    pub const CHUNK: usize = 256;

    /// Characters of a format that are looked at, at most.
    pub const FORMAT: u64 = 1024;

    /// How deep `Open` and `Each` may nest.
    pub const DEPTH: usize = 12;
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self {
            bytes: 16 << 10,
            steps: 4096,
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The program came to its end.
    Done,
    /// A limit was reached. What was handed on before is good.
    Limit,
    /// `output` had no more room.
    Full,
    /// A word is no operation, or nesting does not close.
    Malformed,
}

/// Distance from the caller's frame pointer, in the hook's frame, to the arguments on the stack: that word and the
/// return address.
pub const CALLERS: u64 = 16;

/// The lowest valid address: `vm.mmap_min_addr` keeps the pages below it free.
const FIRST_ADDRESS: u64 = 4096;
/// No chunk crosses a page of this size, so that what is readable up to a page is not lost for the sake of the next.
const PAGE: u64 = 4096;

#[derive(Clone, Copy, Default)]
struct Block {
    base: u64,
    left: u64,
    stride: u64,
    body: usize,
}

/// What a capture program reads and copies with: the guest as it sees it.
pub trait GuestAccess {
    /// Fills the buffer from memory; false if it cannot. It is never called for a chunk that crosses a page or is
    /// longer than [`CopyLimits::CHUNK`].
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool;

    /// Takes a chunk of at most [`CopyLimits::CHUNK`] bytes; false if there is no more room.
    fn output(&mut self, at: u64, bytes: &[u8]) -> bool;

    /// Takes the text of a word, as a capture at [`describe::address`](crate::describe::address), with at most so many
    /// items of a container and characters of a text. Returns how many bytes it took, 0 for a word without text.
    fn describe(&mut self, what: What, word: u64, items: u16, text: u32) -> u32 {
        let _ = (what, word, items, text);
        0
    }
}

/// A guest without a language VM: what reads, and what takes.
impl<R, O> GuestAccess for (R, O)
where
    R: FnMut(u64, &mut [u8]) -> bool,
    O: FnMut(u64, &[u8]) -> bool,
{
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        (self.0)(at, into)
    }

    fn output(&mut self, at: u64, bytes: &[u8]) -> bool {
        (self.1)(at, bytes)
    }
}

struct Machine<'a, G> {
    registers: &'a Registers,
    returned: Option<&'a Returned>,
    guest: &'a mut G,
    bytes: u32,
    steps: u32,
}

/// What is given up: the whole run, or one item alone.
enum Stop {
    Run(Ended),
    Unreadable,
}

/// Runs a program over a call (`returned` is `None`) or over its return.
///
/// What cannot be read is left out; it is then shown as an address.
pub fn run(
    words: &[u64],
    registers: &Registers,
    returned: Option<&Returned>,
    limits: CopyLimits,
    guest: &mut impl GuestAccess,
) -> Ended {
    let mut machine = Machine {
        registers,
        returned,
        guest,
        bytes: limits.bytes,
        steps: limits.steps,
    };
    match machine.program(words) {
        Ok(()) => Ended::Done,
        Err(ended) => ended,
    }
}

impl<G: GuestAccess> Machine<'_, G> {
    fn program(&mut self, words: &[u64]) -> Result<(), Ended> {
        let (mut v, mut n) = (0_u64, 0_u64);
        let mut blocks = [Block::default(); CopyLimits::DEPTH];
        let mut depth = 0;
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            at += 1;
            let op = Op::decode(word).ok_or(Ended::Malformed)?;
            self.step()?;
            let base = match depth {
                0 => 0,
                _ => blocks[depth - 1].base,
            };
            match op {
                Op::Value(source) => v = self.word(source).unwrap_or(0),
                Op::Member(offset) => {
                    v = self.number(base.wrapping_add(offset.into()), Width::WORD)?;
                }
                Op::At(offset) => v = base.wrapping_add(offset.into()),
                Op::Bytes(len) => self.copy(v, len.into())?,
                Op::Array(unit) => self.copy(v, n.saturating_mul(unit.into()))?,
                Op::Text { unit, max } => self.text(v, unit, max.into())?,
                Op::CountedText { unit, max } => self.text(v, unit, n.min(max.into()))?,
                Op::Count(source, width) => n = width.of(self.word(source).unwrap_or(0)),
                Op::CountMember(offset, width) => {
                    n = self.number(base.wrapping_add(offset.into()), width)?;
                }
                Op::Constant(number) => n = number.into(),
                Op::AtMost(most) => n = (n as i64).clamp(0, most.into()) as u64,
                Op::Within(most) => n = n.min(most.into()),
                Op::CommandSize(more) => n = (n >> 16 & 0x3fff) + u64::from(more),
                Op::ZeroEnded(unit) => n = self.zero_ended(v, unit, n)?,
                Op::Open { skip } | Op::Each { skip, .. } => {
                    let (stride, count) = match op {
                        Op::Each { stride, .. } => (stride.into(), n),
                        _ => (0, 1),
                    };
                    if v < FIRST_ADDRESS || count == 0 || depth == CopyLimits::DEPTH {
                        at += usize::from(skip);
                        continue;
                    }
                    blocks[depth] = Block {
                        base: v,
                        left: count - 1,
                        stride,
                        body: at,
                    };
                    depth += 1;
                }
                Op::Close => {
                    let block = match depth {
                        0 => return Err(Ended::Malformed),
                        _ => &mut blocks[depth - 1],
                    };
                    match block.left {
                        0 => depth -= 1,
                        _ => {
                            block.left -= 1;
                            block.base = block.base.wrapping_add(block.stride);
                            at = block.body;
                        }
                    }
                }
                Op::OnlyIf {
                    argument,
                    shift,
                    skip,
                    is,
                } => {
                    let word = self.word(Source::Gp(argument)).unwrap_or(0) as u32;
                    if word >> (shift & 31) != is {
                        at += usize::from(skip);
                    }
                }
                Op::OnlyNumber { skip, is } => {
                    if n != is.into() {
                        at += usize::from(skip);
                    }
                }
                Op::Describe { what, items, text } => {
                    let took = self.guest.describe(what, v, items, text.min(self.bytes));
                    self.bytes = self.bytes.saturating_sub(took);
                }
                Op::Format {
                    gp,
                    sse,
                    stack,
                    unit,
                    max,
                } => self.format(v, unit, max.into(), (gp, sse, stack))?,
            }
        }
        match depth {
            0 => Ok(()),
            _ => Err(Ended::Malformed),
        }
    }

    fn step(&mut self) -> Result<(), Ended> {
        self.steps = self.steps.checked_sub(1).ok_or(Ended::Limit)?;
        Ok(())
    }

    fn word(&mut self, source: Source) -> Option<u64> {
        let stack = self.registers.stack;
        match source {
            Source::Gp(n) => self.registers.gp.get(usize::from(n)).copied(),
            Source::Sse(n) => self.registers.sse.get(usize::from(n)).copied(),
            Source::StackAddress(offset) => Some(stack.wrapping_add(offset.into())),
            Source::Callers => Some(stack.wrapping_sub(CALLERS)),
            Source::Rax => Some(self.returned?.rax),
            Source::Rdx => Some(self.returned?.rdx),
            Source::Stack(offset) => {
                let mut word = [0; 8];
                let at = stack.wrapping_add(offset.into());
                self.fill(at, &mut word).ok()?;
                Some(u64::from_le_bytes(word))
            }
        }
    }

    /// Reads the number at an address; 0 where nothing can be read.
    fn number(&mut self, at: u64, width: Width) -> Result<u64, Ended> {
        let mut word = [0; 8];
        let len = usize::from(width.bytes).min(8);
        match self.fill(at, &mut word[..len]) {
            Ok(()) => Ok(width.of(u64::from_le_bytes(word))),
            Err(Stop::Unreadable) => Ok(0),
            Err(Stop::Run(ended)) => Err(ended),
        }
    }

    /// Fills a short buffer that may cross a page.
    fn fill(&mut self, at: u64, buffer: &mut [u8]) -> Result<(), Stop> {
        let mut done = 0;
        while done < buffer.len() {
            let from = at.wrapping_add(done as u64);
            let end = done + room(from).min(buffer.len() - done);
            self.chunk(from, &mut buffer[done..end])?;
            done = end;
        }
        Ok(())
    }

    fn chunk(&mut self, at: u64, buffer: &mut [u8]) -> Result<(), Stop> {
        self.step().map_err(Stop::Run)?;
        if at < FIRST_ADDRESS || at.checked_add(buffer.len() as u64).is_none() {
            return Err(Stop::Unreadable);
        }
        if self.guest.read(at, buffer) {
            Ok(())
        } else {
            Err(Stop::Unreadable)
        }
    }

    fn emit(&mut self, at: u64, bytes: &[u8]) -> Result<(), Ended> {
        let len = bytes.len() as u32;
        self.bytes = self.bytes.checked_sub(len).ok_or(Ended::Limit)?;
        if self.guest.output(at, bytes) {
            Ok(())
        } else {
            Err(Ended::Full)
        }
    }

    fn copy(&mut self, at: u64, len: u64) -> Result<(), Ended> {
        let mut buffer = [0; CopyLimits::CHUNK];
        let mut done = 0;
        while done < len {
            let from = at.wrapping_add(done);
            let size = room(from).min((len - done).min(CopyLimits::CHUNK as u64) as usize);
            match self.chunk(from, &mut buffer[..size]) {
                Ok(()) => self.emit(from, &buffer[..size])?,
                Err(Stop::Unreadable) => return Ok(()),
                Err(Stop::Run(ended)) => return Err(ended),
            }
            done += size as u64;
        }
        Ok(())
    }

    /// Hands on a text up to and with its NUL. Units lie aligned in C, so none crosses a chunk; one that is misaligned
    /// ends the text at the chunk's end.
    fn text(&mut self, at: u64, unit: u8, max: u64) -> Result<(), Ended> {
        let unit = usize::from(unit);
        if !matches!(unit, 1 | 2 | 4 | 8) {
            return Err(Ended::Malformed);
        }
        let mut buffer = [0; CopyLimits::CHUNK];
        let len = max.saturating_mul(unit as u64);
        let mut done = 0;
        while done < len {
            let from = at.wrapping_add(done);
            // Most strings are short: a small first chunk spares reading what lies behind them.
            let most = if done == 0 {
                64
            } else {
                CopyLimits::CHUNK as u64
            };
            let size = room(from).min((len - done).min(most) as usize) / unit * unit;
            if size == 0 {
                return Ok(());
            }
            match self.chunk(from, &mut buffer[..size]) {
                Ok(()) => {}
                Err(Stop::Unreadable) => return Ok(()),
                Err(Stop::Run(ended)) => return Err(ended),
            }
            let text = &buffer[..size];
            let end = match unit {
                1 => text.iter().position(|&byte| byte == 0),
                _ => text
                    .chunks_exact(unit)
                    .position(|unit| unit.iter().all(|&byte| byte == 0)),
            };
            match end {
                Some(end) => return self.emit(from, &buffer[..(end + 1) * unit]),
                None => self.emit(from, &buffer[..size])?,
            }
            done += size as u64;
        }
        Ok(())
    }

    fn zero_ended(&mut self, at: u64, unit: u32, most: u64) -> Result<u64, Ended> {
        let unit = usize::try_from(unit).unwrap_or(usize::MAX);
        if unit == 0 || unit > CopyLimits::CHUNK {
            return Err(Ended::Malformed);
        }
        let mut buffer = [0; CopyLimits::CHUNK];
        for index in 0..most {
            let from = at.wrapping_add(index.wrapping_mul(unit as u64));
            match self.fill(from, &mut buffer[..unit]) {
                Ok(()) => self.emit(from, &buffer[..unit])?,
                Err(Stop::Unreadable) => return Ok(index),
                Err(Stop::Run(ended)) => return Err(ended),
            }
            if buffer[..unit].iter().all(|&byte| byte == 0) {
                return Ok(index);
            }
        }
        Ok(most)
    }

    fn format(&mut self, at: u64, unit: u8, max: u64, used: (u8, u8, u16)) -> Result<(), Ended> {
        if !matches!(unit, 1 | 2 | 4) {
            return Err(Ended::Malformed);
        }
        self.text(at, unit, CopyLimits::FORMAT)?;
        let (mut gp, mut sse, mut stack) = used;
        let width = Width {
            bytes: unit,
            signed: false,
            skip: 0,
        };
        let mut conversions = Conversions::new();
        let mut given = 0;
        for index in 0..CopyLimits::FORMAT {
            let character = self.number(at.wrapping_add(index * u64::from(unit)), width)?;
            if character == 0 {
                break;
            }
            let Some(found) = conversions.next(character as u32) else {
                continue;
            };
            let source = match found.kind {
                ConversionKind::LongDouble => {
                    stack = stack.next_multiple_of(16);
                    let source = Source::StackAddress(stack);
                    stack = stack.saturating_add(16);
                    source
                }
                ConversionKind::Double => next(&mut sse, 8, &mut stack, Source::Sse),
                _ => next(&mut gp, 6, &mut stack, Source::Gp),
            };
            // What lies on the stack is no longer there when the line is printed.
            let (place, size) = match source {
                Source::Stack(offset) => (self.word(Source::StackAddress(offset)), 8),
                Source::StackAddress(_) => (self.word(source), 16),
                _ => (None, 0),
            };
            if let Some(place) = place {
                self.copy(place, size)?;
            }
            let unit = match found.kind {
                ConversionKind::Text => 1,
                ConversionKind::WideText => 4,
                ConversionKind::Signed(4) => {
                    given = self.word(source).unwrap_or(0) as i32 as i64;
                    continue;
                }
                _ => continue,
            };
            let most = match (found.precision_given, found.precision) {
                (true, _) if given >= 0 => max.min(given as u64),
                (false, Some(precision)) => max.min(precision.into()),
                _ => max,
            };
            let text = self.word(source).unwrap_or(0);
            self.text(text, unit, most)?;
        }
        Ok(())
    }
}

/// Returns how many bytes from this address lie in the same page, at most a chunk.
fn room(at: u64) -> usize {
    ((PAGE - at % PAGE) as usize).min(CopyLimits::CHUNK)
}

fn next(used: &mut u8, all: u8, stack: &mut u16, register: fn(u8) -> Source) -> Source {
    if *used < all {
        *used += 1;
        return register(*used - 1);
    }
    let source = Source::Stack(*stack);
    *stack = stack.saturating_add(8);
    source
}
