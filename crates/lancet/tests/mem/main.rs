//! `lancet mem` on real processes: opened, counted, left, and no worse for it.
//!
//! | file | what is held |
//! |---|---|
//! | `allocated` | memory that lines allocated, and the VM's own by kind, against what Ruby counts |
//! | `attach` | ten states of a Ruby, three attaches each: quick, and without a trace |
//! | `blocked` | system calls that Ruby does not begin again |
//! | `nasty` | guests that make it hard give their right answer while they are watched |
//! | `cycles` | hundreds of attaches to one guest under malloc load |
//! | `killed` | `kill -9` of lancet at random instants |
//! | `truth` | births and survivors, against what Ruby itself counts |
//! | `family` | forked workers, followed or left alone |
//! | `reuse` | eval, anonymous classes: the right lines, and the agent's memory stays bounded |
//! | `screen` | what `--live` leaves behind on a terminal |
//! | `sizes` | objects whose own size function raises |
//! | `budget` | looks hold a big heap for no more than `--budget` |
//! | `leaks` | the line that leaks is named and stands first; where none leaks, none is named |
//! | `grows` | what grows without more and more objects; a job that ends before its time is over |
//! | `native` | blocks of a C or C++ program, against its own ledger |
//! | `python`, `php` | births of a Python, of a PHP |
//! | `started` | `lancet mem -- PROGRAM` |
//! | `ractors` | the first Ractor of a program that is watched: what was counted until then is reported |
//! | `refused` | what cannot be opened: one line, exit code 1, guest untouched |
//! | `elsewhere` | another user, another mount and PID namespace |
//! | `../support` | guests, the tool, and what of a guest must not change; all targets use it |
//!
//! Environment:
//!
//! - `LANCET_RUBIES`: which Rubies, `system 2.7 3.1 3.3 3.4`; `system` alone unless it is set. All but
//!   `system` are roots made by `fixtures/roots/make`. One that is missing is a printed skip.
//! - `LANCET_YJIT`: the program of a Ruby with YJIT, for the tests of `stack`.
//! - `LANCET_BIN`: the lancet to test, in place of this build's. Time limits are those promised for a
//!   release build; without this variable they are generous.
//! - `LANCET_SOAK=1`: the long forms.
//! - `LANCET_PART=N`: what is repeated at random instants is repeated one part of N as often, as in `make matrix`, whose versions share it.
//! - `LANCET_TIMES=1`: each test prints how long it took.
//! - `LANCET_SEED`: the seed of the random instants; each test prints its own.

mod allocated;
mod attach;
mod blocked;
mod budget;
mod cycles;
mod elsewhere;
mod family;
mod grows;
mod killed;
mod leaks;
mod nasty;
mod native;
mod panics;
mod php;
mod python;
mod ractors;
mod refused;
mod reuse;
mod screen;
mod sizes;
mod started;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod truth;
