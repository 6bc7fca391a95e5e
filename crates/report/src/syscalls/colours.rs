//! Lines of system calls in colours (`--color`): the kinds of words and the colours are strace 7's, and so is `STRACE_COLORS`. Used by crate `lancet`.
//!
//! Lines are made as text, and are coloured on their way out: what is written of a call must not know where it goes. A part of a line may come alone
//! (a call that has not returned), so what the line was in the middle of is kept.

use std::io::{self, Write};

/// The kinds of words, by the names that `STRACE_COLORS` has for them, with the parameters of SGR (ECMA-48, 8.3.117) that they have unless it says
/// otherwise.
const KINDS: [(&str, &str); 9] = [
    ("syscall", "33"),
    ("argname", "39"),
    ("argval", "35"),
    ("call", "33"),
    ("const", "34"),
    ("comment", "36"),
    ("punct", "0"),
    ("retval", "32"),
    ("error", "31"),
];

/// A place in [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Syscall,
    ArgumentName,
    Value,
    Call,
    Constant,
    Comment,
    Sign,
    Result,
    Error,
}

/// The colour of each kind of word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Palette([String; KINDS.len()]);

impl Palette {
    /// The colours of strace, of which `custom` (`syscall=1;31:error=35`) changes some. What is no colour in it changes nothing.
    #[must_use]
    pub fn new(custom: &str) -> Self {
        let mut palette = Palette(KINDS.map(|(_, code)| code.to_owned()));
        for part in custom.split(':') {
            let Some((name, code)) = part.split_once('=') else {
                continue;
            };
            let (name, code) = (name.trim(), code.trim());
            let at = KINDS
                .iter()
                .position(|(known, _)| known.eq_ignore_ascii_case(name));
            let is_code = code.bytes().any(|byte| byte.is_ascii_digit())
                && code
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || byte == b';');
            if let (Some(at), true) = (at, is_code) {
                palette.0[at] = code.to_owned();
            }
        }
        palette
    }
}

/// Where in a line the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// At its beginning.
    Begin,
    /// Among arguments, within so many brackets.
    Arguments(usize),
    /// Behind them.
    Behind,
    /// In a line, or the rest of one, that has no colours.
    Plain,
}

/// Colours lines that are written to it.
pub struct Coloured {
    palette: Palette,
    place: Place,
    out: Box<dyn Write>,
}

impl Coloured {
    /// Hands lines on in these colours.
    #[must_use]
    pub fn new(palette: Palette, out: Box<dyn Write>) -> Self {
        Coloured {
            palette,
            place: Place::Begin,
            out,
        }
    }

    fn paint(&self, kind: Kind, text: &str, to: &mut String) {
        to.push_str(&format!(
            "\x1b[{}m{text}\x1b[0m",
            self.palette.0[kind as usize]
        ));
    }

    /// Appends the first word of `rest` in its colour, and returns how long it was.
    fn word(&mut self, rest: &str, to: &mut String) -> usize {
        match self.place {
            Place::Begin => self.begin(rest, to),
            Place::Arguments(depth) => self.argument(rest, depth, to),
            Place::Behind => self.behind(rest, to),
            Place::Plain => {
                let end = line(rest).len();
                to.push_str(&rest[..end]);
                end
            }
        }
    }

    /// The beginning of a line up to the bracket behind the name of its call.
    fn begin(&mut self, rest: &str, to: &mut String) -> usize {
        let line = line(rest);
        if let Some((before, _)) = line.split_once(" resumed>") {
            let end = before.len() + " resumed>".len();
            to.push_str(&line[..end]);
            self.place = Place::Arguments(0);
            return end;
        }
        // Frames of `-k`, and bytes of `-e read=`.
        let has_call = !line.starts_with(" > ") && !line.starts_with(" | ");
        let name = line.find('(').filter(|_| has_call);
        let name = name.map(|end| {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let begin = line[..end].trim_end_matches(is_of_name).len();
            begin..end
        });
        // A signal and an end have marks of their own.
        let name = name.filter(|name| !name.is_empty() && !line[..name.start].contains(['-', '+']));
        let Some(name) = name else {
            self.place = Place::Plain;
            return 0;
        };
        to.push_str(&line[..name.start]);
        self.paint(Kind::Syscall, &line[name.clone()], to);
        self.paint(Kind::Sign, "(", to);
        self.place = Place::Arguments(0);
        name.end + 1
    }

