//! Reads what is mapped where in a guest (`/proc/PID/maps`), and finds the free ranges between. Used by `modules`,
//! `smaps` and others here, and by most crates above.
//!
//! The layout of a line is the kernel's (`fs/proc/task_mmu.c`, `show_map_vma`):
//!
//! ```text
//! 7f3a5c000000-7f3a5c021000 r-xp 00033000 fe:00 1310741     /usr/lib/libruby.so.3.1 (deleted)
//! start        end          perm offset   dev   inode       path
//! ```
//!
//! The kernel writes a newline inside a path as `\012` and escapes nothing else, so a path that really contains those
//! four characters looks like one with a newline. Likewise a file may really be called `x (deleted)`. Neither matters,
//! because code that opens a path compares the file's identity with the one given here (see `modules::files`).
//!
//! The kernel returns the file in pieces of about a page. Between two pieces a running guest can change its mappings,
//! so that a line is missing or comes twice; for a stopped guest the result is consistent.

mod query;

use crate::error::{Error, Result};
use crate::proc_file;
use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The size of a page. Lancet knows x86-64 only, where this never changes.
pub const PAGE: u64 = 4096;

/// The kernel's usual `vm.mmap_min_addr`; no free range is offered below it.
const LOWEST: u64 = 0x1_0000;

/// One past the highest address a 4-level x86-64 process can map (`TASK_SIZE_MAX`).
const HIGHEST: u64 = 0x7fff_ffff_f000;

/// How far a 32-bit displacement reaches, minus a page for the instructions around it.
const REACH: u64 = (1 << 31) - PAGE;

/// Bytes that are kept free above the heap: `brk` grows into them, and a guest whose `brk` fails behaves differently.
const HEAP_ROOM: u64 = 1 << 30;

/// Bytes that are kept free below the main stack: the least distance that the kernel's own `mmap_base` keeps.
const STACK_ROOM: u64 = 128 << 20;

/// The device that a mapped file lies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The number of the driver.
    pub major: u32,
    /// The number of the device among those of the driver.
    pub minor: u32,
}

/// What the guest may do with the bytes of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Permissions {
    /// `r`: the guest may read the bytes.
    pub read: bool,
    /// `w`: the guest may write them.
    pub write: bool,
    /// `x`: the guest may run them as code.
    pub execute: bool,
    /// `s`: writes reach the file and other processes; otherwise `p`, private.
    pub shared: bool,
}

/// One line of `/proc/PID/maps`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Address of the first byte, a multiple of [`PAGE`].
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// What the guest may do here.
    pub permissions: Permissions,
    /// Offset in the file of the byte at `start`.
    pub offset: u64,
    /// The device of the file; zero without a file.
    pub device: Device,
    /// The inode of the file; zero without a file.
    pub inode: u64,
    /// The path of the file, or a name like `[heap]`; `None` for memory without either.
    pub path: Option<Arc<Path>>,
    /// Whether the file was unlinked or replaced since it was mapped. The mark ` (deleted)` is not part of `path`.
    pub deleted: bool,
}

impl Mapping {
    /// Whether the mapping shows a file (and not `[heap]`, `[anon:…]` or plain memory).
    pub fn is_file(&self) -> bool {
        self.inode != 0 && self.path.as_ref().is_some_and(|path| path.is_absolute())
    }

    /// Whether `address` lies in the mapping.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Returns the number of its bytes.
    pub fn size(&self) -> u64 {
        self.end - self.start
    }

    /// Whether it has this path, or this name of the kernel's (`[vdso]`).
    pub fn is_named(&self, name: &str) -> bool {
        self.path
            .as_deref()
            .is_some_and(|path| path == Path::new(name))
    }
}

/// All mappings of a process, by rising address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Maps {
    mappings: Vec<Mapping>,
}

impl Maps {
    /// Reads the mappings of a process from `/proc/PID/maps`.
    pub fn read(pid: i32) -> io::Result<Maps> {
        Ok(Maps::parse(&proc_file::bytes(proc_file::path(
            pid, "maps",
        ))?))
    }

