//! The frames that differ between two builds of a file. Used by `difference::json` and `difference::table`.

pub mod json;
pub mod table;

use frames::difference::{Change, Difference};

/// Returns the word for what became of a frame.
fn kind(change: &Change) -> &'static str {
    match (&change.old, &change.new) {
        (None, _) => "new",
        (_, None) => "gone",
        _ if change.growth() < 0 => "shrank",
        _ if change.growth() > 0 => "grew",
        _ => "changed",
    }
}

/// Returns the sizes of the frames before and after.
fn sizes(change: &Change) -> (Option<u64>, Option<u64>) {
    let bytes = |frame: &Option<frames::Frame>| frame.as_ref().map(|frame| frame.bytes);
    (bytes(&change.old), bytes(&change.new))
}

/// Returns the bytes of the largest frame before and after.
fn largest(difference: &Difference) -> (u64, u64) {
    let of = |scan: &frames::Scan| {
        let frames = scan.frames().iter().filter(|frame| !frame.dispatcher);
        frames.map(|frame| frame.bytes).max().unwrap_or(0)
    };
    (of(&difference.old), of(&difference.new))
}
