//! Maps, modules, symbols and the loader's list of real processes, held against `nm`.
//!
//! Needs gcc and binutils. What needs more (root, xz, ruby, python3) is skipped by name.

mod dynamic;
mod elsewhere;
mod guests;
mod hostile;
mod loader;
mod programs;
mod speed;
