//! Names of numbers and of bits, as strace writes them: `O_RDONLY|O_CLOEXEC`, `0x63 /* SEEK_??? */`. Used by
//! `layout::custom::calls`, `layout::tables`, `layout::custom::addresses` and others.

use crate::call::Constants;
use prototypes::digits::hex;
use std::fmt::{Arguments, Display, Formatter};
use std::io::Write;

/// Names with their numbers.
type Names = [(Box<str>, i64)];

/// Appends the name of a number of `size` bytes; a number without name in hexadecimal, with the names it was looked for
/// among.
pub fn name(word: u64, size: u32, names: &Names, style: Constants, out: &mut Vec<u8>) {
    let found = find(word, size, names);
    if let (Some(name), Constants::Names) = (found, style) {
        return out.extend_from_slice(name.as_bytes());
    }
    let word = word & u64::MAX >> (64 - 8 * size.clamp(1, 8));
    // Numbers of which some are below zero are shown as C's %d has them.
    let number: &dyn Display = match names.iter().any(|(_, number)| *number < 0) && size == 4 {
        true => &(word as i32),
        false => &plain(word),
    };
    match found {
        Some(name) => known(number, name, style, out),
        None => unknown(number, names, style, out),
    }
}

/// Appends what a number is called.
pub fn known(number: impl Display, name: &str, style: Constants, out: &mut Vec<u8>) {
    match style {
        Constants::Names => out.extend_from_slice(name.as_bytes()),
        Constants::Numbers => append(out, format_args!("{number}")),
        Constants::Both => append(out, format_args!("{number} /* {name} */")),
    }
}

/// Appends a text without making it elsewhere first.
fn append(out: &mut Vec<u8>, text: Arguments<'_>) {
    out.write_fmt(text)
        .expect("a vector takes all that is written");
}

/// A number as C's `%#x` writes it: in hexadecimal, and zero without a prefix.
pub struct Plain(u64);

impl Display for Plain {
    fn fmt(&self, to: &mut Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => to.write_str("0"),
            word => write!(to, "{word:#x}"),
        }
    }
}

/// Writes a number as C's `%#x` does.
pub fn plain(word: u64) -> Plain {
    Plain(word)
}

/// Returns the name of a number of `size` bytes.
pub fn find(word: u64, size: u32, names: &Names) -> Option<&str> {
    let mask = u64::MAX >> (64 - 8 * size.clamp(1, 8));
    let named = |(_, number): &&(Box<str>, i64)| *number as u64 & mask == word & mask;
    names.iter().find(named).map(|(name, _)| &**name)
}

/// Appends the names of the bits, in the order of the list, and what is left in hexadecimal.
pub fn flags(word: u64, names: &Names, style: Constants, out: &mut Vec<u8>) {
    // What was looked for is of use only where no bit has a name, and takes a while to find.
    let any = |(_, bits): &(Box<str>, i64)| *bits != 0 && word & *bits as u64 == *bits as u64;
    let looked_for = match word != 0 && !names.iter().any(any) {
        true => looked_for(names).unwrap_or_default(),
        false => String::new(),
    };
    flags_or(word, names, &looked_for, style, out);
}

/// The same; `looked_for` stands behind a number of which no bit has a name.
pub fn flags_or(word: u64, names: &Names, looked_for: &str, style: Constants, out: &mut Vec<u8>) {
    if word == 0 {
        return match names.iter().find(|(_, bits)| *bits == 0) {
            Some((name, _)) => known("0", name, style, out),
            None => out.push(b'0'),
        };
    }
    if style == Constants::Numbers {
        return hex(word, out);
    }
    let before = out.len();
    if style == Constants::Both {
        append(out, format_args!("{} /* ", plain(word)));
    }
    match bits(word, names, out) {
        true if style == Constants::Both => out.extend_from_slice(b" */"),
        true => {}
        false => {
            out.truncate(before);
            nameless(plain(word), looked_for, style, out);
        }
    }
}

/// Appends the names of the bits and what is left of them; false if none of them has a name.
pub fn bits(word: u64, names: &Names, out: &mut Vec<u8>) -> bool {
    let (mut rest, begins) = (word, out.len());
    for (name, bits) in names {
        let bits = *bits as u64;
        if bits != 0 && rest & bits == bits {
            if out.len() > begins {
                out.push(b'|');
            }
            out.extend_from_slice(name.as_bytes());
            rest &= !bits;
        }
    }
    let named = out.len() > begins;
    if rest != 0 {
        if named {
            out.push(b'|');
        }
        hex(rest, out);
    }
    named
}

