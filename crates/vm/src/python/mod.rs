//! Python (CPython, the reference implementation). Which versions: [`Layout::all`]. Used by the crates `languages`,
//! `enter` and `agent`.
//!
//! [`Python`] is memory + [`Layout`] + [`Facts`]; everything is a method of it:
//!
//! | file | question |
//! |---|---|
//! | `version` | which Python is this? |
//! | `layout` | where do things lie in that version? |
//! | `facts` | what must be known about this one process? |
//! | `script` | how is it read by code that knows no language: [`reader`](crate::reader) |
//! | `debug_offsets` | what does a Python without a table say of its own layout, and is it true? |
//! | `thread` | which threads are there? |
//! | `state` | which of them is this one? |
//! | `frames` | which Python code is running, and in which C activations? |
//! | `running` | which state and which point has this thread, asked millions of times a second? |
//! | `code`, `lines` | which file, line and function is that? |
//! | `object`, `class` | what kind of object is this, what is its class called? |
//! | `collector` | which objects are there? |
//! | `automatic` | when does the VM collect garbage by itself? |
//! | `kind`, `sizes` | what is an object to a walk over the heap, and how many bytes does it take? |
//! | `references` | what are an object's references called? |
//! | `extra_sizes`, `hidden_references` | what do objects of a few classes made in C have beside themselves, and what of it do they not tell the collector? |
//! | `roots`, `variables`, `at_exit` | what do interpreters, threads and frames hold, and the callbacks of the end? |
//! | `string`, `dict`, `chain` | the containers those answers are kept in |
//! | `api` | which functions of its C API does the agent call? |
//! | `function` | which C function has this name in Python, and how is it called? |
//! | `generator` | which generators and coroutines are suspended, where, and for what do they wait? |
//! | `attributes` | what does an object have under this name? |
//! | `names` | which modules, and what is in them? |
//! | `gil` | which thread has the lock of the VM? |
//! | `locks` | which locks does a thread hold, and which does it sleep on? |
//! | `pending` | is the lock of the queue of pending calls free? |
//! | `greenlet` | which greenlets are parked, where, and what does a switch copy? |
//! | `show` | what would this object look like, printed? |
//!
//! Nothing here asks whether the GIL is held. What is read of another thread while it runs may change
//! under the reader; the answer is then old, or an [`Error`], never a crash. What is read of the
//! reader's own thread, in the agent, stands still: a thread's frames are only changed by itself.

pub mod api;
mod at_exit;
mod attributes;
mod automatic;
mod chain;
mod class;
mod code;
mod collector;
mod debug_offsets;
mod dict;
mod error;
mod extra_sizes;
mod facts;
mod frames;
mod function;
mod generator;
mod gil;
mod greenlet;
mod hidden_references;
mod kind;
mod layout;
mod lines;
mod locks;
mod names;
mod object;
mod pending;
mod references;
mod roots;
mod running;
mod script;
mod show;
mod sizes;
mod state;
mod string;
mod thread;
mod variables;
mod version;

pub use automatic::{Automatic, Counts};
pub use debug_offsets::Proven;
pub use dict::Entries;
pub use error::Error;
pub use extra_sizes::Beside;
pub use facts::Facts;
pub use frames::{Frame, Frames, Point, Reached};
pub use function::{Convention, Function};
pub use generator::{Flavour, Generator};
pub use greenlet::Greenlet;
pub use kind::{Kind, Sort};
pub use layout::Layout;
pub use pending::{Queue, State};
pub use references::Reference;
pub use roots::{Place, Root};
pub use running::{Form, Running};
pub use show::Limits;
pub use sizes::Size;
pub use state::Current;
pub use string::{Copied, Text};
pub use thread::{Interpreters, Thread, Threads};
pub use variables::{Held, Holding};
pub use version::{Unsupported, Version};

use crate::Memory;
pub(crate) use script::DESCRIPTION;

/// Where libraries are ([`crate::library`]): pip's and Debian's packages, the standard library, what is frozen into the
/// VM.
pub const LIBRARIES: &[&str] = &[
    "site-packages/",
    "dist-packages/",
    "lib/python#",
    "lib64/python#",
    "<frozen ",
];

/// One Python process, readable.
#[derive(Clone, Debug)]
pub struct Python<'a, M> {
    memory: &'a M,
    layout: Layout,
    facts: Facts,
}

impl<'a, M: Memory> Python<'a, M> {
    /// A reader for the process `facts` were found in. Since 3.13 it reads there where things lie, so
    /// make it once and keep it.
    pub fn new(memory: &'a M, facts: Facts) -> Result<Python<'a, M>, Error> {
        let layout = match facts.sections() {
            None => layout::offsets::read(memory, facts.runtime(), facts.version())?,
            Some(sections) => {
                layout::sections::read(memory, facts.runtime(), facts.version(), sections)?
            }
        };
        Ok(Python {
            memory,
            layout,
            facts,
        })
    }

    /// The same process through another memory.
    pub fn over<'b, N>(&self, memory: &'b N) -> Python<'b, N> {
        Python {
            memory,
            layout: self.layout.clone(),
            facts: self.facts,
        }
    }

    /// The memory it reads.
    pub fn memory(&self) -> &'a M {
        self.memory
    }

    /// Returns the layout of its version.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What is known about this process.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }
}
