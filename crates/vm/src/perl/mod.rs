//! Perl 5, with and without threads. Which versions: [`Layout::all`]. Used by crate `languages`.
//!
//! [`Perl`] is memory + [`Layout`] + [`Facts`]; everything is a method of it:
//!
//! | file | question |
//! |---|---|
//! | `version` | which Perl is this? |
//! | `layout` | where do things lie in that version? |
//! | `facts` | what must be known about this one process? |
//! | `script` | how is it read by code that knows no language: [`reader`](crate::reader) |
//! | `interpreter` | which interpreter does a thread run, and where does it stand? |
//! | `ops` | which line is that? |
//! | `frames` | which Perl code is running, and where does C code lie between? |
//! | `name` | what are packages, globs and subs called? |
//! | `stash` | which C function is the sub of this name? |
//! | `value` | what does a scalar say? |
//! | `call` | what is a C function given, what does it leave? |
//! | `heap` | which SVs live, how large are they, and what do they refer to? |
//!
//! The line that runs now, in a hook on the guest's own thread: [`Perl::interpreter`] once a thread, then
//! [`Perl::here`] (two loads) and, where the point is new, [`Perl::line`] and [`Perl::file`].

mod call;
mod error;
mod facts;
pub mod frames;
pub mod heap;
mod interpreter;
mod layout;
mod name;
mod ops;
mod script;
mod stash;
mod value;
mod version;

pub use crate::bytes::Text;
pub use error::Error;
pub use facts::Facts;
pub use frames::{Frame, Frames, Kind};
pub use interpreter::{Interpreter, Point};
pub use layout::Layout;
pub use stash::{Sub, Xsub};
pub use value::Value;
pub use version::{Unsupported, Version};

use crate::process::process_reader;
pub(crate) use script::DESCRIPTION;

/// Path marks of libraries ([`crate::library`]): the folders of `@INC` in Debian, in a Perl as its makers install it
/// (`lib/5.36.0`), and in local::lib. Evaluated texts are among them, because most are made by libraries, and the code
/// that runs one is further out.
pub const LIBRARIES: &[&str] = &[
    "share/perl5/",
    "share/perl/#",
    "lib/perl5/",
    "lib/perl/#",
    "lib/x86_64-linux-gnu/perl5/#",
    "lib/x86_64-linux-gnu/perl/#",
    "lib/x86_64-linux-gnu/perl-base/",
    "site_perl/",
    "vendor_perl/",
    "etc/perl/",
    "lib/5.#",
    "(eval ",
];

process_reader! {
    /// A reader of one Perl process.
    Perl
}
