//! Ruby (MRI, the reference implementation). Which versions: [`Layout::all`]. Used by the crates `languages`, `agent`
//! and `enter`.
//!
//! [`Ruby`] is memory + [`Layout`] + [`Facts`]; everything is a method of it:
//!
//! | file | question |
//! |---|---|
//! | `version` | which Ruby is this, what is known to be wrong with it? |
//! | `layout` | where do things lie in that version? |
//! | `facts` | what must be known about this one process? |
//! | `script` | how is it read by code that knows no language: [`reader`](crate::reader) |
//! | `frames` | which Ruby code is running? |
//! | `newest_layout` | is one without a table to be read by the newest? |
//! | `iseq`, `succinct` | which file, line and method is that? |
//! | `object` | what kind of object is this, would `ObjectSpace` show it? |
//! | `class` | what is its class called? |
//! | `api` | which functions of its C API does the agent call? |
//! | `function` | which C function is behind a method's name? |
//! | `names` | which constants and C functions are there? |
//! | `show`, `quote`, `number` | how does a value look, as text? |
//! | `string`, `symbol`, `collection`, `table`, `shape` | the containers those answers are kept in |
//! | `data` | what is the C type of an object? |
//! | `references` | what is a reference from one object to another called? |
//! | `globals` | what are the global variables called? |
//! | `reason` | why does a collection begin? |
//! | `heap` | which objects are there? |
//! | `sizes` | how many bytes does one take? |
//! | `held` | what do Procs and methods refer to, and which objects may a slot name? |
//! | `thread` | where are the VM and its threads? |
//! | `locks` | what does a thread hold, and what does it wait for? |
//! | `bounds` | which part of a machine stack does the collector scan? |
//! | `fiber` | which fibers are there, and where do parked ones go on? |

mod api;
mod bounds;
mod class;
mod collection;
mod data;
mod error;
mod facts;
mod fiber;
mod finalizers;
pub mod frames;
mod function;
mod globals;
mod heap;
mod held;
mod iseq;
mod layout;
mod locals;
mod locks;
mod names;
mod newest_layout;
mod number;
mod object;
mod quote;
mod reason;
mod references;
mod script;
mod shape;
mod show;
mod sizes;
mod string;
mod succinct;
mod symbol;
mod table;
mod thread;
mod version;

pub use api::Functions;
pub use error::{Error, Kind};
pub use facts::Facts;
pub use fiber::{Context, Fiber, FiberSearch};
pub use frames::{Frame, Frames};
pub use function::{Convention, Function};
pub use heap::{Page, Pages, Slot, Slots};
pub use layout::Layout;
pub use locks::Turn;
pub use newest_layout::Proven;
pub use object::{Imemo, Type, is_code};
pub use reason::write_reason;
pub use references::Reference;
pub use string::{Copied, Text};
pub use table::{IdTable, StTable};
pub use version::{Unsupported, Version};

pub use crate::limits::Limits;
use crate::process::process_reader;
pub(crate) use script::DESCRIPTION;

/// Path marks of libraries ([`crate::library`]): RubyGems and Bundler, Ruby's own library, Debian's and Fedora's
/// packages, the VM's own code. Texts without a file are among them, because most are made by libraries, and the code
/// that runs one is further out.
pub const LIBRARIES: &[&str] = &[
    "gems/",
    "vendor/bundle/",
    "lib/ruby/#",
    "vendor_ruby/",
    "site_ruby/",
    "usr/lib/ruby/",
    "usr/lib/x86_64-linux-gnu/ruby/",
    "share/ruby/",
    "share/rubygems-integration/",
    "<internal:",
    "(eval)",
];

process_reader! {
    /// A reader of one Ruby process.
    Ruby
}
