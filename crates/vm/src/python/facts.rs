//! What the reader must know about one process beyond its version. Used by `script`, and by the crates `languages`,
//! `enter` and `agent`.
//!
//! Facts are found once, from outside, with the help of exported symbols, and are plain numbers, so
//! that they can be handed to the agent. Who exports the symbols differs: Debian's `python3` is linked
//! statically and exports them itself; programs that embed Python, and Pythons built with
//! `--enable-shared`, have them in `libpython3.X.so.1.0`.
//!
//! **Which version.** Since 3.11 `Py_Version` says it. 3.9 and 3.10 export only functions that would
//! have to be called, but also a set of functions that tells minor versions apart: `Py_NewRef` came with
//! 3.10 and `PyFrame_GetCode` with 3.9. `sys.hexversion`, read then through that layout, must agree.

use super::class::{MOST_STATICS, SUBCLASSES};
use super::layout::sections::Sections;
use super::state::{CURRENT, GETTER};
use super::version::Unsupported;
use super::{Error, Layout, Python, Version, layout};
use crate::Memory;

/// Bytes of the largest `PyInterpreterState`: 3.12's has 410 KB.
const INTERPRETER: u64 = 1 << 19;

/// Facts about one Python process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    version: u64,
    runtime: u64,
    own: u64,
    current: u64,
    current_place: u64,
    statics: u64,
    lists: u64,
    enabled: u64,
    none: u64,
    yes: u64,
    no: u64,
    types: Types,
    sections: u64,
}

/// The addresses of types that no flag of `tp_flags` tells.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types {
    pub code: u64,
    pub module: u64,
    pub float: u64,
    pub bytearray: u64,
    pub builtin: u64,
    pub method: u64,
    pub class_method: u64,
    pub slot: u64,
    pub function: u64,
    pub bound: u64,
    pub made_static: u64,
    pub made_class: u64,
}

/// In the word of the version, above what [`Version::packed`] has: a build without the GIL.
const FREE_THREADED: u64 = 1 << 32;

/// The VM's function that says whether the collector is switched on; exported since 3.10.
const IS_ENABLED: &str = "PyGC_IsEnabled";

impl Facts {
    /// Number of words that the facts take.
    pub const WORDS: usize = 24;

