//! The parser of types, lenses and expressions. Used by `parse`.

use std::sync::Arc;

use super::cursor::{Cursor, Result};
use crate::error::Problem;
use crate::library::Library;
use crate::types::{Array, Expr, Kind, Lens, Struct, Type, Words};
use vm::{Language, Word};

/// The deepest nesting of types, so that no file can exhaust the stack.
const DEPTH: usize = 40;

/// Parses the types of one line.
pub(super) struct Reader<'a, 't> {
    pub(super) cursor: Cursor<'t>,
    /// The names that are known so far.
    pub(super) library: &'a Library,
    depth: usize,
}

/// The position of a type, which decides what else it may be.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Location {
    Anywhere,
    /// Behind `typedef NAME =`, where a struct may be announced.
    Typedef,
    /// In an argument, which may be a `format`.
    Argument,
}

/// What was read; mostly a type.
pub(super) enum Read {
    Type(Type),
    Format(Type),
    Both(Type),
    Announced,
}

impl<'a, 't> Reader<'a, 't> {
    pub(super) fn new(text: &'t str, library: &'a Library) -> Self {
        Self {
            cursor: Cursor::new(text),
            library,
            depth: 0,
        }
    }

    fn fail<T>(&self, problem: Problem) -> Result<T> {
        self.cursor.fail(problem)
    }

    /// Reads a type that can stand anywhere.
    pub(super) fn plain(&mut self) -> Result<Type> {
        let at = self.cursor.at();
        match self.lens(Location::Anywhere)? {
            Read::Type(ty) => Ok(ty),
            Read::Format(_) | Read::Both(_) => Err((at, Problem::FormatElsewhere)),
            Read::Announced => Err((at, Problem::Announced)),
        }
    }

    /// Reads a type with or without a lens around it.
    pub(super) fn lens(&mut self, place: Location) -> Result<Read> {
        self.cursor.space();
        self.depth += 1;
        if self.depth > DEPTH {
            return self.fail(Problem::Depth);
        }
        let at = self.cursor.at();
        let read = self.lens_here(place)?;
        self.depth -= 1;
        let ty = match &read {
            Read::Type(ty) | Read::Format(ty) | Read::Both(ty) => ty,
            Read::Announced => return Ok(read),
        };
        if usize::from(ty.depth) > DEPTH {
            return Err((at, Problem::Depth));
        }
        match &ty.kind {
            Kind::Struct(of) if !of.is_complete() => {
                let name = of.name.as_deref().unwrap_or_default();
                Err((at, Problem::Incomplete(name.to_owned())))
            }
            _ => Ok(read),
        }
    }

    fn lens_here(&mut self, place: Location) -> Result<Read> {
        const LENSES: [(&str, Lens); 7] = [
            ("hide", Lens::Hide),
            ("octal", Lens::Octal),
            ("oct", Lens::Octal),
            ("bitvec", Lens::Bitvec),
            ("hex", Lens::Hex),
            ("bool", Lens::Bool),
            ("guess", Lens::Guess),
        ];
        let found = LENSES.iter().find(|(word, _)| self.cursor.keyword(word));
        let ty = match found {
            None => match self.vm_word()? {
                Some(ty) => ty,
                None => return self.pointed(place),
            },
            Some((_, lens)) => {
                if self.cursor.take('(') {
                    let of = self.plain()?;
                    self.cursor.expect(')', "`)`")?;
                    of.through(lens.clone())
                } else if *lens == Lens::Octal {
                    // As in files from before 0.7: a bare `octal` is an int.
                    Type::new(Kind::Int).through(Lens::Octal)
                } else {
                    return self.fail(Problem::Expected("`(` and a type after the lens"));
                }
            }
        };
        Ok(Read::Type(self.stars(ty)))
    }

