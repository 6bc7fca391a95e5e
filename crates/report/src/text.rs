//! The border that text of a guest crosses before a person reads it. Used by `calls::lines`, `heap::html` and others
//! here, and by crate `lancet`.
//!
//! [`printable`] is the only function that makes such text safe. Every writer of text in this crate calls it on each
//! string that comes from a guest or its machine (paths, names of functions, types, processes, values of settings),
//! once, where the string enters a line. The formats for programs need it not: `json` escapes what acts on a terminal.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns the text with everything that could act on a terminal or break a line written out: control characters as
/// `\x1b`, characters that turn the writing direction (Unicode's bidirectional controls) and the separators of lines
/// and paragraphs as `\u{202e}`. Other text is returned as it is, without a copy.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            '\r' => safe.push_str("\\r"),
            c if c.is_control() => {
                // Writing to a String cannot fail.
                let _ = write!(safe, "\\x{:02x}", c as u32);
            }
            c if acts(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

/// Returns whether a text is of printable ASCII characters alone. Each byte is looked at, so that many are at once.
pub fn is_plain(text: &[u8]) -> bool {
    let acts = |byte: &u8| byte.wrapping_sub(b' ') > b'~' - b' ';
    !text.iter().fold(false, |any, byte| any | acts(byte))
}

/// Makes a line printable from `from` on, in place, and returns how many characters it has there.
pub fn make_printable(line: &mut Vec<u8>, from: usize) -> usize {
    if is_plain(&line[from..]) {
        return line.len() - from;
    }
    let text = String::from_utf8_lossy(&line[from..]);
    if let Cow::Owned(safe) = printable(&text) {
        line.truncate(from);
        line.extend_from_slice(safe.as_bytes());
    }
    String::from_utf8_lossy(&line[from..]).chars().count()
}

/// Returns the last characters of a text, `width` with the mark that stands where the front was cut: of
/// `file:line:Type` the end says more than the beginning. A width of 0 cuts nothing.
pub fn shortened(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width || width == 0 {
        return Cow::Borrowed(text);
    }
    let tail: String = text.chars().skip(length - width + 1).collect();
    Cow::Owned(format!("…{tail}"))
}

/// Returns what a row is called within so many characters: of the last path in it the beginning is left out, by whole names. Its last name
/// stays, however long it is.
pub fn with_short_path(text: &str, width: usize) -> Cow<'_, str> {
    let length = text.chars().count();
    if length <= width {
        return Cow::Borrowed(text);
    }
    // One more, for the mark.
    let over = length - width + 1;
    let begin = text.rfind(ARROW).map_or(0, |at| at + ARROW.len());
    let (front, path) = text.split_at(begin);
    let slashes = || path.match_indices('/').map(|(at, _)| at);
    let enough = |at: &usize| path[..*at].chars().count() >= over;
    match slashes().find(enough).or_else(|| slashes().next_back()) {
        Some(at) if at > 0 => Cow::Owned(format!("{front}…{}", &path[at..])),
        _ => Cow::Borrowed(text),
    }
}

/// What stands between a call and who makes it.
const ARROW: &str = " ← ";

pub(crate) fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The name of a program by the words of its command line, without its folder, of which a server has made a sentence now and then: `php-fpm` of
/// `php-fpm: pool www`. Empty if there is no command line. Who makes a sentence leaves no other word, so that with one the spaces are those of a
/// folder.
pub(crate) fn program(command: &[String]) -> &str {
    let line = command.first().map_or("", |word| word);
    let is_sentence = command.iter().skip(1).all(String::is_empty);
    let first = line.split(' ').next().filter(|_| is_sentence);
    let word = first.unwrap_or(line);
    let name = word.rsplit('/').next().unwrap_or(word);
    name.trim_end_matches(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts_on_the_terminal() {
        assert_eq!(printable("app.rb:1:String"), "app.rb:1:String");
        assert_eq!(
            printable("a\x1b[2Jb\nc\u{202e}d"),
            "a\\x1b[2Jb\\nc\\u{202e}d"
        );
        assert_eq!(printable("größe/é.rb"), "größe/é.rb");
    }

    #[test]
    fn a_line_is_made_printable_from_where_it_is_new() {
        for text in ["", "plain", "größe", "a\x1b[2J", "\u{9b}\u{202e}é\n"] {
            let mut line = b"\t".to_vec();
            line.extend_from_slice(text.as_bytes());
            let width = make_printable(&mut line, 1);
            assert_eq!(width, printable(text).chars().count());
            assert_eq!(
                String::from_utf8(line).unwrap(),
                format!("\t{}", printable(text))
            );
        }
    }

    #[test]
    fn a_path_loses_whole_names() {
        let row = "openat ← open ← /srv/shop/app/models/cart.rb:12 in 'look'";
        assert_eq!(with_short_path(row, 80), row);
        let short = "openat ← open ← …/models/cart.rb:12 in 'look'";
        assert_eq!(with_short_path(row, 48), short);
        assert_eq!(with_short_path(row, short.chars().count()), short);
        assert_eq!(
            with_short_path(row, 3),
            "openat ← open ← …/cart.rb:12 in 'look'"
        );
        assert_eq!(with_short_path("clock_nanosleep", 3), "clock_nanosleep");
    }

    #[test]
    fn the_end_is_kept() {
        assert_eq!(shortened("abcdef", 6), "abcdef");
        assert_eq!(shortened("abcdef", 4), "…def");
        assert_eq!(shortened("größe", 3), "…ße");
    }
}
