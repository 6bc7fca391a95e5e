//! PHP.

mod frames;
mod guest;
mod roots;
mod values;
