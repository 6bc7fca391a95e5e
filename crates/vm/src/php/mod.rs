//! PHP without threads (NTS). Which versions: [`Layout::all`]. One with threads is recognised and refused by name. Used
//! by the crates `languages` and `agent`.
//!
//! [`Php`] is memory + [`Layout`] + [`Facts`]; everything is a method of it:
//!
//! | file | question |
//! |---|---|
//! | `version` | which PHP is this? |
//! | `layout` | where do things lie in that version? |
//! | `facts` | what must be known about this one process? |
//! | `script` | how is it read by code that knows no language: [`reader`](crate::reader) |
//! | `frames` | which code is running, where, and where does C code lie between? |
//! | `fiber` | which fibers are there, and where do parked ones go on? |
//! | `function` | what is a function called, which C function is it? |
//! | `table` | the containers those answers are kept in |
//! | `value` | what does a zval say? |
//! | `call` | what is a function of C given? |
//! | `heap` | which strings, arrays and objects are there, and what do they refer to? |
//! | `collector` | is the collector of cycles switched on? |
//! | `place` | at which operation and line are blocks of memory taken? |
//! | `requests` | which words lead to what a request begins and ends with? |
//! | `api` | which of its functions does the agent call? |
//! | `allocator` | which blocks of memory are in use, and how large is one? |
//!
//! The line that runs now, in a hook on the guest's own thread: [`Php::here`] (five loads, and three for each
//! frame of C) and, where the place is new, [`Php::line`] and [`Php::file`].

pub mod allocator;
pub mod api;
mod call;
pub mod collector;
mod error;
mod facts;
mod fiber;
pub mod frames;
mod function;
pub mod heap;
mod layout;
mod place;
mod requests;
mod script;
mod table;
mod value;
mod version;

pub use crate::bytes::Text;
pub use error::Error;
pub use facts::Facts;
pub use fiber::Fiber;
pub use frames::{Frame, Frames, Kind, Point};
pub use function::{Function, Internal};
pub use layout::Layout;
pub use place::Place;
pub use requests::Requests;
pub use value::Value;
pub use version::{Unsupported, Version};

use crate::process::process_reader;
use crate::{Fault, Memory};
pub(crate) use script::DESCRIPTION;

/// Path marks of libraries ([`crate::library`]): Composer's, PEAR's and Debian's packages.
pub const LIBRARIES: &[&str] = &["vendor/", "share/php/", "share/pear/"];

process_reader! {
    /// A reader of one PHP process.
    Php
}

/// `function_table`, `class_table`, `zend_constants`, `vm_stack` and `current_execute_data` in `zend_executor_globals`, from the first one
/// ([`Layout::tables`]): the same in all versions.
const FUNCTIONS: u64 = 0;
const CLASSES: u64 = 8;
const CONSTANTS: u64 = 16;
const STACK: u64 = 40;
const CURRENT: u64 = 56;

/// `bailout` in `zend_executor_globals`: the same in all versions (read in the code of `_zend_bailout`).
const BAILOUT: u64 = 416;

/// `function_table` in `zend_compiler_globals` (`zend_globals.h`), behind which lies `class_table`: the same in all versions.
const COMPILER_TABLES: u64 = 56;

/// `default_properties_table`, `static_members_table__ptr`, `function_table`, `properties_info` and `constants_table` in
/// `zend_class_entry`, from the first one ([`layout::Class::pointers`]): the same in all versions.
const CLASS_DEFAULTS: u64 = 0;
const CLASS_STATICS: u64 = 16;
const CLASS_FUNCTIONS: u64 = 24;
const CLASS_INFOS: u64 = 80;
const CLASS_CONSTANTS: u64 = 136;

impl<M: Memory> Php<'_, M> {
    /// Reads one of the pointers that lie `behind` `function_table` in `zend_executor_globals`: [`FUNCTIONS`] and the others.
    #[inline]
    fn global(&self, behind: u64) -> Result<u64, Fault> {
        let tables = self.facts.executor().wrapping_add(self.layout.tables);
        self.memory.u64(tables.wrapping_add(behind))
    }

    /// Returns the address of the word that leads to where errors that end the request are caught: a buffer of `setjmp`; 0 if nowhere.
    pub fn bailout(&self) -> u64 {
        self.facts.executor().wrapping_add(BAILOUT)
    }

    /// Returns the address of the table of functions ([`FUNCTIONS`]) or classes ([`CLASSES`]). The executor has none before the first request
    /// (`init_executor`, `zend_execute_API.c`), when it takes over those of the compiler.
    fn names(&self, behind: u64) -> Result<u64, Fault> {
        match (self.global(behind)?, self.facts.compiler()) {
            (0, at @ 1..) => self.memory.u64(at.wrapping_add(COMPILER_TABLES + behind)),
            (table, _) => Ok(table),
        }
    }

    /// Returns the address of a pointer of a class that lies `behind` `default_properties_table`: [`CLASS_STATICS`] and the others.
    fn of_class(&self, class: u64, behind: u64) -> u64 {
        class.wrapping_add(self.layout.class.pointers + behind)
    }
}
