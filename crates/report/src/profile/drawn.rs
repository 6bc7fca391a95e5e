//! A profile as the folded formats of `stack --for` draw it: whole stacks, outermost frame first.

use std::io::{self, Write};

use frames::profile::Profile;

use super::format::{Format, Head};
use super::words::at;
use crate::stack::folded::{self, Stacks, collapsed, speedscope, svg};

/// For programs that draw flame graphs.
pub(super) static COLLAPSED: Format = Format {
    name: "folded",
    about: "One stack a line, with how often it was seen",
    has_records: false,
    is_text: true,
    write: |profile, out, head| draw(&collapsed::FORMAT, profile, out, head),
};

/// A profile for speedscope.app.
pub(super) static SPEEDSCOPE: Format = Format {
    name: "speedscope",
    about: "For speedscope.app",
    has_records: false,
    is_text: true,
    write: |profile, out, head| draw(&speedscope::FORMAT, profile, out, head),
};

/// A flame graph.
pub(super) static SVG: Format = Format {
    name: "svg",
    about: "A flame graph",
    has_records: false,
    is_text: true,
    write: |profile, out, head| draw(&svg::FORMAT, profile, out, head),
};

fn draw(
    format: &folded::Format,
    profile: &Profile,
    out: &mut dyn Write,
    head: &Head,
) -> io::Result<()> {
    let mut stacks = Stacks::default();
    for (frames, count) in profile.stacks() {
        stacks.add(frames.into_iter().map(at).collect(), count);
    }
    format.write(&stacks, out, head.title)
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::{profile, written};
    use super::*;

    #[test]
    fn stacks_are_whole() {
        let text = written(&COLLAPSED, &profile());
        assert!(
            text.contains(
                "<main> (/srv/app/cart.rb:1);list (/srv/app/cart.rb:20);total (/srv/app/cart.rb:31) 3\n"
            ),
            "{text}"
        );
        assert!(text.contains("rb_pack (libruby-3.1.so.3.1) 4\n"), "{text}");
    }
}
