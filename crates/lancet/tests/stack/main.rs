//! `lancet stack` and `lancet profile`, the program, on files and on running processes.

mod bigframe;
mod conclusions;
mod core;
mod disk;
mod fibers;
mod folded;
mod free_threaded;
mod gdb;
mod hostile;
mod jit;
mod languages;
mod many;
mod moments;
mod objects;
mod output;
mod profile;
mod profile_waits;
mod rivals;
mod shared;
mod started;
mod stuck;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod unread;

mod vm_lock;
mod waits;
mod without_table;
