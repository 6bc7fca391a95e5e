//! One stack a line with its weight, `main;run;write 31`: what Brendan Gregg's `flamegraph.pl`, speedscope and many others read.
//! Used by `forms`.
//!
//! Whoever reads them takes each line for a stack, so stacks of weight 0 are left out, which have no width, and so is what is none.

use std::io::{self, Write};

use super::form::{StackForm, Stacks, each_text};
use crate::text::printable;

/// For programs that draw flame graphs.
pub static FORM: StackForm = StackForm {
    name: "folded",
    about: "One stack a line with its weight, for flame graphs",
    is_text: true,
    repeats: true,
    write,
};

/// Writes the lines. Frames are separated by `;`, which a name may hold as well: there it becomes `:`.
fn write(stacks: &dyn Stacks, out: &mut dyn Write) -> io::Result<()> {
    each_text(stacks, &mut |texts, weight, is_rest| {
        if is_rest {
            return Ok(());
        }
        for (number, text) in texts.iter().enumerate() {
            let separator = if number == 0 { "" } else { ";" };
            write!(out, "{separator}{}", printable(text).replace(';', ":"))?;
        }
        writeln!(out, " {weight}")
    })
}

#[cfg(test)]
mod tests {
    use super::super::form::SAMPLES;
    use super::super::form::tests::{Seen, seen, shown, stack};
    use super::*;

    #[test]
    fn a_separator_in_a_name_is_no_separator() {
        assert_eq!(shown(&FORM, &seen()), "main;run;a<b> 2\nmain;x:y 1\n");
    }

    #[test]
    fn what_has_no_width_is_left_out() {
        let stacks = Seen::new(SAMPLES, vec![stack("a", &[0]), stack("b", &[1])]);
        assert_eq!(shown(&FORM, &stacks), "b 1\n");
    }
}
