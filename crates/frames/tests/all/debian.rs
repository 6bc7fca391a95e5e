//! The libraries that Debian's Ruby, Python and PHP are: their biggest frames, and functions picked at random, held
//! against two other readers of call frame information.

mod gdb;
mod known;
mod readelf;
