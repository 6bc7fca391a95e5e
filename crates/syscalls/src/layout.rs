//! What drivers and netlink families exchange with the kernel, as data: lists of names, structs, commands of `ioctl`,
//! attributes of netlink. One small language says all of it (`parse`), the files in `conf/` are written in it, and `show` writes
//! values by it. `names.conf` and `ioctls.conf` are made from the kernel's headers (`conf/generate`).
//!
//! ```text
//!   list fsx FS_XFLAG_??? FS_XFLAG_REALTIME=1 …       names, and what stands for a number without one
//!   struct fsxattr                                     as include/uapi/linux/fs.h has it
//!     fsx_xflags    f32.fsx                            flags of 32 bits
//!     fsx_nextents  u32
//!   ioctl FS_IOC_FSGETXATTR out fsxattr                what the argument is, and when it is known
//!   attributes nlmsgerr                                of the list of the same name
//!     NLMSGERR_ATTR_OFFS u32
//! ```
//!
//! What a guest's memory holds decides how much is written only within the bytes that were copied of it, and depth is bounded.

mod custom;
mod parse;
mod show;
mod types;

pub use show::{counted, fields, listed, passed, value};
pub use types::{After, Attribute, Attributes, How, List, Row, Tables, Ty};

use crate::call::Call;
use crate::words;
use crate::writer::Writer;
use std::sync::LazyLock;

/// The files, in the order in which they refer to each other.
const FILES: [(&str, &str); 17] = [
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
    ("flash.conf", include_str!("../conf/flash.conf")),
    ("devices.conf", include_str!("../conf/devices.conf")),
    ("network.conf", include_str!("../conf/network.conf")),
    ("console.conf", include_str!("../conf/console.conf")),
    ("calls.conf", include_str!("../conf/calls.conf")),
    ("netlink.conf", include_str!("../conf/netlink.conf")),
    ("terminal.conf", include_str!("../conf/terminal.conf")),
];

static TABLES: LazyLock<Tables> = LazyLock::new(|| {
    let mut tables = Tables::default();
    for (file, text) in FILES {
        if let Err(wrong) = parse::read(&mut tables, text) {
            panic!("{file}: {wrong}");
        }
    }
    tables
});

/// All of it.
pub fn tables() -> &'static Tables {
    &TABLES
}

/// The list of a name.
///
/// # Panics
///
/// If there is none: names of lists are those of this crate.
pub fn list(name: &str) -> &'static List {
    let found = TABLES.list_names.get(name);
    &TABLES.lists[*found.unwrap_or_else(|| panic!("no list {name} in conf/"))]
}

/// The type of a text in the language.
///
/// # Panics
///
/// If it is none: such texts are those of this crate.
pub fn ty(text: &str) -> Ty {
    parse::ty(&TABLES, text).unwrap_or_else(|wrong| panic!("{text}: {wrong}"))
}

/// Attributes by their name.
pub fn attributes(name: &str) -> Option<&'static Attributes> {
    let index = TABLES.attribute_names.get(name)?;
    Some(&TABLES.attributes[*index])
}

/// The first member of a struct alone.
pub fn first_name(of: &Ty) -> Option<&'static str> {
    let Ty::Struct(index, _) = of else {
        return None;
    };
    TABLES.structs[*index]
        .members
        .first()
        .map(|member| &*member.name)
}

/// The row of an argument of a system call.
pub fn row(call: &Call, index: usize) -> Option<&'static Row> {
    let rows = TABLES.calls.get(call.name)?;
    let fits = |row: &&Row| {
        row.index == index
            && row.when.is_none_or(|(of, shift, is)| {
                let word = call.arguments.get(of).map(|word| *word as u32);
                word.is_some_and(|word| word >> shift == is)
            })
    };
    rows.iter().find(fits)
}

impl List {
    /// Appends the name of a number, in hexadecimal where it has none.
    pub fn name(&self, w: &mut Writer, word: u64) {
        self.number(w, word, &words::plain(word));
    }

    /// Appends the name of a number, in decimals where it has none.
    pub fn decimal(&self, w: &mut Writer, number: i64) {
        self.number(w, number as u64, &number.to_string());
    }

    fn number(&self, w: &mut Writer, word: u64, shown: &str) {
        match self.find(word) {
            Some(name) => words::known(shown, name, w.style.constants, w.out),
            None => words::nameless(shown, &self.unknown, w.style.constants, w.out),
        }
    }

    /// The name of a number.
    pub fn find(&self, word: u64) -> Option<&str> {
        let mut names = self.names.iter();
        let found = names.find(|(_, number)| *number as u64 == word);
        found.map(|(name, _)| &**name)
    }

    /// Appends the names of bits.
    pub fn flags(&self, w: &mut Writer, word: u64) {
        words::flags_or(word, &self.names, &self.unknown, w.style.constants, w.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All files are understood, and each struct that an argument has is as large as its command says (`_IOC_SIZE`).
    #[test]
    fn the_files_are_understood_and_sizes_are_those_of_the_commands() {
        let tables = tables();
        assert!(tables.arguments.len() > 300);
        let mut wrong = Vec::new();
        for (command, how) in &tables.arguments {
            let size = command >> 16 & 0x3fff;
            let (How::In(of) | How::Out(of)) = how else {
                continue;
            };
            let is_struct = matches!(of, Ty::Struct(..));
            let ours = of.layout(tables).0;
            // UBI's commands say int, whatever they take (include/uapi/mtd/ubi-user.h).
            let says_int = size == 4 && matches!(command >> 8 & 0xff, 0x4f | 0x6f);
            if size != 0 && is_struct && ours != size && !says_int {
                let names = tables.commands.get(command);
                wrong.push(format!("{names:?}: {ours} bytes, not {size}"));
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
