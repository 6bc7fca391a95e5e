//! The room for a text.

use super::*;
use fmt::Write;

/// A name that is longer than the buffer is cut, not written beyond it.
#[test]
fn a_long_name_is_cut() {
    let mut buffer = Buffer {
        bytes: [0; LONGEST],
        length: 0,
    };
    for _ in 0..300 {
        buffer.write_str("Name::").expect("it never fails");
    }
    assert_eq!(buffer.text().len(), LONGEST);
    assert!(buffer.text().starts_with(b"Name::Name::"));
}
