//! What the reader must know about one process beyond its version. Used by `script`, and by the crates `languages`,
//! `agent` and `enter`.
//!
//! Facts are found once, from outside, with the help of exported symbols, and are plain numbers, so
//! that they can be handed to the agent. Two of them no symbol gives, the IDs of the hidden variables
//! that hold a class's name and a singleton class's object (up to 3.2); they are found by looking at a
//! class whose name is known: `Object`.

use core::fmt;

use super::layout::Naming;
use super::{Error, Layout, Ruby, Version};
use crate::Memory;

/// `__tmp_classpath__` is interned right after `__classpath__` (`variable.c`, `Init_var_tables`), and
/// consecutive IDs differ by one serial number.
const NEXT_ID: u64 = 16;

/// `rb_shape_tree_t`, which libruby exports since 4.0 (`shape.h`). Its first word is the list of shapes.
const SHAPE_TREE: &str = "rb_shape_tree";

/// Bytes of the longest text of a version.
const VERSION_TEXT: usize = 16;

/// Facts about one Ruby process.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    version: u64,
    object: u64,
    module: u64,
    thread: u64,
    vm: u64,
    path_id: u64,
    attached_id: u64,
    shapes: u64,
    objspace: u64,
    symbols: u64,
    table: u64,
}

impl Facts {
    /// Number of words that the facts take.
    pub const WORDS: usize = 11;

