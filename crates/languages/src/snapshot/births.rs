//! The lines that made objects, where births were counted before the copy was made. Used by `ruby::snapshot` and
//! `snapshot`, and by `dump::guest`.

use foldhash::HashMap;
use heap::{Builder, TextId};
use process::error::Result;
use std::sync::Arc;

/// Returns the site at which the object at an address was made, or `None`.
type SiteOf<'a> = Box<dyn FnMut(u64) -> Result<Option<u32>> + Send + 'a>;
/// Returns the file and line of a site, or `None`.
type LineOf<'a> = Box<dyn FnMut(u32) -> Result<Option<(Arc<str>, u32)>> + Send + 'a>;

/// Finds the lines that made one copy's objects, which are best looked up in the order of their pages. The line of each site is read once
/// and kept.
pub struct Births<'a> {
    site: SiteOf<'a>,
    line: LineOf<'a>,
    /// When counting of births began, in nanoseconds since 1970.
    since: u64,
    /// The files and lines of sites; `None` = no script ran there.
    sites: HashMap<u32, Option<(TextId, u32)>>,
}

impl<'a> Births<'a> {
    /// Makes a reader of births that were counted from `since` on, in nanoseconds since 1970, by what returns the site of an object and the
    /// line of a site.
    pub fn new(site: SiteOf<'a>, line: LineOf<'a>, since: u64) -> Self {
        Births {
            site,
            line,
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
        let Some(site) = (self.site)(object)? else {
            return Ok((None, 0));
        };
        if let Some(known) = self.sites.get(&site) {
            return Ok((*known, self.since));
        }
        let line = (self.line)(site)?;
        let line = line.map(|(path, line)| (builder.text(path.as_bytes()), line));
        self.sites.insert(site, line);
        Ok((line, self.since))
    }
}