/// Appends a number without a name, and in a comment what it was looked for among: `0x63 /* SEEK_??? */`.
fn unknown(number: impl Display, names: &Names, style: Constants, out: &mut Vec<u8>) {
    let looked_for = looked_for(names).unwrap_or_default();
    nameless(number, &looked_for, style, out);
}

/// The same; `looked_for` is the text of the comment, without which there is none.
pub fn nameless(number: impl Display, looked_for: &str, style: Constants, out: &mut Vec<u8>) {
    append(out, format_args!("{number}"));
    if style != Constants::Numbers && !looked_for.is_empty() {
        append(out, format_args!(" /* {looked_for} */"));
    }
}

/// What all names of a list have in common stands for what was looked for: the words that they begin with, or else the one that
/// they end with.
fn looked_for(names: &Names) -> Option<String> {
    let (first, _) = names.first()?;
    let mut common = &first[..];
    for (name, _) in names {
        while !name.starts_with(common) {
            let end = common.char_indices().next_back().map_or(0, |(at, _)| at);
            common = &common[..end];
        }
    }
    if let Some(end) = common.rfind('_') {
        return Some(format!("{}???", &common[..=end]));
    }
    let last = first.rfind('_').map_or("", |at| &first[at..]);
    let all = !last.is_empty() && names.iter().all(|(name, _)| name.ends_with(last));
    let begins = first.find('_').map_or("", |at| &first[..=at]);
    Some(if all {
        format!("?{last}")
    } else {
        format!("{begins}???")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[(&str, i64)]) -> Vec<(Box<str>, i64)> {
        names
            .iter()
            .map(|(name, bits)| ((*name).into(), *bits))
            .collect()
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bits_have_names_and_the_rest_is_a_number() {
        let names = list(&[("MAP_SHARED", 1), ("MAP_PRIVATE", 2), ("MAP_FIXED", 16)]);
        let shown = |word| text(|out| flags(word, &names, Constants::Names, out));
        assert_eq!(shown(0), "0");
        assert_eq!(shown(18), "MAP_PRIVATE|MAP_FIXED");
        assert_eq!(shown(0x102), "MAP_PRIVATE|0x100");
        assert_eq!(shown(0x100), "0x100 /* MAP_??? */");
    }

    #[test]
    fn numbers_are_written_as_the_style_says() {
        let names = list(&[("MFD_CLOEXEC", 1), ("MFD_HUGETLB", 4)]);
        let shown = |word, style| text(|out| flags(word, &names, style, out));
        assert_eq!(shown(5, Constants::Numbers), "0x5");
        assert_eq!(
            shown(5, Constants::Both),
            "0x5 /* MFD_CLOEXEC|MFD_HUGETLB */"
        );
        assert_eq!(
            shown(0x15, Constants::Both),
            "0x15 /* MFD_CLOEXEC|MFD_HUGETLB|0x10 */"
        );
        assert_eq!(shown(16, Constants::Numbers), "0x10");
        assert_eq!(shown(16, Constants::Both), "0x10 /* MFD_??? */");
        assert_eq!(shown(0, Constants::Both), "0");
    }

    #[test]
    fn what_was_looked_for_is_what_names_have_in_common() {
        let unknown =
            |names: &[(&str, i64)]| text(|out| name(99, 4, &list(names), Constants::Names, out));
        assert_eq!(unknown(&[("F_OK", 0), ("R_OK", 4)]), "0x63 /* ?_OK */");
        let common = [("SUID_DUMP_USER", 1), ("SUID_DUMP_ROOT", 2)];
        assert_eq!(unknown(&common), "0x63 /* SUID_DUMP_??? */");
        assert_eq!(
            unknown(&[("O_NONBLOCK", 1), ("FD_CLOEXEC", 2)]),
            "0x63 /* O_??? */"
        );
    }

    #[test]
    fn a_number_has_its_name_whatever_its_upper_bits() {
        let names = list(&[("AT_FDCWD", -100)]);
        let shown = |word| text(|out| name(word, 4, &names, Constants::Names, out));
        assert_eq!(shown(0xffff_ff9c), "AT_FDCWD");
        assert_eq!(shown(u64::MAX - 99), "AT_FDCWD");
        assert_eq!(shown(7), "7 /* AT_??? */");
    }
}
