//! Selection of functions: the expressions of `-e`, `-x` and `-l`, as `ltrace(1)` has them under FILTER EXPRESSIONS.
//! Used by the crates `calls` and `lancet`.
//!
//! ```text
//!   filter  = [ sign ] rule { sign rule }          sign = "+" | "-"; "!" before the first is "-"
//!   rule    = [ pattern ] [ "@" pattern ] | "/" RE "@" RE "/"
//!   pattern = "/" RE "/" | GLOB                    of a library also MAIN, or a path that begins with "/"
//! ```
//!
//! A filter that begins with the name of a script's language and a colon (`ruby:Mysql2::*#query`) is one name in that
//! language, and only `*` in it is special: the names of methods may hold any sign. `gc` alone is the garbage
//! collection of whatever VM there is.
//!
//! A symbol is marked or not; each rule it matches marks it (`+`) or takes the mark away (`-`), so the last
//! match wins. A filter that begins with `-` begins with everything marked. Patterns match whole names.
//!
//! Where we differ from ltrace: a sign inside `/…/` or `[…]` or behind a backslash is part of the pattern
//! (ltrace cuts there), and so is one in a library's pattern that a digit, a dot or a sign follows (`libruby-3.1.so`,
//! `libstdc++.so`), because no function's name begins so; regular expressions are of today's syntax (ltrace: POSIX basic); and a path is
//! compared with the library's path, as ltrace's manual says and its code fails to do.

mod error;
mod glob;

use regex::bytes::{Regex, RegexBuilder};
use vm::Language;

pub use error::{FilterError, Wrong};

/// The file in which a symbol is searched for.
#[derive(Clone, Copy, Debug)]
pub struct Where<'a> {
    /// The path of the file.
    pub path: &'a str,
    /// Its SONAME; for a file without one, its name.
    pub soname: &'a str,
    /// Whether it is the program itself.
    pub is_main: bool,
}

#[derive(Clone, Debug)]
enum From {
    Any,
    Main,
    Soname(Regex),
    Path(Regex),
}

impl From {
    fn matches(&self, place: Where) -> bool {
        match self {
            Self::Any => true,
            Self::Main => place.is_main,
            Self::Soname(pattern) => pattern.is_match(place.soname.as_bytes()),
            Self::Path(pattern) => pattern.is_match(place.path.as_bytes()),
        }
    }
}

/// Which symbols a rule is about.
#[derive(Clone, Debug)]
enum Symbols {
    All,
    /// Those of this name. Most filters are plain names, and all symbols of a process are compared with each of them: to compare
    /// texts takes a tenth of the time that a regular expression takes.
    Named(Box<str>),
    Like(Regex),
}

impl Symbols {
    fn has(&self, symbol: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(name) => **name == *symbol,
            Self::Like(pattern) => pattern.is_match(symbol.as_bytes()),
        }
    }
}

#[derive(Clone, Debug)]
struct Rule {
    add: bool,
    symbols: Symbols,
    from: From,
}

/// A filter expression, parsed.
#[derive(Clone, Debug)]
pub struct Filter {
    rules: Vec<Rule>,
    /// The expression as it was given, if it is a name in a script's language.
    scripted: Option<Box<str>>,
    /// See [`Filter::doubtful`].
    doubtful: Option<Box<str>>,
}

/// The name that stands for the VM's garbage collection, whatever its functions are called.
const COLLECTION: &str = "gc";

/// A pattern as it stands in the expression.
#[derive(Clone, Copy)]
struct Capture<'t> {
    text: &'t str,
    at: usize,
    regex: bool,
}

type Result<T, E = (usize, Wrong)> = std::result::Result<T, E>;

impl Filter {
    /// Parses the argument of `-e` or `-x`.
    pub fn parse(text: &str) -> std::result::Result<Self, FilterError> {
        let of_language = |(prefix, name)| Some((Language::of_prefix(prefix)?, name));
        match text.split_once(':').and_then(of_language) {
            Some((language, name)) => scripted(text, name, Some(language)),
            None if text == COLLECTION => scripted(text, text, None),
            None => parse(text),
        }
        .map_err(|wrong| located(text, wrong))
    }

    /// Returns `ruby:Mysql2::Client#query`, if it is a name of a script's language, or `gc`.
    #[must_use]
    pub fn scripted(&self) -> Option<&str> {
        self.scripted.as_deref()
    }

    /// Returns the sign that has ended the pattern of a library, with what follows it: where nothing is found, it may have been meant as
    /// a part of the library's name.
    #[must_use]
    pub fn doubtful(&self) -> Option<&str> {
        self.doubtful.as_deref()
    }

