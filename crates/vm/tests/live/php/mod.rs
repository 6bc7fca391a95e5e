//! PHP.

mod frames;
mod guest;
mod image;
mod roots;
mod values;