    fn argument(&mut self, rest: &str, depth: usize, to: &mut String) -> usize {
        // Nothing goes on in the next line, whatever a name has in it.
        let rest = line(rest);
        let first = rest.chars().next().unwrap_or(' ');
        let (kind, end) = match first {
            '"' => (Kind::Value, quoted(rest)),
            '/' if rest.starts_with("/*") => (
                Kind::Comment,
                rest.find("*/").map_or(rest.len(), |end| end + 2),
            ),
            // What a descriptor is called; a call that was cut in two has words of its own.
            '<' if rest.starts_with("<unfinished") => {
                self.place = Place::Plain;
                return 0;
            }
            '<' if !rest.starts_with("<<") => (Kind::Value, named(rest)),
            '(' | '[' | '{' => {
                self.place = Place::Arguments(depth + 1);
                (Kind::Sign, 1)
            }
            ')' if depth == 0 => {
                self.place = Place::Behind;
                (Kind::Sign, 1)
            }
            ')' | ']' | '}' => {
                self.place = Place::Arguments(depth.saturating_sub(1));
                (Kind::Sign, 1)
            }
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => worded(rest),
            ' ' => {
                to.push(' ');
                return 1;
            }
            c => (Kind::Sign, c.len_utf8()),
        };
        self.paint(kind, &rest[..end], to);
        end
    }

    /// The result, and what stands behind it.
    fn behind(&mut self, rest: &str, to: &mut String) -> usize {
        let line = line(rest);
        let Some((before, result)) = line.split_once("= ") else {
            self.place = Place::Plain;
            return 0;
        };
        to.push_str(before);
        self.paint(Kind::Sign, "=", to);
        to.push(' ');
        let failed = result.starts_with("-1 ") || result.starts_with('?');
        let end = match failed {
            // The name of an error, and its text.
            true => result.find(')').map_or(result.len(), |end| end + 1),
            false => result.find(' ').unwrap_or(result.len()),
        };
        let kind = if failed { Kind::Error } else { Kind::Result };
        self.paint(kind, &result[..end], to);
        self.place = Place::Plain;
        before.len() + 2 + end
    }
}

/// The text up to the end of its line.
fn line(text: &str) -> &str {
    text.split('\n').next().unwrap_or("")
}

