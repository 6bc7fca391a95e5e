//! Frames: which PHP code is running, and where C code lies between. Used by `place` and `script`, and by the crates
//! `languages` and `agent`.
//!
//! Each call has a `zend_execute_data` (`zend_compile.h`), linked from the innermost outward; functions of C have
//! one too:
//!
//! ```text
//!   EG(current_execute_data) ──▶ func: array_map   ── prev ──▶ func: run, opline ── prev ──▶ func: (file), opline
//! ```
//!
//! [`Frame::enters`] marks the frames whose code a call of `execute_ex` of its own runs (`ZEND_CALL_TOP`): those that
//! C code called, and the outermost file. On a native stack each is one frame of `execute_ex`; PHP code that calls
//! PHP code, and files that PHP code includes, stay in one.
//!
//! - A generator that others wait for with `yield from` runs alone; in place of those that wait stands a frame
//!   without function, whose `This` is the outermost of them, and they hang together by `node.parent`
//!   (`zend_generator_check_placeholder_frame`, `zend_generators.c`).
//! - Since 8.4 some functions of C are called without a frame; the operation tells (`zend_frameless_function.h`).
//! - `opline` is stored before anything that could look at it, but not before each operation: seen at an arbitrary
//!   instant from outside it may be some operations behind. `execute_ex` keeps the true one in r15 where PHP was built
//!   by gcc.
//!
//! Offsets without a place in the layout are the same in all versions.

use super::table::string;
use super::{CURRENT, Error, Php, Text};
use crate::{Fault, Memory};

/// `opline`, `func`, `This` (its value, its `u1`) and `prev_execute_data` in `zend_execute_data`.
const OPLINE: u64 = 0;
const FUNC: u64 = 24;
const THIS: u64 = 32;
const INFO: u64 = 40;
const PREV: u64 = 48;

/// `ZEND_CALL_TOP`; the lowest byte is the type of `This`, and `IS_OBJECT` one.
const TOP: u32 = 1 << 17;
const TYPE_BITS: u32 = 0xff;
const OBJECT: u32 = 8;

/// `op1`, `op2`, `extended_value`, `lineno`, `opcode`, `op1_type` and `op2_type` in `zend_op`; its size.
const OP1: u64 = 8;
const OP2: u64 = 12;
const EXTENDED: u64 = 20;
pub(super) const LINE: u64 = 24;
const CODE: u64 = 28;
const OP1_TYPE: u64 = 29;
const OP2_TYPE: u64 = 30;
pub(super) const OP_SIZE: u64 = 32;

/// `ZEND_INCLUDE_OR_EVAL`, `ZEND_HANDLE_EXCEPTION`, `ZEND_FRAMELESS_ICALL_0` and `_3`: `zend_vm_opcodes.h`.
const INCLUDE_OR_EVAL: u8 = 73;
const HANDLE_EXCEPTION: u8 = 149;
const FRAMELESS_FIRST: u8 = 204;
const FRAMELESS_LAST: u8 = 207;

/// `ZEND_EVAL`: `zend_compile.h`. `IS_CONST`, the type of an operand.
const EVAL: u32 = 1;
const CONSTANT: u8 = 1;

/// `u1.v.type` in a zval; `IS_UNDEF`.
const ZVAL_TYPE: u64 = 8;
const UNDEF: u8 = 0;

/// More than the bytes of a `zend_generator`, which has some 300.
const MOST_OF_GENERATOR: u64 = 512;

/// Frames of one walk, and generators of one chain, at most.
const MOST_FRAMES: u32 = 1 << 18;
const MOST_GENERATORS: u32 = 1 << 12;

/// A point in a program: a PHP function and an operation in it. Two words, cheap to read and to compare; they mean the
/// same point until the code is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// Address of a `zend_op_array`.
    pub function: u64,
    /// Address of one of its `zend_op`s; 0 if it has not begun.
    pub opline: u64,
}

