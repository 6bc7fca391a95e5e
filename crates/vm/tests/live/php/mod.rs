//! PHP.

mod frames;
mod guest;
mod values;
