//! HTML pages that stand for themselves: no network, light and dark, by keyboard too, and on paper. Used by
//! `heap::html`, `profile::html` and `requests`.
//!
//! A page is the same for every command, but for its data and the script that shows it. The data is JSON within the page, in which `<` is
//! escaped, and the scripts show its texts as text only; the content security policy allows nothing from elsewhere. The same data makes the
//! same bytes.
//!
//! A command's script says by `titled` what the page is called, by `views` what its parts are called and how each is made, and by `pages` how
//! the page of one thing is made, of which an address leads to (`#object/0x1234`). `common.js` has what it is made of, tables above all, and
//! `start.js` shows the part that is asked for.

use std::io::{self, Write};

use serde::Serialize;

use crate::json::line as record;

/// Writes the page of a command: its data and the script that shows it.
pub(crate) fn write(out: &mut dyn Write, data: &impl Serialize, script: &str) -> io::Result<()> {
    let mut text = Vec::new();
    record(&mut text, data)?;
    // A text with `</script>` must not end the element that holds the data.
    let data = String::from_utf8_lossy(&text).replace('<', "\\u003c");
    put_together(out, data.trim_end(), script)
}

/// Where the data of a [`template`] belongs.
pub(crate) const DATA: &str = "/*DATA*/";

/// The page of a command for data that somebody else puts in the place of [`DATA`]: JSON in which `<` is escaped.
pub(crate) fn template(script: &str) -> String {
    let mut page = Vec::new();
    // Writing to a Vec does not fail.
    let _ = put_together(&mut page, DATA, script);
    String::from_utf8_lossy(&page).into_owned()
}

fn put_together(out: &mut dyn Write, data: &str, script: &str) -> io::Result<()> {
    let parts = [
        ("/*STYLE*/", include_str!("page/page.css")),
        (DATA, data),
        ("/*COMMON*/", include_str!("page/common.js")),
        ("/*SCRIPT*/", script),
        ("/*START*/", include_str!("page/start.js")),
    ];
    let mut rest = include_str!("page/page.html");
    for (mark, part) in parts {
        let (before, behind) = rest.split_once(mark).unwrap_or((rest, ""));
        out.write_all(before.as_bytes())?;
        out.write_all(part.as_bytes())?;
        rest = behind;
    }
    out.write_all(rest.as_bytes())
}
