//! The books of `mem`: what every language's births and deaths are booked in. Who books, and what is born, is each language's
//! ([`crate::languages`]).
//!
//! | file | what |
//! |---|---|
//! | `books`, `slots` | the row of a birth; the row's number for each heap slot or block |
//! | `blocks`, `living` | blocks whose deaths are told: what is noted of each, and what is counted of all |
//! | `texts` | what the books ask a VM about addresses |
//! | `accounts`, `summary` | births of one thread counted apart; what such an account holds, by name |
//! | `heartbeat` | whether the command is there |
//! | `tally` | what a census has counted |

pub mod accounts;
pub mod blocks;
pub mod books;
pub mod heartbeat;
pub mod living;
pub mod slots;
pub mod summary;
pub mod tally;
pub mod texts;
