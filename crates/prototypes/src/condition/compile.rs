//! Compiles an expression, for the prototype of one function, to the words that crate `capture` runs. Used by `values`
//! and `lines`, and by `calls::conditions`.
//!
//! The parts between the outermost `&&` are tested as early as they can be: those that need neither result nor time at
//! the call, so that a call that is not wanted costs next to nothing, the others at the return.

use super::{Condition, Expression, Number, Relation, Sought, Subject};
use crate::location::{Location, Locations};
use crate::plan::width;
use crate::types::{Expr, Kind, Lens, Prototype, Type};
use capture::condition::{self, Length, Step};
use capture::{Source, Width};
use std::cell::Cell;

use super::values::number_of_value;

/// The words of a condition for one function; empty where nothing is tested.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compiled {
    /// The condition that is tested at the call.
    pub call: Vec<u64>,
    /// The condition that is tested at the return.
    pub exit: Vec<u64>,
    /// Whether the condition at the call is about the script's line.
    pub lines: bool,
    /// Whether the condition is about values of a language VM, which can be read in the guest only.
    pub values: bool,
}

/// Why a condition cannot be compiled for a function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The function has fewer arguments.
    #[error("it has no argument {0}")]
    NoArgument(usize),
    /// The function returns nothing.
    #[error("it returns nothing")]
    NoResult,
    /// The argument is neither a number nor a text.
    #[error("{0} is `{1}`: only numbers and `char` strings can be asked")]
    Type(String, String),
    /// A value of a VM is compared with something that it cannot be.
    #[error("{0} is a value of the script's language: {1}")]
    Value(String, &'static str),
}

impl Condition {
    /// Compiles the condition for a function with this prototype. `ticks` converts nanoseconds to cycles.
    pub fn compile(
        &self,
        prototype: Option<&Prototype>,
        ticks: &dyn Fn(u64) -> u64,
    ) -> Result<Compiled, Unfit> {
        let locations = prototype.map(Prototype::locations);
        let compiler = Compiler {
            prototype: prototype.zip(locations.as_ref()),
            ticks,
            values: Cell::new(false),
        };
        let mut parts = Vec::new();
        conjuncts(&self.expression, &mut parts);
        let (late, early): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| is_late(part));
        if let Some(why) = late.iter().find_map(|part| compiler.comes_late(part)) {
            return Err(Unfit::Value("an argument".into(), why));
        }
        Ok(Compiled {
            call: compiler.all(&early)?,
            exit: compiler.all(&late)?,
            lines: has_lines(&self.expression),
            values: compiler.values.get(),
        })
    }

    /// Returns how many tests of lines it has.
    pub fn line_tests(&self) -> usize {
        self.lines.len()
    }

    /// Returns the words for `capture::condition::line_bits`; empty where no line is tested.
    pub fn lines(&self) -> Vec<u64> {
        let mut words = Vec::new();
        for Sought { how, bytes } in &self.lines {
            Step::Text(Source::Rax, *how, bytes, Length::Ended).encode(|word| words.push(word));
        }
        words
    }
}

fn conjuncts<'e>(expression: &'e Expression, parts: &mut Vec<&'e Expression>) {
    match expression {
        Expression::And(left, right) => {
            conjuncts(left, parts);
            conjuncts(right, parts);
        }
        other => parts.push(other),
    }
}

pub(super) fn any(expression: &Expression, wanted: &dyn Fn(&Expression) -> bool) -> bool {
    wanted(expression)
        || match expression {
            Expression::And(left, right) | Expression::Or(left, right) => {
                any(left, wanted) || any(right, wanted)
            }
            Expression::Not(inside) => any(inside, wanted),
            _ => false,
        }
}

fn is_late(expression: &Expression) -> bool {
    any(expression, &|one| match one {
        Expression::Time(..) => true,
        Expression::Number(subject, ..) | Expression::Text(subject, _) => {
            subject.argument.is_none()
        }
        _ => false,
    })
}

fn has_lines(expression: &Expression) -> bool {
    any(expression, &|one| matches!(one, Expression::Line(_)))
}

pub(super) struct Compiler<'p> {
    pub prototype: Option<(&'p Prototype, &'p Locations)>,
    ticks: &'p dyn Fn(u64) -> u64,
    /// Whether values of a VM are tested.
    pub values: Cell<bool>,
}

