//! Files, devices, what is waited for. Used by `forms`, `special`, `layout::custom` and others.

use crate::call::Constants;
use crate::members::Members;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;
use prototypes::types::{Lens, Type};

/// Types of files in a mode (include/uapi/linux/stat.h).
const TYPES: [(u64, &str); 7] = [
    (0o140_000, "S_IFSOCK"),
    (0o120_000, "S_IFLNK"),
    (0o100_000, "S_IFREG"),
    (0o060_000, "S_IFBLK"),
    (0o040_000, "S_IFDIR"),
    (0o020_000, "S_IFCHR"),
    (0o010_000, "S_IFIFO"),
];
const TYPE: u64 = 0o170_000;
const BITS: [(u64, &str); 3] = [
    (0o4000, "S_ISUID"),
    (0o2000, "S_ISGID"),
    (0o1000, "S_ISVTX"),
];

/// A mode with its type: `S_IFREG|0644`.
pub fn mode(w: &mut Writer, mode: u64) {
    let named = TYPES.iter().find(|(bits, _)| mode & TYPE == *bits);
    let Some((_, name)) = named.filter(|_| w.style.constants != Constants::Numbers) else {
        return w.octal(mode);
    };
    let both = w.style.constants == Constants::Both;
    if both {
        w.octal(mode);
        w.push(" /* ");
    }
    w.push(name);
    for (bit, name) in BITS {
        if mode & bit != 0 {
            w.push("|");
            w.push(name);
        }
    }
    w.push("|");
    w.octal(mode & !(TYPE | 0o7000));
    if both {
        w.push(" */");
    }
}

/// `makedev(0x88, 0x1)`. The bits of major and minor: `new_decode_dev` in include/linux/kdev_t.h, which has 32 bits, as
/// glibc's `gnu_dev_major` has them of 64.
fn makedev(w: &mut Writer, device: u64) {
    let major = (device >> 8 & 0xfff) | (device >> 32 & 0xffff_f000);
    let minor = (device & 0xff) | (device >> 12 & 0xffff_ff00);
    let [major, minor] = [major, minor].map(words::plain);
    w.known(device, &format!("makedev({major}, {minor})"));
}

pub fn device(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let number = w.word(ty, at)?;
    makedev(w, number);
    Ok(())
}

/// Whether a mode is that of a device.
pub fn is_device(mode: u64) -> bool {
    matches!(mode & TYPE, 0o060_000 | 0o020_000)
}

pub fn stat(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let verbose = w.style.verbose;
    let mut members = Members::begin(w, ty, at)?;
    let bits = members.word("st_mode")?;
    if verbose {
        let number = members.word("st_dev")?;
        members.label("st_dev");
        makedev(members.w, number);
        members.members(&["st_ino"])?;
    }
    members.label("st_mode");
    mode(members.w, bits);
    if verbose {
        members.members(&["st_nlink", "st_uid", "st_gid", "st_blksize", "st_blocks"])?;
    }
    if is_device(bits) {
        let number = members.word("st_rdev")?;
        members.label("st_rdev");
        makedev(members.w, number);
    } else {
        members.members(&["st_size"])?;
    }
    if !verbose {
        return members.more();
    }
    for time in ["st_atime", "st_mtime", "st_ctime"] {
        let (at, _) = members.find(time)?;
        let [seconds, nanos] = [members.w.u64_at(at)?, members.w.u64_at(at + 8)?];
        members.label(time);
        decimal(seconds.cast_signed(), members.w.out);
        members.w.date(seconds.cast_signed(), nanos);
        members.label(&format!("{time}_nsec"));
        decimal(nanos, members.w.out);
    }
    members.end()
}

