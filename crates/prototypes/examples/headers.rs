//! C headers as a `.conf` file: the compiler is asked for each function's signature.
//!
//!     cargo run -p lancet-prototypes --example headers -- NAMES.txt HEADER… [-- CFLAGS…]
//!
//! NAMES.txt has one function a line. Those that the headers do not declare are left out and named on stderr. The
//! bundle in `conf/` began so and was then worked over by hand: a compiler does not know that a `char *` is
//! where a result goes, or that an `int` is a file descriptor.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::process::Command;

use prototypes::Word;
use prototypes::dwarf::{self, Options};
use prototypes::types::{Kind, Lens, Type};

/// Names that mean more than their type.
fn named(name: &str) -> Option<Type> {
    Some(match name {
        "VALUE" => Type::vm(Word::RubyValue),
        "ID" => Type::vm(Word::RubyId),
        "PyObject*" => Type::vm(Word::PythonObject),
        "SV*" | "AV*" | "HV*" | "CV*" | "GV*" => Type::vm(Word::PerlSv),
        "zval*" => Type::vm(Word::PhpZval),
        "zend_string*" => Type::vm(Word::PhpString),
        "my_bool" => Type::new(Kind::Char).through(Lens::Bool),
        "uint8_t" | "U8" => Type::new(Kind::Char).through(Lens::Hex),
        "mode_t" | "__mode_t" => Type::new(Kind::UInt).through(Lens::Octal),
        _ => return None,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (names, rest) = arguments
        .split_first()
        .ok_or("usage: headers NAMES.txt HEADER… [-- CFLAGS…]")?;
    let mut parts = rest.split(|argument| argument == "--");
    let headers = parts.next().unwrap_or_default();
    let flags = parts.next().unwrap_or_default();
    let mut names: BTreeSet<String> = fs::read_to_string(names)?
        .lines()
        .map(str::to_owned)
        .collect();
    let folder = std::env::temp_dir().join(format!("lancet-headers-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let (source, object) = (folder.join("ask.c"), folder.join("ask.so"));
    loop {
        let mut text = String::from("#define _GNU_SOURCE\n");
        headers
            .iter()
            .for_each(|header| text += &format!("#include <{header}>\n"));
        // Macros of the same name would be in the way.
        names
            .iter()
            .for_each(|name| text += &format!("#undef {name}\n__typeof__(&{name}) ask_{name};\n"));
        fs::write(&source, text)?;
        let output = Command::new("gcc")
            .args(["-w", "-g", "-shared", "-fPIC", "-fmax-errors=0", "-o"])
            .args([&object, &source])
            .args(flags)
            .output()?;
        if output.status.success() {
            break;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let unknown: BTreeSet<String> = said
            .lines()
            .filter(|line| line.contains("undeclared"))
            .filter_map(|line| Some(line.split(['‘', '’', '\'']).nth(1)?.to_owned()))
            .collect();
        let before = names.len();
        names.retain(|name| !unknown.contains(name));
        if names.len() == before {
            return Err(said.into_owned().into());
        }
        eprintln!("not declared: {unknown:?}");
    }
    let options = Options {
        // Asked both ways, the answers tell where the mutable texts are.
        only_const_strings: std::env::var_os("MUTABLE").is_none_or(|set| set.is_empty()),
        named: Some(&named),
        ..Options::default()
    };
    let found = dwarf::read(&fs::read(&object)?, options, &|name| {
        name.starts_with("ask_")
    })?;
    let mut enums = BTreeMap::new();
    for signature in found.pointers.values() {
        let parameters = signature
            .prototype
            .parameters
            .iter()
            .map(|parameter| &parameter.ty);
        for ty in parameters.chain([&signature.prototype.returns]) {
            let ty = match &ty.kind {
                Kind::Pointer(to) => to,
                _ => ty,
            };
            enums.extend(
                ty.alias()
                    .map(|alias| (alias.to_owned(), ty.clone().unnamed())),
            );
        }
    }
    for (name, ty) in enums {
        println!("typedef {name} = {ty};");
    }
    for (name, signature) in &found.pointers {
        let dots = if signature.variadic { " ..." } else { "" };
        println!(
            "{};{dots}",
            signature.prototype.named(&name["ask_".len()..])
        );
    }
    fs::remove_dir_all(folder)?;
    Ok(())
}
