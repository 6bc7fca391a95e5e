//! Conditions on the script's line: `--at`, and what a line alone says about a condition.

use super::{Condition, Expression, Sought};
use capture::condition::{How, LONGEST_SOUGHT, line_bits};

/// Why a text is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// It has no line.
    #[error("a place is FILE:LINE: app.rb:12")]
    Line,
    /// It is longer than the longest text that is searched for.
    #[error("a place has at most {LONGEST_SOUGHT} bytes: the end of its path is enough")]
    Long,
}

impl Condition {
    /// Returns the condition that is met by calls from a line: `FILE:LINE`, where FILE is a path or the end of one
    /// (`app.rb:12`, `models/user.rb:7`).
    pub fn at(place: &str) -> Result<Self, NoPlace> {
        let line = place.rsplit_once(':').filter(|(file, _)| !file.is_empty());
        let line = line.and_then(|(_, line)| line.parse::<u32>().ok());
        if line.is_none_or(|line| line == 0) {
            return Err(NoPlace::Line);
        }
        if place.len() > LONGEST_SOUGHT {
            return Err(NoPlace::Long);
        }
        let how = How {
            within: false,
            folded: false,
            not: false,
            place: true,
        };
        Ok(Condition {
            expression: Expression::Line(0),
            lines: vec![Sought {
                how,
                bytes: place.into(),
            }],
        })
    }

    /// Returns the condition that is met where both are met.
    #[must_use]
    pub fn and(self, other: Condition) -> Self {
        self.join(other, Expression::And)
    }

    /// Returns the condition that is met where one of them is met.
    #[must_use]
    pub fn or(self, other: Condition) -> Self {
        self.join(other, Expression::Or)
    }

    fn join(
        mut self,
        mut other: Condition,
        how: impl Fn(Box<Expression>, Box<Expression>) -> Expression,
    ) -> Self {
        other.expression.shift(self.lines.len());
        self.lines.append(&mut other.lines);
        Condition {
            expression: how(self.expression.into(), other.expression.into()),
            lines: self.lines,
        }
    }

    /// The texts that it looks for in lines, for a message.
    pub fn sought(&self) -> String {
        let texts = self
            .lines
            .iter()
            .map(|one| String::from_utf8_lossy(&one.bytes));
        texts.collect::<Vec<_>>().join(" or ")
    }

    /// Whether it asks for nothing but the line.
    pub fn is_of_lines(&self) -> bool {
        !super::compile::any(&self.expression, &|one| {
            matches!(
                one,
                Expression::Number(..) | Expression::Text(..) | Expression::Time(..)
            )
        })
    }

    /// Whether it may be met by a call from this line, as it is shown; `None` = a call that has no line.
    pub fn may_hold_at(&self, line: Option<&str>) -> bool {
        let bits = line.map_or(0, |text| line_bits(&self.lines(), text.as_bytes()));
        self.expression.possible(bits).0
    }
}

impl Expression {
    /// Makes room before the texts of lines that it names.
    fn shift(&mut self, by: usize) {
        match self {
            Expression::And(left, right) | Expression::Or(left, right) => {
                left.shift(by);
                right.shift(by);
            }
            Expression::Not(inside) => inside.shift(by),
            Expression::Line(number) => *number += by,
            Expression::Number(..) | Expression::Text(..) | Expression::Time(..) => {}
        }
    }

    /// Whether it may be true, and whether it may be false, where the tests of lines have these results.
    fn possible(&self, bits: u32) -> (bool, bool) {
        match self {
            Expression::And(left, right) => {
                let (left, right) = (left.possible(bits), right.possible(bits));
                (left.0 && right.0, left.1 || right.1)
            }
            Expression::Or(left, right) => {
                let (left, right) = (left.possible(bits), right.possible(bits));
                (left.0 || right.0, left.1 && right.1)
            }
            Expression::Not(inside) => {
                let (holds, fails) = inside.possible(bits);
                (fails, holds)
            }
            Expression::Line(number) => {
                let holds = bits >> number & 1 != 0;
                (holds, !holds)
            }
            Expression::Number(..) | Expression::Text(..) | Expression::Time(..) => (true, true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_the_end_of_a_path_and_a_line() {
        let app = Condition::at("app.rb:12").unwrap();
        for (line, is) in [
            ("/srv/app.rb:12 in 'show'", true),
            ("app.rb:12 in '<main>'", true),
            ("lib/app.rb:12", true),
            ("/srv/app.rb:123 in 'show'", false),
            ("/srv/app.rb:1 in 'show'", false),
            ("/srv/my_app.rb:12 in 'show'", false),
            ("/srv/app.rb:12:3", false),
            ("b:12", false),
            ("", false),
        ] {
            assert_eq!(app.may_hold_at(Some(line)), is, "{line}");
        }
        assert!(!app.may_hold_at(None) && app.is_of_lines());
        let whole = Condition::at("/srv/app.rb:12").unwrap();
        assert!(whole.may_hold_at(Some("/srv/app.rb:12 in 'x'")));
        assert!(!whole.may_hold_at(Some("/old/srv/app.rb:12 in 'x'")));
        for wrong in ["", "app.rb", "app.rb:", "app.rb:x", ":12", "app.rb:0"] {
            assert_eq!(Condition::at(wrong), Err(NoPlace::Line), "{wrong}");
        }
        assert_eq!(
            Condition::at(&format!("{}:1", "x".repeat(63))),
            Err(NoPlace::Long)
        );
    }

    #[test]
    fn a_line_decides_what_it_can() {
        let at = |text| Condition::at(text).unwrap();
        let asked = Condition::parse("arg1 > 3 && !(line ~ \"lib\")").unwrap();
        assert!(!asked.is_of_lines() && asked.may_hold_at(None));
        let both = at("a.rb:1").or(at("b.rb:2")).and(asked);
        assert_eq!(both.line_tests(), 3);
        assert!(both.may_hold_at(Some("b.rb:2 in 'x'")));
        assert!(!both.may_hold_at(Some("lib/b.rb:2 in 'x'")));
        assert!(!both.may_hold_at(Some("c.rb:2 in 'x'")) && !both.may_hold_at(None));
    }
}
