//! PHP: `mysqli_query`, `PDO::query`. Upper and lower case are the same. Used by `php`.

use crate::functions::collection::by_symbol;
use crate::functions::glob::matches;
use crate::functions::{Calling, Look, Named, Names, Shown};
use process::functions::Functions;
use process::memory::GuestMemory;
use process::pages::Pages;
use std::ops::ControlFlow;
use vm::php::{Error, Facts, Function, Internal, Php, Text};
use vm::reader::{FactWords, few};
use vm::{Language, Word};

/// The functions of a process with these facts.
pub fn open(facts: &FactWords) -> Box<dyn Names> {
    Box::new(Internals(Facts::from_words(few(facts))))
}

struct Internals(Facts);

/// A function that every PHP has.
const ALWAYS: &str = "strlen";
/// What loads an extension later; a php-fpm has it not.
const LOADS: &str = "dl";

impl Names for Internals {
    fn look(&self, memory: &Pages, name: &str) -> Look {
        look(memory, self.0, name)
    }

    fn near(&self, memory: &Pages, name: &str) -> Vec<String> {
        near(memory, self.0, name)
    }

    /// `zend_gc_collect_cycles()`, which returns how many were freed.
    fn collector(&self, _: &GuestMemory, functions: &Functions) -> Result<(u64, Calling), String> {
        let symbols = Language::Php.description().collectors;
        let found = by_symbol(functions, symbols, |_| true);
        let found = found.ok_or("this PHP does not export zend_gc_collect_cycles")?;
        Ok((found, Calling::collection(Shown::Int, Vec::new())))
    }
}

fn look(memory: &Pages, facts: Facts, name: &str) -> Look {
    let php = match Php::new(memory, facts) {
        Ok(php) => php,
        Err(why) => return Look::Never(why.to_string()),
    };
    match php.internal(name) {
        Ok(internal) => {
            let found = named(&php, internal).map(|found| match found.name {
                // A class has what it inherits under its own name.
                ref declared if !declared.eq_ignore_ascii_case(name) => Named {
                    name: name.to_owned(),
                    ..found
                },
                _ => found,
            });
            Look::Found(found.into_iter().collect())
        }
        Err(_) if name.contains('*') => Look::Found(all(&php, name)),
        Err(Error::WrittenInPhp) => {
            Look::Never("it is written in PHP; only functions written in C can be hooked".into())
        }
        // It has all functions of its extensions before it runs the first script, but where `dl` loads more.
        Err(why) if php.internal(ALWAYS).is_ok() && php.internal(LOADS).is_err() => {
            Look::Never(format!(
                "{why}; what a script defines later is written in PHP, and only functions written in C can be hooked"
            ))
        }
        // An address that cannot be read says nothing to the user.
        Err(Error::Memory(_)) => Look::NotYet("its tables of functions cannot be read yet".into()),
        Err(why) => Look::NotYet(why.to_string()),
    }
}

/// With its name as it was declared.
fn named(php: &Php<'_, Pages>, internal: Internal) -> Option<Named> {
    let mut name = String::new();
    php.write_function_name(internal.function, &mut name).ok()?;
    Some(Named {
        name,
        address: internal.handler,
        identity: php.identity(internal.function).ok()?,
        calling: Calling::by_script(
            Shown::Word(Word::PhpResult),
            vec![Shown::Word(Word::PhpArguments)],
        ),
    })
}

fn text(php: &Php<'_, Pages>, text: Text) -> String {
    let mut name = String::new();
    let _ = php.write_text(text, 4096, &mut name);
    name
}

fn functions(php: &Php<'_, Pages>, class: Option<&str>) -> Vec<Named> {
    let mut found = Vec::new();
    let _ = php.each_function(class, &mut |_, function| {
        if let Function::C(internal) = function {
            found.extend(named(php, internal));
        }
        ControlFlow::Continue(())
    });
    found
}

fn classes(php: &Php<'_, Pages>) -> Vec<String> {
    let mut found = Vec::new();
    let _ = php.each_class(&mut |name| {
        found.push(text(php, name));
        ControlFlow::Continue(())
    });
    found
}

/// What a pattern names: methods if it has a `::`, else functions.
fn all(php: &Php<'_, Pages>, pattern: &str) -> Vec<Named> {
    let found = match pattern.split_once("::") {
        None => functions(php, None),
        Some((of, _)) => {
            let classes = classes(php).into_iter();
            let classes = classes.filter(|class| matches(of, class, true));
            classes
                .flat_map(|class| functions(php, Some(&class)))
                .collect()
        }
    };
    let found = found.into_iter();
    found
        .filter(|one| matches(pattern, &one.name, true))
        .collect()
}

/// Names of C functions near a name.
fn near(memory: &Pages, facts: Facts, name: &str) -> Vec<String> {
    let Ok(php) = Php::new(memory, facts) else {
        return Vec::new();
    };
    let Some((class, method)) = name.split_once("::") else {
        return functions(&php, None)
            .into_iter()
            .map(|one| one.name)
            .collect();
    };
    let found = functions(&php, Some(class));
    if !found.is_empty() {
        return found.into_iter().map(|one| one.name).collect();
    }
    let classes = classes(&php).into_iter();
    classes.map(|class| format!("{class}::{method}")).collect()
}
