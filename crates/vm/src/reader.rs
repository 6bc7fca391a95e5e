//! The interface to a VM for code that does not know which language it runs: which point the script has reached, who
//! called it, which line and name that is, and how the words of a call read. Used by `perl::script`, `php::script` and
//! others here, and by the crates `languages`, `agent` and `hooks`.
//!
//! [`Reader`] calls the reader of the guest's language. Each language implements it in the file `script.rs` of its folder.

use core::fmt;

use crate::language::{Language, languages};
use crate::{Cut, Limits, Memory, Scalar, Word};

/// Words that the facts of any reader take.
pub const FACTS: usize = 24;

/// The facts of a reader, as its `Facts::to_words` gives them, followed by zeros.
pub type FactWords = [u64; FACTS];

/// Returns the facts that `N` of the words are.
pub fn few<const N: usize>(words: &FactWords) -> [u64; N] {
    let mut few = [0; N];
    few.copy_from_slice(&words[..N]);
    few
}

/// Returns the words of so many facts.
pub(crate) fn all<const N: usize>(facts: [u64; N]) -> FactWords {
    let mut words = [0; FACTS];
    words[..N].copy_from_slice(&facts);
    words
}

/// Calls `each` with points until it returns false. Returns false if it comes to one that could not be read.
pub(crate) fn until(
    points: impl Iterator<Item = Option<ScriptPoint>>,
    each: &mut impl FnMut(ScriptPoint) -> bool,
) -> bool {
    for point in points {
        match point {
            None => return false,
            Some(point) if !each(point) => return true,
            Some(_) => {}
        }
    }
    true
}

/// A VM that was found in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// What the reader must know of the process, beyond its version.
    pub facts: FactWords,
    /// How a thread finds its own state.
    pub state: State,
}

/// How a thread that runs in the guest finds its own state in the VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The facts lead to it, and nothing else is needed.
    Known,
    /// Each thread keeps a pointer to it near its thread pointer, all at the same distance. The main thread's has this
    /// value, by which the distance is found.
    Pointer(u64),
    /// The VM has one state, that of the main thread.
    MainThread,
    /// There is no way to find it, for this reason, so script lines cannot be read.
    Unknown(&'static str),
}

/// The running thread, as its reader needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnThread {
    /// Its thread pointer, the `fs` base.
    pub pointer: u64,
    /// For [`State::Pointer`], the distance from `pointer` to the pointer to its state. For [`State::MainThread`], the
    /// thread pointer of the main thread.
    pub state: u64,
}

/// A point in a script. Two of these are the same point of the same code if all three words are equal; the address of
/// the code alone does not say that, because it is used again when code is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptPoint {
    /// The code that runs: an iseq, a code object, a statement, a function. Never 0.
    pub code: u64,
    /// The point within the code, as the VM notes it.
    pub point: u64,
    /// A word that changes when the address is used for other code: a mix of the objects that hold its path and name.
    pub witness: u64,
}

/// A call of a function that a hook sees.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// rdi, rsi, rdx, rcx, r8, r9 at the function's entry.
    pub registers: [u64; 6],
    /// What [`Reader::kept`] returned when the function was called.
    pub kept: u64,
    /// The thread that calls.
    pub thread: OwnThread,
}

/// A text in a guest's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawText {
    /// Address of the first unit.
    pub address: u64,
    /// Number of units, as the VM notes it.
    pub len: u64,
    /// Bytes of a unit, which is a character; 0 = the units are bytes, taken as they are.
    pub width: u8,
}

impl RawText {
    pub(crate) const fn bytes(address: u64, len: u64) -> RawText {
        RawText {
            address,
            len,
            width: 0,
        }
    }
}

/// The error for a word without text: it cannot be read, or it is one of another language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoText;

impl<E: core::error::Error> From<E> for NoText {
    fn from(_: E) -> Self {
        NoText
    }
}

/// Number of bits that [`Reader::kept`] may use.
pub const KEPT: u32 = 20;

