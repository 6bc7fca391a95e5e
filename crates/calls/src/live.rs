//! Events of running guests: [`Family`] holds all of them, `guest` one.

mod callers;
mod family;
mod guest;
mod known;
mod mapped;
mod names;
mod pace;
mod unadopted;

pub use family::Family;
