//! Methods by name against what Ruby and its extensions told the VM when they defined them.
//!
//! `functions.c` is loaded before libruby and notes each `rb_define_method` and its kin: class, name, C
//! function, number of arguments. What is written in Ruby is held against `source_location`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use vm::ruby::{Convention, Error, Facts, Ruby};
use vm::{Fault, Memory};

use crate::guest::{Guest, ProcessMemory, each_version_with, hex};
use crate::process::Symbols;

/// Memory of a process that stands still, read once.
pub struct Still<'a> {
    memory: &'a ProcessMemory,
    pages: RefCell<HashMap<u64, Option<Box<[u8; 4096]>>>>,
}

impl<'a> Still<'a> {
    pub fn new(memory: &'a ProcessMemory) -> Still<'a> {
        Still {
            memory,
            pages: RefCell::default(),
        }
    }
}

impl Memory for Still<'_> {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let mut pages = self.pages.borrow_mut();
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let begin = (at & 0xfff) as usize;
            let (now, later) = rest.split_at_mut(rest.len().min(4096 - begin));
            let page = pages.entry(at & !0xfff).or_insert_with(|| {
                let mut page = Box::new([0; 4096]);
                self.memory.read(at & !0xfff, &mut page[..]).ok()?;
                Some(page)
            });
            let page = page.as_ref().ok_or(Fault { at })?;
            now.copy_from_slice(&page[begin..begin + now.len()]);
            at = at.wrapping_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }
}

/// Compiles `functions.c`; the folder is this test's own.
fn library() -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("definitions.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/functions.c");
    let done = Command::new("gcc")
        .args([
            "-shared",
            "-fPIC",
            "-O1",
            "-nostdlib",
            "-ffreestanding",
            "-o",
        ])
        .arg(&path)
        .arg(source)
        .status()
        .expect("gcc runs (make deps-test installs it)");
    assert!(done.success());
    path
}

/// Class or object, whether of itself, name: the C function and `argc`, or nothing where that is not known.
type Definitions = HashMap<(u64, bool, String), Option<(u64, i32)>>;

fn definitions(guest: &Guest) -> Definitions {
    let at = Symbols::find(guest.pid(), "definitions.so")
        .expect("it is mapped")
        .address("lancet_definitions")
        .expect("exported");
    let still = Still::new(&guest.memory);
    let word = |at| still.u64(at).expect("readable");
    let text = |at| {
        let mut bytes = [0; 64];
        still.read(at, &mut bytes).expect("readable");
        let len = bytes.iter().position(|&byte| byte == 0).expect("an end");
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    let mut all = Definitions::new();
    for record in (0..word(at)).map(|index| at + 8 + index * 160) {
        let [module, function, argc, kind] = [0, 8, 16, 24].map(|field| word(record + field));
        let key = |itself, name| (module, itself, name);
        let name = text(record + 32);
        let made = Some((function, argc as i32));
        match kind {
            1 => drop(all.insert(key(false, name), made)),
            2 => drop(all.insert(key(true, name), made)),
            3 => {
                all.insert(key(false, name.clone()), made);
                all.insert(key(true, name), made);
            }
            // The original may be an ancestor's, or of Ruby.
            4 => {
                let original = all.get(&key(false, text(record + 96))).copied().flatten();
                all.insert(key(false, name), original);
            }
            _ => drop(all.remove(&key(false, name))),
        }
    }
    all
}

fn argc(convention: Convention) -> i32 {
    match convention {
        Convention::Fixed(count) => i32::from(count),
        Convention::Arguments => -1,
        Convention::Array => -2,
    }
}

#[test]
fn functions_are_those_that_were_defined() {
    let script = include_str!("functions.rb");
    each_version_with(Some(&library()), script, |version, guest| {
        let definitions = definitions(guest);
        let still = Still::new(&guest.memory);
        let ruby = Ruby::new(&still, guest.facts).expect("a known version");
        let string = |text: Result<vm::ruby::Text, Error>| {
            let mut out = String::new();
            ruby.write_text(text.expect("a text"), 4096, &mut out)
                .expect("its bytes");
            out
        };
        // What a name of the script's stands for.
        let named: HashMap<&str, u64> = guest
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("module\t")?.split_once('\t'))
            .map(|(address, name)| (name, hex(address)))
            .collect();
        // Without its place known beforehand, the symbol table is looked for.
        let mut words = guest.facts.to_words();
        *words.last_mut().expect("words") = 0;
        let searching = Ruby::new(&still, Facts::from_words(words)).expect("a known version");
        assert_eq!(searching.function("sleep"), ruby.function("sleep"));
        let (mut proven, mut unproven, mut of_ruby, mut others, mut errors) = (0, 0, 0, 0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                ["method", name, class, own, arity, file, number] => {
                    let found = ruby.function(name);
                    if !file.is_empty() {
                        of_ruby += 1;
                        match found {
                            Err(Error::WrittenInRuby { iseq }) => {
                                assert_eq!(string(ruby.path(iseq)), file, "{version}: {line}");
                                let first = ruby.first_line(iseq).expect(line).to_string();
                                assert_eq!(first, number, "{version}: {line}");
                            }
                            Err(Error::NotInC(_)) => others += 1,
                            _ => panic!("ruby {version}: {line}: {found:?}"),
                        }
                        continue;
                    }
                    let function = match found {
                        Ok(function) => function,
                        Err(Error::NotInC(_)) => {
                            others += 1;
                            continue;
                        }
                        Err(why) => panic!("ruby {version}: {line}: {why}"),
                    };
                    let told = argc(function.convention);
                    assert_eq!(told.max(-1).to_string(), arity, "{version}: {line}");
                    let at = name.find(['#', '.']).expect(line);
                    let itself = name[at..].starts_with('.');
                    let method = name[at + 1..].to_owned();
                    // A method of a class itself may have been defined on its singleton class.
                    let key = (named[&name[..at]], itself, method.clone());
                    let of_singleton = (hex(class), false, method);
                    let made = definitions.get(&key).or(definitions.get(&of_singleton));
                    if let Some(&Some(made)) = made {
                        proven += 1;
                        if own == "true" {
                            assert_eq!(function.owner, hex(class), "ruby {version}: {line}");
                        }
                        let found = (function.address, argc(function.convention));
                        assert_eq!(found, made, "ruby {version}: {line}");
                    } else {
                        unproven += 1;
                    }
                }
                ["same", one, other] => {
                    let (one, other) = (ruby.function(one), ruby.function(other));
                    let one = one.unwrap_or_else(|why| panic!("{version}: {line}: {why}"));
                    let other = other.unwrap_or_else(|why| panic!("{version}: {line}: {why}"));
                    let called =
                        |function: vm::ruby::Function| (function.address, function.convention);
                    assert_eq!(called(one), called(other), "ruby {version}: {line}");
                }
                ["error", name, expected] => {
                    errors += 1;
                    let why = ruby.function(name).expect_err(line);
                    assert_eq!(why.to_string(), expected, "ruby {version}: {line}");
                }
                ["none", library] => println!("skipped: ruby {version} has no {library}"),
                ["module", ..] => {}
                _ => panic!("{line}"),
            }
        }
        println!(
            "ruby {version}: {proven} C functions as defined, {unproven} defined otherwise, {of_ruby} in Ruby, \
             {others} in neither, {errors} errors"
        );
        // Ubuntu's libruby calls itself directly (-Bsymbolic-functions), which the oracle cannot see.
        assert!(
            proven > 1000 && of_ruby > 100 && errors > 25,
            "{version}: {proven}, {of_ruby}, {errors}"
        );
    });
}
