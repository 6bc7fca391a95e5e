//! The lines that made objects, where births were counted before the copy was made.

use foldhash::HashMap;
use heap::{Builder, TextId};
use process::error::Result;
use std::sync::Arc;

/// Finds the lines that made the objects of one copy. Objects are best looked up in the order of their pages.
pub trait Lines: Send {
    /// Returns the site of the object at this address; `None` if it was not made while births were counted.
    ///
    /// # Errors
    /// The agent's books cannot be read.
    fn site(&mut self, address: u64) -> Result<Option<u32>>;

    /// Returns the file and line of a site; `None` if no script ran there, or there is no such site.
    ///
    /// # Errors
    /// The agent's books cannot be read, or are damaged.
    fn line(&mut self, site: u32) -> Result<Option<(Arc<str>, u32)>>;
}

/// Finds the lines that made one copy's objects. The line of each site is read once and kept.
pub struct Births<'a> {
    lines: Box<dyn Lines + 'a>,
    /// When counting of births began, in nanoseconds since 1970.
    since: u64,
    /// The files and lines of sites; `None` = no script ran there.
    sites: HashMap<u32, Option<(TextId, u32)>>,
}

impl<'a> Births<'a> {
    /// Makes a reader of the births in `lines`, which were counted from `since` on, in nanoseconds since 1970.
    pub fn new(lines: Box<dyn Lines + 'a>, since: u64) -> Self {
        Births {
            lines,
            since,
            sites: HashMap::default(),
        }
    }

    /// The line that made an object, and its earliest time; `None` and 0 where unknown.
    pub fn of(
        &mut self,
        object: u64,
        builder: &mut Builder,
    ) -> Result<(Option<(TextId, u32)>, u64)> {
        let Some(site) = self.lines.site(object)? else {
            return Ok((None, 0));
        };
        if let Some(known) = self.sites.get(&site) {
            return Ok((*known, self.since));
        }
        let line = self.lines.line(site)?;
        let line = line.map(|(path, line)| (builder.text(path.as_bytes()), line));
        self.sites.insert(site, line);
        Ok((line, self.since))
    }
}