impl<'p> Compiler<'p> {
    /// Returns the words that test all of these.
    fn all(&self, parts: &[&Expression]) -> Result<Vec<u64>, Unfit> {
        let mut words = Vec::new();
        // From the last one on, because each skips all that follow.
        for part in parts.iter().rev() {
            let mut this = self.words(part)?;
            if !words.is_empty() {
                Step::SkipUnless(words.len() as u32).encode(|word| this.push(word));
            }
            this.append(&mut words);
            words = this;
        }
        Ok(words)
    }

    fn words(&self, expression: &Expression) -> Result<Vec<u64>, Unfit> {
        let mut words = Vec::new();
        let step = match expression {
            Expression::And(left, right) | Expression::Or(left, right) => {
                words = self.words(left)?;
                let right = self.words(right)?;
                let length = right.len() as u32;
                let skip = match expression {
                    Expression::And(..) => Step::SkipUnless(length),
                    _ => Step::SkipIf(length),
                };
                skip.encode(|word| words.push(word));
                words.extend(right);
                return Ok(words);
            }
            Expression::Not(inside) => {
                words = self.words(inside)?;
                Step::Not
            }
            Expression::Line(number) => Step::Line(*number as u8),
            Expression::Time(relation, nanos) => Step::Number(
                condition::Operand::Elapsed,
                condition::Kind::Integer(Width::WORD),
                *relation,
                (self.ticks)(*nanos),
            ),
            Expression::Number(subject, relation, number) => match self.value(*subject)? {
                Some(item) => {
                    Step::Value(item).encode(|word| words.push(word));
                    number_of_value(*subject, *relation, *number)?
                }
                None => self.number(*subject, *relation, *number)?,
            },
            Expression::Text(subject, sought) => match self.value(*subject)? {
                Some(item) => {
                    Step::Value(item).encode(|word| words.push(word));
                    Step::ValueText(sought.how, &sought.bytes)
                }
                None => {
                    let (source, length) = self.text(*subject)?;
                    Step::Text(source, sought.how, &sought.bytes, length)
                }
            },
        };
        step.encode(|word| words.push(word));
        Ok(words)
    }

    /// Returns where a subject lies and what type it has; no type if the function has no prototype.
    fn place(&self, subject: Subject) -> Result<(condition::Operand, Option<&'p Type>), Unfit> {
        let of = |source| condition::Operand::Of(source);
        let Some((prototype, locations)) = self.prototype else {
            let source = match subject.argument {
                None => Source::Rax,
                Some(number @ 0..6) => Source::Gp(number as u8),
                Some(number) => Source::Stack((number as u16 - 6) * 8),
            };
            return Ok((of(source), None));
        };
        let (place, ty) = match subject.argument {
            None => (locations.returned, &prototype.returns),
            Some(number) => {
                let parameter = prototype.parameters.get(number);
                let parameter = parameter.ok_or(Unfit::NoArgument(number + 1))?;
                (locations.arguments[number], &parameter.ty)
            }
        };
        let returned = subject.argument.is_none();
        let source = match place {
            Location::Nowhere if returned => return Err(Unfit::NoResult),
            Location::Gp(_) if returned => of(Source::Rax),
            Location::Sse(_) if returned => condition::Operand::ReturnedSse,
            Location::Gp(n) => of(Source::Gp(n)),
            Location::Sse(n) => of(Source::Sse(n)),
            Location::Stack(at) if !returned => match u16::try_from(at) {
                Ok(at) => of(Source::Stack(at)),
                Err(_) => return Err(unfit(subject, ty)),
            },
            _ => return Err(unfit(subject, ty)),
        };
        Ok((source, Some(ty)))
    }

