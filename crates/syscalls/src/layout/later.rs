//! Parts of the tables that are understood when they are asked for.

use super::parse;
use super::types::{Ioctls, Later, Netlink, Row, Struct, Tables};

impl Tables {
    /// Returns a struct by its place in [`Tables::structs`].
    pub fn structure(&self, index: usize) -> &Struct {
        self.structs[index].get(|lines| parse::structure(self, lines))
    }

    /// Returns the rows of a system call's arguments.
    pub fn calls(&self, name: &str) -> &[Row] {
        self.rows(self.calls.get(name))
    }

    /// Returns the rows of what else is copied of a system call's arguments.
    pub fn copies(&self, name: &str) -> &[Row] {
        self.rows(self.copies.get(name))
    }

    fn rows<'t>(&'t self, of: Option<&'t Later<Vec<Row>>>) -> &'t [Row] {
        of.map_or(&[], |rows| rows.get(|lines| parse::rows(self, lines)))
    }

    /// Returns what is known of commands of `ioctl`.
    pub fn ioctls(&self) -> &Ioctls {
        self.ioctls.get(|lines| parse::ioctls(self, lines))
    }

    /// Returns what is known of netlink, and of addresses of sockets.
    pub fn netlink(&self) -> &Netlink {
        self.netlink.get(|lines| parse::netlink(self, lines))
    }
}
