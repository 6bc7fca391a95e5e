//! C function signatures: `calls` asks for those of the functions that it hooks, `report` and `syscalls` show calls by them.
//!
//! The crate knows what ltrace reads from its `.conf` files, from a debugger's DWARF, and from a bundle that is part of
//! lancet: which arguments a function takes, where they lie when it is called ([`location`]), which bytes a hook has
//! to copy to show them ([`types::Prototype::capture`]), and how the call is then written ([`show`]).
//!
//! | module | what |
//! |---|---|
//! | `types`, `print` | a type, its lenses; and back to text |
//! | `parse`, `library`, `error` | the `.conf` grammar, files and their imports |
//! | `layout`, `location` | the ABI: sizes; registers and stack |
//! | `plan` | from a prototype to a capture program |
//! | `show`, `digits` | calls as ltrace prints them |
//! | `filter` | `-e`, `-x`, `-l` |
//! | `condition` | `--where` |
//! | `dwarf` | prototypes from debug information |
//! | `bundle`, `lines`, `search` | prototypes we bring along, read line by line as they are asked for, and those on the machine |

#![forbid(unsafe_code)]

pub mod bundle;
pub mod condition;
pub mod digits;
pub mod duration;
pub mod dwarf;
mod error;
pub mod filter;
mod layout;
mod library;
mod lines;
pub mod location;
pub mod outcome;
mod parse;
mod plan;
mod print;
mod search;
pub mod show;
pub mod types;

pub use capture;
pub use error::{Error, Problem};
pub use library::Library;
pub use plan::{Detail, Programs};
pub use search::Search;
pub use vm::Word;