/// The kind of code that a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A function or method written in PHP, closures and generators included.
    Function,
    /// A function or method written in C.
    Internal,
    /// The file that runs as the program.
    Main,
    /// A file by `include` or `require`.
    Include,
    /// The text of an `eval`.
    Eval,
    /// The bottom of a fiber, which has a C stack of its own: the frames outward from it are on the stack that resumed
    /// it.
    FiberBottom,
}

/// One call of PHP or C code, or the bottom of a fiber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of code.
    pub kind: Kind,
    /// Address of its `zend_execute_data`; 0 if it has none.
    pub data: u64,
    /// Address of its `zend_function`; for [`Php::write_function_name`].
    pub function: u64,
    /// The point that it has reached, if it is PHP code.
    pub point: Option<Point>,
    /// Whether a call of `execute_ex` of its own runs it: see the module's documentation.
    pub enters: bool,
    /// Whether it is a generator that waits for the frame before, with `yield from`: nothing runs it.
    pub waits: bool,
}

/// Generators that wait for another.
#[derive(Clone, Copy)]
struct Waiting {
    outermost: u64,
    left: u32,
}

/// Frames from one outward; made by [`Php::frames`].
pub struct Frames<'p, 'm, M> {
    php: &'p Php<'m, M>,
    data: u64,
    waiting: Option<Waiting>,
    /// A frame that comes after one of a C function that has no data.
    held: Option<Frame>,
    /// `zend_execute_data` and function of the frame before.
    last: (u64, u64),
    left: u32,
}

impl<'m, M: Memory> Php<'m, M> {
    /// Returns the innermost `zend_execute_data`; 0 if nothing runs. One load.
    #[inline]
    pub fn current(&self) -> Result<u64, Fault> {
        self.global(CURRENT)
    }

    /// Returns the nearest point in PHP code at or outside a `zend_execute_data`: five loads, and three for each frame
    /// of C in between. What calls `__call` is none.
    #[inline]
    pub fn point(&self, data: u64) -> Result<Option<Point>, Fault> {
        let mut data = data;
        for _ in 0..MOST_FRAMES {
            if data == 0 {
                break;
            }
            let function = self.memory.u64(data.wrapping_add(FUNC))?;
            if function != 0 && self.is_written(function)? {
                return Ok(Some(Point {
                    function,
                    opline: self.memory.u64(data.wrapping_add(OPLINE))?,
                }));
            }
            data = self.memory.u64(data.wrapping_add(PREV))?;
        }
        Ok(None)
    }

    /// Returns the point that PHP code has reached, whatever C code it called.
    #[inline]
    pub fn here(&self) -> Result<Option<Point>, Fault> {
        self.point(self.current()?)
    }

    /// Returns the function of a `zend_execute_data`, which may be one of C; 0 where generators wait.
    #[inline]
    pub fn function_of(&self, data: u64) -> Result<u64, Fault> {
        self.memory.u64(data.wrapping_add(FUNC))
    }

    /// Returns the line of a point, as `debug_backtrace` does; two loads.
    pub fn line(&self, point: Point) -> Result<u32, Fault> {
        let mut opline = point.opline;
        if opline == 0 {
            opline = self
                .memory
                .u64(point.function.wrapping_add(self.layout.opcodes))?;
        } else if self.memory.u8(opline.wrapping_add(CODE))? == HANDLE_EXCEPTION {
            let executor = self.facts.executor();
            opline = self
                .memory
                .u64(executor.wrapping_add(self.layout.before_exception))?;
            if opline == 0 {
                return self
                    .memory
                    .u32(point.function.wrapping_add(self.layout.line_end));
            }
        }
        self.memory.u32(opline.wrapping_add(LINE))
    }

