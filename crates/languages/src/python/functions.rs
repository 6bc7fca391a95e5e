//! Finds C functions by Python's names for them: `time.sleep`, `_mysql.connection.query`, `len`. Used by `python`.

use crate::functions::collection::{by_symbol, exporter, only, semaphore};
use crate::functions::glob::matches;
use crate::functions::{Calling, Look, Named, Names, Shown};
use process::functions::{Functions, ModuleSymbols};
use process::memory::GuestMemory;
use process::pages::Pages;
use std::ops::ControlFlow;
use trampoline::code_references;
use vm::python::{Convention, Error, Facts, Function, Python, Text};
use vm::reader::{FactWords, few};
use vm::{Language, Word};

/// The functions of a process with these facts.
pub fn open(facts: &FactWords) -> Box<dyn Names> {
    Box::new(Modules(Facts::from_words(few(facts))))
}

struct Modules(Facts);

impl Names for Modules {
    fn look(&self, memory: &Pages, name: &str) -> Look {
        look(memory, self.0, name)
    }

    fn near(&self, memory: &Pages, name: &str) -> Vec<String> {
        near(memory, self.0, name)
    }

    /// `gc_collect_main(tstate, generation, …)`: it alone tests the semaphore of the probe `python:gc__start`. It
    /// returns how many objects were collected or could not be.
    fn collector(
        &self,
        memory: &GuestMemory,
        functions: &Functions,
    ) -> Result<(u64, Calling), String> {
        let (place, _) =
            exporter(functions, "_PyRuntime").ok_or("this Python does not export _PyRuntime")?;
        let of = |other: &ModuleSymbols| other.module.bias == place.module.bias;
        let by_probe = || {
            let semaphore = semaphore(memory, place, "python", "gc__start")?;
            only(memory, place, |code, at| {
                code_references::tests(code, at, semaphore)
            })
        };
        let symbols = Language::Python.description().collectors;
        let found = by_probe().or_else(|| by_symbol(functions, symbols, of));
        let found = found.ok_or("the function that collects was not found: this Python has neither the probe python:gc__start nor a symbol for it")?;
        let parameters = vec![Shown::Hidden, Shown::Int];
        Ok((found, Calling::collection(Shown::Long, parameters)))
    }
}

/// How the calls of a function are shown.
fn calling(convention: Convention) -> Calling {
    let arguments = match convention {
        Convention::None | Convention::Slot => None,
        Convention::One => Some(Word::PythonObject),
        Convention::Tuple => Some(Word::PythonTuple),
        Convention::TupleKeywords => Some(Word::PythonKeywords),
        Convention::Fast => Some(Word::PythonFast),
        Convention::FastKeywords => Some(Word::PythonFastKeywords),
        Convention::Method => Some(Word::PythonMethod),
    };
    let returns = match convention {
        // What a slot returns its place in the type says: an object, a number, nothing.
        Convention::Slot => Shown::Guess,
        _ => Shown::Word(Word::PythonObject),
    };
    let parameters = std::iter::once(Word::PythonSelf).chain(arguments);
    Calling::by_script(returns, parameters.map(Shown::Word).collect())
}

fn look(memory: &Pages, facts: Facts, name: &str) -> Look {
    let python = match Python::new(memory, facts) {
        Ok(python) => python,
        Err(why) => return Look::Never(why.to_string()),
    };
    match python.function(name) {
        Ok(function) => Look::Found(vec![named(name.to_owned(), function)]),
        Err(_) if name.contains('*') => Look::Found(all(&python, name)),
        Err(Error::WrittenInPython { code }) => {
            let file = || Some(format!(" in {}", text(&python, python.file(code).ok()?)));
            let file = file().unwrap_or_default();
            Look::Never(format!(
                "it is written in Python{file}; only functions written in C can be hooked"
            ))
        }
        Err(why @ (Error::NotAFunction { .. } | Error::Ambiguous)) => Look::Never(why.to_string()),
        Err(why) => Look::NotYet(why.to_string()),
    }
}

fn named(name: String, function: Function) -> Named {
    Named {
        name,
        address: function.address,
        identity: 0,
        calling: calling(function.convention),
    }
}

fn text(python: &Python<'_, Pages>, text: Text) -> String {
    let mut name = String::new();
    let _ = python.write_text(text, 4096, &mut name);
    name
}

/// The attributes of a module or class.
fn attributes(python: &Python<'_, Pages>, object: u64) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let _ = python.each_attribute(object, &mut |name, value| {
        found.push((text(python, name), value));
        ControlFlow::Continue(())
    });
    found
}

/// Functions in C of a module or class, and of the classes in it.
fn functions(python: &Python<'_, Pages>, path: &str, object: u64, deeper: bool) -> Vec<Named> {
    let mut found = Vec::new();
    for (name, value) in attributes(python, object) {
        let path = format!("{path}.{name}");
        if let Ok(function) = python.function_at(value) {
            found.push(named(path, function));
        } else if deeper && python.is_class(value).unwrap_or(false) {
            found.extend(functions(python, &path, value, false));
        }
    }
    found
}

/// What a pattern names; modules by their whole name or by the last part of it, as one by one.
fn all(python: &Python<'_, Pages>, pattern: &str) -> Vec<Named> {
    let mut modules = Vec::new();
    let _ = python.each_module(&mut |name, module| {
        modules.push((text(python, name), module));
        ControlFlow::Continue(())
    });
    let mut found = Vec::new();
    for (name, module) in modules {
        let last = name.rsplit('.').next().unwrap_or(&name).to_owned();
        for mut one in functions(python, &name, module, true) {
            let short = format!("{last}{}", &one.name[name.len()..]);
            let plain = one.name.strip_prefix("builtins.").map(str::to_owned);
            let names = [Some(one.name.clone()), Some(short), plain];
            let named = names.into_iter().flatten();
            if let Some(name) = { named }.find(|name| matches(pattern, name, false)) {
                one.name = name;
                found.push(one);
            }
        }
    }
    found
}

/// Names of C functions near a name: in the module or class that is named, or modules beside it.
fn near(memory: &Pages, facts: Facts, name: &str) -> Vec<String> {
    let Ok(python) = Python::new(memory, facts) else {
        return Vec::new();
    };
    let known = |path: &str| {
        let object = python.lookup(path).ok()?;
        let found = functions(&python, path, object, true);
        let names: Vec<String> = found.into_iter().map(|one| one.name).collect();
        (!names.is_empty()).then_some(names)
    };
    let parents = std::iter::successors(Some(name), |path| Some(path.rsplit_once('.')?.0));
    if let Some(names) = { parents }.find_map(known) {
        return names;
    }
    let first = name.split('.').next().unwrap_or(name);
    let mut names = Vec::new();
    if python.lookup(first).is_ok() {
        return names;
    }
    let rest = name.find('.').map_or("", |dot| &name[dot..]);
    let _ = python.each_module(&mut |module, _| {
        names.push(text(&python, module) + rest);
        ControlFlow::Continue(())
    });
    names
}
