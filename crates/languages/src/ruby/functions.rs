//! Ruby: `Mysql2::Client#query`, `Process.clock_gettime`, `sleep`. Used by `ruby`.

use crate::functions::collection::{by_symbol, exporter, only};
use crate::functions::glob::{matches, may_begin};
use crate::functions::{Calling, Look, Named, Names, Shown};
use process::functions::{Functions, ModuleSymbols};
use process::memory::GuestMemory;
use process::pages::Pages;
use std::collections::HashSet;
use std::ops::ControlFlow;
use trampoline::code_references;
use vm::reader::{FactWords, few};
use vm::ruby::{Convention, Error, Facts, Function, Ruby, Text};
use vm::{Language, Word};

/// Modules within modules; more than that is looked at in no program.
const DEEPEST: usize = 12;
/// Bytes of `rb_gc_count` that are looked at.
const GETTER: usize = 64;
const MOST_MODULES: usize = 1 << 16;

/// The functions of a process with these facts.
pub fn open(facts: &FactWords) -> Box<dyn Names> {
    Box::new(Methods(Facts::from_words(few(facts))))
}

struct Methods(Facts);

impl Names for Methods {
    fn look(&self, memory: &Pages, name: &str) -> Look {
        look(memory, self.0, name)
    }

    fn near(&self, memory: &Pages, name: &str) -> Vec<String> {
        near(memory, self.0, name)
    }

    /// `gc_start(objspace, reason)`. `rb_gc_count` loads a member of the object space, and this function alone adds one
    /// to it.
    fn collector(
        &self,
        memory: &GuestMemory,
        functions: &Functions,
    ) -> Result<(u64, Calling), String> {
        let (place, getter) =
            exporter(functions, "rb_gc_count").ok_or("this Ruby does not export rb_gc_count")?;
        let mut code = [0; GETTER];
        let read = memory.read_bytes(getter, &mut code);
        let count = read.ok().and_then(|()| code_references::getter(&code));
        let count = count
            .ok_or("where this Ruby counts its collections could not be read from rb_gc_count")?;
        let of = |other: &ModuleSymbols| other.module.bias == place.module.bias;
        let symbols = Language::Ruby.description().collectors;
        let found = by_symbol(functions, symbols, of).or_else(|| {
            only(memory, place, |code, at| {
                code_references::increments(code, at, count)
            })
        });
        let found = found.ok_or("the function that collects was not found: no symbol gc_start, and not one place alone counts")?;
        let returns = Shown::Word(Word::RubyCollections);
        let parameters = vec![Shown::Hidden, Shown::Word(Word::RubyReason)];
        let calling = Calling {
            collections_at: Some(count),
            ..Calling::collection(returns, parameters)
        };
        Ok((found, calling))
    }
}

/// How the calls of a method are shown; `itself` = it is the receiver's own (`Module.method`), which its name says.
fn calling(convention: Convention, itself: bool) -> Calling {
    let receiver = if itself {
        Shown::Hidden
    } else {
        Shown::Word(Word::RubySelf)
    };
    let parameters = match convention {
        Convention::Fixed(count) => {
            let values = (0..count).map(|_| Shown::Word(Word::RubyValue));
            std::iter::once(receiver).chain(values).collect()
        }
        Convention::Arguments if itself => vec![Shown::Word(Word::RubyFunction)],
        Convention::Arguments => vec![Shown::Word(Word::RubyMethod)],
        Convention::Array => vec![receiver, Shown::Word(Word::RubySplat)],
    };
    Calling::by_script(Shown::Word(Word::RubyValue), parameters)
}

fn look(memory: &Pages, facts: Facts, name: &str) -> Look {
    let ruby = match Ruby::new(memory, facts) {
        Ok(ruby) => ruby,
        Err(why) => return Look::Never(why.to_string()),
    };
    match ruby.function(name) {
        Ok(function) => {
            let itself = name
                .find(['#', '.'])
                .is_some_and(|at| name[at..].starts_with('.'));
            Look::Found(vec![named(name.to_owned(), function, itself)])
        }
        Err(why) => explain(&ruby, name, why),
    }
}

fn named(name: String, function: Function, itself: bool) -> Named {
    Named {
        name,
        address: function.address,
        identity: 0,
        calling: calling(function.convention, itself),
    }
}

