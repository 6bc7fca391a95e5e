//! The biggest frames of files.

pub mod json;
pub mod table;
