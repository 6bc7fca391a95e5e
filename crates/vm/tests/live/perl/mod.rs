//! Perl.

mod frames;
mod guest;
