//! Why an agent has left by itself.

use wire::Farewell;

/// What is said of an agent that heard nothing for [`DESERTED_AFTER`](crate::DESERTED_AFTER).
const DESERTED: &str = "it heard nothing from us for 5 s";

/// The reason that the agent gave for leaving, as a text for `Error::Left`.
pub fn because(why: Farewell) -> &'static str {
    match why {
        Farewell::Alone => DESERTED,
        Farewell::Ractor => {
            "the program makes a Ractor, beside which births cannot be watched (docs/versions.md says why)"
        }
        Farewell::Broken => "it found a fault of its own",
        Farewell::Replaced => {
            "another tool has changed the table of the VM's allocators (tracemalloc that was stopped?), so that it was not sure any more that births were seen as they are"
        }
    }
}
