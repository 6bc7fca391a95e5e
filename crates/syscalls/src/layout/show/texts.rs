//! Characters: text up to its NUL, and bytes. Used by `show`.

use super::{Around, used};
use crate::call::Hex;
use crate::layout::parse::LONGEST_TEXT;
use crate::layout::types::{Length, Text};
use crate::text;
use crate::writer::{Unknown, Writer, Written};

/// Appends the characters there.
pub fn characters(
    w: &mut Writer,
    kind: Text,
    length: &Length,
    at: u64,
    around: Option<Around>,
) -> Written {
    let mut count = used(w, length, around)? as usize;
    // Text that the caller's struct ends in is not terminated by what stands for the rest.
    if let Some(left) = w.overlay.as_ref().and_then(|of| of.left(at)) {
        count = count.min(usize::try_from(left).unwrap_or(usize::MAX));
    }
    let hex = match kind {
        Text::Hex => Hex::Always,
        _ => w.style.hex,
    };
    // What lies in a struct of fixed size is written whole.
    let lies_within = around.is_some() && length.places < LONGEST_TEXT;
    let has_end =
        length.used.is_none() || matches!(kind, Text::Hex | Text::Bytes) && length.places > 0;
    let is_whole = kind == Text::Label || lies_within && has_end && kind != Text::Brief;
    if !matches!(kind, Text::String | Text::Label | Text::Brief) {
        let shown = if is_whole {
            count
        } else {
            count.min(w.style.strings)
        };
        // One more than is shown is read.
        let wanted = count.min(shown.saturating_add(1));
        let bytes = w.bytes(at, wanted);
        if bytes.len() < wanted {
            return Err(Unknown);
        }
        text::quoted(&bytes[..shown], hex, w.out);
        if shown < count {
            w.push("...");
        }
        return Ok(());
    }
    // One more than is shown was copied.
    let most = match is_whole {
        true => count,
        false => count.min(w.style.strings.saturating_add(1)),
    };
    let known = w.bytes(at, most);
    let end = known.iter().position(|byte| *byte == 0);
    if end.is_none() && known.len() < most {
        return Err(Unknown);
    }
    let (mut shown, mut cut) = match end {
        Some(end) => (end, false),
        None if is_whole => (count.saturating_sub(1), true),
        // One that is as long as was said ends where it should.
        None => (known.len(), length.used.is_none() || known.len() < count),
    };
    // One that is as long as what is shown is not looked at any further, and one without an end goes on.
    if kind == Text::Brief && (shown >= w.style.strings || end.is_none()) {
        cut = true;
    }
    if !is_whole && shown > w.style.strings {
        (shown, cut) = (w.style.strings, true);
    }
    text::quoted(&known[..shown], hex, w.out);
    if cut {
        w.push("...");
    }
    Ok(())
}
