//! Perl.

mod frames;
mod guest;
mod image;
mod values;