/// The interface of a language's reader. The methods are described at [`Reader`].
pub(crate) trait ScriptReader<'a, M: Memory>: Sized {
    type Error;

    fn find(memory: &'a M, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Found, Self::Error>;
    fn open(memory: &'a M, facts: &FactWords) -> Option<Self>;
    fn nearest(&self, thread: OwnThread) -> Option<ScriptPoint>;
    fn outward(&self, thread: OwnThread, each: &mut impl FnMut(ScriptPoint, u64) -> bool) -> bool;

    fn reads_frames_alone(&self) -> bool {
        false
    }

    fn is_wary(&self) -> bool {
        false
    }

    /// As [`nearest`](Self::nearest), over a memory that refuses what cannot be read. Only a language in which that may happen
    /// needs `memory`.
    fn nearest_wary(&self, _memory: &impl Memory, thread: OwnThread) -> Option<ScriptPoint> {
        self.nearest(thread)
    }

    /// As [`outward`](Self::outward), over such a memory.
    fn outward_wary(
        &self,
        _memory: &impl Memory,
        thread: OwnThread,
        each: &mut impl FnMut(ScriptPoint, u64) -> bool,
    ) -> bool {
        self.outward(thread, each)
    }

    fn line(&self, at: ScriptPoint) -> Option<u32>;
    fn copy_path(&self, at: ScriptPoint, into: &mut [u8]) -> usize;
    fn copy_name(
        &self,
        at: ScriptPoint,
        function: Option<u64>,
        thread: OwnThread,
        into: &mut [u8],
    ) -> usize;
    fn write_word(
        &self,
        word: Word,
        value: u64,
        call: &Call,
        limits: &Limits,
        out: &mut Cut<'_>,
    ) -> Result<(), NoText>;
    fn scalar(&self, word: Word, value: u64, index: u64, call: &Call) -> Option<Scalar<RawText>>;

    fn copy_text(&self, _text: RawText, _into: &mut [u8]) -> Option<usize> {
        None
    }

    fn kept(&self, _thread: OwnThread) -> u64 {
        0
    }

    fn identity(&self, _registers: [u64; 6]) -> u64 {
        0
    }
}

macro_rules! readers {
    ($d:tt $($(#[$doc:meta])+ $language:ident = $number:literal: $module:ident::$reader:ident;)+) => {
        impl Language {
            /// Finds what a language's reader must know of a process. `symbol` returns the address in the guest of an
            /// exported symbol.
            pub fn find(
                self,
                memory: &impl Memory,
                symbol: &dyn Fn(&str) -> Option<u64>,
            ) -> Result<Found, Error> {
                match self {
                    $(Language::$language => {
                        crate::$module::$reader::find(memory, symbol).map_err(Error::$language)
                    })+
                }
            }
        }

        /// The reader of one of the languages.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "there is one, and no allocator to box it")]
        enum AnyReader<'a, M> {
            $($language(crate::$module::$reader<'a, M>),)+
        }

        impl<'a, M: Memory> AnyReader<'a, M> {
            fn open(language: Language, memory: &'a M, facts: &FactWords) -> Option<Self> {
                match language {
                    $(Language::$language => {
                        crate::$module::$reader::open(memory, facts).map(AnyReader::$language)
                    })+
                }
            }

            #[inline]
            fn over<'b, N: Memory>(&self, memory: &'b N) -> AnyReader<'b, N> {
                match self {
                    $(AnyReader::$language(reader) => {
                        AnyReader::$language(reader.over(memory))
                    })+
                }
            }
        }

        /// Calls a method of the reader, whichever language it is of.
        macro_rules! ask {
            ($d any:expr, $d reader:ident => $d question:expr) => {
                match $d any {
                    $(AnyReader::$language($d reader) => $d question,)+
                }
            };
        }

        /// Why a VM could not be read.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Error {
            $($(#[$doc])+ $language(crate::$module::Error),)+
        }

        impl Error {
            /// Returns whether another try may succeed, because the memory was read while the guest changed it.
            #[must_use]
            pub fn may_pass(&self) -> bool {
                match self {
                    $(Error::$language(error) => matches!(
                        error,
                        crate::$module::Error::Memory(_) | crate::$module::Error::Garbled { .. }
                    ),)+
                }
            }
        }

        impl fmt::Display for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Error::$language(error) => error.fmt(f),)+ }
            }
        }

        impl core::error::Error for Error {}
    };
}
languages!(readers $);

/// The reader of the guest's VM, whichever it is.
#[derive(Debug)]
pub struct Reader<'a, M> {
    language: Language,
    any: AnyReader<'a, M>,
}

impl<'a, M: Memory> Reader<'a, M> {
    /// Makes a reader for the process that `facts` were found in; `None` if its version is not known here, or if what
    /// it needs could not be read.
    pub fn open(language: Language, memory: &'a M, facts: &FactWords) -> Option<Self> {
        let any = AnyReader::open(language, memory, facts)?;
        Some(Reader { language, any })
    }

