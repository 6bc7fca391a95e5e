//! Two that meet in the agent: code that is interrupted behind each of its machine instructions, one after the other, by what another may do.
//!
//! The other is a signal handler of the same thread, or another thread that runs meanwhile; of the latter only that it comes once and runs
//! to its end before the first goes on. Processors that see each other's writes late are not tried: x86-64 keeps the order of writes, and
//! what two threads change here they change by instructions with `lock`.
//!
//! | who meets | test |
//! |---|---|
//! | a handler, and a record, its end, the room of a return | `record` |
//! | a handler, and a row, its figures, further rows, an empty table | `counts` |
//! | two threads that want a dead one's ring; one of them has its address | `ring` |
//! | two threads that want the last slot of the pool | `ring` |
//! | a thread that finds the command silent, and its heartbeat | `pulse` |

mod alone;
mod counts;
mod pulse;
mod record;
mod ring;
mod steps;
