//! Bytes that were read and written, whole (`-e read=`, `-e write=`). Used by `lines`.
//!
//! ```text
//!    | 00000  76 6d 0a                                          vm.              |
//! ```

use super::Numbers;
use prototypes::show::{Captures, Memory as _};
use syscalls::RawCall;

/// Bytes on a line.
const WIDTH: usize = 16;
/// Bytes of one call that are written, at most.
pub const MOST: usize = 128 << 10;

/// Appends what a call has read or written, if its descriptor is one of those; the first set is of what is read.
pub fn of(sets: &[Numbers; 2], call: &RawCall, out: &mut Vec<u8>) {
    if pieces(sets, call, out) || messages(sets, call, out) {
        return;
    }
    let [read, written] = sets;
    let (set, is_read) = match call.name {
        "read" | "pread64" | "recv" | "recvfrom" | "mq_timedreceive" => (read, true),
        "write" | "pwrite64" | "send" | "sendto" | "mq_timedsend" => (written, false),
        _ => return,
    };
    let [number, at, length, ..] = *call.arguments;
    let Some((back, result)) = call.returned.filter(|_| set.has(number as i32)) else {
        return;
    };
    if call.error().is_some() && is_read {
        return;
    }
    let (copies, length) = if is_read {
        (back, result)
    } else {
        (call.entry, length)
    };
    rows(copies, at, length, out);
}

/// Appends bytes that were copied from there on, at most so many.
fn rows(copies: &Captures, at: u64, length: u64, out: &mut Vec<u8>) {
    let length = usize::try_from(length).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    while bytes.len() < length.min(MOST) {
        let here = at.wrapping_add(bytes.len() as u64);
        let Some(piece) = copies.piece(here).filter(|piece| !piece.is_empty()) else {
            break;
        };
        let most = length - bytes.len();
        bytes.extend_from_slice(&piece[..piece.len().min(most)]);
    }
    for (index, line) in bytes.chunks(WIDTH).enumerate() {
        out.extend_from_slice(row(index * WIDTH, line).as_bytes());
    }
}

/// Pieces that are looked at, at most (`UIO_MAXIOV` in include/uapi/linux/uio.h).
const PIECES: u64 = 1024;

/// Appends what a call has read into pieces, or written from them; false if it is no such call.
fn pieces(sets: &[Numbers; 2], call: &RawCall, out: &mut Vec<u8>) -> bool {
    let [read, written] = sets;
    let (set, is_read) = match call.name {
        "readv" | "preadv" | "preadv2" | "recvmsg" => (read, true),
        "writev" | "pwritev" | "pwritev2" | "vmsplice" | "sendmsg" => (written, false),
        _ => return false,
    };
    let [number, mut at, mut count, ..] = *call.arguments;
    let Some((back, result)) = call.returned.filter(|_| set.has(number as i32)) else {
        return true;
    };
    if call.error().is_some() && is_read {
        return true;
    }
    let word = |at: u64| {
        let mut bytes = [0; 8];
        (back.read(at, &mut bytes) || call.entry.read(at, &mut bytes))
            .then(|| u64::from_le_bytes(bytes))
    };
    if call.name.ends_with("msg") {
        // `msg_iov` and `msg_iovlen` of `struct user_msghdr` (include/linux/socket.h).
        let [list, length] = [16, 24].map(|offset| word(at.wrapping_add(offset)));
        (at, count) = (list.unwrap_or_default(), length.unwrap_or_default());
    }
    each_piece(call, at, count, is_read.then_some(result), out);
    true
}

/// Appends pieces of a list, of which so many bytes were read; nothing of a list that is not all there.
fn each_piece(call: &RawCall, at: u64, count: u64, read: Option<u64>, out: &mut Vec<u8>) {
    let Some((back, _)) = call.returned else {
        return;
    };
    let is_read = read.is_some();
    let word = |at: u64| {
        let mut bytes = [0; 8];
        (back.read(at, &mut bytes) || call.entry.read(at, &mut bytes))
            .then(|| u64::from_le_bytes(bytes))
    };
    let last = at.wrapping_add(16 * count.min(PIECES).saturating_sub(1));
    if count > 0 && word(last.wrapping_add(8)).is_none() {
        return;
    }
    let mut left = read.unwrap_or(u64::MAX);
    for index in 0..count.min(PIECES) {
        let here = at.wrapping_add(16 * index);
        let (Some(base), Some(length)) = (word(here), word(here.wrapping_add(8))) else {
            break;
        };
        let own = length.min(left);
        if own == 0 && is_read {
            break;
        }
        left -= own;
        out.extend_from_slice(format!(" * {own} bytes in buffer {index}\n").as_bytes());
        rows(if is_read { back } else { call.entry }, base, own, out);
    }
}

/// Appends the pieces of each of several messages (`struct mmsghdr` in include/linux/socket.h).
fn messages(sets: &[Numbers; 2], call: &RawCall, out: &mut Vec<u8>) -> bool {
    /// `sizeof(struct mmsghdr)`, and where its length stands.
    const MESSAGE: u64 = 64;
    const LENGTH: u64 = 56;
    let [read, written] = sets;
    let (set, is_read) = match call.name {
        "recvmmsg" => (read, true),
        "sendmmsg" => (written, false),
        _ => return false,
    };
    let [number, at, ..] = *call.arguments;
    let Some((back, result)) = call.returned.filter(|_| set.has(number as i32)) else {
        return true;
    };
    if call.error().is_some() {
        return true;
    }
    for index in 0..result.min(PIECES) {
        let here = at.wrapping_add(MESSAGE * index);
        let word = |offset: u64| {
            let (mut bytes, at) = ([0; 8], here.wrapping_add(offset));
            (back.read(at, &mut bytes) || call.entry.read(at, &mut bytes))
                .then(|| u64::from_le_bytes(bytes))
        };
        let (Some(list), Some(count), Some(length)) = (word(16), word(24), word(LENGTH)) else {
            break;
        };
        out.extend_from_slice(format!(" = {count} buffers in vector {index}\n").as_bytes());
        let read = is_read.then_some(length & 0xffff_ffff);
        each_piece(call, list, count, read, out);
    }
    true
}

/// One line, as `dumpstr` of strace has it: two groups of eight bytes.
fn row(offset: usize, bytes: &[u8]) -> String {
    let mut text = format!(" | {offset:05x} ");
    for index in 0..WIDTH {
        if index % 8 == 0 {
            text.push(' ');
        }
        match bytes.get(index) {
            Some(byte) => text += &format!("{byte:02x} "),
            None => text += "   ",
        }
    }
    text.push(' ');
    for index in 0..WIDTH {
        text.push(match bytes.get(index) {
            Some(byte @ b' '..=b'~') => char::from(*byte),
            Some(_) => '.',
            None => ' ',
        });
    }
    text + " |\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_strace() {
        assert_eq!(
            row(0, b"vm\n"),
            " | 00000  76 6d 0a                                          vm.              |\n"
        );
        assert_eq!(
            row(16, b"0123456789abcdef"),
            " | 00010  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef |\n"
        );
    }
}
