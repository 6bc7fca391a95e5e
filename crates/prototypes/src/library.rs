//! A file's prototypes and type names, with those of the files it imports. Used by `bundle`, `lines` and others here,
//! and by crate `calls`.
//!
//! ltrace searches for a library's file by its SONAME and cuts off one period after another: `libc.so.6.conf`, then
//! `libc.so.conf`. The names `addr` and `file` come from its history and are always there.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::error::Problem;
use crate::types::{Kind, Lens, Prototype, Struct, Type};

/// The prototypes and type names of a file.
#[derive(Debug, Default)]
pub struct Library {
    types: BTreeMap<Arc<str>, Type>,
    /// Names of types in the order of definition, to print each before its use.
    order: Vec<Arc<str>>,
    prototypes: BTreeMap<Box<str>, Prototype>,
    imports: Vec<(Box<str>, Arc<Library>)>,
}

/// Returns the type of a name that needs no definition. A file may define it anew.
fn predeclared(name: &str) -> Option<Type> {
    Some(match name {
        "addr" | "file" => Type::address(),
        // Types that ltrace does not have.
        "pathname" => Type::path(),
        "ldouble" => Type::new(Kind::LongDouble),
        "ldouble_complex" => Type::new(Kind::ComplexLongDouble),
        _ => return None,
    })
}

/// Returns whether a file defines a type of the same name only because ltrace has no such type: it has no `long
/// double`, and its own files (`libc.so-types.conf`) say `double` instead, which is passed elsewhere.
fn stands_in(name: &str, ty: &Type) -> bool {
    match (name, &ty.kind) {
        ("ldouble", Kind::Double) => ty.lens.is_none(),
        ("ldouble_complex", Kind::Struct(of)) => {
            let long = |ty: &Type| matches!(ty.kind, Kind::LongDouble);
            of.is_complete() && of.fields().len() == 2 && of.fields().iter().all(long)
        }
        _ => false,
    }
}

impl Library {
    /// Returns the prototype of a function, here or in what is imported.
    #[must_use]
    pub fn prototype(&self, function: &str) -> Option<&Prototype> {
        let imported = || {
            self.imports
                .iter()
                .find_map(|(_, of)| of.prototype(function))
        };
        self.prototypes.get(function).or_else(imported)
    }

    /// Returns its own functions by name.
    pub fn prototypes(&self) -> impl Iterator<Item = (&str, &Prototype)> {
        self.prototypes
            .iter()
            .map(|(name, prototype)| (&**name, prototype))
    }

    /// Returns a named type.
    #[must_use]
    pub fn ty(&self, name: &str) -> Option<Type> {
        self.defined(name).or_else(|| predeclared(name))
    }

    /// Returns a named type, without those that every file knows.
    pub(crate) fn defined(&self, name: &str) -> Option<Type> {
        if let Some((name, ty)) = self.types.get_key_value(name) {
            let mut ty = ty.clone();
            ty.alias = Some(name.clone());
            return Some(ty);
        }
        self.imports.iter().find_map(|(_, of)| of.defined(name))
    }

    /// Makes a library of one function with the types that its prototype names: a file that needs no other.
    #[must_use]
    pub fn of(function: &str, prototype: Prototype) -> Self {
        let mut library = Self::default();
        let mut seen = Vec::new();
        library.gather(&prototype.returns, &mut seen);
        for parameter in &prototype.parameters {
            library.gather(&parameter.ty, &mut seen);
        }
        library.add(function, prototype);
        library
    }

    /// Adds the names that a type is written with, each before those that are made of it. `seen` are structs that may
    /// hold themselves.
    fn gather(&mut self, ty: &Type, seen: &mut Vec<Arc<Struct>>) {
        match &ty.kind {
            Kind::Pointer(to) => self.gather(to, seen),
            Kind::Array(array) => self.gather(&array.element, seen),
            Kind::Struct(of) => {
                if let Some(name) = &of.name {
                    if seen.iter().any(|known| Arc::ptr_eq(known, of)) {
                        return;
                    }
                    seen.push(of.clone());
                    self.insert(name.clone(), Type::new(ty.kind.clone()));
                }
                for field in of.fields() {
                    self.gather(field, seen);
                }
            }
            _ => {}
        }
        if let Some(name) = &ty.alias
            && !self.types.contains_key(name)
        {
            self.insert(name.clone(), ty.clone());
        }
    }

    /// Makes another library's names known in this one.
    pub fn import(&mut self, name: &str, library: Arc<Library>) {
        self.imports.push((name.into(), library));
    }

    /// Adds a prototype; a later one replaces an earlier one.
    pub fn add(&mut self, function: &str, prototype: Prototype) {
        self.prototypes.insert(function.into(), prototype);
    }

    /// Adds `typedef NAME = struct;`.
    pub(crate) fn announce(&mut self, name: &str) -> Result<(), Problem> {
        if self.defined(name).is_some() {
            return Err(Problem::Redefined(name.to_owned()));
        }
        let name: Arc<str> = name.into();
        let announced = Struct::announced(name.clone());
        self.insert(name, Type::new(Kind::Struct(Arc::new(announced))));
        Ok(())
    }

    /// Adds `typedef NAME = TYPE;`.
    pub(crate) fn define(&mut self, name: &str, ty: Type) -> Result<(), Problem> {
        if stands_in(name, &ty) {
            return Ok(());
        }
        let Some(before) = self.defined(name) else {
            self.insert(name.into(), ty);
            return Ok(());
        };
        let Kind::Struct(announced) = &before.kind else {
            return Err(Problem::Redefined(name.to_owned()));
        };
        if announced.name.as_deref() != Some(name) || announced.is_complete() {
            return Err(Problem::Redefined(name.to_owned()));
        }
        let Kind::Struct(defined) = &ty.kind else {
            return Err(Problem::NotAStruct(name.to_owned()));
        };
        let set = announced.fields.set(defined.fields().to_vec());
        debug_assert!(set.is_ok(), "it was looked at above");
        if let Some(lens) = ty.lens {
            self.types.insert(name.into(), before.through(lens));
        }
        Ok(())
    }

    fn insert(&mut self, name: Arc<str>, mut ty: Type) {
        ty.alias = None;
        self.order.push(name.clone());
        self.types.insert(name, ty);
    }
}

/// Writes a file with the same contents.
impl fmt::Display for Library {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = |name: &Arc<str>| match &self.types[name].kind {
            Kind::Struct(found) if found.name.as_ref() == Some(name) => Some(found.clone()),
            _ => None,
        };
        for (name, _) in &self.imports {
            writeln!(out, "import \"{name}\";")?;
        }
        for name in &self.order {
            let ty = &self.types[name];
            match own(name) {
                Some(_) => writeln!(out, "typedef {name} = struct;")?,
                None => writeln!(out, "typedef {name} = {ty};")?,
            }
        }
        for name in &self.order {
            if let Some(found) = own(name).filter(|found| found.is_complete()) {
                let body = Type::new(Kind::Struct(Arc::new(Struct::new(found.fields().to_vec()))));
                let body = match &self.types[name].lens {
                    None => body,
                    // The grammar has no such definition; the lens is lost.
                    Some(
                        Lens::Enum(_) | Lens::Flags(_) | Lens::Vm(_) | Lens::String | Lens::Path,
                    ) => body,
                    Some(lens) => body.through(lens.clone()),
                };
                writeln!(out, "typedef {name} = {body};")?;
            }
        }
        for (name, prototype) in &self.prototypes {
            writeln!(out, "{};", prototype.named(name))?;
        }
        Ok(())
    }
}
