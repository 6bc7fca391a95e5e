//! `lancet stack`, the program, on files and on running processes.

mod bigframe;
mod disk;
mod gdb;
mod harness;
