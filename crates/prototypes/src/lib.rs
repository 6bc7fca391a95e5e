//! C function signatures.
//!
//! It knows what ltrace reads from its `.conf` files, from a debugger's DWARF, and from a bundle that is part of
//! lancet: which arguments a function takes, where they lie when it is called ([`Locations`]), which bytes a hook has
//! to copy to show them ([`Prototype::capture`]), and how the call is then written ([`Show`]).
//!
//! | module | what |
//! |---|---|
//! | `types`, `print` | a type, its lenses; and back to text |
//! | `parse`, `library`, `error` | the `.conf` grammar, files and their imports |
//! | `layout`, `place` | the ABI: sizes; registers and stack |
//! | `plan` | from a prototype to a capture program |
//! | `show`, `digits` | calls as ltrace prints them |
//! | `filter` | `-e`, `-x`, `-l` |
//! | `condition` | `--where` |
//! | `dwarf` | prototypes from debug information |
//! | `bundle`, `lines`, `search` | prototypes we bring along, read line by line as they are asked for, and those on the machine |

#![forbid(unsafe_code)]

mod bundle;
pub mod condition;
pub mod digits;
pub mod duration;
pub mod dwarf;
mod error;
pub mod filter;
mod layout;
mod library;
mod lines;
mod location;
pub mod outcome;
mod parse;
mod plan;
mod print;
mod search;
mod show;
mod types;

pub use bundle::{
    Bundle, system_call, system_call_of_32_bits, system_calls, system_calls_of_32_bits,
};
pub use capture;
pub use condition::{Condition, ConditionError};
pub use error::{Error, Problem};
pub use filter::{Filter, FilterError, Where};
pub use library::Library;
pub use location::{Half, Location, Locations, Used};
pub use plan::{Detail, Programs};
pub use print::Named;
pub use search::Search;
pub use show::{CallValues, Captures, Decode, Memory, Prepared, Show};
pub use types::{Array, Expr, Kind, Lens, Parameter, Prototype, Struct, Type};
pub use vm::Word;
