//! A value of a map that lancet has mapped into its own memory: it reads and writes there what programs see. Used by `on_demand` and
//! `switches`.

use super::{Map, Refused, refused};
use std::io;
use std::ptr::NonNull;

/// The only value of a map, all zeros at first, which is mapped until this is dropped.
#[derive(Debug)]
pub struct Mapped {
    /// The value lives as long as its map.
    map: Map,
    at: NonNull<u8>,
    length: usize,
}

impl Mapped {
    /// Makes a value of so many bytes.
    ///
    /// # Errors
    /// Why there is no way by BPF.
    pub fn new(name: &str, length: usize) -> Result<Self, Refused> {
        let map = Map::mappable(name, length)?;
        // SAFETY: a new mapping of the map's value, where the kernel wants it.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.descriptor(),
                0,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(mapped) if at != libc::MAP_FAILED => Ok(Mapped {
                map,
                at: mapped,
                length,
            }),
            _ => Err(refused("a mapped map", io::Error::last_os_error())),
        }
    }

    /// The map, for the programs that use it.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// Where the value lies: so many bytes as it was made of, aligned to a page. Programs may write there at any time.
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping, into which no reference is left: what lends one borrows this.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}