fn explain(ruby: &Ruby<'_, Pages>, name: &str, why: Error) -> Look {
    match why {
        _ if name.contains('*') => Look::Found(all(ruby, name)),
        Error::WrittenInRuby { iseq } => {
            let place = || {
                let path = text(ruby, ruby.path(iseq).ok()?);
                Some(format!(" at {path}:{}", ruby.first_line(iseq).ok()?))
            };
            let place = place().unwrap_or_default();
            Look::Never(format!(
                "it is written in Ruby{place}; only methods written in C can be hooked"
            ))
        }
        Error::NotInC(_) | Error::NoMethodName | Error::NotAModule { .. } | Error::NoSymbols => {
            Look::Never(why.to_string())
        }
        _ => Look::NotYet(why.to_string()),
    }
}

fn text(ruby: &Ruby<'_, Pages>, text: Text) -> String {
    let mut name = String::new();
    let _ = ruby.write_text(text, 4096, &mut name);
    name
}

/// Every method in C of a class (`Class#`) and of the class itself (`Class.`).
fn methods(ruby: &Ruby<'_, Pages>, path: &str, module: u64, into: &mut Vec<Named>) {
    let own = ruby.singleton(module).ok().flatten();
    let both = [(Some(module), '#'), (own, '.')];
    for (class, sign) in both {
        let Some(class) = class else { continue };
        let _ = ruby.each_function(class, &mut |name, function| {
            let name = format!("{path}{sign}{}", text(ruby, name));
            into.push(named(name, function, sign == '.'));
            ControlFlow::Continue(())
        });
    }
}

/// Finds the methods in C whose names match a pattern.
fn all(ruby: &Ruby<'_, Pages>, pattern: &str) -> Vec<Named> {
    let Ok(ruby) = ruby.with_names() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut left = vec![(String::new(), ruby.facts().object(), 0)];
    while let Some((path, module, depth)) = left.pop() {
        if !seen.insert(module) || seen.len() > MOST_MODULES {
            continue;
        }
        let shown = if depth == 0 { "Object" } else { &path };
        let mut here = Vec::new();
        if may_begin(pattern, shown) {
            methods(&ruby, shown, module, &mut here);
        }
        // A class may be known by several names (`Bignum`); its own is better.
        let mut own = String::new();
        let _ = ruby.write_class_name(module, &mut own);
        for mut one in here {
            let named = format!("{own}{}", &one.name[shown.len()..]);
            if own != shown && matches(pattern, &named, false) {
                one.name = named;
            }
            if matches(pattern, &one.name, false) {
                found.push(one);
            }
        }
        if depth == DEEPEST {
            continue;
        }
        let mut modules = Vec::new();
        let _ = ruby.each_constant(module, &mut |name, value| {
            if ruby.is_module(value) {
                modules.push((text(&ruby, name), value));
            }
            ControlFlow::Continue(())
        });
        for (name, value) in modules {
            let path = if depth == 0 {
                name
            } else {
                format!("{path}::{name}")
            };
            if may_begin(pattern, &path) {
                left.push((path, value, depth + 1));
            }
        }
    }
    found
}

/// Names of C functions near a name: of the class that is named, or classes beside it.
fn near(memory: &Pages, facts: Facts, name: &str) -> Vec<String> {
    let Ok(ruby) = Ruby::new(memory, facts)
        .map_err(Error::from)
        .and_then(Ruby::with_names)
    else {
        return Vec::new();
    };
    let end = name.find(['#', '.']).unwrap_or(0);
    let (path, rest) = name.split_at(end);
    let path = if path.is_empty() { "Object" } else { path };
    let mut names = Vec::new();
    if let Ok(module) = ruby.constant(path) {
        let mut found = Vec::new();
        methods(&ruby, path, module, &mut found);
        names.extend(found.into_iter().map(|one| one.name));
        return names;
    }
    let (parent, _) = path.rsplit_once("::").unwrap_or(("", path));
    let module = match parent {
        "" => Ok(facts.object()),
        parent => ruby.constant(parent),
    };
    if let Ok(module) = module {
        let _ = ruby.each_constant(module, &mut |name, value| {
            if ruby.is_module(value) {
                let before = if parent.is_empty() { "" } else { "::" };
                names.push(format!("{parent}{before}{}{rest}", text(&ruby, name)));
            }
            ControlFlow::Continue(())
        });
    }
    names
}
