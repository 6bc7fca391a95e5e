//! The deepest chains of calls in files. Used by `lancet::commands::stack::run`.

pub mod json;
pub mod table;

use frames::Scan;
use frames::chains::Chain;

/// The chains of several files.
pub struct Chains<'a> {
    /// The files.
    pub scans: &'a [Scan],
    /// The wanted chains, the deepest first: the number of the file, and the chain.
    pub rows: Vec<(usize, Chain)>,
    /// The number of chains that are not among the rows.
    pub more: usize,
    /// The number of chains that take more than the limit, among the rows or not.
    pub larger: u64,
}

impl<'a> Chains<'a> {
    /// Follows the calls in all files.
    pub fn of(scans: &'a [Scan], rows: usize, max: Option<u64>) -> Chains<'a> {
        let mut all: Vec<(usize, Chain)> = Vec::new();
        let (mut count, mut larger) = (0, 0);
        for (number, scan) in scans.iter().enumerate() {
            let found = frames::chains::of(scan, rows, max);
            count += found.count;
            larger += found.larger;
            all.extend(found.rows.into_iter().map(|chain| (number, chain)));
            all.sort_by_key(|(_, chain)| std::cmp::Reverse(chain.bytes));
            all.truncate(rows);
        }
        Chains {
            scans,
            more: count - all.len(),
            rows: all,
            larger,
        }
    }
}

/// Returns the name of a function, or its address.
fn name(scan: &Scan, frame: &frames::Frame) -> String {
    let name = scan.name(frame);
    name.unwrap_or_else(|| format!("{:#x}", frame.range.start))
}
