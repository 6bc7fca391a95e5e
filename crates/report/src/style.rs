//! How a text may look where it is shown. Used by `columns`, `heap::allocated` and others here, and by crate `lancet`.

use std::borrow::Cow;

/// Whether colour is welcome, and how wide a line may be. Whoever opened the output knows whether a terminal is
/// behind it; the default is that of a file or a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether colours may be used.
    pub color: bool,
    /// The number of columns that lines are shortened to; `None` leaves them whole.
    pub width: Option<usize>,
}

impl Style {
    /// The text in a colour, if colour is welcome. `code` is the parameter of the escape sequence SGR (ECMA-48,
    /// 8.3.117), for instance `1;31` for bold red.
    pub fn painted<'a>(&self, text: &'a str, code: &str) -> Cow<'a, str> {
        if self.color {
            format!("\x1b[{code}m{text}\x1b[0m").into()
        } else {
            text.into()
        }
    }
}
