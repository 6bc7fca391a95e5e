//! The name of a descriptor: a path or the ends of a socket, with what is known of it besides. Used by `files`, `names`
//! and others here, and by crate `report`.

/// The name of a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Where its link in `/proc/PID/fd` leads: a path, `socket:[4711]`, `pipe:[4712]`, `anon_inode:[eventfd]`.
    pub link: String,
    /// Whether the file that the link leads to has been removed.
    pub deleted: bool,
    /// Further data.
    pub more: Option<More>,
}

/// What is known of a descriptor besides its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum More {
    /// It is a device.
    Device(Device),
    /// It is a socket: `TCP:[127.0.0.1:4000->127.0.0.1:80]`.
    Socket(String),
    /// It refers to this process.
    Process(i32),
}

/// A device: its kind and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Whether it is a block device; else it is a character device.
    pub block: bool,
    /// The major number, out of `st_rdev` (makedev(3)).
    pub major: u32,
    /// The minor number, out of `st_rdev`.
    pub minor: u32,
}
