//! The parser of the expressions of `--where`. Used by `condition`.

use super::{Condition, Expression, Flaw, Number, Relation, Sought, Subject};
use crate::duration::nanoseconds;
use capture::Width;
use capture::condition::{How, LONGEST_SOUGHT, MOST_LINES};

/// The error is a flaw and the byte at which it begins.
type Result<T, E = (usize, Flaw)> = std::result::Result<T, E>;

/// The deepest nesting of brackets and `!`.
const DEEPEST: usize = 50;

/// The words for a null pointer, and for `nil` in the languages.
const NOTHING: [&str; 4] = ["null", "nil", "None", "undef"];

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    lines: Vec<Sought>,
}

/// The value on the right of a relation.
enum Value {
    Number(Number),
    Duration(u64),
    Text(Vec<u8>),
}

/// Parses a whole expression.
pub(super) fn condition(text: &str) -> Result<Condition> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
        lines: Vec::new(),
    };
    let expression = reader.either()?;
    reader.space();
    if reader.rest().is_empty() {
        Ok(Condition {
            expression,
            lines: reader.lines,
        })
    } else {
        reader.fail(Flaw::Expected("&& or || or the end"))
    }
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn fail<T>(&self, flaw: Flaw) -> Result<T> {
        Err((self.at, flaw))
    }

    fn take(&mut self, sign: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let in_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !in_word(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    fn either(&mut self) -> Result<Expression> {
        let mut left = self.both()?;
        while self.take("||") {
            left = Expression::Or(left.into(), self.both()?.into());
        }
        Ok(left)
    }

    fn both(&mut self) -> Result<Expression> {
        let mut left = self.one()?;
        while self.take("&&") {
            left = Expression::And(left.into(), self.one()?.into());
        }
        Ok(left)
    }

    fn one(&mut self) -> Result<Expression> {
        if self.depth == DEEPEST {
            return self.fail(Flaw::Depth);
        }
        self.depth += 1;
        let one = if self.take("!") {
            Expression::Not(self.one()?.into())
        } else if self.take("(") {
            let inside = self.either()?;
            if !self.take(")") {
                return self.fail(Flaw::Expected("`)`"));
            }
            inside
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(one)
    }

    fn test(&mut self) -> Result<Expression> {
        self.space();
        let from = self.at;
        match self.word() {
            "" => self.fail(Flaw::Expected("arg1, arg2 …, ret, time or line")),
            "time" => {
                let (relation, at) = self.relation()?;
                let (Ok(relation), Value::Duration(nanos)) = (relation, self.value()?) else {
                    let how = "a time is compared with a duration: time > 5ms";
                    return Err((at, Flaw::Mismatch(how)));
                };
                Ok(Expression::Time(relation, nanos))
            }
            "line" => {
                let (relation, at) = self.relation()?;
                let sought = sought(relation, self.value()?);
                let Some(sought) = sought else {
                    let how = "a line is compared with a text: line ~ \"app.rb\"";
                    return Err((at, Flaw::Mismatch(how)));
                };
                if self.lines.len() == MOST_LINES {
                    return Err((from, Flaw::Lines));
                }
                self.lines.push(sought);
                Ok(Expression::Line(self.lines.len() - 1))
            }
            name => {
                let subject = self.subject(from, name)?;
                let (relation, at) = self.relation()?;
                match (relation, self.value()?) {
                    (Ok(relation), Value::Number(number)) => {
                        Ok(Expression::Number(subject, relation, number))
                    }
                    (_, Value::Duration(_)) => {
                        let how = "only `time` is compared with a duration";
                        Err((at, Flaw::Mismatch(how)))
                    }
                    (relation, value) => match sought(relation, value) {
                        Some(sought) => Ok(Expression::Text(subject, sought)),
                        None => {
                            let how = "a text has ==, !=, ~, !~ and ~*; a number has no ~";
                            Err((at, Flaw::Mismatch(how)))
                        }
                    },
                }
            }
        }
    }

    fn subject(&mut self, from: usize, name: &str) -> Result<Subject> {
        let argument = match name.strip_prefix("arg") {
            _ if name == "ret" => None,
            Some(number) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
                match number.parse() {
                    Ok(number @ 1..=99) => Some(number - 1),
                    _ => return Err((from, Flaw::Argument)),
                }
            }
            _ => return Err((from, Flaw::Subject(name.into()))),
        };
        let mut cast = None;
        if self.rest().starts_with(':') {
            self.at += 1;
            let from = self.at;
            let name = self.word();
            let (bytes, signed) = match name {
                "i8" => (1, true),
                "u8" => (1, false),
                "i16" => (2, true),
                "u16" => (2, false),
                "i32" => (4, true),
                "u32" => (4, false),
                "i64" => (8, true),
                "u64" => (8, false),
                _ => return Err((from, Flaw::Type(name.into()))),
            };
            cast = Some(Width {
                bytes,
                signed,
                skip: 0,
            });
        }
        Ok(Subject { argument, cast })
    }

    /// Parses a relation of numbers or a comparison of texts, and returns its position too.
    fn relation(&mut self) -> Result<(std::result::Result<Relation, How>, usize)> {
        self.space();
        let at = self.at;
        let text = |folded, not| How {
            within: true,
            folded,
            not,
            place: false,
        };
        let all = [
            ("==", Ok(Relation::Equal)),
            ("!=", Ok(Relation::NotEqual)),
            ("<=", Ok(Relation::LessOrEqual)),
            (">=", Ok(Relation::GreaterOrEqual)),
            ("<", Ok(Relation::Less)),
            (">", Ok(Relation::Greater)),
            ("!~", Err(text(false, true))),
            ("~*", Err(text(true, false))),
            ("~", Err(text(false, false))),
        ];
        for (sign, relation) in all {
            if self.take(sign) {
                return Ok((relation, at));
            }
        }
        self.fail(Flaw::Expected("==, !=, <, <=, >, >=, ~, !~ or ~*"))
    }

    fn value(&mut self) -> Result<Value> {
        self.space();
        let rest = self.rest();
        if rest.starts_with('"') {
            return self.text().map(Value::Text);
        }
        let from = self.at;
        if rest.starts_with(['-', '+']) {
            self.at += 1;
        }
        let negative = rest.starts_with('-');
        let word = self.word();
        if NOTHING.contains(&word) && from + word.len() == self.at {
            return Ok(Value::Number(Number::Null));
        }
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            self.at = from;
            return self.fail(Flaw::Expected("a number, a duration or a \"text\""));
        }
        // The word may continue with digits behind a point, and `µs`.
        let start = self.at - word.len();
        if self.rest().starts_with('.') {
            self.at += 1;
            self.word();
        }
        if self.rest().starts_with("µs") {
            self.at += "µs".len();
        }
        number(&self.text[start..self.at], negative).map_err(|flaw| (from, flaw))
    }

    fn text(&mut self) -> Result<Vec<u8>> {
        let from = self.at;
        let mut bytes = Vec::new();
        let mut rest = self.rest()[1..].chars();
        loop {
            let at = self.text.len() - rest.as_str().len();
            match rest.next() {
                None => return Err((from, Flaw::Unclosed)),
                Some('"') => break,
                Some('\\') => match rest.next() {
                    Some('\\') => bytes.push(b'\\'),
                    Some('"') => bytes.push(b'"'),
                    Some('n') => bytes.push(b'\n'),
                    Some('t') => bytes.push(b'\t'),
                    Some('x') => {
                        let digits = rest.as_str().get(..2);
                        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
                        bytes.push(byte.ok_or((at, Flaw::Escape))?);
                        rest.nth(1);
                    }
                    _ => return Err((at, Flaw::Escape)),
                },
                Some(other) => bytes.extend(other.encode_utf8(&mut [0; 4]).bytes()),
            }
        }
        if bytes.len() > LONGEST_SOUGHT {
            return Err((from, Flaw::Long));
        }
        self.at = self.text.len() - rest.as_str().len();
        Ok(bytes)
    }
}

