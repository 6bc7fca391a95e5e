//! What drivers and netlink families exchange with the kernel, as data: lists of names, structs, commands of `ioctl`,
//! attributes of netlink. One small language says all of it (`parse`), the files in `conf/` are written in it, and `show` writes
//! values by it. `names.conf` and `ioctls.conf` are made from the kernel's headers (`conf/generate`). Used by `opened`,
//! `arguments`, `ioctl` and others.
//!
//! ```text
//!   list fsx FS_XFLAG_??? FS_XFLAG_REALTIME=1 …       names, and what stands for a number without one
//!   struct fsxattr                                     as include/uapi/linux/fs.h has it
//!     fsx_xflags    f32.fsx                            flags of 32 bits
//!     fsx_nextents  u32
//!   ioctl FS_IOC_FSGETXATTR out fsxattr                what the argument is, and when it is known
//!   opens result TIOCGPTPEER                           what opens a descriptor, and where its number is
//!   attributes nlmsgerr                                of the list of the same name
//!     NLMSGERR_ATTR_OFFS u32
//! ```
//!
//! What a guest's memory holds decides how much is written only within the bytes that were copied of it, and depth is bounded.

mod copies;
mod custom;
mod later;
mod parse;
mod show;
mod tables;
mod types;
mod zeros;

pub use copies::programs;
pub use custom::network;
pub use show::{beginning, behind, counted, ends, fields, listed, named, passed, value};
pub use tables::{Rows, attributes, first_name, list, rows, tables, ty};
use types::Tables;
pub use types::{After, Attribute, Attributes, Diagnosis, Generic, How, List, Row, Ty};

/// The files, in the order in which they refer to each other.
const FILES: [(&str, &str); 31] = [
    ("names.conf", include_str!("../conf/names.conf")),
    ("numbers.conf", include_str!("../conf/numbers.conf")),
    ("ioctls.conf", include_str!("../conf/ioctls.conf")),
    ("input.conf", include_str!("../conf/input.conf")),
    ("gpio.conf", include_str!("../conf/gpio.conf")),
    ("video.conf", include_str!("../conf/video.conf")),
    ("time.conf", include_str!("../conf/time.conf")),
    ("seccomp.conf", include_str!("../conf/seccomp.conf")),
    ("files.conf", include_str!("../conf/files.conf")),
    ("disks.conf", include_str!("../conf/disks.conf")),
    ("volumes.conf", include_str!("../conf/volumes.conf")),
    ("machines.conf", include_str!("../conf/machines.conf")),
    ("flash.conf", include_str!("../conf/flash.conf")),
    ("devices.conf", include_str!("../conf/devices.conf")),
    ("network.conf", include_str!("../conf/network.conf")),
    ("console.conf", include_str!("../conf/console.conf")),
    ("calls.conf", include_str!("../conf/calls.conf")),
    ("bpf.conf", include_str!("../conf/bpf.conf")),
    ("ptrace.conf", include_str!("../conf/ptrace.conf")),
    ("keys.conf", include_str!("../conf/keys.conf")),
    ("commands.conf", include_str!("../conf/commands.conf")),
    ("sockets.conf", include_str!("../conf/sockets.conf")),
    ("mounts.conf", include_str!("../conf/mounts.conf")),
    ("netlink.conf", include_str!("../conf/netlink.conf")),
    ("links.conf", include_str!("../conf/links.conf")),
    ("routes.conf", include_str!("../conf/routes.conf")),
    ("diagnosis.conf", include_str!("../conf/diagnosis.conf")),
    ("generic.conf", include_str!("../conf/generic.conf")),
    ("addresses.conf", include_str!("../conf/addresses.conf")),
    ("terminal.conf", include_str!("../conf/terminal.conf")),
    ("opened.conf", include_str!("../conf/opened.conf")),
];

/// Cuts the files into their parts, if that was not done yet: before anything of a call is written.
///
/// # Panics
///
/// If a file is not understood; they are part of this crate.
pub fn prepare() {
    tables::take(|| {
        let mut tables = Tables {
            customs: custom::CUSTOM,
            lengths: Some(custom::length),
            ..Tables::default()
        };
        for (file, text) in FILES {
            if let Err(wrong) = parse::read(&mut tables, text) {
                panic!("{file}: {wrong}");
            }
        }
        tables
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files are understood, and each struct that an argument has is as large as its command says (`_IOC_SIZE`).
    #[test]
    fn the_files_are_understood_and_sizes_are_those_of_the_commands() {
        prepare();
        let tables = tables();
        for index in 0..tables.structs.len() {
            tables.structure(index);
        }
        for name in tables.calls.keys() {
            assert!(!tables.calls(name).is_empty());
        }
        for name in tables.copies.keys() {
            assert!(!tables.copies(name).is_empty());
        }
        assert!(tables.netlink().attributes.len() > 60);
        let ioctls = tables.ioctls();
        assert!(ioctls.arguments.len() > 300);
        let names = tables.lists.iter().map(|list| list.names().len());
        assert!(names.sum::<usize>() > 3000);
        let mut wrong = Vec::new();
        for (command, how) in &ioctls.arguments {
            let size = command >> 16 & 0x3fff;
            let (How::In(of) | How::Out(of)) = how else {
                continue;
            };
            let is_struct = matches!(of, Ty::Struct(..));
            let ours = of.layout(tables).0;
            // UBI's commands say int, whatever they take (include/uapi/mtd/ubi-user.h).
            let says_int = size == 4 && matches!(command >> 8 & 0xff, 0x4f | 0x6f);
            if size != 0 && is_struct && ours != size && !says_int {
                let names = ioctls.commands.get(command);
                wrong.push(format!("{names:?}: {ours} bytes, not {size}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
