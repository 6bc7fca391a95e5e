//! The kernel's log, the only place where some faults are reported at all. Used by `machine` and `rules::backlog`.
//!
//! It is the ring that `/dev/kmsg` and dmesg(1) show, read whole with one system call (syslog(2),
//! SYSLOG_ACTION_READ_ALL), which works without a device file too. Below a root it is the copy that the boot or the log
//! daemon left in `/var/log`. Each line begins with the seconds since boot, which is when it was written.

use std::io;

use crate::tree::{Cannot, Tree};

const READ_ALL: i32 = 3;
const SIZE_BUFFER: i32 = 10;
/// Bytes of the largest ring that a kernel is given (log_buf_len is at most 32 MiB, and 1 MiB is much).
const LONGEST: i32 = 32 << 20;

/// Returns the text that is still in the ring.
pub fn read(tree: &Tree) -> Result<String, Cannot> {
    if tree.is_live() {
        return ring();
    }
    let copies = ["/var/log/dmesg", "/var/log/kern.log"];
    let found = copies.iter().find_map(|path| tree.read(path).ok());
    found.ok_or_else(|| {
        Cannot::Missing("the kernel's log (/var/log/dmesg, /var/log/kern.log)".into())
    })
}

fn ring() -> Result<String, Cannot> {
    let failed = || {
        let error = io::Error::last_os_error();
        Cannot::from_io("the kernel's log", &error)
            .needing("CAP_SYSLOG (kernel.dmesg_restrict is 1)")
    };
    // SAFETY: no memory is handed over.
    let size = unsafe { libc::klogctl(SIZE_BUFFER, std::ptr::null_mut(), 0) };
    if size < 0 {
        return Err(failed());
    }
    // The time in front of each line is not in the ring, so the text is longer than it.
    let mut text = vec![0u8; size.saturating_mul(2).min(LONGEST) as usize];
    // SAFETY: the buffer is ours and its length is given.
    let length = unsafe { libc::klogctl(READ_ALL, text.as_mut_ptr().cast(), text.len() as i32) };
    text.truncate(usize::try_from(length).map_err(|_| failed())?);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns the last line that contains one of these words, without the level in front (`<6>`).
pub fn last<'a>(log: &'a str, any_of: &[&str]) -> Option<&'a str> {
    let tells = |line: &&str| any_of.iter().any(|words| line.contains(words));
    let line = log.lines().rev().find(tells)?;
    let level = line
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        .filter(|(level, _)| level.chars().all(|c| c.is_ascii_digit()));
    Some(level.map_or(line, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_that_tells_of_it() {
        let log = "<6>[    1.0] tsc: fine\n<4>[    2.0] clocksource: Marking clocksource 'tsc' as unstable\n<6>[    3.0] eth0\n";
        let line = last(log, &["Marking TSC unstable", "as unstable"]).unwrap();
        assert_eq!(
            line,
            "[    2.0] clocksource: Marking clocksource 'tsc' as unstable"
        );
        assert_eq!(last(log, &["conntrack"]), None);
        assert_eq!(last("no level\n", &["no"]), Some("no level"));
    }

    #[test]
    fn the_ring_is_read_or_the_right_is_named() {
        match read(&Tree::live()) {
            Ok(text) => assert!(text.is_empty() || text.contains('\n')),
            Err(cannot) => assert!(cannot.to_string().contains("CAP_SYSLOG"), "{cannot}"),
        }
    }
}
