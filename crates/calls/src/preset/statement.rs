//! Makes SQL statements equal that differ only in their values: literals and parameters become `?`, lists of only such become
//! `(…)`, comments and line ends one space. Used by `groups` and `preset`.
//!
//! ```text
//!   SELECT * FROM t WHERE a = 'x' AND b IN (1, 2, 3)  -- who
//!   SELECT * FROM t WHERE a = ? AND b IN (…)
//! ```
//!
//! The end of a literal differs between the databases, so each has its dialect:
//!
//! | | MySQL, MariaDB | PostgreSQL | SQLite |
//! |---|---|---|---|
//! | `'…'` | doubled or backslash | doubled; `E'…'` backslash | doubled |
//! | `"…"` | a string | a name | a name |
//! | other names | `` `…` `` | | `` `…` `` `[…]` |
//! | other literals | `x'…'` `b'…'` `N'…'` `_utf8'…'` | `x'…'` `b'…'` `n'…'` `u&'…'` `$tag$…$tag$` | `x'…'` |
//! | parameters | `?` | `$1` | `?` `?1` `:a` `@a` `$a` |
//! | comments | `#…` `-- …` `/*…*/` | `--…` `/*…*/`, which nest | `--…` `/*…*/` |
//!
//! MySQL's manual 11.1 "Literal Values" and 11.7 "Comments", PostgreSQL's 4.1 "Lexical Structure", SQLite's
//! "SQL As Understood By SQLite". MySQL is taken as it is without `ANSI_QUOTES` and `NO_BACKSLASH_ESCAPES`. A literal without its
//! end, as in a statement that was cut, ends with the text.

use std::iter::Peekable;
use std::str::CharIndices;

/// The dialect of SQL that a statement is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// The dialect of MySQL and MariaDB.
    MySql,
    /// The dialect of PostgreSQL.
    PostgreSql,
    /// The dialect of SQLite.
    Sqlite,
}

/// A token of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token<'t> {
    /// A literal or a parameter.
    Value,
    /// A keyword, a name, a quoted name.
    Word(&'t str),
    /// A character of anything else: an operator, a parenthesis.
    Mark(char),
}

/// Returns the statement without its values.
pub fn normalise(text: &str, dialect: Dialect) -> String {
    let mut tokens = signed(tokens(text, dialect));
    fold(&mut tokens);
    while matches!(tokens.last(), Some((Token::Mark(';'), _))) {
        tokens.pop();
    }
    let mut out = String::new();
    let mut glued = true;
    for (token, spaced) in &tokens {
        let closes = matches!(token, Token::Mark(')' | ',' | ';'));
        // Two signs side by side would form a comment.
        let signs = *token == Token::Mark('-') && out.ends_with('-');
        if !glued && !closes && *spaced || signs {
            out.push(' ');
        }
        match token {
            Token::Value => out.push('?'),
            // A quoted name may contain anything, and it goes to a terminal.
            Token::Word(word) => out.extend(word.chars().filter(|c| !c.is_control())),
            Token::Mark(mark) => out.push(*mark),
        }
        glued = matches!(token, Token::Mark('('));
        if matches!(token, Token::Mark(',')) {
            out.push(' ');
            glued = true;
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// The characters of a statement, with a look ahead by one.
struct Text<'t> {
    whole: &'t str,
    left: Peekable<CharIndices<'t>>,
}

impl<'t> Text<'t> {
    fn at(&mut self) -> usize {
        self.left.peek().map_or(self.whole.len(), |(at, _)| *at)
    }

    fn rest(&mut self) -> &'t str {
        let at = self.at();
        &self.whole[at..]
    }

    fn skip(&mut self, characters: usize) {
        for _ in 0..characters {
            self.left.next();
        }
    }

    fn skip_to(&mut self, at: usize) {
        while self.at() < at {
            self.left.next();
        }
    }

    fn take_while(&mut self, is: impl Fn(char) -> bool) -> &'t str {
        let from = self.at();
        while self.left.next_if(|(_, c)| is(*c)).is_some() {}
        let end = self.at();
        &self.whole[from..end]
    }

    /// Skips to behind the closing quote; the opening one is next. A doubled quote does not end the literal.
    fn quoted(&mut self, close: char, backslash: bool) {
        self.skip(1);
        while let Some((_, c)) = self.left.next() {
            match c {
                '\\' if backslash => self.skip(1),
                c if c == close && self.left.next_if(|(_, c)| *c == close).is_none() => return,
                _ => {}
            }
        }
    }

    /// Skips to behind a comment, whose `/*` is next.
    fn comment(&mut self, nests: bool) {
        let mut depth = 0;
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                return;
            } else if rest.starts_with("/*") && (depth == 0 || nests) {
                depth += 1;
                self.skip(2);
            } else if rest.starts_with("*/") {
                depth -= 1;
                self.skip(2);
                if depth == 0 {
                    return;
                }
            } else {
                self.skip(1);
            }
        }
    }
}

