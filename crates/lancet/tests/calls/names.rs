//! Functions by the name that a script's language has for them, and values of that language, against what the script
//! itself says.

use crate::lines::shown;
use crate::support::{Interpreter, Snapshot, TempDir, chosen};
use crate::watch::{calls, hooked, left, text_holds};

/// Watches the functions while the script calls them: what it says of each call, and what was told.
fn watched(interpreter: &Interpreter, patterns: &[&str]) -> (Vec<String>, Vec<String>) {
    let folder = TempDir::new(&format!("names-{interpreter}").replace(' ', "-"));
    let out = folder.join("out").display().to_string();
    let mut guest = interpreter.start("names", &[]);
    let before = Snapshot::take(guest.pid);
    let mut arguments = vec!["-ttT", "-o", &out];
    arguments.extend(patterns.iter().flat_map(|pattern| ["-x", pattern]));
    let watch = hooked(calls(guest.pid, &arguments));
    guest.tell("");
    let mut said = Vec::new();
    loop {
        let line = guest.line().expect("it goes on");
        match line.split_once(' ') {
            Some(("say", call)) => said.push(call.to_owned()),
            Some(("answer", count)) => {
                assert_eq!(count, said.len().to_string(), "{interpreter}");
                break;
            }
            _ => panic!("{interpreter}: {line}"),
        }
    }
    let output = left(watch, &interpreter.to_string());
    text_holds(&before, guest.pid, "names", &output);
    guest.tell("");
    guest.ends_with_nothing("names");
    let text = std::fs::read_to_string(&out).expect("what was told");
    let told = shown(&text).into_iter();
    let told = told.map(|call| {
        assert!(call.line.contains("names."), "{interpreter}: {call:?}");
        format!("{}({}) = {}", call.function, call.arguments, call.result)
    });
    (said, told.collect())
}

fn agree(language: &'static str, patterns: &[&str]) {
    for interpreter in chosen(language, "names") {
        let (said, told) = watched(&interpreter, patterns);
        assert_eq!(told, said, "{interpreter}");
    }
}

#[test]
fn methods_of_a_ruby() {
    agree(
        "ruby",
        &[
            "ruby:String#center",
            "ruby:String#tr",
            "ruby:Array#rotate",
            "ruby:Hash#dig",
            "ruby:Array#assoc",
            "ruby:Math.hy*",
            "ruby:Kernel#instance_variable_set",
        ],
    );
}

#[test]
fn functions_of_a_python() {
    agree(
        "python",
        &[
            "python:str.center",
            "python:math.hyp*",
            "python:divmod",
            "python:str.format",
            "python:int.to_bytes",
            "python:int.from_bytes",
            "python:dict.pop",
            "python:list.index",
            "python:list.__reversed__",
        ],
    );
}

#[test]
fn xsubs_of_a_perl() {
    agree(
        "perl",
        &[
            "perl:List::Util::sum",
            "perl:List::Util::uniq",
            "perl:List::Util::min*",
            "perl:Scalar::Util::blessed",
            "perl:Scalar::Util::reftype",
        ],
    );
}

#[test]
fn functions_of_a_php() {
    agree(
        "php",
        &[
            "php:STR_REPEAT",
            "php:intdiv",
            "php:round",
            "php:array_merge",
            "php:ArrayObject::*Flags",
            "php:strrev",
            "php:var_export",
        ],
    );
}
