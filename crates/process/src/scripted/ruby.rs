//! Ruby: `Mysql2::Client#query`, `Process.clock_gettime`, `sleep`.

use super::glob::{matches, may_begin};
use super::pages::Pages;
use super::{Calling, Look, Named};
use std::collections::HashSet;
use std::ops::ControlFlow;
use vm::ruby::{Error, Facts, Function, Ruby, Text};

/// Modules within modules; more than that is looked at in no program.
const DEEPEST: usize = 12;
const MOST_MODULES: usize = 1 << 16;

pub fn look(memory: &Pages, facts: Facts, name: &str) -> Look {
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
        calling: Calling::Ruby {
            convention: function.convention,
            itself,
        },
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

/// What a pattern names.
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
pub fn near(memory: &Pages, facts: Facts, name: &str) -> Vec<String> {
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