    /// Like [`Maps::read`], but with an error that distinguishes a guest that is gone from other failures.
    pub fn of(pid: i32) -> Result<Maps> {
        Maps::read(pid).map_err(|error| Error::of_proc(pid, "maps", error))
    }

    /// Parses the text of a maps file. Lines that are not in the kernel's form are skipped.
    pub fn parse(text: &[u8]) -> Maps {
        let mut mappings: Vec<Mapping> = Vec::with_capacity(text.len() / 80);
        for line in text.split(|&byte| byte == b'\n') {
            let previous = mappings.last().and_then(|mapping| mapping.path.as_ref());
            if let Some(mapping) = parse_line(line, previous) {
                mappings.push(mapping);
            }
        }
        // The kernel sorts them; `find` relies on it, so it is ensured here.
        mappings.sort_by_key(|mapping| mapping.start);
        Maps { mappings }
    }

    /// Returns every mapping, by rising address.
    pub fn iter(&self) -> std::slice::Iter<'_, Mapping> {
        self.mappings.iter()
    }

    /// Returns the mapping that holds `address`.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let after = self
            .mappings
            .partition_point(|mapping| mapping.start <= address);
        self.mappings[..after]
            .last()
            .filter(|mapping| mapping.contains(address))
    }

    /// Returns the mappings that touch `range`, by rising address.
    pub fn within(&self, range: Range<u64>) -> &[Mapping] {
        let first = self
            .mappings
            .partition_point(|mapping| mapping.end <= range.start);
        let last = self
            .mappings
            .partition_point(|mapping| mapping.start < range.end);
        self.mappings.get(first..last).unwrap_or(&[])
    }

    /// Returns free ranges of at least `size` bytes from which every byte of `code` can be reached with a 32-bit
    /// displacement, and the other way round; whole pages, nearest to `code` first.
    ///
    /// Excluded is the room that the heap and the main stack grow into. An island there would make a `brk` or a deep
    /// recursion fail that worked before.
    pub fn gaps(&self, code: Range<u64>, size: u64) -> Vec<Range<u64>> {
        let low = code
            .end
            .saturating_sub(REACH)
            .max(LOWEST)
            .next_multiple_of(PAGE);
        let high = (code.start.saturating_add(REACH)).min(HIGHEST) / PAGE * PAGE;
        let mut gaps = Vec::new();
        let mut free_from = low;
        let mut offer = |from: u64, to: u64| {
            let gap = from.max(low)..to.min(high);
            if gap.start < gap.end && gap.end - gap.start >= size {
                gaps.push(gap);
            }
        };
        for mapping in &self.mappings {
            if mapping.start >= HIGHEST {
                break;
            }
            let room = if mapping.is_named("[stack]") {
                STACK_ROOM
            } else {
                0
            };
            offer(free_from, mapping.start.saturating_sub(room));
            let room = if mapping.is_named("[heap]") {
                HEAP_ROOM
            } else {
                0
            };
            free_from = free_from.max(mapping.end.saturating_add(room));
        }
        offer(free_from, HIGHEST);
        gaps.sort_by_key(|gap| {
            if gap.start >= code.end {
                gap.start - code.end
            } else {
                code.start.saturating_sub(gap.end)
            }
        });
        gaps
    }
}

