//! How many processors the kernel keeps a value for. Used by `kernel` and `watch`.

use crate::kernel::{Kind, Map, Refused};
use std::sync::OnceLock;

/// More than a kernel for x86-64 can be built for (CONFIG_NR_CPUS, arch/x86/Kconfig).
const MOST: usize = 16 << 10;

/// Returns how many processors there may be (`num_possible_cpus`): as many as the kernel fills in of the value of a map that has one for each.
/// Neither `/sys`, which a container may lack, nor a guess is needed.
///
/// # Errors
/// Those of making a map.
pub fn processors() -> Result<usize, Refused> {
    static KNOWN: OnceLock<usize> = OnceLock::new();
    if let Some(known) = KNOWN.get() {
        return Ok(*known);
    }
    let each = Map::with_room(Kind::ArrayOfEachCpu, "lancet_each", [4, 8, 8 * MOST], 1)?;
    // The values of a new map are 0.
    let filled = each.get_over(&0u32.to_ne_bytes(), 0xff).unwrap_or_default();
    let words = filled.chunks_exact(8);
    let count = words.take_while(|word| **word == [0; 8]).count();
    Ok(*KNOWN.get_or_init(|| count))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `/sys` says it too, where it is there: counted to the last (`0-3`).
    #[test]
    fn there_are_as_many_as_the_kernel_says_elsewhere() {
        let Ok(count) = processors() else {
            return eprintln!("SKIP processors by a map: BPF is not allowed here");
        };
        let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
        let last = text.trim().rsplit([',', '-']).next();
        if let Some(last) = last.and_then(|last| last.parse::<usize>().ok()) {
            assert_eq!(count, last + 1, "{text}");
        }
        assert!((1..MOST).contains(&count), "{count}");
    }
}
