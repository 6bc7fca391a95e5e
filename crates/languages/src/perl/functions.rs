//! Finds C functions by Perl's names for them: XSUBs, `DBD::mysql::db::_login`. Used by `perl`.

use crate::functions::glob::{matches, may_begin};
use crate::functions::{Calling, Look, Named, Names, Shown};
use process::functions::Functions;
use process::memory::GuestMemory;
use process::pages::Pages;
use std::ops::ControlFlow;
use vm::Word;
use vm::perl::{Error, Facts, Interpreter, Perl, Sub, Text, Xsub};
use vm::reader::{FactWords, few};

/// How many packages deep a pattern is looked for.
const DEEPEST: usize = 12;

/// The functions of a process with these facts.
pub fn open(facts: &FactWords) -> Box<dyn Names> {
    Box::new(Packages(Facts::from_words(few(facts))))
}

struct Packages(Facts);

impl Names for Packages {
    fn look(&self, memory: &Pages, name: &str) -> Look {
        look(memory, self.0, name)
    }

    fn near(&self, memory: &Pages, name: &str) -> Vec<String> {
        near(memory, self.0, name)
    }

    fn collector(&self, _: &GuestMemory, _: &Functions) -> Result<(u64, Calling), String> {
        Err(
            "Perl has no garbage collection: it counts references, and frees what nothing refers to at once".into(),
        )
    }
}

fn look(memory: &Pages, facts: Facts, name: &str) -> Look {
    let perl = match Perl::new(memory, facts) {
        Ok(perl) => perl,
        Err(why) => return Look::Never(why.to_string()),
    };
    let interpreter = perl.main_interpreter();
    match perl.xsub(&interpreter, name) {
        Ok(xsub) => Look::Found(vec![named(name.to_owned(), xsub)]),
        Err(_) if name.contains('*') => Look::Found(all(&perl, &interpreter, name)),
        Err(Error::WrittenInPerl) => Look::Never(
            "it is written in Perl; only subs written in C (XSUBs) can be hooked".into(),
        ),
        Err(why) => Look::NotYet(why.to_string()),
    }
}

fn named(name: String, xsub: Xsub) -> Named {
    Named {
        name,
        address: xsub.address,
        identity: xsub.code,
        calling: Calling::by_script(
            Shown::Word(Word::PerlResult),
            vec![Shown::Word(Word::PerlArguments)],
        ),
    }
}

fn text(perl: &Perl<'_, Pages>, text: Text) -> String {
    let mut name = String::new();
    let _ = perl.write_text(text, 4096, &mut name);
    name
}

fn subs(perl: &Perl<'_, Pages>, interpreter: &Interpreter, package: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let _ = perl.each_sub(interpreter, package, &mut |name, sub| {
        if let Sub::C(xsub) = sub {
            let name = text(perl, name);
            let name = match package {
                "" => name,
                package => format!("{package}::{name}"),
            };
            found.push(named(name, xsub));
        }
        ControlFlow::Continue(())
    });
    found
}

fn packages(perl: &Perl<'_, Pages>, interpreter: &Interpreter, package: &str) -> Vec<String> {
    let mut found = Vec::new();
    let _ = perl.each_package(interpreter, package, &mut |name| {
        let name = text(perl, name);
        match package {
            // `main` is in itself.
            "" if name == "main" => {}
            "" => found.push(name),
            package => found.push(format!("{package}::{name}")),
        }
        ControlFlow::Continue(())
    });
    found
}

/// Finds the XSUBs whose names match a pattern.
fn all(perl: &Perl<'_, Pages>, interpreter: &Interpreter, pattern: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut left = vec![(String::new(), 0)];
    while let Some((package, depth)) = left.pop() {
        let subs = subs(perl, interpreter, &package).into_iter();
        found.extend(subs.filter(|sub| matches(pattern, &sub.name, false)));
        if depth < DEEPEST {
            let inner = packages(perl, interpreter, &package).into_iter();
            let inner = inner.filter(|inner| may_begin(pattern, inner));
            left.extend(inner.map(|inner| (inner, depth + 1)));
        }
    }
    found
}

/// Names of XSUBs near a name: in its package, or packages beside that.
fn near(memory: &Pages, facts: Facts, name: &str) -> Vec<String> {
    let Ok(perl) = Perl::new(memory, facts) else {
        return Vec::new();
    };
    let interpreter = perl.main_interpreter();
    let (package, sub) = name.rsplit_once("::").unwrap_or(("", name));
    let found = subs(&perl, &interpreter, package);
    if !found.is_empty() {
        return found.into_iter().map(|sub| sub.name).collect();
    }
    let (parent, _) = package.rsplit_once("::").unwrap_or(("", ""));
    let beside = packages(&perl, &interpreter, parent).into_iter();
    beside.map(|package| format!("{package}::{sub}")).collect()
}
