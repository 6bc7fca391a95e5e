//! A source file to begin with: a function with the prototype of the one that it is to replace, which it calls. Used by
//! `lancet::commands::patch::new` and `lancet::commands::patch::run`.
//!
//! Types are written by what the ABI sees of them: integers by their size, pointers as `void *` or text, structs that are passed by value with
//! the members that they have. Names of arguments are not kept by prototypes.

use std::fmt::Write;

use prototypes::types::{Kind, Lens, Prototype, Struct, Type};

/// The language of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C, to be compiled with `cc`.
    C,
    /// Rust, without its standard library.
    Rust,
}

/// The function that a template is written for.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// The name of the function that is to be replaced.
    pub function: &'s str,
    /// The module that the function is in, as a request of `lancet patch` names it.
    pub module: &'s str,
    /// The process, whose id stands in the command line that the template shows.
    pub pid: i32,
}

/// Structs and what they are called, in the order in which they are defined.
struct Types {
    language: Language,
    structs: Vec<(*const Struct, String)>,
    definitions: String,
}

/// The text of a template; `None` for a type that the language does not have, or an array whose length is not known.
pub fn template(language: Language, subject: Subject, prototype: &Prototype) -> Option<String> {
    let mut types = Types {
        language,
        structs: Vec::new(),
        definitions: String::new(),
    };
    let returns = types.name(&prototype.returns, true)?;
    let mut parameters = Vec::new();
    for (number, parameter) in prototype.parameters.iter().enumerate() {
        parameters.push((
            types.name(&parameter.ty, false)?,
            format!("a{}", number + 1),
        ));
    }
    let names: Vec<&str> = parameters.iter().map(|(_, name)| name.as_str()).collect();
    let names = names.join(", ");
    let (definitions, function) = (&types.definitions, subject.function);
    let Subject { module, pid, .. } = subject;
    let name = identifier(function);
    Some(match language {
        Language::C => {
            let all: Vec<String> = parameters
                .iter()
                .map(|(ty, name)| declared(ty, name))
                .collect();
            let all = if all.is_empty() {
                "void".to_owned()
            } else {
                all.join(", ")
            };
            let gives = if returns == "void" { "" } else { "return " };
            let (head, original) = (
                declared(&returns, &name),
                declared(&returns, "lancet_original"),
            );
            format!(
                "/* Replaces {function} of {module}.\n *\n *   cc -shared -fPIC -O2 -nostartfiles -o {name}.so {name}.c\n \
                 *   lancet patch -p {pid} {function}@{module}={name}.so:{name}\n */\n{definitions}\n\
                 /* The function as it was. */\n{original}({all});\n\n{head}({all})\n{{\n\t{gives}lancet_original({names});\n}}\n"
            )
        }
        Language::Rust => {
            let all: Vec<String> = parameters
                .iter()
                .map(|(ty, name)| format!("{name}: {ty}"))
                .collect();
            let all = all.join(", ");
            let gives = if returns == "()" {
                String::new()
            } else {
                format!(" -> {returns}")
            };
            format!(
                "//! Replaces {function} of {module}.\n//!\n//!     rustc --edition 2024 --crate-type cdylib -C panic=abort -C opt-level=2 -C link-arg=-nostartfiles -o {name}.so {name}.rs\n\
                 //!     lancet patch -p {pid} {function}@{module}={name}.so:{name}\n#![no_std]\n{definitions}\n\
                 unsafe extern \"C\" {{\n    /// The function as it was.\n    fn lancet_original({all}){gives};\n}}\n\n\
                 /// # Safety\n/// As for the function that it replaces.\n#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({all}){gives} {{\n    \
                 // SAFETY: the arguments are those that the caller has given to the function itself.\n    unsafe {{ lancet_original({names}) }}\n}}\n\n\
                 #[panic_handler]\nfn panic(_: &core::panic::PanicInfo) -> ! {{\n    loop {{}}\n}}\n"
            )
        }
    })
}

/// The name as one of C and Rust: a symbol of C++ with dots, as compilers make, is none.
fn identifier(name: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    name.chars()
        .map(|letter| if fits(letter) { letter } else { '_' })
        .collect()
}

/// `long a`, `char *a`.
fn declared(ty: &str, name: &str) -> String {
    let space = if ty.ends_with('*') { "" } else { " " };
    format!("{ty}{space}{name}")
}

