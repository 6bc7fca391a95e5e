//! Words shown by their name, or by the names of their bits.

use super::number::{self, Base};

/// Returns the name of a word of `size` bytes.
pub(super) fn name(word: u64, size: u32, names: &[(Box<str>, i64)]) -> Option<&str> {
    let mask = u64::MAX >> (64 - 8 * size);
    let named = |(_, number): &&(Box<str>, i64)| *number as u64 & mask == word;
    names.iter().find(named).map(|(name, _)| &**name)
}

/// Writes the names of the bits and the rest as a number: `O_WRONLY|O_CREAT|0x8`.
pub(super) fn flags(word: u64, names: &[(Box<str>, i64)], out: &mut Vec<u8>) {
    let named = |wanted: u64| names.iter().find(|(_, bits)| *bits as u64 == wanted);
    if let Some((name, _)) = named(word) {
        return out.extend_from_slice(name.as_bytes());
    }
    let (mut rest, mut bar) = (word, "");
    for (name, bits) in names.iter().map(|(name, bits)| (name, *bits as u64)) {
        if bits != 0 && rest & bits == bits {
            out.extend_from_slice(bar.as_bytes());
            out.extend_from_slice(name.as_bytes());
            bar = "|";
            rest &= !bits;
        }
    }
    if rest != 0 || bar.is_empty() {
        out.extend_from_slice(bar.as_bytes());
        number::integer(rest, 8, false, Base::Guess, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_names_and_the_rest_is_a_number() {
        let names = [("O_RDONLY", 0), ("O_WRONLY", 1), ("O_CREAT", 64)];
        let names = names.map(|(name, bits)| (name.into(), bits));
        let shown = [0, 1, 65, 64 | 8, 8].map(|word| {
            let mut out = Vec::new();
            flags(word, &names, &mut out);
            String::from_utf8(out).unwrap()
        });
        assert_eq!(
            shown,
            ["O_RDONLY", "O_WRONLY", "O_WRONLY|O_CREAT", "O_CREAT|8", "8"]
        );
    }
}