    /// Returns a word that changes when the function at a point becomes another: its operations and file, mixed. Two
    /// loads. It is no proof, but an address would have to be used again for both.
    #[inline]
    pub fn witness(&self, point: Point) -> Result<u64, Fault> {
        let word = |offset: u64| self.memory.u64(point.function.wrapping_add(offset));
        Ok(word(self.layout.opcodes)? ^ word(self.layout.filename)?.rotate_left(21))
    }

    /// Returns the file of a point. The text of an `eval` has one of its own: `/app/x.php(12) : eval()'d code`.
    pub fn file(&self, point: Point) -> Result<Text, Error> {
        let file = point.function.wrapping_add(self.layout.filename);
        string(self.memory, self.memory.u64(file)?)
    }

    /// Returns the frames from a `zend_execute_data` outward, most often from [`current`](Php::current). A walk that
    /// meets an unreadable address ends there with an error.
    pub fn frames<'p>(&'p self, data: u64) -> Frames<'p, 'm, M> {
        Frames {
            php: self,
            data,
            waiting: None,
            held: None,
            last: (0, 0),
            left: MOST_FRAMES,
        }
    }

    /// Returns the frame of a `zend_execute_data` that has a function.
    fn frame(&self, data: u64, function: u64) -> Result<Frame, Error> {
        let internal = self.is_internal(function)?;
        let info = self.memory.u32(data.wrapping_add(INFO))?;
        let kind = if internal {
            // `zend_fiber_function` has no name.
            match self.function_name(function)? {
                Some(_) => Kind::Internal,
                None => Kind::FiberBottom,
            }
        } else if self.function_name(function)?.is_some() {
            Kind::Function
        } else {
            self.kind_of_file(data)?
        };
        let point = if internal {
            None
        } else {
            Some(Point {
                function,
                opline: self.memory.u64(data.wrapping_add(OPLINE))?,
            })
        };
        Ok(Frame {
            kind,
            data,
            function,
            point,
            enters: !internal && info & TOP != 0,
            waits: false,
        })
    }

    /// Returns what made the code of a file run: the operation of the frame around it.
    fn kind_of_file(&self, data: u64) -> Result<Kind, Error> {
        let around = self.memory.u64(data.wrapping_add(PREV))?;
        if around == 0 {
            return Ok(Kind::Main);
        }
        let function = self.function_of(around)?;
        if function == 0 || self.is_internal(function)? {
            return Ok(Kind::Main);
        }
        let opline = self.memory.u64(around.wrapping_add(OPLINE))?;
        Ok(match self.memory.u8(opline.wrapping_add(CODE))? {
            INCLUDE_OR_EVAL if self.memory.u32(opline.wrapping_add(EXTENDED))? == EVAL => {
                Kind::Eval
            }
            INCLUDE_OR_EVAL => Kind::Include,
            _ => Kind::Main,
        })
    }

    /// Returns the C function that `frame` calls without a frame, if it does.
    fn frameless(&self, frame: &Frame) -> Result<Option<u64>, Error> {
        let Some(Point { opline, .. }) = frame.point.filter(|_| self.layout.frameless) else {
            return Ok(None);
        };
        if opline == 0 {
            return Ok(None);
        }
        let code = self.memory.u8(opline.wrapping_add(CODE))?;
        if !(FRAMELESS_FIRST..=FRAMELESS_LAST).contains(&code) {
            return Ok(None);
        }
        // The call is over once an argument has been freed.
        let arguments = code - FRAMELESS_FIRST;
        let next = opline.wrapping_add(OP_SIZE);
        let operands = [
            (opline, OP1, OP1_TYPE),
            (opline, OP2, OP2_TYPE),
            (next, OP1, OP1_TYPE),
        ];
        for (opline, operand, kind) in operands.into_iter().take(arguments.into()) {
            let offset = self.memory.u32(opline.wrapping_add(operand))?;
            let zval = match self.memory.u8(opline.wrapping_add(kind))? {
                CONSTANT => opline.wrapping_add_signed(offset.cast_signed().into()),
                _ => frame.data.wrapping_add(offset.into()),
            };
            if self.memory.u8(zval.wrapping_add(ZVAL_TYPE))? == UNDEF {
                return Ok(None);
            }
        }
        let index = u64::from(self.memory.u32(opline.wrapping_add(EXTENDED))?);
        Ok(Some(
            self.memory
                .u64(self.facts.frameless().wrapping_add(index * 8))?,
        ))
    }
}

