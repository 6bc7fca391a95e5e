//! Processes as they come and go: what `lancet tune --events` says.

pub mod json;
pub mod text;