/// Whether the character may be in a name; the first character is restricted further.
fn in_name(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Returns the tokens, each with whether a word separator precedes it.
fn tokens(text: &str, dialect: Dialect) -> Vec<(Token<'_>, bool)> {
    use Dialect::{MySql, PostgreSql, Sqlite};
    let mut text = Text {
        whole: text,
        left: text.char_indices().peekable(),
    };
    let mut tokens = Vec::new();
    let mut spaced = false;
    loop {
        let rest = text.rest();
        let mut characters = rest.chars();
        let Some(first) = characters.next() else {
            return tokens;
        };
        let second = characters.next().unwrap_or(' ');
        let is_comment = match first {
            '-' => second == '-' && (dialect != MySql || ends_a_word(rest.chars().nth(2))),
            '#' => dialect == MySql,
            _ => false,
        };
        if is_comment {
            text.take_while(|c| c != '\n');
        } else if rest.starts_with("/*") {
            text.comment(dialect == PostgreSql);
        } else if first.is_whitespace() || first.is_control() {
            text.skip(1);
        } else {
            let from = text.at();
            let token = match first {
                '\'' => {
                    text.quoted('\'', dialect == MySql);
                    Token::Value
                }
                '"' if dialect == MySql => {
                    text.quoted('"', true);
                    Token::Value
                }
                '"' | '`' if first == '"' || dialect != PostgreSql => {
                    text.quoted(first, false);
                    Token::Word(&text.whole[from..text.at()])
                }
                // In PostgreSQL it is a subscript.
                '[' if dialect == Sqlite => {
                    text.quoted(']', false);
                    Token::Word(&text.whole[from..text.at()])
                }
                '0'..='9' => number(&mut text),
                '.' if second.is_ascii_digit() && !follows_a_name(&tokens, spaced) => {
                    number(&mut text)
                }
                '?' => {
                    text.skip(1);
                    text.take_while(|c| dialect == Sqlite && c.is_ascii_digit());
                    Token::Value
                }
                '$' if dialect == PostgreSql => dollar(&mut text),
                ':' | '@' | '$' if dialect == Sqlite && in_name(second) => {
                    text.skip(1);
                    text.take_while(in_name);
                    Token::Value
                }
                c if in_name(c) => word(&mut text, dialect),
                mark => {
                    text.skip(1);
                    Token::Mark(mark)
                }
            };
            tokens.push((token, spaced));
            spaced = false;
            continue;
        }
        spaced = true;
    }
}

fn ends_a_word(c: Option<char>) -> bool {
    c.is_none_or(|c| c.is_whitespace() || c.is_control())
}

/// Whether the text follows a name: `t.1` contains no number.
fn follows_a_name(tokens: &[(Token, bool)], spaced: bool) -> bool {
    !spaced && matches!(tokens.last(), Some((Token::Word(_), _)))
}

/// Reads a number: `12`, `1.5e-3`, `.5`, `0xff`, `0b1`, `1_000`. MySQL's `1st_column` is a name, which nobody uses unquoted.
fn number<'t>(text: &mut Text<'t>) -> Token<'t> {
    let digits = text.take_while(|c| in_name(c) || c == '.');
    let exponent = digits.ends_with(['e', 'E']) && !digits.starts_with("0x");
    if exponent && text.rest().starts_with(['-', '+']) {
        text.skip(1);
        text.take_while(|c| c.is_ascii_digit());
    }
    Token::Value
}

/// Reads a name or keyword, or the prefix of a literal.
fn word<'t>(text: &mut Text<'t>, dialect: Dialect) -> Token<'t> {
    use Dialect::{MySql, PostgreSql};
    let word = text.take_while(|c| in_name(c) || c == '$');
    let quote = text.rest().chars().next();
    let lower = word.to_ascii_lowercase();
    let prefixes = match dialect {
        MySql => word.starts_with('_') || matches!(&*lower, "x" | "b" | "n"),
        PostgreSql => matches!(&*lower, "x" | "b" | "n" | "e"),
        Dialect::Sqlite => lower == "x",
    };
    let unicode = dialect == PostgreSql && lower == "u" && text.rest().starts_with("&'");
    if unicode {
        text.skip(1);
    }
    if unicode || prefixes && quote == Some('\'') {
        text.quoted('\'', dialect == MySql || lower == "e");
        return Token::Value;
    }
    if dialect == MySql && word.starts_with('_') && quote == Some('"') {
        text.quoted('"', true);
        return Token::Value;
    }
    Token::Word(word)
}

