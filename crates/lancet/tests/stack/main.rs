//! `lancet stack`, the program, on files and on running processes.

mod bigframe;
mod core;
mod disk;
mod fibers;
mod folded;
mod gdb;
mod harness;
mod hostile;
mod jit;
mod languages;
mod rivals;
