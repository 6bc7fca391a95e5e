//! A profile for `pprof` and what reads its format.

use std::io::{self, Write};

use frames::profile::{Frame, Profile};

use super::format::{Format, Head};
use super::words::summary;
use crate::pprof::{self, Place};

/// Samples by stack, in Protocol Buffers.
pub(super) static FORMAT: Format = Format {
    name: "pprof",
    about: "For pprof and what reads its format (to a file: -o)",
    has_records: false,
    is_text: false,
    write,
};

fn write(profile: &Profile, out: &mut dyn Write, head: &Head) -> io::Result<()> {
    let mut file = pprof::Profile::new(&[("samples", "count")], "samples");
    file.took(head.about.began, head.about.took);
    file.comment(&summary(profile, head));
    for (frames, count) in profile.stacks() {
        file.add(frames.into_iter().rev().map(place), &[count], None);
    }
    file.write(out)
}

fn place(frame: &Frame) -> Place<'_> {
    Place {
        name: &frame.function.name,
        file: &frame.function.file,
        line: frame.line,
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::tests::{bytes, profile};
    use super::*;

    #[test]
    fn stacks_have_their_functions_and_lines() {
        let read = pprof::tests::read(&bytes(&FORMAT, &profile()));
        let native = read
            .iter()
            .find(|(stack, ..)| stack.contains("rb_pack"))
            .unwrap();
        assert_eq!(
            native.0,
            "<main> /srv/app/cart.rb:1;show /srv/app/cart.rb:12;total /srv/app/cart.rb:31;rb_pack libruby-3.1.so.3.1:0"
        );
        assert_eq!(native.1, [4]);
        let samples: i64 = read.iter().map(|(_, values, _)| values[0]).sum();
        assert_eq!(samples, 10);
    }
}
