//! What is known of a descriptor.

/// What a descriptor is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Name {
    /// Where its link in `/proc/PID/fd` leads: a path, `socket:[4711]`, `pipe:[4712]`, `anon_inode:[eventfd]`.
    pub link: String,
    /// What the link led to has been removed.
    pub deleted: bool,
    /// What more is known of it.
    pub more: Option<More>,
}

/// What is known of a descriptor beside its link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum More {
    /// It is a device.
    Device(Device),
    /// It is a socket: `TCP:[127.0.0.1:4000->127.0.0.1:80]`.
    Socket(String),
    /// It stands for this process.
    Process(i32),
}

/// A device: its kind and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// A block device, and no character device.
    pub block: bool,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
}