    /// Parses the argument of `-l`: one library pattern, in which signs mean themselves.
    pub fn library(text: &str) -> std::result::Result<Self, FilterError> {
        let rule = || {
            let regex = text.len() > 1 && text.starts_with('/') && text.ends_with('/');
            let (at, inner) = if regex {
                (1, &text[1..text.len() - 1])
            } else {
                (0, text)
            };
            if text.is_empty() {
                return Err((0, Wrong::Empty));
            }
            let capture = Capture {
                text: inner,
                at,
                regex,
            };
            Ok(Rule {
                add: true,
                symbols: Symbols::All,
                from: library(Some(capture))?,
            })
        };
        let rule = rule().map_err(|wrong| located(text, wrong))?;
        Ok(Self {
            rules: vec![rule],
            scripted: None,
            doubtful: None,
        })
    }

    /// Returns whether it selects this symbol.
    #[must_use]
    pub fn matches(&self, symbol: &str, place: Where) -> bool {
        let mut marked = false;
        for rule in &self.rules {
            // A rule that would not change the mark need not be tried.
            if rule.add != marked && rule.symbols.has(symbol) && rule.from.matches(place) {
                marked = rule.add;
            }
        }
        marked
    }

    /// Returns whether it could select some symbol of this file: files for which it is false need not be read.
    #[must_use]
    pub fn may_match(&self, place: Where) -> bool {
        self.rules
            .iter()
            .any(|rule| rule.add && rule.from.matches(place))
    }

    /// Returns whether it could select a symbol of some library, and not of the program alone.
    #[must_use]
    pub fn is_of_libraries(&self) -> bool {
        let of = |rule: &Rule| rule.add && !matches!(rule.from, From::Main);
        self.rules.iter().any(of)
    }

    /// Returns the plain names in it, of each of which a message may say that it was not found.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let added = self.rules.iter().filter(|rule| rule.add);
        added.filter_map(|rule| match &rule.symbols {
            Symbols::Named(name) => Some(&**name),
            Symbols::All | Symbols::Like(_) => None,
        })
    }
}

/// Returns whether any of several filters selects this symbol: `-e` twice means either.
#[must_use]
pub fn any_matches(filters: &[Filter], symbol: &str, place: Where) -> bool {
    filters.iter().any(|filter| filter.matches(symbol, place))
}

fn located(text: &str, (at, wrong): (usize, Wrong)) -> FilterError {
    FilterError {
        text: text.into(),
        column: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
        wrong,
    }
}

/// Parses one name, in which `*` stands for any characters; of a language, or of all.
fn scripted(text: &str, name: &str, language: Option<Language>) -> Result<Filter> {
    if name.is_empty() {
        return Err((text.len(), Wrong::Nameless));
    }
    let captures: Vec<String> = name.split('*').map(regex::escape).collect();
    let symbol = RegexBuilder::new(&format!("^(?:{})$", captures.join(".*")))
        .unicode(false)
        .dot_matches_new_line(true)
        .case_insensitive(language.is_some_and(|one| one.description().ignores_case))
        .build()
        .map_err(|error| (0, Wrong::Regex(error.to_string())))?;
    Ok(Filter {
        rules: vec![Rule {
            add: true,
            symbols: Symbols::Like(symbol),
            from: From::Any,
        }],
        scripted: Some(text.into()),
        doubtful: None,
    })
}

fn parse(text: &str) -> Result<Filter> {
    let (mut rules, mut doubtful) = (Vec::new(), None);
    let mut at = 0;
    let mut add = true;
    match text.bytes().next() {
        None => return Err((0, Wrong::Empty)),
        Some(b'-' | b'!') => {
            rules.push(Rule {
                add,
                symbols: Symbols::All,
                from: From::Any,
            });
            add = false;
            at = 1;
        }
        Some(b'+') => at = 1,
        Some(_) => {}
    }
    loop {
        let (rule, end) = rule(text, at, add)?;
        let Some(sign) = text.as_bytes().get(end) else {
            rules.push(rule);
            return Ok(Filter {
                rules,
                scripted: None,
                doubtful,
            });
        };
        add = *sign == b'+';
        if matches!(rule.from, From::Soname(_)) {
            doubtful = doubtful.or_else(|| text.get(end..).map(Box::from));
        }
        rules.push(rule);
        at = end + 1;
    }
}

