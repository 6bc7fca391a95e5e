//! The biggest frames of files, as `lancet stack FILE` ranks them.

pub mod json;
pub mod table;