impl<'a> IntoIterator for &'a Maps {
    type Item = &'a Mapping;
    type IntoIter = std::slice::Iter<'a, Mapping>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Parses one line. The segments of one library follow each other, so the path of the previous line is shared instead
/// of allocated again.
fn parse_line(line: &[u8], previous: Option<&Arc<Path>>) -> Option<Mapping> {
    let (start, rest) = hexadecimal(line, b'-')?;
    let (end, rest) = hexadecimal(rest, b' ')?;
    let (flags, rest) = rest.split_at_checked(5)?;
    let (offset, rest) = hexadecimal(rest, b' ')?;
    let (major, rest) = hexadecimal(rest, b':')?;
    let (minor, rest) = hexadecimal(rest, b' ')?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let inode = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
    let name = rest[digits..].trim_ascii_start();
    let (name, deleted) = without_mark(name);
    if end <= start {
        return None;
    }
    Some(Mapping {
        start,
        end,
        permissions: Permissions {
            read: flags[0] == b'r',
            write: flags[1] == b'w',
            execute: flags[2] == b'x',
            shared: flags[3] == b's',
        },
        offset,
        device: Device {
            major: major.try_into().ok()?,
            minor: minor.try_into().ok()?,
        },
        inode,
        path: path(name, previous),
        deleted,
    })
}

/// Returns a name without the kernel's mark of a file that was unlinked or replaced, and whether it had the mark.
fn without_mark(name: &[u8]) -> (&[u8], bool) {
    match name.strip_suffix(b" (deleted)") {
        Some(name) => (name, true),
        None => (name, false),
    }
}

fn path(name: &[u8], previous: Option<&Arc<Path>>) -> Option<Arc<Path>> {
    if name.is_empty() {
        return None;
    }
    if let Some(previous) = previous
        && previous.as_os_str().as_encoded_bytes() == name
    {
        return Some(Arc::clone(previous));
    }
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some(&byte) = rest.first() {
        if let Some(after) = rest.strip_prefix(b"\\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(byte);
            rest = &rest[1..];
        }
    }
    Some(PathBuf::from(OsString::from_vec(plain)).into())
}

/// Returns the hexadecimal number before `until`, and what follows it.
fn hexadecimal(text: &[u8], until: u8) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, &byte) in text.iter().enumerate().take(17) {
        if byte == until && at > 0 {
            return Some((value, &text[at + 1..]));
        }
        let digit = (byte as char).to_digit(16)?;
        value = (value << 4) | u64::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
00400000-00401000 r-xp 00000000 fe:00 77 /opt/a b/x\\012y (deleted)
00401000-00402000 rw-p 00001000 fe:00 77 /opt/a b/x\\012y (deleted)
01000000-01021000 rw-p 00000000 00:00 0                                  [heap]
7ff0000000-7ff0001000 rw-s 00000000 00:01 3 /memfd:ring (deleted)
7ffe00000000-7ffe00021000 rw-p 00000000 00:00 0                          [stack]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
not a line
";

    #[test]
    fn lines_are_read_whole() {
        let maps = Maps::parse(TEXT.as_bytes());
        assert_eq!(maps.iter().count(), 6);
        let first = maps.find(0x400fff).unwrap();
        assert_eq!(first.path.as_deref(), Some(Path::new("/opt/a b/x\ny")));
        assert!(first.deleted && first.is_file() && first.permissions.execute);
        assert_eq!((first.device.major, first.inode), (0xfe, 77));
        assert!(maps.find(0x7ff0000000).unwrap().permissions.shared);
        assert!(!maps.find(0x1000000).unwrap().is_file());
        assert!(maps.find(0x402000).is_none());
        assert!(maps.find(0).is_none());
        assert_eq!(maps.within(0x400800..0x401800).len(), 2);
        assert_eq!(maps.within(0x402000..0x403000).len(), 0);
    }

    #[test]
    fn gaps_are_reachable_and_leave_room_to_grow() {
        let maps = Maps::parse(TEXT.as_bytes());
        let code = 0x400000..0x402000;
        let gaps = maps.gaps(code.clone(), 0x1000);
        assert_eq!(gaps[0], 0x10000..0x400000);
        for gap in &gaps {
            assert!(maps.within(gap.clone()).is_empty());
            assert!(gap.end - code.start < 1 << 31);
            assert!(!(0x1021000..0x1021000 + HEAP_ROOM).contains(&gap.start));
        }
        let stack = 0x7ffe00000000 - 0x3000_0000..0x7ffe00000000 - 0x2fff_0000;
        assert!(
            maps.gaps(stack, 0x1000)
                .iter()
                .all(|gap| gap.end <= 0x7ffe00000000 - STACK_ROOM || gap.start >= 0x7ffe00021000)
        );
        assert!(maps.gaps(code, 1 << 40).is_empty());
    }
}