/// A time of a file, with its date: `{tv_sec=1, tv_nsec=0} /* 1970-01-01T00:00:01+0000 */`. `statx` has 32 bits of
/// nanoseconds.
pub fn file_time(w: &mut Writer, of: &Type, at: Place) -> Written {
    // include/linux/stat.h
    const NOW: u64 = (1 << 30) - 1;
    const OMIT: u64 = (1 << 30) - 2;
    let mut members = Members::begin(w, of, at)?;
    let [seconds, nanos] = [members.word("tv_sec")?, members.word("tv_nsec")?];
    let name = match nanos {
        NOW => "UTIME_NOW",
        OMIT => "UTIME_OMIT",
        _ => {
            members.members(&["tv_sec", "tv_nsec"])?;
            members.w.push("}");
            members.w.date(seconds.cast_signed(), nanos);
            return Ok(());
        }
    };
    // Without the brace.
    members.w.out.pop();
    members.w.push(name);
    Ok(())
}

pub fn statx(w: &mut Writer, of: &Type, at: Place) -> Written {
    // include/uapi/linux/stat.h: members that the mask does not name were not asked for or are not known.
    const MODE: u64 = 3;
    const SIZE: u64 = 0x200;
    const MOUNT: u64 = 0x1000;
    const MEMBERS: [(u64, &str); 3] = [(4, "stx_nlink"), (8, "stx_uid"), (16, "stx_gid")];
    const TIMES: [(u64, &str); 4] = [
        (0x20, "stx_atime"),
        (0x800, "stx_btime"),
        (0x80, "stx_ctime"),
        (0x40, "stx_mtime"),
    ];
    let verbose = w.style.verbose;
    let mut members = Members::begin(w, of, at)?;
    let mask = members.word("stx_mask")?;
    let known = |list: &[(u64, &'static str)]| -> Vec<&'static str> {
        let known = list.iter().filter(|(bit, _)| mask & bit != 0);
        known.map(|(_, name)| *name).collect()
    };
    members.member_as("stx_mask", "statx_mask")?;
    if verbose {
        members.members(&["stx_blksize"])?;
    }
    members.member_as("stx_attributes", "statx_attributes")?;
    if verbose {
        members.members(&known(&MEMBERS))?;
    }
    if mask & MODE != 0 {
        let bits = members.word("stx_mode")?;
        members.label("stx_mode");
        mode(members.w, bits);
    }
    if verbose {
        members.members(&known(&[(0x100, "stx_ino")]))?;
    }
    members.members(&known(&[(SIZE, "stx_size")]))?;
    if !verbose {
        return members.more();
    }
    members.members(&known(&[(0x400, "stx_blocks")]))?;
    members.member_as("stx_attributes_mask", "statx_attributes")?;
    members.members(&known(&TIMES))?;
    members.members(&["stx_rdev_major", "stx_rdev_minor"])?;
    members.members(&["stx_dev_major", "stx_dev_minor"])?;
    let mount = members.word("stx_mnt_id")?;
    if mask & MOUNT != 0 {
        members.label("stx_mnt_id");
        members.w.hexadecimal(mount);
    }
    members.end()
}

/// Kinds of file systems (include/uapi/linux/magic.h).
const FILE_SYSTEMS: [(u64, &str); 12] = [
    (0xef53, "EXT2_SUPER_MAGIC"),
    (0x0102_1994, "TMPFS_MAGIC"),
    (0x9fa0, "PROC_SUPER_MAGIC"),
    (0x6265_6572, "SYSFS_MAGIC"),
    (0x5846_5342, "XFS_SUPER_MAGIC"),
    (0x9123_683e, "BTRFS_SUPER_MAGIC"),
    (0x794c_7630, "OVERLAYFS_SUPER_MAGIC"),
    (0x6969, "NFS_SUPER_MAGIC"),
    (0x0027_e0eb, "CGROUP_SUPER_MAGIC"),
    (0x6367_7270, "CGROUP2_SUPER_MAGIC"),
    (0x1cd1, "DEVPTS_SUPER_MAGIC"),
    (0x5049_5045, "PIPEFS_MAGIC"),
];

pub fn statfs(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    let kind = members.word("f_type")?;
    members.label("f_type");
    match FILE_SYSTEMS.iter().find(|(magic, _)| *magic == kind) {
        Some((_, name)) => members.w.push(name),
        None => members.w.hexadecimal(kind),
    }
    members.members(&["f_bsize", "f_blocks", "f_bfree", "f_bavail"])?;
    members.members(&["f_files", "f_ffree"])?;
    let (at, _) = members.find("f_fsid")?;
    let [low, high] = [members.w.u32_at(at)?, members.w.u32_at(at + 4)?];
    members.label("f_fsid");
    members.w.push("{val=[");
    members.w.hexadecimal(low.into());
    members.w.push(", ");
    members.w.hexadecimal(high.into());
    members.w.push("]}");
    members.members(&["f_namelen", "f_frsize"])?;
    members.member_as("f_flags", "statfs_flags")?;
    members.end()
}

/// How a file is opened: its access mode, then the flags.
pub fn open_flags(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let word = w.word(ty, at)?;
    write_open_flags(w, word);
    Ok(())
}

/// Appends how a file is opened, of a number.
pub fn write_open_flags(w: &mut Writer, word: u64) {
    const ACCESS: [&str; 4] = ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"];
    let mut text = Vec::from(ACCESS[(word & 3) as usize]);
    let rest = word & !3;
    if let Some(Lens::Flags(names)) = &ty("open_flags").lens
        && rest != 0
    {
        text.push(b'|');
        words::bits(rest, &names[3..], &mut text);
    }
    w.known(word, &String::from_utf8_lossy(&text));
}

/// How the state is brought up to date, which always has a name, then the flags.
pub fn statx_flags(w: &mut Writer, ty: &Type, at: Place) -> Written {
    /// The bits that say how the state is brought up to date: `AT_STATX_SYNC_TYPE` (include/uapi/linux/fcntl.h).
    const SYNC: u64 = 0x6000;
    let word = w.word(ty, at)?;
    let mut text = Vec::from(match word & SYNC {
        0 => "AT_STATX_SYNC_AS_STAT",
        0x2000 => "AT_STATX_FORCE_SYNC",
        0x4000 => "AT_STATX_DONT_SYNC",
        _ => "AT_STATX_FORCE_SYNC|AT_STATX_DONT_SYNC",
    });
    let rest = word & !SYNC;
    if let Some(Lens::Flags(names)) = &ty.lens
        && rest != 0
    {
        text.push(b'|');
        words::bits(rest, names, &mut text);
    }
    w.known(word, &String::from_utf8_lossy(&text));
    Ok(())
}

/// A descriptor that is polled: what is asked of it. What came is written behind the result.
pub fn poll(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    members.member_as("fd", "fd")?;
    if members.word("fd")?.cast_signed() as i32 >= 0 {
        members.member_as("events", "poll_events")?;
    }
    members.end()
}

/// `{events=EPOLLIN, data={u32=5, u64=5}}`; packed on x86-64 (`EPOLL_PACKED` in include/uapi/linux/eventpoll.h).
pub fn epoll(w: &mut Writer, of: &Type, at: Place) -> Written {
    let mut members = Members::begin(w, of, at)?;
    members.member_as("events", "epoll_events")?;
    let (at, _) = members.find("u32")?;
    let data = members.w.u64_at(at)?;
    members.label("data");
    members.w.push("{u32=");
    decimal(data as u32, members.w.out);
    members.w.push(", u64=");
    decimal(data, members.w.out);
    members.w.push("}");
    members.end()
}

/// The mode of a file, of which the kernel takes 16 bits (`umode_t` in include/linux/types.h).
pub fn permissions(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let mode = w.word(ty, at)?;
    w.octal(mode & 0xffff);
    Ok(())
}

/// The value of an attribute of a file: bytes, of which the last is left out where it is a NUL.
pub fn attribute_value(w: &mut Writer, at: u64, length: u64) -> Written {
    let ends = length > 0
        && w.number(at.wrapping_add(length - 1))
            .is_ok_and(|last: [u8; 1]| last == [0]);
    if at == 0 {
        return Err(Unknown);
    }
    w.buffer(at, (length - u64::from(ends)) as usize)
}
