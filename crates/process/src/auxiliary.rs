//! The auxiliary vector: what the kernel tells a program when it starts it, as pairs of a kind and a value that end with kind 0 (`AT_NULL`,
//! getauxval(3)). Used by `modules`, and by `calls::live::bpf::exec_arguments`.

use crate::elf::ElfError;
use crate::guest::Status;
use crate::proc_file;
use std::io;

/// `AT_PHDR`: where the kernel has put the program header of the program (include/uapi/linux/auxvec.h).
pub const PROGRAM_HEADER: u64 = 3;
/// `AT_EXECFN`: where the path is that was to be run.
pub const PATH: u64 = 31;

/// Reads one value of `/proc/PID/auxv`. Its words have the width of those of the program.
///
/// The file belongs to the user of the process alone. Who may trace it without being that user, and without the right to open other users'
/// files, reads the same pairs where the kernel has put them on the stack of a program of 64 bits: behind the pointers to its arguments and to
/// its variables, each list ending with a null pointer (`create_elf_tables`, fs/binfmt_elf.c).
///
/// # Errors
/// The file cannot be read, and there is no such list on the stack.
pub fn value(pid: i32, memory: &dyn vm::Memory, kind: u64) -> Result<Option<u64>, ElfError> {
    let path = proc_file::path(pid, "auxv");
    match proc_file::bytes(&path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            on_stack(pid, memory, kind).ok_or(ElfError::File {
                path,
                source: error,
            })
        }
        Err(source) => Err(ElfError::File { path, source }),
        Ok(pairs) => Ok(value_in(&pairs, kind)),
    }
}

/// Finds the value of a kind among pairs.
fn value_in(pairs: &[u8], kind: u64) -> Option<u64> {
    let wide = |pair: &[u8; 16]| {
        let [one, value] =
            [&pair[..8], &pair[8..]].map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        (one, value)
    };
    let narrow = |pair: &[u8; 8]| {
        let [one, value] =
            [&pair[..4], &pair[4..]].map(|word| word.try_into().map_or(0, u32::from_le_bytes));
        (u64::from(one), u64::from(value))
    };
    let found = |(one, value): (u64, u64)| (one == kind).then_some(value);
    // No kind is so large that it has bits in the upper half, where pairs of 32 bits have their values.
    let is_wide = pairs
        .as_chunks()
        .0
        .iter()
        .all(|pair| wide(pair).0 <= u64::from(u32::MAX));
    match is_wide {
        true => pairs.as_chunks().0.iter().map(wide).find_map(found),
        false => pairs.as_chunks().0.iter().map(narrow).find_map(found),
    }
}

/// Finds the same on the stack; `None` if there is no such list. The outer `None` is that of [`value`].
fn on_stack(pid: i32, memory: &dyn vm::Memory, kind: u64) -> Option<Option<u64>> {
    /// Limit of the words that are read: arguments and variables fill at most 6 MiB (`bprm_stack_limits`, fs/exec.c).
    const MOST: u64 = 1 << 20;
    let stack = Status::read(pid).ok()?.stack;
    let count = memory.u64(stack).ok().filter(|_| stack != 0)?;
    let mut at = stack + (count.min(MOST) + 2) * 8;
    let end = at + MOST * 8;
    let next = |at: &mut u64| {
        let word = memory.u64(*at).ok().filter(|_| *at < end)?;
        *at += 8;
        Some(word)
    };
    while next(&mut at)? != 0 {}
    loop {
        match (next(&mut at)?, next(&mut at)?) {
            (0, _) => return Some(None),
            (one, value) if one == kind => return Some(Some(value)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_of_both_widths_are_read() {
        let pairs = [
            (6, 4096),
            (PATH, 0xffff_d000),
            (PROGRAM_HEADER, 0x40_0040),
            (0, 0),
        ];
        let wide: Vec<u8> = pairs
            .iter()
            .flat_map(|(kind, value): &(u64, u64)| [kind.to_le_bytes(), value.to_le_bytes()])
            .flatten()
            .collect();
        let narrow: Vec<u8> = pairs
            .iter()
            .flat_map(|(kind, value)| [*kind as u32, *value as u32].map(u32::to_le_bytes))
            .flatten()
            .collect();
        for pairs in [wide, narrow] {
            assert_eq!(value_in(&pairs, PATH), Some(0xffff_d000));
            assert_eq!(value_in(&pairs, PROGRAM_HEADER), Some(0x40_0040));
            assert_eq!(value_in(&pairs, 9), None);
        }
    }
}