impl Types {
    fn name(&mut self, ty: &Type, is_result: bool) -> Option<String> {
        let rust = self.language == Language::Rust;
        let (c, other) = match &ty.kind {
            Kind::Void if is_result => ("void", "()"),
            Kind::Void => return None,
            Kind::Char => ("char", "i8"),
            Kind::Short => ("short", "i16"),
            Kind::UShort => ("unsigned short", "u16"),
            Kind::Int => ("int", "i32"),
            Kind::UInt => ("unsigned int", "u32"),
            Kind::Long => ("long", "i64"),
            Kind::ULong => ("unsigned long", "u64"),
            Kind::Float => ("float", "f32"),
            Kind::Double => ("double", "f64"),
            Kind::LongDouble if !rust => ("long double", ""),
            Kind::ComplexLongDouble if !rust => ("_Complex long double", ""),
            Kind::LongDouble | Kind::ComplexLongDouble => return None,
            Kind::Pointer(to) if is_text(ty, to) => ("const char *", "*const i8"),
            // An array as an argument is a pointer.
            Kind::Pointer(_) | Kind::Array(_) => ("void *", "*mut core::ffi::c_void"),
            Kind::Struct(of) => return self.of_struct(of),
        };
        Some(if rust { other } else { c }.to_owned())
    }

    fn of_struct(&mut self, of: &Struct) -> Option<String> {
        let known = self.structs.iter().find(|(at, _)| std::ptr::eq(*at, of));
        if let Some((_, name)) = known {
            return Some(name.clone());
        }
        if !of.is_complete() || of.fields().is_empty() {
            return None;
        }
        let rust = self.language == Language::Rust;
        let mut members = String::new();
        for (number, field) in of.fields().iter().enumerate() {
            let name = match of.field_name(number) {
                "" => format!("m{}", number + 1),
                name if rust => format!("r#{name}"),
                name => name.to_owned(),
            };
            let line = match &field.kind {
                Kind::Array(array) => {
                    let (length, element) =
                        (array.length.fixed()?, self.name(&array.element, false)?);
                    if rust {
                        format!("    {name}: [{element}; {length}],\n")
                    } else {
                        format!("\t{}[{length}];\n", declared(&element, &name))
                    }
                }
                _ if rust => format!("    {name}: {},\n", self.name(field, false)?),
                _ => format!("\t{};\n", declared(&self.name(field, false)?, &name)),
            };
            members.push_str(&line);
        }
        let number = self.structs.len() + 1;
        let (name, begins) = if rust {
            (
                format!("Struct{number}"),
                format!("\n#[repr(C)]\npub struct Struct{number} {{\n"),
            )
        } else {
            (
                format!("struct struct{number}"),
                format!("\nstruct struct{number} {{\n"),
            )
        };
        let ends = if rust { "}\n" } else { "};\n" };
        let _ = write!(self.definitions, "{begins}{members}{ends}");
        self.structs.push((std::ptr::from_ref(of), name.clone()));
        Some(name)
    }
}

/// Whether a pointer leads to text.
fn is_text(ty: &Type, to: &Type) -> bool {
    let of_chars = match &to.kind {
        Kind::Array(array) => matches!(array.element.kind, Kind::Char),
        kind => matches!(kind, Kind::Char),
    };
    of_chars && matches!(ty.lens, Some(Lens::String | Lens::Path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prototypes::Library;

    fn written(language: Language, text: &str) -> Option<String> {
        let (library, errors) = Library::parse("test", text, &mut |_| None);
        assert!(errors.is_empty(), "{errors:?}");
        let subject = Subject {
            function: "total",
            module: "libshop.so.1",
            pid: 7,
        };
        template(
            language,
            subject,
            library.prototype("total").expect("total"),
        )
    }

    #[test]
    fn a_prototype_becomes_c() {
        let text = written(
            Language::C,
            "long total(int, string, addr, double, struct(int, array(char, 4)));\n",
        );
        let text = text.expect("a template");
        let wanted = "struct struct1 {\n\tint m1;\n\tchar m2[4];\n};\n\n/* The function as it was. */\n\
            long lancet_original(int a1, const char *a2, void *a3, double a4, struct struct1 a5);\n\n\
            long total(int a1, const char *a2, void *a3, double a4, struct struct1 a5)\n{\n\
            \treturn lancet_original(a1, a2, a3, a4, a5);\n}\n";
        assert!(text.ends_with(wanted), "{text}");
        let text = written(Language::C, "void total();\n").expect("a template");
        assert!(
            text.contains("void total(void)\n{\n\tlancet_original();\n}\n"),
            "{text}"
        );
    }

    #[test]
    fn a_prototype_becomes_rust() {
        let text = written(Language::Rust, "ulong total(uint, string);\n").expect("a template");
        assert!(
            text.contains("pub unsafe extern \"C\" fn total(a1: u32, a2: *const i8) -> u64 {\n"),
            "{text}"
        );
        assert_eq!(written(Language::Rust, "ldouble total(ldouble);\n"), None);
    }
}