/// Parses the rule at `at`, and returns where its sign or the end follows.
fn rule(text: &str, at: usize, add: bool) -> Result<(Rule, usize)> {
    let (symbol, end, joined) = symbol(text, at)?;
    let (of, end) = match (joined, text.as_bytes().get(end)) {
        (Some(of), _) => (Some(of), end),
        (None, Some(b'@')) => {
            let (of, end) = capture(text, end + 1, false)?;
            (Some(of), end)
        }
        _ => (None, end),
    };
    if end == at {
        return Err((at, if at == 0 { Wrong::Empty } else { Wrong::Sign }));
    }
    let plain = !symbol.regex && !symbol.text.contains(['*', '?', '[', '\\', '^', '$']);
    let rule = Rule {
        add,
        symbols: match symbol.text {
            "" | "*" => Symbols::All,
            name if plain => Symbols::Named(name.into()),
            _ => Symbols::Like(compile(symbol)?),
        },
        from: library(of)?,
    };
    Ok((rule, end))
}

/// Parses the symbol's pattern, and the library's too if both stand between one pair of slashes.
fn symbol(text: &str, at: usize) -> Result<(Capture<'_>, usize, Option<Capture<'_>>)> {
    let (whole, end) = capture(text, at, true)?;
    if !whole.regex {
        return Ok((whole, end, None));
    }
    let Some(middle) = whole.text.find('@') else {
        return Ok((whole, end, None));
    };
    let of = Capture {
        text: &whole.text[middle + 1..],
        at: whole.at + middle + 1,
        regex: true,
    };
    let symbol = Capture {
        text: &whole.text[..middle],
        ..whole
    };
    Ok((symbol, end, Some(of)))
}

/// Parses a pattern from here to a sign, to `@` in a symbol, or to its closing slash.
fn capture(text: &str, at: usize, symbol: bool) -> Result<(Capture<'_>, usize)> {
    let bytes = text.as_bytes();
    let is_end = |at: usize| match bytes.get(at) {
        None | Some(b'+' | b'-') => true,
        Some(b'@') => symbol,
        _ => false,
    };
    if bytes.get(at) == Some(&b'/') {
        let mut end = at + 1;
        while let Some(&byte) = bytes.get(end) {
            match byte {
                b'\\' => end += 1,
                b'/' if is_end(end + 1) => {
                    let capture = Capture {
                        text: &text[at + 1..end],
                        at: at + 1,
                        regex: true,
                    };
                    return Ok((capture, end + 1));
                }
                _ => {}
            }
            end += 1;
        }
        // For a library this is a path; for a symbol it is half a regular expression.
        if symbol {
            return Err((at, Wrong::Unclosed));
        }
    }
    // No rule begins behind such a sign, or behind the last one of several in a row.
    let in_library = |at: usize| {
        let is_sign = |at: usize| matches!(bytes.get(at), Some(b'+' | b'-'));
        let next = bytes.get(at + 1);
        let inside = next.is_some_and(|next| next.is_ascii_digit() || *next == b'.');
        !symbol && is_sign(at) && (inside || is_sign(at + 1))
    };
    // In a path a sign is mostly part of a folder's name: it is a sign of the filter if no folder follows.
    let path = !symbol && bytes.get(at) == Some(&b'/');
    let in_path = |at: usize| {
        let rest = bytes.get(at + 1..).unwrap_or_default();
        path && rest
            .iter()
            .take_while(|byte| **byte != b'@')
            .any(|byte| *byte == b'/')
    };
    let mut end = at;
    while !is_end(end) || end < bytes.len() && (in_path(end) || in_library(end)) {
        end = match bytes[end] {
            b'\\' => end + 2,
            b'[' => glob::bracket(bytes, end).ok_or((end, Wrong::Bracket))? + 1,
            _ => end + 1,
        };
        if end > bytes.len() {
            return Err((bytes.len() - 1, Wrong::Backslash));
        }
    }
    let capture = Capture {
        text: text.get(at..end).ok_or((at, Wrong::Backslash))?,
        at,
        regex: false,
    };
    Ok((capture, end))
}

fn library(capture: Option<Capture>) -> Result<From> {
    let Some(capture) = capture else {
        return Ok(From::Any);
    };
    Ok(match capture.text {
        "" | "*" if !capture.regex => From::Any,
        "" => From::Any,
        "MAIN" if !capture.regex => From::Main,
        path if path.starts_with('/') => From::Path(compile(capture)?),
        _ => From::Soname(compile(capture)?),
    })
}

fn compile(capture: Capture) -> Result<Regex> {
    let pattern = if capture.regex {
        capture.text.to_owned()
    } else {
        glob::to_regex(capture.text).map_err(|(at, wrong)| (capture.at + at, wrong))?
    };
    RegexBuilder::new(&format!("^(?:{pattern})$"))
        .unicode(false)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| {
            let message = error.to_string();
            let last = message.lines().last().unwrap_or_default();
            let last = last.strip_prefix("error: ").unwrap_or(last);
            (capture.at, Wrong::Regex(last.to_owned()))
        })
}
