//! The forms that any answer has which gives stacks with weights: a file each, and a line in [`FORMS`]. Used by
//! `calls::processes`, `calls::stacks`, `forms` and others.
//!
//! An answer offers itself as [`Stacks`]: what the weights are, and one stack after the other. So a form knows no command, and a command knows no
//! form: where a command's list has an entry that gives stacks ([`crate::Writes::Stacks`]), a user chooses among all of these.
//!
//! | answer | a stack | its weights |
//! |---|---|---|
//! | `profile`, `stack --for` | the functions of a thread | how often it was seen |
//! | `mem` | the call path at which objects were made | objects and bytes that were made there, and that live |
//! | `heap` | who holds whom from the roots down, by type | bytes |
//! | `calls -c`, `syscalls -c` | where a function or system call is called | calls and their time |

mod dictionary;
mod firefox;
mod folded;
mod form;
mod otlp;
mod pprof;
mod speedscope;
mod svg;

pub use folded::FORM as FOLDED;
pub use form::{About, Frame, Kind, Process, SAMPLES, Stack, StackForm, Stacks, Times, Unit};

/// The forms, in the order in which help lists them.
pub static FORMS: &[&StackForm] = &[
    &FOLDED,
    &speedscope::FORM,
    &svg::FORM,
    &firefox::FORM,
    &pprof::FORM,
    &otlp::FORM,
];

#[cfg(test)]
mod tests {
    use super::form::tests::{BYTES, Seen, bytes, shown, stack};
    use super::*;

    #[test]
    fn the_sum_of_what_is_left_out_is_told_but_where_each_line_is_a_stack() {
        let mut rest = stack("(others)", &[7]);
        rest.is_rest = true;
        let cut = Seen::new(BYTES, vec![rest]);
        assert_eq!(shown(&folded::FORM, &cut), "");
        for form in [&speedscope::FORM, &svg::FORM, &firefox::FORM] {
            assert!(shown(form, &cut).contains("(others)"), "{form:?}");
        }
        let read = pprof::tests::read(&bytes(&pprof::FORM, &cut));
        assert_eq!(read, [("(others) :0".to_owned(), vec![7], String::new())]);
        let read = otlp::tests::read(&bytes(&otlp::FORM, &cut));
        assert_eq!(read[0].1, [("(others) :0".to_owned(), 7, String::new())]);
    }

    #[test]
    fn a_type_is_the_innermost_frame_or_a_label() {
        let mut made = stack("main fill", &[7]);
        made.kind = Some("String".into());
        let made = Seen::new(BYTES, vec![made]);
        assert_eq!(shown(&folded::FORM, &made), "main;fill;String 7\n");
        let read = pprof::tests::read(&bytes(&pprof::FORM, &made));
        assert_eq!(
            read,
            [("main :0;fill :0".to_owned(), vec![7], "String".to_owned())]
        );
    }

    #[test]
    fn what_has_no_order_is_sorted_and_added_up() {
        let stacks = || vec![stack("b", &[1]), stack("a", &[2]), stack("b", &[4])];
        let mut seen = Seen::new(SAMPLES, stacks());
        assert_eq!(shown(&folded::FORM, &seen), "b 1\na 2\nb 4\n");
        seen.is_ordered = false;
        assert_eq!(shown(&folded::FORM, &seen), "a 2\nb 5\n");
    }
}
