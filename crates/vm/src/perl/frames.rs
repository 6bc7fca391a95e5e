//! Which Perl code is running: contexts. Used by `languages::perl::frames` and `languages::perl::snapshot::roots`.
//!
//! Whatever Perl code enters (sub, eval, loop, block) gets a `PERL_CONTEXT` (`cop.h`) on the context stack, and
//! whenever C code that runs Perl code cannot know what lies under it (`sort`, `tie`, overloading, `DESTROY`,
//! signals) it begins a new stack (`PERL_SI`), so there is a chain of them:
//!
//! ```text
//!   PL_curstackinfo ──▶ PERL_SI type OVERLOAD      si_cxstack ──▶ [ sub ]            innermost last
//!                         │ si_prev
//!                         ▼
//!                       PERL_SI type MAIN          si_cxstack ──▶ [ sub | loop | eval | sub ]
//! ```
//!
//! A context says which code it entered and from where (`blk_oldcop`, `retop`); where its own code stands is said
//! by the next one in, or by `PL_curcop` for the innermost. [`Frames`] pairs the two.
//!
//! # Where C and Perl meet
//!
//! Perl code that calls Perl code stays in one loop of C, `PL_runops` (`Perl_runops_standard`, exported). C code
//! that calls Perl code starts another, deeper on the C stack. [`Frame::enters`] marks the frames whose code is
//! run by a loop of their own; on a native stack each is one frame of `Perl_runops_standard`, and what lies
//! between two of them is the C code that did the call. A frame enters if
//!
//! - it is the program itself (`perl_run`);
//! - it is a sub without a place to return to: `call_sv` makes its operation by hand and `op_next` is 0 in it.
//!   (A plain call that is the last operation of a block of the next kind has none either. A call by C code
//!   directly in such a block cannot be told from it and is taken for one.)
//! - it is the block of a `sort` (`CXt_NULL` on a stack of type `SORT`, `pp_sort.c`), code in a regular expression
//!   (`regexec.c`) or a `defer` block (`pp_ctl.c`);
//! - it is an `eval` that had to make its own `setjmp` (`docatch`, `pp_ctl.c`): that is so if C code began the
//!   present loop and no `eval` was made since (`CATCH_GET`, `cop.h`).
//!
//! `sort`, `first { }` and other users of `MULTICALL` begin a context once and then run their loop again for each
//! item, so a thread seen between two items has one loop fewer than marks.
//!
//! Offsets: `cop.h`, the same in all versions.

use super::interpreter::{Interpreter, Point};
use super::{Error, Perl};
use crate::{Fault, Memory};

/// `si_cxstack`, `si_prev`, `si_cxix` and `si_type` of `PERL_SI`.
const SI_CONTEXTS: u64 = 8;
const SI_PREV: u64 = 16;
const SI_INDEX: u64 = 32;
const SI_TYPE: u64 = 44;

/// `PERLSI_MAIN` and `PERLSI_SORT`, values of `si_type`.
const SI_MAIN: u32 = 1;
const SI_SORT: u32 = 3;

/// `PERL_CONTEXT`: its size; `blku_u16`, `blk_oldcop`; `retop` of sub, format and eval; `cv` of sub and
/// format; `old_namesv`, `cur_text` and `cur_top_env` of eval.
const SIZE: usize = 104;
const U16: usize = 2;
const OLD_COP: usize = 16;
const RETURN_OP: usize = 48;
const CODE: usize = 72;
const EVAL_NAME: usize = 64;
const EVAL_TEXT: usize = 80;
const EVAL_ENV: usize = 96;

/// `CXt_…`: the low four bits of the first byte.
const NULL: u8 = 0;
const SUB: u8 = 9;
const FORMAT: u8 = 10;
const EVAL: u8 = 11;
const DEFER: u8 = 13;

/// `CXp_SUB_RE` of a sub: code in a regular expression; `CXp_SUB_RE_FAKE`: the sub it says it is has been entered once
/// already. `CXp_EVALBLOCK` (5.32: `CXp_TRYBLOCK`) and `CXp_TRY` of an eval.
const SUB_RE: u8 = 0x40;
const SUB_AGAIN: u8 = 0x80;
const EVAL_BLOCK: u8 = 0x40;
const TRY: u8 = 0x80;

