//! Asks the kernel for single mappings (`PROCMAP_QUERY`, Linux 6.11), so that the work does not grow with the mappings of a process: the
//! text of 60,000 takes tens of milliseconds.

use super::{Device, Mapping, Maps, Permissions, without_mark};
use crate::error::{Error, Result};
use crate::proc_file;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// `struct procmap_query` of `include/uapi/linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    permissions: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    /// The bytes that there are for the name, then those that it has, with its NUL.
    name_size: u32,
    build_id_size: u32,
    name_address: u64,
    build_id_address: u64,
}

/// `_IOWR('f', 17, struct procmap_query)`.
const QUERY: libc::c_ulong =
    0xc000_0000 | (size_of::<Query>() as libc::c_ulong) << 16 | (b'f' as libc::c_ulong) << 8 | 17;
/// `PROCMAP_QUERY_COVERING_OR_NEXT_VMA`: the mapping of the address, or the first one above.
const OR_NEXT: u64 = 1 << 4;

impl Maps {
    /// Reads only the mappings that touch `range`, each of them whole.
    pub fn over(pid: i32, range: Range<u64>) -> Result<Maps> {
        Maps::asked(pid, range).map_err(|error| Error::of_proc(pid, "maps", error))
    }

    fn asked(pid: i32, range: Range<u64>) -> io::Result<Maps> {
        let file = File::open(proc_file::path(pid, "maps"))?;
        let mut mappings: Vec<Mapping> = Vec::new();
        loop {
            let from = mappings.last().map_or(range.start, |last| last.end);
            if from >= range.end {
                break;
            }
            match at_or_above(&file, from) {
                Ok(Some(mapping)) if mapping.start < range.end => mappings.push(mapping),
                Ok(_) => break,
                // A kernel before 6.11.
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
                    let all = Maps::read(pid)?;
                    mappings = all.within(range).to_vec();
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Maps { mappings })
    }
}

/// Returns the mapping of an address, or the first one above it; `None` if there is none.
fn at_or_above(maps: &File, address: u64) -> io::Result<Option<Mapping>> {
    let mut name = [0u8; libc::PATH_MAX as usize];
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: OR_NEXT,
        address,
        name_size: name.len() as u32,
        name_address: name.as_mut_ptr().expose_provenance() as u64,
        ..Query::default()
    };
    // SAFETY: the request names the size of `query`; the kernel writes it and at most `name_size` bytes at `name_address`, both live
    // values of this frame.
    if unsafe { libc::ioctl(maps.as_raw_fd(), QUERY, &raw mut query) } != 0 {
        return match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
            error => Err(error),
        };
    }
    let length = (query.name_size as usize).saturating_sub(1);
    let name = &name[..length.min(name.len())];
    let (name, deleted) = without_mark(name);
    let is = |flag: u64| query.permissions & flag != 0;
    Ok(Some(Mapping {
        start: query.start,
        end: query.end,
        permissions: Permissions {
            read: is(1),
            write: is(2),
            execute: is(4),
            shared: is(8),
        },
        offset: query.offset,
        device: Device {
            major: query.major,
            minor: query.minor,
        },
        inode: query.inode,
        path: (!name.is_empty()).then(|| PathBuf::from(OsString::from_vec(name.to_vec())).into()),
        deleted,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mappings of another process, which stands still: this one's change while other tests run.
    #[test]
    fn what_the_kernel_answers_is_what_its_text_says() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .expect("sleep");
        let pid = child.id() as i32;
        let programs_own = || {
            let name = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            // The loader has done its work when the program waits.
            let wchan = std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
            name == b"sleep\n" && wchan.starts_with(&libc::SYS_clock_nanosleep.to_string())
        };
        while !programs_own() {
            std::thread::yield_now();
        }
        let all = Maps::read(pid).expect("its mappings");
        let mappings: Vec<&Mapping> = all
            .iter()
            .filter(|mapping| mapping.end <= super::super::HIGHEST)
            .collect();
        assert!(mappings.len() > 10, "{all:?}");
        for (index, first) in mappings.iter().enumerate() {
            for last in &mappings[index..] {
                let range = first.start..last.end;
                let found = Maps::over(pid, range.clone()).expect("an answer");
                assert_eq!(
                    found.within(range.clone()),
                    all.within(range.clone()),
                    "{range:x?}"
                );
                let inside = first.start + 1..last.end - 1;
                let found = Maps::over(pid, inside.clone()).expect("an answer");
                assert_eq!(
                    found.within(inside.clone()),
                    all.within(inside),
                    "{range:x?}"
                );
            }
        }
        let (low, high) = (mappings[0], mappings[mappings.len() - 1]);
        assert_eq!(
            Maps::over(pid, 0..low.start).expect("an answer"),
            Maps::default()
        );
        assert_eq!(
            Maps::over(pid, high.end..high.end).expect("an answer"),
            Maps::default()
        );
        child.kill().expect("it lives");
        child.wait().expect("it ends");
        assert!(Maps::over(pid, 0..low.end).is_err());
    }
}