    /// Returns a reader of the same process through another memory.
    #[inline]
    pub fn over<'b, N: Memory>(&self, memory: &'b N) -> Reader<'b, N> {
        Reader {
            language: self.language,
            any: self.any.over(memory),
        }
    }

    /// Returns the language of the guest's VM.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Returns the point at which the script of the running thread is, in its nearest frame. This is called at each
    /// call of a hooked function.
    #[inline]
    pub fn nearest(&self, thread: OwnThread) -> Option<ScriptPoint> {
        ask!(&self.any, reader => ScriptReader::nearest(reader, thread))
    }

    /// Calls `each` with the points of the frames outside of the nearest one, from the inside outward, until it returns
    /// `false`; each with the function that [`copy_name`](Reader::copy_name) needs. Returns whether it was called with each up to the
    /// outermost one or up to where it returned `false`: if not, a frame could not be read.
    pub fn outward(
        &self,
        thread: OwnThread,
        mut each: impl FnMut(ScriptPoint, u64) -> bool,
    ) -> bool {
        ask!(&self.any, reader => ScriptReader::outward(reader, thread, &mut each))
    }

    /// Returns whether nothing but frames, and what they lead to, may be read with the facts. Then no word of a call is: it has no text.
    pub fn reads_frames_alone(&self) -> bool {
        ask!(&self.any, reader => ScriptReader::reads_frames_alone(reader))
    }

    /// Returns whether another thread may take away what leads to this thread's frames, or the layout was derived: then only
    /// [`nearest_wary`](Reader::nearest_wary) and [`outward_wary`](Reader::outward_wary) may be called.
    pub fn is_wary(&self) -> bool {
        ask!(&self.any, reader => ScriptReader::is_wary(reader))
    }

    /// As [`nearest`](Reader::nearest), where what leads to the frames may be wrong or gone for a moment: stacks
    /// are copied away under the VM (greenlet), or [`is_wary`](Reader::is_wary). `memory` is that of the same process, and returns an error
    /// for what cannot be read.
    pub fn nearest_wary(&self, memory: &impl Memory, thread: OwnThread) -> Option<ScriptPoint> {
        ask!(&self.any, reader => ScriptReader::nearest_wary(reader, memory, thread))
    }

    /// As [`outward`](Reader::outward), in the same circumstances.
    pub fn outward_wary(
        &self,
        memory: &impl Memory,
        thread: OwnThread,
        mut each: impl FnMut(ScriptPoint, u64) -> bool,
    ) -> bool {
        ask!(&self.any, reader => ScriptReader::outward_wary(reader, memory, thread, &mut each))
    }

    /// Returns whether the file at this path belongs to a library.
    pub fn is_library(&self, path: &[u8]) -> bool {
        crate::library::is_library(path, self.language.description().libraries)
    }

    /// Returns the line, from 1; `None` if it cannot be read.
    pub fn line(&self, at: ScriptPoint) -> Option<u32> {
        ask!(&self.any, reader => ScriptReader::line(reader, at))
    }

    /// Copies the path of the file and returns how many bytes, 0 if it cannot be read.
    pub fn copy_path(&self, at: ScriptPoint, into: &mut [u8]) -> usize {
        ask!(&self.any, reader => ScriptReader::copy_path(reader, at, into))
    }

    /// Copies the function's name and returns how many bytes, 0 if it has none. `function` is what
    /// [`outward`](Reader::outward) gave with the point; `None` for the nearest frame of this thread.
    pub fn copy_name(
        &self,
        at: ScriptPoint,
        function: Option<u64>,
        thread: OwnThread,
        into: &mut [u8],
    ) -> usize {
        ask!(&self.any, reader => ScriptReader::copy_name(reader, at, function, thread, into))
    }

    /// Returns the word with this number, if words of calls may be read.
    fn word(&self, number: u8) -> Option<Word> {
        match self.reads_frames_alone() {
            true => None,
            false => Word::of(self.language, number),
        }
    }

    /// Writes the text of a word of a call. `number` is the word's: [`Word::number`].
    pub fn write_word(
        &self,
        number: u8,
        value: u64,
        call: &Call,
        limits: &Limits,
        out: &mut Cut<'_>,
    ) -> Result<(), NoText> {
        let word = self.word(number).ok_or(NoText)?;
        ask!(&self.any, reader => ScriptReader::write_word(reader, word, value, call, limits, out))
    }

    /// Returns the value of a word of a call, as far as conditions distinguish values; where the word stands for
    /// arguments, that of the one at `index`. `None` if there is none, or if it cannot be read.
    pub fn scalar(
        &self,
        number: u8,
        value: u64,
        index: u64,
        call: &Call,
    ) -> Option<Scalar<RawText>> {
        let word = self.word(number)?;
        ask!(&self.any, reader => ScriptReader::scalar(reader, word, value, index, call))
    }

    /// Copies text whose units are characters as UTF-8, as many whole characters as there is room for, and returns how
    /// many bytes.
    pub fn copy_text(&self, text: RawText, into: &mut [u8]) -> Option<usize> {
        ask!(&self.any, reader => ScriptReader::copy_text(reader, text, into))
    }

    /// Returns what must be known of a call to write its result when it returns, in [`KEPT`] bits; 0 for most
    /// functions.
    #[inline]
    pub fn kept(&self, thread: OwnThread) -> u64 {
        ask!(&self.any, reader => ScriptReader::kept(reader, thread))
    }

    /// Returns what tells a function that the VM calls from others with the same code; 0 where code belongs to one
    /// function alone.
    #[inline]
    pub fn identity(&self, registers: [u64; 6]) -> u64 {
        ask!(&self.any, reader => ScriptReader::identity(reader, registers))
    }
}