/// Contexts of one walk, at most; deeper recursion is cut.
const MOST_CONTEXTS: u32 = 1 << 18;

/// Contexts of one stack; a larger number is taken for garbage.
const LARGEST_STACK: i32 = 1 << 24;

/// The kind of code that a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The program itself, or a file being compiled.
    Main,
    /// A sub written in Perl.
    Sub {
        /// Address of its `CV`; for [`Perl::write_code_name`].
        code: u64,
    },
    /// A format, which `write` runs.
    Format {
        /// Address of its `CV`.
        code: u64,
    },
    /// A block of `eval { }`.
    Eval,
    /// The text of `eval "…"`.
    EvalText {
        /// An SV with the program text.
        text: u64,
    },
    /// A file, by `require`, `use` or `do`.
    File {
        /// An SV with the name that was given to it.
        name: u64,
    },
    /// A block of `try { }`.
    Try,
    /// The block of a `sort`.
    SortBlock,
    /// `(?{ })` in a regular expression of the sub it stands in.
    RegexBlock,
    /// `defer { }` or `finally { }`.
    Defer,
}

/// A piece of running code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of code.
    pub kind: Kind,
    /// The point that it has reached: what runs now, or what it called.
    pub point: Option<Point>,
    /// Its `PERL_CONTEXT`; 0 for the program itself. Frames of one call have the same while it lasts.
    pub context: u64,
    /// Whether it is run by a C loop of its own: see the module's documentation.
    pub enters: bool,
}

/// The bytes of a `PERL_CONTEXT`.
struct Context([u8; SIZE]);

impl Context {
    fn word(&self, at: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.0[at..at + 8]);
        u64::from_le_bytes(word)
    }

    fn kind(&self) -> u8 {
        self.0[0] & 0xf
    }

    fn has(&self, flag: u8) -> bool {
        self.0[0] & flag != 0
    }

    /// Returns the number of the operation that began an `eval`: `CxOLD_OP_TYPE`, `cop.h`.
    fn old_op(&self) -> u16 {
        u16::from_le_bytes([self.0[U16], self.0[U16 + 1]]) >> 7
    }

    fn returns(&self) -> bool {
        self.word(RETURN_OP) != 0
    }

    /// Returns whether the code ends a C loop when it ends, with its last operation.
    fn is_block_of_c(&self, stack: u32) -> bool {
        match self.kind() {
            SUB => self.has(SUB_RE),
            DEFER => true,
            NULL => stack == SI_SORT,
            _ => false,
        }
    }

    /// Returns whether `call_sv` made it, to catch exceptions.
    fn is_guard(&self) -> bool {
        self.kind() == EVAL && self.has(EVAL_BLOCK) && !self.returns()
    }
}

/// A position on the chain of stacks.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    info: u64,
    contexts: u64,
    /// Index of the next context; negative when there are no more on this stack.
    index: i32,
    kind: u32,
}

/// The frames of an interpreter from the innermost outward; made by [`Perl::frames`].
#[derive(Debug)]
pub struct Frames<'p, 'm, M> {
    perl: &'p Perl<'m, M>,
    cursor: Option<Cursor>,
    point: Option<Point>,
    left: u32,
    /// Whether [`Frame::enters`] is found out for each.
    enters: bool,
}