    /// Finds the facts. `symbol` returns the address in the guest of a symbol that the program or its libpython exports.
    ///
    /// # Errors
    /// There is none, it is of a version that is not known, or a free-threaded build, of whose objects little is known.
    pub fn find(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Facts, Error> {
        Facts::found(memory, symbol, false)
    }

    /// Finds the facts of a Python of which only threads, their frames and names, and the locks that they hold will be read: a free-threaded one too.
    pub fn for_frames(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Facts, Error> {
        Facts::found(memory, symbol, true)
    }

    fn found(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
        for_frames: bool,
    ) -> Result<Facts, Error> {
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        let runtime = need("_PyRuntime")?;
        let version = match symbol("Py_Version") {
            Some(at) => Version::of_hex(memory.u32(at)?)?,
            None if symbol("Py_NewRef").is_some() => Version::new(3, 10, 0),
            None if symbol("PyFrame_GetCode").is_some() => Version::new(3, 9, 0),
            None => return Err(Unsupported::Old.into()),
        };
        Layout::of(version)?;
        let mut facts = Facts {
            version: version.packed(),
            runtime,
            own: 0,
            current: CURRENT.iter().find_map(|name| symbol(name)).unwrap_or(0),
            current_place: 0,
            statics: 0,
            lists: 0,
            enabled: 0,
            none: need("_Py_NoneStruct")?,
            yes: need("_Py_TrueStruct")?,
            no: need("_Py_FalseStruct")?,
            types: Types {
                code: need("PyCode_Type")?,
                module: need("PyModule_Type")?,
                float: need("PyFloat_Type")?,
                bytearray: need("PyByteArray_Type")?,
                builtin: need("PyCFunction_Type")?,
                method: need("PyMethodDescr_Type")?,
                class_method: need("PyClassMethodDescr_Type")?,
                slot: need("PyWrapperDescr_Type")?,
                function: need("PyFunction_Type")?,
                bound: need("PyMethod_Type")?,
                made_static: need("PyStaticMethod_Type")?,
                made_class: need("PyClassMethod_Type")?,
            },
            sections: 0,
        };
        let python = Python {
            memory,
            layout: layout::offsets::read(memory, runtime, version)?,
            facts,
        };
        let is_free_threaded = python.layout.head != 0;
        if is_free_threaded && !for_frames {
            return Err(Unsupported::FreeThreaded(version).into());
        }
        let hex = python.lookup("sys.hexversion").map_err(|why| match why {
            Error::Unknown { .. } => Error::NotRunning,
            other => other,
        })?;
        let stated = Version::of_hex(python.small_int(hex)? as u32)?;
        if (stated.major, stated.minor) != (version.major, version.minor) {
            return Err(Error::garbled("sys.hexversion of this version", hex));
        }
        facts = Facts {
            version: stated.packed(),
            ..facts
        }
        .with_free_threads(is_free_threaded);
        facts.own = python.find_own(symbol(GETTER))?;
        if facts.current != 0 {
            facts.current_place = python.find_current(facts.current);
        }
        if is_free_threaded {
            return Ok(facts);
        }
        facts.statics = python.find_statics()?;
        facts.lists = python.find_lists()?;
        facts.enabled = python.find_enabled(symbol(IS_ENABLED));
        Ok(facts)
    }

    /// Returns the facts as words, in an order that only [`from_words`](Facts::from_words) needs to know.
    pub const fn to_words(self) -> [u64; Facts::WORDS] {
        let types = self.types;
        [
            self.version,
            self.runtime,
            self.own,
            self.current,
            self.current_place,
            self.statics,
            self.lists,
            self.enabled,
            self.none,
            self.yes,
            self.no,
            types.code,
            types.module,
            types.float,
            types.bytearray,
            types.builtin,
            types.method,
            types.class_method,
            types.slot,
            types.function,
            types.bound,
            types.made_static,
            types.made_class,
            self.sections,
        ]
    }

    /// The inverse of [`to_words`](Facts::to_words).
    pub const fn from_words(words: [u64; Facts::WORDS]) -> Facts {
        let [
            version,
            runtime,
            own,
            current,
            current_place,
            statics,
            lists,
            enabled,
            none,
            yes,
            no,
            rest @ ..,
        ] = words;
        let [
            code,
            module,
            float,
            bytearray,
            builtin,
            method,
            class_method,
            slot,
            function,
            bound,
            made_static,
            made_class,
            sections,
        ] = rest;
        Facts {
            version,
            runtime,
            own,
            current,
            current_place,
            statics,
            lists,
            enabled,
            none,
            yes,
            no,
            types: Types {
                code,
                module,
                float,
                bytearray,
                builtin,
                method,
                class_method,
                slot,
                function,
                bound,
                made_static,
                made_class,
            },
            sections,
        }
    }

    /// What can be known of a Python without a table before its layout is: the frames of its scripts need no more.
    pub(super) fn of_frames(version: Version, runtime: u64, code: u64) -> Facts {
        Facts {
            version: version.packed(),
            runtime,
            types: Types {
                code,
                ..Types::default()
            },
            ..Facts::default()
        }
    }

    /// The same facts with where the sections of `_Py_DebugOffsets` begin, and with [`own`](Facts::own).
    pub(super) const fn with_sections(self, sections: Sections, own: u64) -> Facts {
        Facts {
            sections: sections.packed(),
            own,
            ..self
        }
    }

    /// The same facts, with whether the build has no GIL.
    pub(super) const fn with_free_threads(self, is_free_threaded: bool) -> Facts {
        let mark = if is_free_threaded { FREE_THREADED } else { 0 };
        Facts {
            version: self.version & !FREE_THREADED | mark,
            ..self
        }
    }

    /// Returns whether it was built without the GIL (`--disable-gil`), even if one was switched on (`PYTHON_GIL=1`). Then what
    /// [`for_frames`](Facts::for_frames) names may be read, and nothing else of its objects.
    pub const fn is_free_threaded(&self) -> bool {
        self.version & FREE_THREADED != 0
    }

    /// Returns whether its objects may be read, and not only what [`for_frames`](Facts::for_frames) names.
    pub const fn reads_objects(&self) -> bool {
        self.has_table() && !self.is_free_threaded()
    }

    /// Returns where the sections of `_Py_DebugOffsets` begin, of a version without a table.
    pub(super) const fn sections(&self) -> Option<Sections> {
        Sections::unpack(self.sections)
    }

    /// Returns whether there is a table for its version. Without one only frames may be read: nothing else was proven.
    pub const fn has_table(&self) -> bool {
        self.sections == 0
    }

    /// Returns the version of the Python that runs in the process.
    pub const fn version(&self) -> Version {
        Version::unpack(self.version)
    }

    /// Returns the address of `_PyRuntime`.
    pub const fn runtime(&self) -> u64 {
        self.runtime
    }

    /// Returns the distance from a thread's `%fs` base to what leads to its own state; 0 if that was not found.
    pub const fn own(&self) -> u64 {
        self.own
    }

    /// Returns the address of the VM's function that returns the current thread state, which takes no lock; 0 if there is none.
    pub const fn current(&self) -> u64 {
        self.current
    }

    /// Returns where that function reads it: to 3.11 an address, since 3.12 the distance from a thread's `%fs` base; 0 if it was not found.
    pub(super) const fn current_place(&self) -> u64 {
        self.current_place
    }

    /// Returns the offset at which an interpreter keeps what belongs to its static builtin types, since 3.12.
    pub(super) const fn statics(&self) -> Option<u64> {
        match self.statics {
            0 => None,
            found => Some(found),
        }
    }

    /// Returns whether the collector's lists were found. They are not where they changed just then, or a collection was at work.
    pub const fn has_lists(&self) -> bool {
        self.lists != 0
    }

    /// Returns the offsets, from an interpreter's `gc` on, of the collector's list of young objects and of those that are put aside; `None` if
    /// they were not found.
    pub(super) const fn lists(&self) -> Option<[u64; 2]> {
        match self.lists {
            0 => None,
            both => Some([both & 0xffff_ffff, both >> 32]),
        }
    }

    /// Returns the offset in an interpreter of the word that says whether its collector is switched on; `None` if that was not found.
    pub(super) const fn enabled(&self) -> Option<u64> {
        match self.enabled {
            0 => None,
            found => Some(found),
        }
    }

    /// Returns the address of `None`.
    pub const fn none(&self) -> u64 {
        self.none
    }

    /// Returns the address of `True`.
    pub(super) const fn yes(&self) -> u64 {
        self.yes
    }

    /// Returns the address of `False`.
    pub(super) const fn no(&self) -> u64 {
        self.no
    }

    pub(super) const fn types(&self) -> &Types {
        &self.types
    }
}

impl<M: Memory> Python<'_, M> {
    /// Finds the offset of `types.builtins` in the main interpreter: there the entry of a type whose number is known,
    /// and that of another type, are where their numbers say. 0 if there is none.
    fn find_statics(&self) -> Result<u64, Error> {
        let Some(statics) = &self.layout.interpreter.statics else {
            return Ok(0);
        };
        let (one, other) = (self.facts.types.code, self.facts.types.function);
        let entry = |class: u64| -> Result<u64, Error> {
            let number = self.memory.u64(class.wrapping_add(SUBCLASSES))?;
            Ok(number.wrapping_sub(1).min(MOST_STATICS) * statics.size)
        };
        let (one_at, other_at) = (entry(one)?, entry(other)?);
        let interpreter = self.main_interpreter()?;
        let mut page = [0; 2048];
        for begin in (0..INTERPRETER).step_by(page.len()) {
            if self
                .memory
                .read(interpreter.wrapping_add(begin), &mut page)
                .is_err()
            {
                break;
            }
            for (at, word) in (begin..).step_by(8).zip(page.chunks_exact(8)) {
                if word != one.to_le_bytes().as_slice() || at < one_at {
                    continue;
                }
                let array = at - one_at;
                let found = interpreter.wrapping_add(array).wrapping_add(other_at);
                if self.memory.u64(found) == Ok(other) {
                    return Ok(array);
                }
            }
        }
        Ok(0)
    }
}