/// The end of a text between quotes.
fn quoted(text: &str) -> usize {
    let mut escaped = true;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

/// The end of a name between angle brackets, which may lie in one another; the arrow between two addresses is none.
fn named(text: &str) -> usize {
    let (mut depth, mut before) = (0, ' ');
    let end = text.find(|c| {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        before = c;
        depth == 0
    });
    end.map_or(text.len(), |end| end + 1)
}

/// A word, or a number, by what stands behind it.
fn worded(text: &str) -> (Kind, usize) {
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let end = text.find(|c| !is_of_word(c)).unwrap_or(text.len());
    let is_constant = text.starts_with(|c: char| c.is_ascii_uppercase() || c == '_');
    let kind = match text[end..].chars().next() {
        Some('=') => Kind::ArgumentName,
        Some('(') => Kind::Call,
        _ if is_constant => Kind::Constant,
        _ => Kind::Value,
    };
    (kind, end)
}

impl Write for Coloured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        let (mut rest, mut to) = (&*text, String::with_capacity(text.len() * 3));
        while !rest.is_empty() {
            if let Some(next) = rest.strip_prefix('\n') {
                to.push('\n');
                (rest, self.place) = (next, Place::Begin);
                continue;
            }
            let taken = self.word(rest, &mut to);
            rest = &rest[taken..];
        }
        self.out.write_all(to.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Rc<RefCell<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Each word with the letter of its kind before it, by colours that are numbers of kinds.
    fn shown(parts: &[&str]) -> String {
        let names = KINDS.iter().enumerate();
        let custom: Vec<String> = names
            .map(|(at, (name, _))| format!("{name}={}", at + 1))
            .collect();
        let kept = Kept::default();
        let mut out = Coloured::new(Palette::new(&custom.join(":")), Box::new(kept.clone()));
        for part in parts {
            out.write_all(part.as_bytes()).expect("memory");
        }
        let mut text = String::from_utf8(kept.0.take()).expect("text");
        for (at, letter) in "SNVCKTPRE".chars().enumerate() {
            text = text.replace(&format!("\x1b[{}m", at + 1), &format!("{letter}:"));
        }
        text.replace("\x1b[0m", "|")
    }

    #[test]
    fn each_word_has_the_colour_of_its_kind() {
        assert_eq!(
            shown(&["openat(AT_FDCWD, \"a\\\"b)\", O_RDONLY|0x8 /* O_??? */) = 3 <0.1>\n"]),
            "S:openat|P:(|K:AT_FDCWD|P:,| V:\"a\\\"b)\"|P:,| K:O_RDONLY|P:|\
             |V:0x8| T:/* O_??? */|P:)| P:=| R:3| <0.1>\n"
        );
        assert_eq!(
            shown(&[
                "[pid     7] connect(3<TCP:[1->2]>, {sin_port=htons(80)}) = -1 EIO (Input/output error) ← a.rb:3\n"
            ]),
            "[pid     7] S:connect|P:(|V:3|V:<TCP:[1->2]>|P:,| P:{|N:sin_port|P:=|C:htons|P:(|V:80|P:)|P:}|P:)| P:=| \
             E:-1 EIO (Input/output error)| ← a.rb:3\n"
        );
    }

    #[test]
    fn a_line_that_comes_in_parts_is_coloured_as_a_whole_one() {
        let whole = shown(&["read(3, \"a\", 1) = 1\n+++ exited with 0 +++\n"]);
        let parts = shown(&["read(3", ", \"a\", 1", ") = 1\n", "+++ exited with 0 +++\n"]);
        assert_eq!(whole, parts);
        assert!(whole.ends_with("R:1|\n+++ exited with 0 +++\n"), "{whole}");
        assert_eq!(
            shown(&[
                "futex(0x7, FUTEX_WAIT <unfinished ...>\n",
                "<... futex resumed>) = 0\n"
            ]),
            "S:futex|P:(|V:0x7|P:,| K:FUTEX_WAIT| <unfinished ...>\n<... futex resumed>P:)| P:=| R:0|\n"
        );
    }

    /// The path ends in `-`, so that its end looks like an arrow.
    #[test]
    fn no_colour_runs_into_the_next_line() {
        let text = shown(&["close(3</tmp/a->) = 0\nclose(4) = 0\n"]);
        let (_, next) = text.split_once('\n').expect("two lines");
        assert_eq!(next, "S:close|P:(|V:4|P:)| P:=| R:0|\n");
    }

    #[test]
    fn what_is_no_call_has_no_colour() {
        for text in [
            "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---\n",
            "[pid 7] +++ killed by SIGKILL (core dumped) +++\n",
            " > /usr/lib/libc.so.6(read+0x10) [0x1000]\n",
            " | 00000  66 28 22 61 22 29                                 f(\"a\")           |\n",
            "lancet: something (odd)\n",
            "\n",
        ] {
            assert_eq!(shown(&[text]), text);
        }
    }

    #[test]
    fn colours_are_those_that_are_asked_for() {
        let palette = Palette::new(" SyScAlL = 1;31 : unknown = 1;36 :error=:const=x;1:retval=");
        let mut expected = Palette::new("");
        expected.0[Kind::Syscall as usize] = "1;31".into();
        assert_eq!(palette, expected);
    }

    /// Whatever bytes stand in a line, all of them are handed on.
    #[test]
    fn odd_lines_are_handed_on_whole() {
        for text in [
            "f(",
            "f(\"",
            "f(/*",
            "f(<<",
            "f(<",
            "f()",
            "f() =",
            "f() = ",
            "f(}]))= -1 E\n(",
            "é(ü)",
        ] {
            let plain = shown(&[text]);
            let plain: String = plain.replace('|', "");
            let letters = |text: &str| text.chars().filter(|c| !"SNVCKTPRE:|".contains(*c)).count();
            assert_eq!(letters(&plain), letters(text), "{text}: {plain}");
        }
    }
}