    fn number(
        &self,
        subject: Subject,
        relation: Relation,
        number: Number,
    ) -> Result<Step<'static>, Unfit> {
        let (place, ty) = self.place(subject)?;
        let kind = match (ty.map(|ty| &ty.kind), subject.cast) {
            (Some(Kind::Float), None) => condition::Kind::Float,
            (Some(Kind::Double), None) => condition::Kind::Double,
            (Some(Kind::Struct(_) | Kind::LongDouble | Kind::ComplexLongDouble), _) => {
                return Err(unfit(subject, ty.expect("it has one")));
            }
            (_, Some(width)) => condition::Kind::Integer(width),
            (None, None) => condition::Kind::Integer(Width {
                signed: true,
                ..Width::WORD
            }),
            // An array is what it is in C: an address.
            (Some(Kind::Array(_) | Kind::Pointer(_)), None) => {
                condition::Kind::Integer(Width::WORD)
            }
            (Some(_), None) => condition::Kind::Integer(width(ty.expect("it has one"), 0)),
        };
        let float = match number {
            Number::Null => 0.0,
            Number::Whole(number) => number as f64,
            Number::Fraction(number) => number,
        };
        Ok(match kind {
            condition::Kind::Float => {
                let bits = (float as f32).to_bits();
                Step::Number(place, kind, relation, bits.into())
            }
            condition::Kind::Double => Step::Number(place, kind, relation, float.to_bits()),
            condition::Kind::Integer(width) => whole(place, width, relation, number),
        })
    }

    /// Returns where a text's address is, and how long the text is.
    fn text(&self, subject: Subject) -> Result<(Source, Length), Unfit> {
        let (place, ty) = self.place(subject)?;
        let condition::Operand::Of(source) = place else {
            let ty = ty.expect("floating-point numbers are described");
            return Err(unfit(subject, ty));
        };
        let Some(ty) = ty else {
            return Ok((source, Length::Ended));
        };
        let wrong = || Err(unfit(subject, ty));
        if matches!(ty.lens, Some(Lens::Vm(_))) {
            return wrong();
        }
        let array = match &ty.kind {
            Kind::Array(array) => Some(array),
            Kind::Pointer(to) => match &to.kind {
                Kind::Array(array) => Some(array),
                Kind::Char | Kind::Void => None,
                _ => return wrong(),
            },
            _ => return wrong(),
        };
        let Some(array) = array else {
            return Ok((source, Length::Ended));
        };
        if !matches!(array.element.kind, Kind::Char) {
            return wrong();
        }
        let length = match &array.length {
            Expr::Zero(Some(most)) => self
                .count(most)
                .map(|(of, width)| Length::AtMost(of, width)),
            length => self
                .count(length)
                .map(|(of, width)| Length::Counted(of, width)),
        };
        Ok((source, length.unwrap_or(Length::Ended)))
    }

    fn count(&self, length: &Expr) -> Option<(Source, Width)> {
        let (prototype, _) = self.prototype?;
        let argument = match length {
            Expr::Zero(_) | Expr::Number(_) | Expr::Member(_) | Expr::Command(_) => return None,
            Expr::Argument(index) => Some(usize::from(*index)),
            Expr::Returned => None,
        };
        let subject = Subject {
            argument,
            cast: None,
        };
        let ty = match argument {
            Some(index) => &prototype.parameters.get(index)?.ty,
            None => &prototype.returns,
        };
        match self.place(subject).ok()?.0 {
            condition::Operand::Of(source) if ty.is_integer() => Some((source, width(ty, 0))),
            _ => None,
        }
    }
}

/// Returns the comparison of whole numbers. With a number that is out of the type's range its result is a constant.
pub(super) fn whole(
    place: condition::Operand,
    width: Width,
    relation: Relation,
    number: Number,
) -> Step<'static> {
    let bits = u32::from(width.bytes) * 8;
    let (least, most) = if width.signed {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    } else {
        (0, (1_i128 << bits) - 1)
    };
    let equal = matches!(relation, Relation::Equal | Relation::NotEqual);
    let number = match number {
        // `arg1 == -1` of an unsigned, `arg1 == 0xffffffff` of a signed: the same bits are meant.
        Number::Whole(number) if equal && number < least => number + (1_i128 << bits),
        Number::Whole(number) if equal && number > most => number - (1_i128 << bits),
        Number::Null => 0,
        Number::Whole(number) => number,
        Number::Fraction(number) => {
            // Between two whole numbers: less than it means less than the next one.
            let floor = number.floor();
            let whole = floor as i128;
            return match relation {
                _ if floor == number => self::whole(place, width, relation, Number::Whole(whole)),
                Relation::Equal => Step::Constant(false),
                Relation::NotEqual => Step::Constant(true),
                Relation::Less | Relation::LessOrEqual => {
                    self::whole(place, width, Relation::LessOrEqual, Number::Whole(whole))
                }
                Relation::Greater | Relation::GreaterOrEqual => {
                    self::whole(place, width, Relation::Greater, Number::Whole(whole))
                }
            };
        }
    };
    let below = number < least;
    if below || number > most {
        return Step::Constant(match relation {
            Relation::Equal => false,
            Relation::NotEqual => true,
            Relation::Less | Relation::LessOrEqual => !below,
            Relation::Greater | Relation::GreaterOrEqual => below,
        });
    }
    Step::Number(
        place,
        condition::Kind::Integer(width),
        relation,
        number as u64,
    )
}

fn unfit(subject: Subject, ty: &Type) -> Unfit {
    Unfit::Type(subject.to_string(), ty.to_string())
}