/// Returns the value of a number or a duration that begins with a digit; its sign was read before.
fn number(word: &str, negative: bool) -> std::result::Result<Value, Flaw> {
    let whole = |number: i128| {
        let number = Some(number).filter(|number| *number <= u64::MAX.into());
        let number = number.ok_or(Flaw::Range)?;
        let number = if negative { -number } else { number };
        Ok(Value::Number(Number::Whole(number)))
    };
    if let Some(hex) = word.strip_prefix("0x") {
        return whole(i128::from_str_radix(hex, 16).map_err(|_| Flaw::Range)?);
    }
    let digits = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    let (digits, unit) = word.split_at(digits);
    let scale = match unit {
        "" => None,
        unit => match nanoseconds(unit) {
            None => return Err(Flaw::Expected("a unit: ns, us, ms, s, m or h")),
            known => known,
        },
    };
    if scale.is_none() && !digits.contains('.') {
        return whole(digits.parse().map_err(|_| Flaw::Range)?);
    }
    let number: f64 = digits.parse().map_err(|_| Flaw::Range)?;
    match scale {
        Some(scale) if !negative && number * scale < 1e18 => {
            Ok(Value::Duration((number * scale).round() as u64))
        }
        Some(_) => Err(Flaw::Range),
        None => {
            let number = if negative { -number } else { number };
            Ok(Value::Number(Number::Fraction(number)))
        }
    }
}

/// Returns how a text is compared, if the relation is one of texts.
fn sought(relation: std::result::Result<Relation, How>, value: Value) -> Option<Sought> {
    let Value::Text(mut bytes) = value else {
        return None;
    };
    let how = match relation {
        Err(how) => how,
        Ok(relation @ (Relation::Equal | Relation::NotEqual)) => How {
            within: false,
            folded: false,
            not: relation == Relation::NotEqual,
            place: false,
        },
        Ok(_) => return None,
    };
    if how.folded {
        bytes.make_ascii_lowercase();
    }
    Some(Sought { how, bytes })
}
