//! Values of a language VM in conditions: where they are, and what they can be compared with. Used by `compile`.

use super::compile::{Compiler, Unfit, any, whole};
use super::{Expression, Number, Relation, Subject};
use crate::location::Location;
use crate::types::{Lens, Type};
use capture::condition::{self, Step};
use capture::value::Item;
use capture::{Source, What, Width};
use vm::{Role, Word};

/// Returns the word of a VM that a type is.
fn word(ty: &Type) -> Option<Word> {
    match ty.lens {
        Some(Lens::Vm(word)) => Some(word),
        _ => None,
    }
}

/// Returns whether a word leads to all arguments of a call.
fn is_list(word: Word) -> bool {
    word.role() == Role::Arguments
}

/// Returns whether a word is a value by itself.
fn is_value(word: Word) -> bool {
    word.role() == Role::Value
}

impl Compiler<'_> {
    /// Returns the value of a VM that a subject is; `None` if it is a word of C, or is to be read as one.
    pub fn value(&self, subject: Subject) -> Result<Option<Item>, Unfit> {
        let item = self.find(subject)?;
        self.values.set(self.values.get() || item.is_some());
        Ok(item)
    }

    fn find(&self, subject: Subject) -> Result<Option<Item>, Unfit> {
        let Some((prototype, locations)) = self.prototype.filter(|_| subject.cast.is_none()) else {
            return Ok(None);
        };
        let types = || prototype.parameters.iter().map(|parameter| &parameter.ty);
        let Some(number) = subject.argument else {
            let word = word(&prototype.returns).filter(|word| is_value(*word));
            return Ok(word.map(|word| Item {
                source: Source::Rax,
                what: What(word.number()),
                index: 0,
            }));
        };
        let source = |at: usize| match locations.arguments[at] {
            Location::Gp(number) => Some(Source::Gp(number)),
            Location::Stack(at) => u16::try_from(at).ok().map(Source::Stack),
            _ => None,
        };
        let item = |at: usize, word: Word, index: u16| {
            source(at).map(|source| Item {
                source,
                what: What(word.number()),
                index,
            })
        };
        // The VM's own functions have their receiver first, which the language does not count.
        let receiver = match types().next().map(|first| (word(first), &first.lens)) {
            Some((Some(word), _)) if word.role() == Role::Receiver => true,
            Some((_, Some(Lens::Hide))) => types()
                .nth(1)
                .and_then(word)
                .is_some_and(|word| is_list(word) || is_value(word)),
            _ => false,
        };
        let first = usize::from(receiver);
        if let Some(list) = types()
            .nth(first)
            .and_then(word)
            .filter(|word| is_list(*word))
        {
            return Ok(item(first, list, number as u16));
        }
        match types().nth(number + first) {
            Some(ty) => match word(ty).filter(|word| is_value(*word)) {
                Some(word) => Ok(item(number + first, word, 0)),
                None => Ok(None),
            },
            None if receiver => Err(Unfit::NoArgument(number + 1)),
            None => Ok(None),
        }
    }

    /// Returns why not if the expression needs at the return what can be read at the call only.
    pub fn comes_late(&self, expression: &Expression) -> Option<&'static str> {
        let list = || {
            let (prototype, _) = self.prototype?;
            word(&prototype.parameters.first()?.ty)
        };
        let why = list()?.at_call_only()?;
        let asks = any(expression, &|one| match one {
            Expression::Number(subject, ..) | Expression::Text(subject, _) => {
                subject.argument.is_some() && subject.cast.is_none()
            }
            _ => false,
        });
        asks.then_some(why)
    }
}

/// Returns the step that compares the number that was looked up.
pub(super) fn number_of_value(
    subject: Subject,
    relation: Relation,
    number: Number,
) -> Result<Step<'static>, Unfit> {
    let signed = Width {
        signed: true,
        ..Width::WORD
    };
    let unfit = |why| Err(Unfit::Value(subject.to_string(), why));
    match (number, relation) {
        (Number::Null, Relation::Equal) => Ok(Step::Nothing(true)),
        (Number::Null, Relation::NotEqual) => Ok(Step::Nothing(false)),
        (Number::Null, _) => unfit("null is only equal or not"),
        (Number::Whole(number), _) if i64::try_from(number).is_err() => {
            unfit("it is compared with numbers of 64 bits with a sign")
        }
        // The constant that `whole` would return does not test whether the value is a number.
        (Number::Fraction(_), Relation::Equal | Relation::NotEqual) => {
            unfit("only whole numbers are equal or not")
        }
        (Number::Fraction(number), _) if number.abs() >= i64::MAX as f64 => {
            unfit("it is compared with numbers of 64 bits with a sign")
        }
        _ => Ok(whole(condition::Operand::Value, signed, relation, number)),
    }
}