impl<'m, M: Memory> Perl<'m, M> {
    /// Returns the frames of an interpreter, innermost first; the last is the program itself. A walk that meets an
    /// unreadable address ends there with an error.
    pub fn frames<'p>(&'p self, interpreter: &Interpreter) -> Result<Frames<'p, 'm, M>, Error> {
        let info = self.memory.u64(interpreter.curstackinfo)?;
        Ok(Frames {
            perl: self,
            cursor: match info {
                0 => None,
                _ => Some(self.cursor(info)?),
            },
            point: self.here(interpreter)?,
            left: MOST_CONTEXTS,
            enters: true,
        })
    }

    /// As [`frames`](Self::frames), but faster: [`Frame::enters`] is false for all, because finding it out takes a look
    /// at everything around a frame.
    pub fn callers<'p>(&'p self, interpreter: &Interpreter) -> Result<Frames<'p, 'm, M>, Error> {
        Ok(Frames {
            enters: false,
            ..self.frames(interpreter)?
        })
    }

    /// Returns two words that change whenever a frame is entered or left: the innermost stack's `PERL_SI` and its
    /// context index. Two loads.
    #[inline]
    pub fn depth(&self, interpreter: &Interpreter) -> Result<(u64, u32), Fault> {
        let info = self.memory.u64(interpreter.curstackinfo)?;
        Ok((info, self.memory.u32(info.wrapping_add(SI_INDEX))?))
    }

    fn cursor(&self, info: u64) -> Result<Cursor, Error> {
        let index = self.memory.u32(info.wrapping_add(SI_INDEX))?.cast_signed();
        if index > LARGEST_STACK {
            return Err(Error::garbled("stack of contexts", info));
        }
        Ok(Cursor {
            info,
            contexts: self.memory.u64(info.wrapping_add(SI_CONTEXTS))?,
            index,
            kind: self.memory.u32(info.wrapping_add(SI_TYPE))?,
        })
    }

    fn outer(&self, cursor: Cursor) -> Result<Option<Cursor>, Error> {
        if cursor.kind == SI_MAIN {
            return Ok(None);
        }
        match self.memory.u64(cursor.info.wrapping_add(SI_PREV))? {
            0 => Ok(None),
            info => self.cursor(info).map(Some),
        }
    }

    fn context(&self, cursor: Cursor) -> Result<(u64, Context), Fault> {
        let at = cursor
            .contexts
            .wrapping_add(u64::from(cursor.index.cast_unsigned()).wrapping_mul(SIZE as u64));
        let mut bytes = [0; SIZE];
        self.memory.read(at, &mut bytes)?;
        Ok((at, Context(bytes)))
    }

    /// Returns the kind of code that a context runs; `None` for blocks and loops.
    fn kind(&self, context: &Context, stack: Cursor) -> Option<Kind> {
        let code = context.word(CODE);
        Some(match context.kind() {
            SUB if context.has(SUB_AGAIN) => Kind::RegexBlock,
            SUB => Kind::Sub { code },
            FORMAT => Kind::Format { code },
            EVAL if self.layout.has_try && context.has(TRY) => Kind::Try,
            EVAL if context.old_op() == self.layout.op_entereval => Kind::EvalText {
                text: context.word(EVAL_TEXT),
            },
            EVAL => match context.word(EVAL_NAME) {
                0 => Kind::Eval,
                name => Kind::File { name },
            },
            DEFER => Kind::Defer,
            NULL if stack.kind == SI_SORT => Kind::SortBlock,
            _ => return None,
        })
    }
}

impl<M> Clone for Frames<'_, '_, M> {
    fn clone(&self) -> Self {
        Frames { ..*self }
    }
}

impl<M: Memory> Frames<'_, '_, M> {
    /// Returns the sub that the code of `frame`, which was the last, belongs to: that sub itself, or for a block the
    /// one around it. `None` if there is no sub.
    pub fn sub_around(&self, frame: &Frame) -> Option<u64> {
        let outer = self.clone().map_while(Result::ok).map(|outer| outer.kind);
        for kind in core::iter::once(frame.kind).chain(outer) {
            match kind {
                Kind::Sub { code } => return Some(code),
                Kind::Eval | Kind::Try | Kind::SortBlock | Kind::RegexBlock | Kind::Defer => {}
                Kind::Main | Kind::Format { .. } | Kind::EvalText { .. } | Kind::File { .. } => {
                    return None;
                }
            }
        }
        None
    }

