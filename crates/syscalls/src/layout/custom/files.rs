//! Entries of directories, and times of files. Used by `custom`.

use crate::layout::list;
use crate::writer::{Unknown, Writer, Written};

/// `struct linux_dirent` (fs/readdir.c): the kind stands in the last byte of each entry.
pub fn entries(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    listed(
        w,
        at,
        Shape {
            header: 18,
            kind: None,
        },
    )
}

/// `struct linux_dirent64` (include/linux/dirent.h): the kind stands before the name.
pub fn wide_entries(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let kind = Some(18);
    listed(w, at, Shape { header: 19, kind })
}

#[derive(Clone, Copy)]
struct Shape {
    /// Bytes before the name.
    header: u64,
    /// Where the kind stands; `None` = in the last byte.
    kind: Option<u64>,
}

/// Appends how many entries there are; with `-v` each of them.
fn listed(w: &mut Writer, mut at: u64, shape: Shape) -> Written {
    let mut left = w.call.count().min(w.call.arguments[2] & 0xffff_ffff);
    let whole = w.style.verbose;
    if !whole {
        w.address(at);
    } else {
        w.push("[");
    }
    let mut count = 0;
    while left >= shape.header {
        let length = w.number(at.wrapping_add(16)).map(u16::from_le_bytes);
        let Ok(length) = length.map(u64::from) else {
            if whole && count == 0 {
                return Err(Unknown);
            }
            break;
        };
        let own = length.clamp(shape.header, left);
        if whole {
            w.push(if count > 0 { ", " } else { "" });
            entry(w, at, own, shape)?;
        }
        count += 1;
        (at, left) = (at.wrapping_add(own), left - own);
    }
    let more = if left > 0 { "+" } else { "" };
    match whole {
        true if left > 0 => w.push(", ...]"),
        true => w.push("]"),
        false => w.push(&format!(" /* {count}{more} entries */")),
    }
    Ok(())
}

fn entry(w: &mut Writer, at: u64, length: u64, shape: Shape) -> Written {
    let [inode, offset] = [w.u64_at(at)?, w.u64_at(at.wrapping_add(8))?];
    let said = w.number(at.wrapping_add(16)).map(u16::from_le_bytes)?;
    match shape.kind {
        Some(_) => w.push(&format!(
            "{{d_ino={inode}, d_off={}, d_reclen={said}, d_type=",
            offset.cast_signed()
        )),
        None => w.push(&format!("{{d_ino={inode}, d_off={offset}, d_reclen={said}")),
    }
    if let Some(kind) = shape.kind {
        let [kind] = w.number(at.wrapping_add(kind))?;
        list("directory_entries").name(w, kind.into());
    }
    let room = length - shape.header - u64::from(shape.kind.is_none() && length > shape.header);
    if room > 0 {
        let name = w.bytes(at + shape.header, room as usize);
        let end = name.iter().position(|byte| *byte == 0);
        w.push(", d_name=");
        crate::text::quoted(&name[..end.unwrap_or(name.len())], w.style.hex, w.out);
        if end.is_none() {
            w.push("...");
        }
    }
    if shape.kind.is_none() && length > shape.header {
        let [kind] = w.number(at + length - 1)?;
        w.push(", d_type=");
        list("directory_entries").name(w, kind.into());
    }
    w.push("}");
    Ok(())
}

/// The times of a file, of access and of change, with dates: `struct timeval` or the older of `utimes`.
pub fn times(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    both_times(w, at, |w, seconds, micros| {
        w.push(&format!("{{tv_sec={seconds}, tv_usec={micros}}}"));
        if micros < 1_000_000 {
            w.date_of_micros(seconds, micros);
        }
    })
}

/// The same with nanoseconds (`struct timespec`), of which two numbers stand for the time that it is and for none.
pub fn exact_times(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    both_times(w, at, |w, seconds, nanos| {
        // include/linux/stat.h
        let name = match nanos {
            0x3fff_ffff => Some("UTIME_NOW"),
            0x3fff_fffe => Some("UTIME_OMIT"),
            _ => None,
        };
        let number = format!("{{tv_sec={seconds}, tv_nsec={nanos}}}");
        match name {
            Some(name) => crate::words::known(&number, name, w.style.constants, w.out),
            None => {
                w.push(&number);
                w.date(seconds, nanos);
            }
        }
    })
}

/// Two times, each of seconds and a part of one; both must be there.
fn both_times(w: &mut Writer, at: u64, mut one: impl FnMut(&mut Writer, i64, u64)) -> Written {
    const BOTH: usize = 32;
    if w.bytes(at, BOTH).len() < BOTH {
        return Err(Unknown);
    }
    w.push("[");
    for index in 0..2 {
        let here = at.wrapping_add(16 * index);
        let [seconds, part] = [w.u64_at(here)?, w.u64_at(here.wrapping_add(8))?];
        w.push(if index > 0 { ", " } else { "" });
        one(w, seconds.cast_signed(), part);
    }
    w.push("]");
    Ok(())
}