/// Reads `$1` or `$tag$ … $tag$`.
fn dollar<'t>(text: &mut Text<'t>) -> Token<'t> {
    let rest = text.rest();
    let inner = &rest[1..];
    let name = inner.len() - inner.trim_start_matches(in_name).len();
    if inner[name..].starts_with('$') && !inner.starts_with(|c: char| c.is_ascii_digit()) {
        let tag = &rest[..name + 2];
        let length = rest[tag.len()..]
            .find(tag)
            .map_or(rest.len(), |at| at + tag.len() * 2);
        let end = text.at() + length;
        text.skip_to(end);
        return Token::Value;
    }
    text.skip(1);
    if name > 0 {
        text.take_while(in_name);
        return Token::Value;
    }
    Token::Mark('$')
}

/// Words after which a sign belongs to the number that follows.
const BEFORE_A_SIGN: [&str; 22] = [
    "SELECT",
    "WHERE",
    "AND",
    "OR",
    "NOT",
    "IN",
    "BETWEEN",
    "LIKE",
    "THEN",
    "ELSE",
    "WHEN",
    "CASE",
    "LIMIT",
    "OFFSET",
    "VALUES",
    "SET",
    "BY",
    "RETURNING",
    "HAVING",
    "ON",
    "DEFAULT",
    "INTERVAL",
];

/// Makes `-1` one value, unless a value precedes it from which it could be subtracted.
fn signed(tokens: Vec<(Token<'_>, bool)>) -> Vec<(Token<'_>, bool)> {
    let mut out: Vec<(Token, bool)> = Vec::with_capacity(tokens.len());
    for (token, spaced) in tokens {
        let mut spaced = spaced;
        while token == Token::Value
            && matches!(out.last(), Some((Token::Mark('-' | '+'), _)))
            && !is_operand(out.len().checked_sub(2).map(|at| &out[at].0))
        {
            (_, spaced) = out.pop().expect("the sign");
        }
        out.push((token, spaced));
    }
    out
}

fn is_operand(token: Option<&Token>) -> bool {
    match token {
        Some(Token::Value | Token::Mark(')' | ']')) => true,
        Some(Token::Word(word)) => !BEFORE_A_SIGN.iter().any(|of| of.eq_ignore_ascii_case(word)),
        _ => false,
    }
}

/// Turns `(?, ?, ?)` into `(…)`, except behind a function's name, and `(…), (…)` into `(…)`.
fn fold(tokens: &mut Vec<(Token<'_>, bool)>) {
    let mut at = 0;
    while at < tokens.len() {
        if let Some(length) = list(&tokens[at..])
            && takes_a_list(at.checked_sub(1).map(|before| &tokens[before].0), length)
        {
            let mut end = at + length;
            // The rows of an INSERT.
            while tokens
                .get(end)
                .is_some_and(|(token, _)| *token == Token::Mark(','))
                && let Some(length) = list(&tokens[end + 1..])
            {
                end += 1 + length;
            }
            let folded = [(Token::Mark('…'), false), (Token::Mark(')'), false)];
            tokens.splice(at + 1..end, folded);
        }
        at += 1;
    }
}

/// Returns how many tokens the list of values has that begins here, if one does.
fn list(tokens: &[(Token, bool)]) -> Option<usize> {
    let is = |at: usize, wanted: &Token| tokens.get(at).is_some_and(|(token, _)| token == wanted);
    if !is(0, &Token::Mark('(')) {
        return None;
    }
    if is(1, &Token::Mark('…')) && is(2, &Token::Mark(')')) {
        return Some(3);
    }
    let mut at = 1;
    loop {
        if !is(at, &Token::Value) {
            return None;
        }
        match tokens.get(at + 1)?.0 {
            Token::Mark(',') => at += 2,
            Token::Mark(')') => return Some(at + 2),
            _ => return None,
        }
    }
}

/// Whether a list may follow: behind `IN`, `VALUES`, and what precedes a row of more than one value; a function's arguments keep
/// their number.
fn takes_a_list(before: Option<&Token>, length: usize) -> bool {
    match before {
        Some(Token::Word(word)) => ["IN", "VALUES", "VALUE", "ANY", "ALL", "ROW"]
            .iter()
            .any(|of| of.eq_ignore_ascii_case(word)),
        Some(Token::Mark(mark)) => length > 3 && matches!(mark, '(' | ',' | '=' | '<' | '>'),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