    fn advance(&mut self) -> Result<Option<Frame>, Error> {
        let Some(mut cursor) = self.cursor else {
            return Ok(None);
        };
        while self.left > 0 {
            self.left -= 1;
            if cursor.index < 0 {
                match self.perl.outer(cursor)? {
                    Some(outer) => cursor = outer,
                    None => {
                        self.cursor = None;
                        return Ok(Some(Frame {
                            kind: Kind::Main,
                            point: self.point,
                            context: 0,
                            enters: self.enters,
                        }));
                    }
                }
                continue;
            }
            let (at, context) = self.perl.context(cursor)?;
            let here = cursor;
            cursor.index -= 1;
            let Some(kind) = self.perl.kind(&context, here) else {
                continue;
            };
            self.cursor = Some(cursor);
            let has_return = matches!(context.kind(), SUB | FORMAT | EVAL);
            let outside = Point {
                cop: context.word(OLD_COP),
                op: if has_return {
                    context.word(RETURN_OP)
                } else {
                    0
                },
                after: true,
            };
            return Ok(Some(Frame {
                kind,
                point: self.point.replace(outside),
                context: at,
                enters: self.enters && self.enters(kind, &context, cursor)?,
            }));
        }
        self.cursor = None;
        Ok(None)
    }

    /// Returns whether a C loop of its own runs the code of `context`, which is the next one in from `outer`.
    fn enters(&mut self, kind: Kind, context: &Context, outer: Cursor) -> Result<bool, Error> {
        Ok(match kind {
            Kind::Main | Kind::SortBlock | Kind::RegexBlock | Kind::Defer => true,
            Kind::Sub { .. } | Kind::Format { .. } => {
                !context.returns()
                    && (context.is_block_of_c(outer.kind) || !self.in_block_of_c(outer)?)
            }
            // `call_sv` made it, which then begins the loop for the sub that it calls, or `eval_sv` did.
            Kind::Eval | Kind::Try | Kind::EvalText { .. } | Kind::File { .. }
                if !context.returns() =>
            {
                !context.is_guard()
            }
            Kind::Eval | Kind::Try | Kind::EvalText { .. } | Kind::File { .. } => {
                self.must_catch(context.word(EVAL_ENV), outer)?
            }
        })
    }

    /// Returns whether the first context from `cursor` outward that is no loop or bare block is a block that C code
    /// runs.
    fn in_block_of_c(&mut self, mut cursor: Cursor) -> Result<bool, Error> {
        while cursor.index >= 0 && self.left > 0 {
            let (_, context) = self.perl.context(cursor)?;
            if matches!(context.kind(), NULL | SUB | FORMAT | EVAL | DEFER) {
                return Ok(context.is_block_of_c(cursor.kind));
            }
            cursor.index -= 1;
            self.left -= 1;
        }
        Ok(false)
    }

    /// Returns whether exceptions had to be caught anew where the context before `cursor` was made (`CATCH_GET`):
    /// whether the first context further out that decides this is C code calling without a guard. `env` is the `JMPENV`
    /// that the context then had.
    fn must_catch(&mut self, env: u64, mut cursor: Cursor) -> Result<bool, Error> {
        while self.left > 0 {
            if cursor.index < 0 {
                match self.perl.outer(cursor)? {
                    Some(outer) => cursor = outer,
                    None => return Ok(false),
                }
                self.left -= 1;
                continue;
            }
            let (_, context) = self.perl.context(cursor)?;
            let here = cursor;
            cursor.index -= 1;
            match context.kind() {
                SUB | FORMAT
                    if !context.returns()
                        && !context.has(SUB_RE)
                        && self.in_block_of_c(cursor)? =>
                {
                    self.left -= 1;
                }
                SUB | FORMAT if !context.returns() => {
                    if cursor.index < 0 {
                        return Ok(true);
                    }
                    let (_, before) = self.perl.context(cursor)?;
                    // It was called with a guard, unless C code called by that call made another call. Then one more
                    // `JMPENV` was made; `je_prev` is its first member.
                    return Ok(
                        !before.is_guard() || self.perl.memory.u64(env)? != before.word(EVAL_ENV)
                    );
                }
                EVAL => return Ok(false),
                NULL if here.kind == SI_SORT => return Ok(true),
                _ => self.left -= 1,
            }
        }
        Ok(false)
    }
}

impl<M: Memory> Iterator for Frames<'_, '_, M> {
    type Item = Result<Frame, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.cursor = None;
        }
        next
    }
}