    /// Reads a word of a language VM: `ruby(value)`.
    fn vm_word(&mut self) -> Result<Option<Type>> {
        let language = Language::ALL
            .iter()
            .map(|language| language.description().prefix);
        let Some(language) = { language }.find(|language| {
            let mut ahead = Cursor::new(self.cursor.rest());
            ahead.keyword(language) && ahead.take('(')
        }) else {
            return Ok(None);
        };
        self.cursor.keyword(language);
        self.cursor.take('(');
        self.cursor.space();
        let name = self.cursor.name()?;
        let known = Word::ALL
            .iter()
            .find(|word| word.language().description().prefix == language && word.name() == name);
        let Some(word) = known else {
            return self.fail(Problem::UnknownWord(format!("{language}({name})")));
        };
        self.cursor.expect(')', "`)`")?;
        Ok(Some(Type::vm(*word)))
    }

    fn stars(&mut self, mut ty: Type) -> Type {
        while self.cursor.take('*') {
            ty = ty.pointer();
        }
        ty
    }

    fn pointed(&mut self, place: Location) -> Result<Read> {
        Ok(match self.unpointed(place)? {
            Read::Type(ty) => Read::Type(self.stars(ty)),
            other => other,
        })
    }

    fn unpointed(&mut self, place: Location) -> Result<Read> {
        const WORDS: [(&str, Kind); 11] = [
            ("void", Kind::Void),
            ("int", Kind::Int),
            ("uint", Kind::UInt),
            ("long", Kind::Long),
            ("ulong", Kind::ULong),
            ("char", Kind::Char),
            ("short", Kind::Short),
            ("ushort", Kind::UShort),
            ("float", Kind::Float),
            ("double", Kind::Double),
            // A misspelling in a file that was shipped for years.
            ("itn", Kind::Int),
        ];
        let word = WORDS.iter().find(|(word, _)| self.cursor.keyword(word));
        if let Some((_, kind)) = word {
            return Ok(Read::Type(Type::new(kind.clone())));
        }
        if self.cursor.keyword("array") {
            return self.array().map(Read::Type);
        }
        if self.cursor.keyword("struct") {
            self.cursor.space();
            if place == Location::Typedef && matches!(self.cursor.peek(), b';' | 0) {
                return Ok(Read::Announced);
            }
            return self.structure().map(Read::Type);
        }
        if self.cursor.numbered("string") {
            let at = self.cursor.at();
            let length = match self.cursor.number()? {
                0 => Expr::Returned,
                number => Expr::Argument(self.index(at, number)?),
            };
            return Ok(Read::Type(Type::string(
                Kind::Char,
                Expr::Zero(Some(Box::new(length))),
            )));
        }
        if self.cursor.keyword("string") {
            return self.string().map(Read::Type);
        }
        if place == Location::Argument && self.cursor.keyword("format") {
            return self.string().map(Read::Format);
        }
        if place == Location::Argument && self.cursor.keyword("both") {
            self.cursor.expect('(', "`(` and a type after both")?;
            let of = self.plain()?;
            self.cursor.expect(')', "`)`")?;
            return Ok(Read::Both(of));
        }
        if self.cursor.keyword("enum") {
            return self.enumeration(Lens::Enum).map(Read::Type);
        }
        if self.cursor.keyword("flags") {
            return self.enumeration(Lens::Flags).map(Read::Type);
        }
        let at = self.cursor.at();
        let name = self.cursor.name()?;
        match self.library.ty(name) {
            Some(ty) => Ok(Read::Type(ty)),
            None if name == "format" => Err((at, Problem::FormatElsewhere)),
            None => Err((at, Problem::UnknownType(name.to_owned()))),
        }
    }

    fn array(&mut self) -> Result<Type> {
        self.cursor.expect('(', "`(` after array")?;
        let element = self.plain()?;
        self.cursor.expect(',', "`,` and the array's length")?;
        let length = self.expression()?;
        self.cursor.expect(')', "`)`")?;
        Ok(Type::new(Kind::Array(Arc::new(Array { element, length }))))
    }

    fn structure(&mut self) -> Result<Type> {
        if self.cursor.peek() == b';' {
            return self.fail(Problem::Announced);
        }
        self.cursor.expect('(', "`(` after struct")?;
        let (mut fields, mut names) = (Vec::new(), Vec::<Box<str>>::new());
        while !self.cursor.take(')') {
            if !fields.is_empty() {
                self.cursor.expect(',', "`,` or `)`")?;
            }
            fields.push(self.plain()?);
            self.cursor.space();
            let name = match self.cursor.peek() {
                b',' | b')' => "",
                _ => self.cursor.name()?,
            };
            names.push(Box::from(name));
        }
        if names.iter().all(|name| name.is_empty()) {
            names.clear();
        }
        let of = Struct::named(fields, names);
        Ok(Type::new(Kind::Struct(Arc::new(of))))
    }

