//! One stack a line with how often it was seen, `main;run;write 31`: what Brendan Gregg's `flamegraph.pl`, speedscope
//! and many others read.

use std::io::{self, Write};

use super::format::Format;
use super::stacks::Stacks;
use crate::text::printable;

/// For programs that draw flame graphs.
pub static FORMAT: Format = Format {
    name: "folded",
    about: "One stack a line, with how often it was seen",
    has_records: false,
    write: |stacks, out, _| write(stacks, out),
};

/// Writes the lines. Frames are separated by `;`, which a name may hold as well: there it becomes `:`.
pub fn write(stacks: &Stacks, out: &mut dyn Write) -> io::Result<()> {
    for (stack, count) in &stacks.counts {
        let frames: Vec<String> = stack
            .iter()
            .map(|frame| printable(frame).replace(';', ":"))
            .collect();
        writeln!(out, "{} {count}", frames.join(";"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::stacks::tests::{seen, written};
    use super::*;

    #[test]
    fn a_separator_in_a_name_is_no_separator() {
        assert_eq!(
            written(|out| write(&seen(), out)),
            "main;run;a<b> 2\nmain;x:y 1\n"
        );
    }
}
