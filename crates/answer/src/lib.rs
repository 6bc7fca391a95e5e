//! What lancet's commands tell programs: the records of `--format json` and `--json`, one JSON object a line.
//!
//! A module a command, and in it one enum of its records; [`process`], [`place`], [`time`] and [`losses`] are what they share. One thing has one shape in all of
//! them:
//!
//! | thing | shape |
//! |---|---|
//! | process | the record [`process::Process`], before all else of it; of several that are told of together, as in the tables of `-c`, of `--for` and of `profile`, one for each before all else. Files have none. Other records name it by `pid` |
//! | place in a program | [`place::Place`]: `path`, `line`, `function` |
//! | address | [`place::Address`]: a text in hexadecimal, `"0x7f12a8"`, because numbers of JSON are mostly read as doubles |
//! | length of time, point in time | a whole number of nanoseconds in a field that ends in `_ns`; points in time are since 1970 |
//! | size | a whole number of bytes |
//! | one of several words | in lower case, with `_` between its parts: `too_early`; not names of others (`Fiber`, `SIGTERM`) |
//! | what was lost | [`losses::Loss`] |
//! | what is not known | null; a field that only some answers have is left out of the others |
//!
//! The types carry the meaning of each record and field as their documentation. The page `docs/json.md` and the JSON Schema
//! `docs/json-schema.json` are made of it, by a test of this crate (`page`), and live tests hold what is written
//! against the schema.
//!
//! Only `report` knows them; they know nobody.

pub mod agent;
pub mod calls;
pub mod heap;
pub mod losses;
pub mod mem;
pub mod patch;
pub mod place;
pub mod process;
pub mod profile;
pub mod rss;
pub mod stack;
pub mod syscalls;
pub mod time;
pub mod tune;
pub mod unit;

#[cfg(test)]
mod page;

/// The number of the schema, which each record [`process::Process`] carries. It rises when a record or a field goes away or
/// changes its meaning; new ones may come without that.
pub const SCHEMA: u32 = 2;
