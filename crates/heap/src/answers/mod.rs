//! Answers from an analysed snapshot: who is suspected, what is biggest, what is there twice, what is half empty.

pub mod duplicates;
pub mod groups;
pub mod paths;
pub mod sparse;
pub mod suspects;
pub mod threads;
