//! Perl.

mod frames;
mod guest;
mod values;
