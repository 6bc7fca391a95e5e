//! Finds the stack frames of a file, process or core, and the size of each.
//!
//! | file | question |
//! |---|---|
//! | `image` | which bytes are loaded where? |
//! | `objects` | what would an object file or an archive be, linked? |
//! | `cfi` | what does the call frame information say? |
//! | `decode` | how deep does the code itself take the stack? |
//! | `functions`, `parts` | which functions are there, and which pieces belong together? |
//! | `scan` | all of it, for one file |
//! | `ranking` | which frames of several files are the biggest? |
//! | `chains` | how deep does the stack get, by direct calls? |
//! | `difference` | which frames are others in a new build? |
//! | `names`, `named`, `imports`, `hints`, `callers` | what is this function called, or what does it do? |
//! | `live` | what is on the stacks of a process, native and script frames together? |
//! | `variables` | which variable is it that is big? |
//!
//! A frame is counted as gcc's `-fstack-usage` counts it: everything from the CFA down to the lowest place of
//! rsp, so with the return address, saved registers and the arguments pushed for calls.

#![forbid(unsafe_code)]

mod callers;
pub mod cfi;
pub mod chains;
pub mod decode;
pub mod difference;
mod error;
mod functions;
pub mod hints;
pub mod image;
mod imports;
pub mod labels;
pub mod live;
pub mod names;
pub mod objects;
mod parts;
pub mod profile;
pub mod ranking;
pub mod scan;
pub mod variables;

pub use error::{Error, Result};
pub use scan::{Frame, How, Scan};
