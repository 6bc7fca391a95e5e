//! Processes as they come and go.

pub mod json;
pub mod text;