    /// Reads what follows `string` or `format`.
    fn string(&mut self) -> Result<Type> {
        if self.cursor.take('[') {
            let length = match self.expression()? {
                zero @ Expr::Zero(_) => zero,
                most => Expr::Zero(Some(Box::new(most))),
            };
            self.cursor.expect(']', "`]`")?;
            return Ok(Type::string(Kind::Char, length));
        }
        if !self.cursor.take('(') {
            return Ok(Type::string(Kind::Char, Expr::Zero(None)));
        }
        let of = self.plain()?;
        let has_characters = match &of.kind {
            Kind::Pointer(to) => to.is_integer() || matches!(to.kind, Kind::Array(_)),
            // A lens on a single number makes it a wide character.
            _ => of.is_integer() || matches!(of.kind, Kind::Array(_)),
        };
        if !has_characters {
            return self.fail(Problem::StringOf);
        }
        self.cursor.expect(')', "`)`")?;
        Ok(of.through(Lens::String))
    }

    fn enumeration(&mut self, lens: fn(Words) -> Lens) -> Result<Type> {
        let mut of = Type::new(Kind::Int);
        if self.cursor.take('[') {
            of = self.plain()?;
            if !of.is_integer() {
                return self.fail(Problem::EnumOf);
            }
            self.cursor.expect(']', "`]`")?;
        }
        self.cursor.expect('(', "`(` and the enum's names")?;
        let mut names: Vec<(Box<str>, i64)> = Vec::new();
        let mut value = 0_i64;
        while !self.cursor.take(')') {
            if !names.is_empty() {
                self.cursor.expect(',', "`,` or `)`")?;
                self.cursor.space();
            }
            let name = self.cursor.name()?;
            if self.cursor.take('=') {
                self.cursor.space();
                value = self.cursor.number()?;
            }
            names.push((name.into(), value));
            value = value.wrapping_add(1);
        }
        Ok(of.through(lens(names.into())))
    }

    /// Returns the N of `argN` as an index from 0.
    fn index(&self, at: usize, number: i64) -> Result<u16> {
        let index = number
            .checked_sub(1)
            .and_then(|index| u16::try_from(index).ok());
        index.ok_or((at, Problem::Range))
    }

    fn expression(&mut self) -> Result<Expr> {
        self.cursor.space();
        let at = self.cursor.at();
        if self.cursor.peek().is_ascii_digit() {
            let number = self.cursor.number()?;
            let number = u32::try_from(number)
                .ok()
                .filter(|number| *number <= i32::MAX as u32);
            return number.map(Expr::Number).ok_or((at, Problem::Range));
        }
        for (word, argument) in [("arg", true), ("elt", false)] {
            if !self.cursor.numbered(word) {
                continue;
            }
            let number = self.cursor.number()?;
            return Ok(match (argument, number) {
                (true, 0) => Expr::Returned,
                (true, _) => Expr::Argument(self.index(at, number)?),
                (false, _) => Expr::Member(self.index(at, number)?),
            });
        }
        if self.cursor.numbered("command") {
            let number = self.cursor.number()?;
            return Ok(Expr::Command(self.index(at, number)?));
        }
        if self.cursor.keyword("retval") {
            return Ok(Expr::Returned);
        }
        if self.cursor.keyword("zero") {
            if !self.cursor.take('(') {
                return Ok(Expr::Zero(None));
            }
            let inner = self.cursor.at();
            let most = self.expression()?;
            if matches!(most, Expr::Zero(_)) {
                return Err((inner, Problem::Expected("a number, argN, eltN or retval")));
            }
            self.cursor.expect(')', "`)`")?;
            return Ok(Expr::Zero(Some(Box::new(most))));
        }
        let name = self.cursor.name().unwrap_or_default();
        Err((at, Problem::UnknownLength(name.to_owned())))
    }
}