    /// Finds the facts. `symbol` returns the address in the guest of a symbol that libruby exports.
    pub fn find(
        memory: &impl Memory,
        symbol: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Facts, Error> {
        let need = |name: &'static str| symbol(name).ok_or(Error::Symbol(name));
        let version = read_version(memory, need("ruby_version")?)?;
        let layout = Layout::of(version)?;
        let mut facts = Facts {
            version: version.packed(),
            object: memory.u64(need("rb_cObject")?)?,
            module: memory.u64(need("rb_cModule")?)?,
            thread: memory.u64(need("rb_cThread")?)?,
            ..Facts::default()
        };
        if version.exports_vm() {
            facts.vm = memory.u64(need("ruby_current_vm_ptr")?)?;
        }
        if let Naming::Shape(list) = layout.class.naming {
            facts.shapes = memory.u64(facts.vm.wrapping_add(list))?;
        }
        if let Some(tree) = symbol(SHAPE_TREE) {
            facts.shapes = memory.u64(tree)?;
        }
        let ruby = |facts| Ruby {
            memory,
            layout,
            facts,
        };
        let metaclass = ruby(facts).klass(facts.object)?;
        facts.path_id =
            ruby(facts).id_of_variable(facts.object, |value| ruby(facts).says(value, "Object"))?;
        facts.attached_id = ruby(facts).id_of_variable(metaclass, |value| value == facts.object)?;
        facts.objspace = ruby(facts).find_objspace()?;
        // A caller that wants no names of methods and no Symbols needs no table.
        facts.symbols = ruby(facts).find_symbols().unwrap_or(0);

        let mut name = Expect("Object");
        ruby(facts).write_class_name(facts.object, &mut name)?;
        if !name.0.is_empty() {
            return Err(Error::garbled("class Object", facts.object));
        }
        Ok(facts)
    }

    /// Returns the facts as words, in an order that only [`from_words`](Facts::from_words) needs to know.
    pub const fn to_words(self) -> [u64; Facts::WORDS] {
        [
            self.version,
            self.object,
            self.module,
            self.thread,
            self.vm,
            self.path_id,
            self.attached_id,
            self.shapes,
            self.objspace,
            self.symbols,
            self.table,
        ]
    }

    /// The inverse of [`to_words`](Facts::to_words).
    pub const fn from_words(words: [u64; Facts::WORDS]) -> Facts {
        let [
            version,
            object,
            module,
            thread,
            vm,
            path_id,
            attached_id,
            shapes,
            objspace,
            symbols,
            table,
        ] = words;
        Facts {
            version,
            object,
            module,
            thread,
            vm,
            path_id,
            attached_id,
            shapes,
            objspace,
            symbols,
            table,
        }
    }

    /// Returns the version of the Ruby that runs in the process.
    pub const fn version(&self) -> Version {
        Version::unpack(self.version)
    }

    /// What can be known of a Ruby without a table, which is read by that of another version: frames need no more.
    pub(super) fn of_frames(version: Version, table: Version) -> Facts {
        Facts {
            version: version.packed(),
            table: table.packed(),
            ..Facts::default()
        }
    }

    /// Returns whether there is a table for its version. Without one only frames may be read: nothing else was proven.
    pub const fn has_table(&self) -> bool {
        self.table == 0
    }

    /// Returns the version whose table says where things lie: its own, if it has one.
    pub(super) const fn table(&self) -> Version {
        match self.table {
            0 => self.version(),
            other => Version::unpack(other),
        }
    }

    /// Returns the class `Object`.
    pub const fn object(&self) -> u64 {
        self.object
    }

    /// Returns the class `Module`.
    pub const fn module(&self) -> u64 {
        self.module
    }

    /// Returns the class `Thread`.
    pub const fn thread(&self) -> u64 {
        self.thread
    }

    /// Returns the `rb_vm_t`, or 0 where no symbol gives it; [`Ruby::vm`] finds it there.
    pub const fn vm(&self) -> u64 {
        self.vm
    }

    /// Returns the address of the `rb_objspace_t`, which leads to all pages of the heap.
    pub const fn objspace(&self) -> u64 {
        self.objspace
    }

    /// Returns the Array of all IDs' names; 0 if it was not found.
    pub const fn symbols(&self) -> u64 {
        self.symbols
    }

    /// Returns the same facts with the address of the `rb_vm_t`, where no symbol gives it.
    pub(super) const fn with_vm(self, vm: u64) -> Facts {
        Facts { vm, ..self }
    }

    pub(super) const fn with_symbols(self, symbols: u64) -> Facts {
        Facts { symbols, ..self }
    }

    /// Returns the ID of `__classpath__`; 0 where it is not used.
    pub const fn path_id(&self) -> u64 {
        self.path_id
    }

    /// Returns the ID of `__tmp_classpath__`.
    pub(super) const fn temporary_path_id(&self) -> u64 {
        self.path_id.wrapping_add(NEXT_ID)
    }

    /// Returns the ID of `__attached__`; 0 where it is not used.
    pub const fn attached_id(&self) -> u64 {
        self.attached_id
    }

    /// Returns the same facts with the VM's list of shapes, to which in 3.3 and 3.4 no variable leads that a library shows:
    /// what its function `rb_shape_get_shape_by_id` returns for 0.
    pub const fn with_shapes(self, shapes: u64) -> Facts {
        Facts { shapes, ..self }
    }

    /// Returns the VM's list of shapes; 0 where it is not used.
    pub(super) const fn shapes(&self) -> u64 {
        self.shapes
    }
}

pub(super) fn read_version(memory: &impl Memory, at: u64) -> Result<Version, Error> {
    let mut text = [0; VERSION_TEXT];
    for (at, byte) in (at..).zip(&mut text) {
        *byte = memory.u8(at)?;
        if *byte == 0 {
            break;
        }
    }
    let len = text
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(text.len());
    core::str::from_utf8(&text[..len])
        .ok()
        .and_then(Version::parse)
        .ok_or(Error::garbled("Ruby version", at))
}

/// A writer that accepts one text, piece by piece.
struct Expect(&'static str);

impl fmt::Write for Expect {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.0 = self.0.strip_prefix(piece).ok_or(fmt::Error)?;
        Ok(())
    }
}

impl<M: Memory> Ruby<'_, M> {
    /// Returns whether `value` is a String of this text.
    fn says(&self, value: u64, text: &'static str) -> bool {
        let mut expect = Expect(text);
        self.text(value).is_ok_and(|found| {
            found.len == text.len() as u64 && self.write_text(found, found.len, &mut expect).is_ok()
        })
    }

    /// Returns the ID under which a class keeps a value; 0 where values have fields of their own.
    fn id_of_variable(&self, class: u64, is: impl Fn(u64) -> bool) -> Result<u64, Error> {
        if let Naming::Field { .. } = self.layout.class.naming {
            return Ok(0);
        }
        self.variable(class, self.extension(class)?, |_, value| is(value))?
            .map(|(id, _)| id)
            .ok_or(Error::garbled("hidden variable of class Object", class))
    }
}