impl<M: Memory> Frames<'_, '_, M> {
    fn advance(&mut self) -> Result<Option<Frame>, Error> {
        if let Some(frame) = self.held.take() {
            return Ok(Some(frame));
        }
        while self.left > 0 {
            self.left -= 1;
            if let Some(waiting) = self.waiting {
                match waiting.left.checked_sub(1) {
                    Some(left) => {
                        self.waiting = Some(Waiting { left, ..waiting });
                        return self.waiting_frame(waiting.outermost, left).map(Some);
                    }
                    None => self.waiting = None,
                }
            }
            let data = self.data;
            if data == 0 {
                return Ok(None);
            }
            self.data = self.php.memory.u64(data.wrapping_add(PREV))?;
            let function = self.php.function_of(data)?;
            if function == 0 {
                self.waiting = self.waiting_at(data)?;
                continue;
            }
            let frame = self.php.frame(data, function)?;
            let before = self.last.1;
            self.last = (data, function);
            return Ok(Some(match self.php.frameless(&frame)? {
                Some(called) if called != before => {
                    self.held = Some(frame);
                    Frame {
                        kind: Kind::Internal,
                        data: 0,
                        function: called,
                        point: None,
                        enters: false,
                        waits: false,
                    }
                }
                _ => frame,
            }));
        }
        Ok(None)
    }

    /// Returns the generators that a frame without function stands for. Such a frame is a part of the outermost one (`execute_fake`,
    /// `zend_generators.h`). Up to 8.1 the engine has another one: `zend_call_function` puts a copy of the caller's frame, without its
    /// function and with its object, on the C stack for a magic call (`zend_execute_API.c`); nothing is read of that object.
    fn waiting_at(&self, data: u64) -> Result<Option<Waiting>, Error> {
        let memory = self.php.memory;
        if memory.u32(data.wrapping_add(INFO))? & TYPE_BITS != OBJECT {
            return Ok(None);
        }
        let outermost = memory.u64(data.wrapping_add(THIS))?;
        if data.wrapping_sub(outermost) >= MOST_OF_GENERATOR {
            return Ok(None);
        }
        let mut generator = outermost;
        for count in 0..MOST_GENERATORS {
            // The last is the one that runs, whose frame came before.
            if generator == 0 || self.data_of(generator)? == self.last.0 {
                return Ok(Some(Waiting {
                    outermost,
                    left: count,
                }));
            }
            generator = self.parent_of(generator)?;
        }
        Err(Error::garbled("generator", outermost))
    }

    fn waiting_frame(&self, outermost: u64, index: u32) -> Result<Frame, Error> {
        let mut generator = outermost;
        for _ in 0..index {
            generator = self.parent_of(generator)?;
        }
        let data = self.data_of(generator)?;
        let frame = self.php.frame(data, self.php.function_of(data)?)?;
        Ok(Frame {
            enters: false,
            waits: true,
            ..frame
        })
    }

    fn data_of(&self, generator: u64) -> Result<u64, Fault> {
        let (data, _) = self.php.layout.generator;
        self.php.memory.u64(generator.wrapping_add(data))
    }

    fn parent_of(&self, generator: u64) -> Result<u64, Fault> {
        let (_, parent) = self.php.layout.generator;
        self.php.memory.u64(generator.wrapping_add(parent))
    }
}

impl<M: Memory> Iterator for Frames<'_, '_, M> {
    type Item = Result<Frame, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.advance().transpose();
        if matches!(next, Some(Err(_))) {
            self.left = 0;
            self.held = None;
        }
        next
    }
}
