//! Prototypes from debug information, as gcc writes it, DWARF 4 and 5, plain and compressed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use prototypes::dwarf::{self, Found, Options};
use prototypes::location::Location;
use prototypes::types::Type;

const SOURCE: &str = r#"
#include <stddef.h>
#include <stdio.h>
#include <stdbool.h>
typedef struct node { int number; struct node *next; const char *name; } node;
typedef enum { RED, GREEN = 5, BLUE } color;
typedef union { double d; float f[2]; } floats;
typedef union { int i; void *p; } mixed;
struct bits { unsigned a : 3; unsigned b : 5; double d; };
struct packed { char c; long l; } __attribute__((packed));
struct big { long l[3]; };
typedef int (*callback)(const char *);
long scale(int a, unsigned char b, short c, unsigned long d, float e, double f, long double g) { return a; }
const char *text(char *buffer, const char *string, const unsigned char *bytes, const wchar_t *wide) { return string; }
int list(node *first, const node *second, node third) { return 0; }
color paint(color c, bool b, callback f, FILE *file) { return c; }
int unions(floats a, mixed b, struct bits c, struct big d) { return 0; }
int unaligned(struct packed a) { return 0; }
void *variadic(const char *format, ...) { return 0; }
_Complex double complex_(int array[3], int matrix[2][3]) { return 0; }
static __attribute__((noinline, used)) int hidden(int a) { return a; }
__typeof__(&printf) pointer;
"#;

fn compiled(name: &str, flags: &[&str], options: Options) -> Found {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (source, object) = (
        folder.join(format!("{name}.c")),
        folder.join(format!("{name}.so")),
    );
    fs::write(&source, SOURCE).expect("written");
    let output = Command::new("gcc")
        .args(["-w", "-g", "-O2", "-shared", "-fPIC", "-o"])
        .args([&object, &source])
        .args(flags)
        .output()
        .expect("gcc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    dwarf::read(&fs::read(&object).expect("read"), options, &|_| true).expect("debug information")
}

fn said(found: &Found) -> Vec<String> {
    let functions = found.functions.iter();
    functions
        .map(|(name, of)| {
            format!(
                "{}{}",
                of.prototype.named(name),
                if of.variadic { " ..." } else { "" }
            )
        })
        .collect()
}

#[test]
fn functions_are_read_as_they_were_compiled() {
    let expected = [
        "struct(double, double) complex_(int*, array(int, 3)*)",
        "int hidden(int)",
        "int list(addr, addr, struct(int, addr, string))",
        "color paint(color, bool(char), addr, addr)",
        "long scale(int, char, short, ulong, float, double, ldouble)",
        "string text(string, string, addr, string(array(int, zero)*))",
        "int unions(struct(double), struct(hex(ulong)), struct(hex(ulong), double), struct(array(long, 3)))",
        "addr variadic(string) ...",
    ];
    for (name, flags) in [
        ("v5", &["-gdwarf-5"][..]),
        ("v4", &["-gdwarf-4"]),
        ("packed", &["-gz=zlib"]),
    ] {
        let found = compiled(name, flags, Options::default());
        assert_eq!(said(&found), expected, "{name}");
        // `unaligned` is left out, and said to be.
        assert_eq!(found.unreadable, 1);
        let printf = &found.pointers["pointer"];
        assert!(printf.variadic);
        assert_eq!(
            printf.prototype.named("printf").to_string(),
            "int printf(string)"
        );
    }
}

#[test]
fn overlaid_types_are_passed_as_gcc_passes_them() {
    let found = compiled("classes", &[], Options::default());
    let locations = found.functions["unions"].prototype.locations();
    // A union of floating point, one with a pointer, bit-fields with a double, a big struct.
    let [floats, mixed, bits, big] = locations.arguments[..] else {
        panic!("{locations:?}");
    };
    assert_eq!((floats, mixed), (Location::Sse(0), Location::Gp(0)));
    assert!(matches!(bits, Location::Split(..)), "{bits:?}");
    assert!(matches!(big, Location::Stack(_)), "{big:?}");
}

#[test]
fn structs_are_followed_if_asked_for_and_names_can_mean_more() {
    let options = Options {
        follow_structs: true,
        ..Options::default()
    };
    let found = compiled("followed", &[], options);
    let list = &found.functions["list"].prototype;
    let prototypes::types::Kind::Pointer(to) = &list.parameters[0].ty.kind else {
        panic!("{list:?}");
    };
    assert_eq!(to.size(), 24, "int, node*, string");
    let named = |name: &str| (name == "node*").then(|| Type::vm(prototypes::Word::PythonObject));
    let options = Options {
        only_const_strings: true,
        named: Some(&named),
        ..Options::default()
    };
    let found = compiled("named", &[], options);
    let function = |name: &str| found.functions[name].prototype.named(name).to_string();
    assert!(
        function("list").starts_with("int list(python(object), python(object), "),
        "{}",
        function("list")
    );
    assert_eq!(
        function("text"),
        "string text(addr, string, addr, string(array(int, zero)*))"
    );
}

/// As ltrace shows them: what pointers lead to, and a type of the debug information as a file of the user's defines it.
#[test]
fn characters_and_structs_that_a_file_defines_are_followed_like_others() {
    let named = |name: &str| (name == "_IO_FILE").then(Type::address);
    let options = Options {
        follow_structs: true,
        only_const_strings: true,
        named: Some(&named),
    };
    let found = compiled("like_ltrace", &[], options);
    let function = |name: &str| found.functions[name].prototype.named(name).to_string();
    assert_eq!(
        function("text"),
        "string text(char*, string, addr, string(array(int, zero)*))"
    );
    assert!(
        function("paint").ends_with(", addr*)"),
        "{}",
        function("paint")
    );
}

#[test]
fn files_without_debug_information_and_broken_ones() {
    let found = compiled("none", &["-g0"], Options::default());
    assert!(found.functions.is_empty());
    assert!(dwarf::read(b"not an ELF file", Options::default(), &|_| true).is_err());
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    compiled("broken", &[], Options::default());
    let whole = fs::read(folder.join("broken.so")).expect("read");
    // Each of many places damaged: an error or less, never a panic.
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let _ = dwarf::read(
            &bytes,
            Options {
                follow_structs: true,
                ..Options::default()
            },
            &|_| true,
        );
    }
}
