//! Converts bash's globs to regular expressions. Used by `filter`.
//!
//! `*`, `?`, `[…]` with classes, `!` or `^` for the complement, and a backslash that takes the meaning from what
//! follows. `^` and `$` mean the name's begin and end, so that `^MAIN` is a library of that name.

use super::{Result, Wrong};

/// Returns where the bracket that opens here closes.
pub(super) fn bracket(glob: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    if matches!(glob.get(at), Some(b'^' | b'!')) {
        at += 1;
    }
    // The first of the set may be a closing bracket.
    let first = at;
    loop {
        match *glob.get(at)? {
            b']' if at > first => return Some(at),
            b'[' if glob.get(at + 1) == Some(&b':') => {
                let rest = &glob[at + 2..];
                at += 4 + rest.windows(2).position(|two| two == b":]")?;
            }
            _ => at += 1,
        }
    }
}

/// Returns the regular expression that matches what the glob matches.
pub(super) fn to_regex(glob: &str) -> Result<String> {
    let mut regex = String::with_capacity(glob.len() + 8);
    let mut characters = glob.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '^' | '$' => regex.push(character),
            '\\' => match characters.next() {
                Some((_, next)) => regex.push_str(&regex::escape(next.encode_utf8(&mut [0; 4]))),
                None => return Err((at, Wrong::Backslash)),
            },
            '[' => {
                let close = bracket(glob.as_bytes(), at).ok_or((at, Wrong::Bracket))?;
                set(&glob[at + 1..close], &mut regex);
                while characters.offset() <= close {
                    characters.next();
                }
            }
            _ => regex.push_str(&regex::escape(character.encode_utf8(&mut [0; 4]))),
        }
    }
    Ok(regex)
}

/// Writes the inside of a bracket. In the syntax of the `regex` crate `[`, `&`, `~` and a doubled `-` would have a
/// meaning of their own.
fn set(inside: &str, regex: &mut String) {
    regex.push('[');
    let mut rest = inside;
    if let Some(complement) = rest.strip_prefix(['!', '^']) {
        regex.push('^');
        rest = complement;
    }
    let mut characters = rest.char_indices();
    while let Some((at, character)) = characters.next() {
        let class = rest[at..]
            .strip_prefix("[:")
            .and_then(|behind| behind.split_once(":]"));
        match (class, character) {
            (Some((name, _)), _) => {
                regex.push_str("[:");
                regex.push_str(name);
                regex.push_str(":]");
                while characters.offset() < at + name.len() + 4 {
                    characters.next();
                }
            }
            (None, '-') if at > 0 && at + 1 < rest.len() => regex.push('-'),
            (None, c) if c.is_ascii_punctuation() => regex.extend(['\\', c]),
            (None, c) => regex.push(c),
        }
    }
    regex.push(']');
}
