//! Where gcc puts arguments and returned values, and how it lays out structs: its own code is the judge.
//!
//! A C program calls a stub that writes down all argument registers and the stack; the calls are read back by
//! our places alone and must show the values that were passed.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use prototypes::capture::{Registers, Returned};
use prototypes::show::{CallValues, Prepared, Show};

/// The type's name, its definition in C, ours, a value in C and as it is shown.
const TYPES: &[(&str, &str, &str, &str, &str)] = &[
    ("Tchar", "typedef char Tchar;", "char", "'c'", "'c'"),
    ("Tshort", "typedef short Tshort;", "short", "-7", "-7"),
    ("Tint", "typedef int Tint;", "int", "-70000", "-70000"),
    (
        "Tuint",
        "typedef unsigned Tuint;",
        "uint",
        "4000000000u",
        "4000000000",
    ),
    (
        "Tlong",
        "typedef long Tlong;",
        "long",
        "-5000000000",
        "-5000000000",
    ),
    (
        "Tfloat",
        "typedef float Tfloat;",
        "float",
        "1.25f",
        "1.250000",
    ),
    (
        "Tdouble",
        "typedef double Tdouble;",
        "double",
        "-2.5",
        "-2.500000",
    ),
    (
        "Tld",
        "typedef long double Tld;",
        "ldouble",
        "3.75L",
        "3.750000",
    ),
    (
        "Tcf",
        "typedef _Complex float Tcf;",
        "struct(float, float)",
        "1.5f+2.5fi",
        "{ 1.500000, 2.500000 }",
    ),
    (
        "Tcd",
        "typedef _Complex double Tcd;",
        "struct(double, double)",
        "1.5+2.5i",
        "{ 1.500000, 2.500000 }",
    ),
    (
        "Tcl",
        "typedef _Complex long double Tcl;",
        "ldouble_complex",
        "1.5L+2.5Li",
        "{ 1.500000, 2.500000 }",
    ),
    (
        "Sc",
        "typedef struct { char a; } Sc;",
        "struct(char)",
        "(Sc){'x'}",
        "{ 'x' }",
    ),
    (
        "Sii",
        "typedef struct { int a, b; } Sii;",
        "struct(int,int)",
        "(Sii){1,2}",
        "{ 1, 2 }",
    ),
    (
        "Siii",
        "typedef struct { int a, b, c; } Siii;",
        "struct(int,int,int)",
        "(Siii){1,2,3}",
        "{ 1, 2, 3 }",
    ),
    (
        "Scl",
        "typedef struct { char a; long b; } Scl;",
        "struct(char,long)",
        "(Scl){'y',-9}",
        "{ 'y', -9 }",
    ),
    (
        "Sld",
        "typedef struct { long a; double b; } Sld;",
        "struct(long,double)",
        "(Sld){8,0.5}",
        "{ 8, 0.500000 }",
    ),
    (
        "Sdl",
        "typedef struct { double a; long b; } Sdl;",
        "struct(double,long)",
        "(Sdl){0.5,8}",
        "{ 0.500000, 8 }",
    ),
    (
        "Sdd",
        "typedef struct { double a, b; } Sdd;",
        "struct(double,double)",
        "(Sdd){1,2}",
        "{ 1.000000, 2.000000 }",
    ),
    (
        "Sff",
        "typedef struct { float a, b; } Sff;",
        "struct(float,float)",
        "(Sff){1,2}",
        "{ 1.000000, 2.000000 }",
    ),
    (
        "Sfi",
        "typedef struct { float a; int b; } Sfi;",
        "struct(float,int)",
        "(Sfi){1,2}",
        "{ 1.000000, 2 }",
    ),
    (
        "Sfff",
        "typedef struct { float a[3]; } Sfff;",
        "struct(array(float,3))",
        "(Sfff){{1,2,3}}",
        "{ [ 1.000000, 2.000000, 3.000000 ] }",
    ),
    (
        "Slll",
        "typedef struct { long a, b, c; } Slll;",
        "struct(long,long,long)",
        "(Slll){1,2,3}",
        "{ 1, 2, 3 }",
    ),
    (
        "Snest",
        "typedef struct { struct { short a; char b; } s; float f; int i; } Snest;",
        "struct(struct(short,char),float,int)",
        "(Snest){{5,'n'},0.25,6}",
        "{ { 5, 'n' }, 0.250000, 6 }",
    ),
    (
        "Sstr",
        "typedef struct { char s[6]; float f; } Sstr;",
        "struct(string(array(char,6)),float)",
        "(Sstr){\"ABCDE\",0.25}",
        "{ \"ABCDE\\0\", 0.250000 }",
    ),
    (
        "Sl",
        "typedef struct { long double a; } Sl;",
        "struct(ldouble)",
        "(Sl){7.5L}",
        "{ 7.500000 }",
    ),
    (
        "Slc",
        "typedef struct { long double a; char b; } Slc;",
        "struct(ldouble,char)",
        "(Slc){7.5L,'z'}",
        "{ 7.500000, 'z' }",
    ),
    (
        "Sempty",
        "typedef struct { } Sempty;",
        "struct()",
        "(Sempty){}",
        "{  }",
    ),
];

/// Argument lists by types' names: few and many, so that registers run out in the middle of structs.
const CALLS: &[&[&str]] = &[
    &["Tint"],
    &["Tint", "Tdouble", "Tlong", "Tfloat", "Tchar"],
    &["Tld", "Tint", "Tld", "Tchar", "Tld"],
    &[
        "Tlong", "Tlong", "Tlong", "Tlong", "Tlong", "Tlong", "Tlong", "Tint", "Tchar", "Tshort",
    ],
    &[
        "Tdouble", "Tfloat", "Tdouble", "Tfloat", "Tdouble", "Tfloat", "Tdouble", "Tfloat",
        "Tdouble", "Tfloat", "Tint",
    ],
    // Five registers taken: a struct of two goes wholly to the stack, the next word still fits.
    &[
        "Tlong", "Tlong", "Tlong", "Tlong", "Tlong", "Scl", "Tint", "Tint",
    ],
    &[
        "Tdouble", "Tdouble", "Tdouble", "Tdouble", "Tdouble", "Tdouble", "Tdouble", "Sdd",
        "Tdouble", "Sld",
    ],
    &[
        "Sii", "Siii", "Scl", "Sld", "Sdl", "Sdd", "Sff", "Sfi", "Sfff",
    ],
    &["Slll", "Tint", "Snest", "Tdouble", "Sstr", "Sc"],
    &["Tcf", "Tcd", "Tcl", "Tint", "Tdouble"],
    &["Sl", "Tint", "Slc", "Tchar", "Sl"],
    &["Sempty", "Tint", "Sempty", "Tdouble"],
    &[
        "Tint", "Slll", "Tld", "Slc", "Tint", "Slll", "Tint", "Tint", "Tint", "Tint", "Tld",
    ],
];

const STUB: &str = r#"
#include <stdio.h>
#include <string.h>
#include <stddef.h>
unsigned char seen[6 * 8 + 8 * 8 + 8 + 1024];
unsigned char back[4 * 8 + 512] __attribute__((aligned(16)));
unsigned char room[256] __attribute__((aligned(16)));
void probe(void);
void ask(void *function);
asm(".text\n.globl probe\nprobe:\n"
    "lea seen(%rip), %rax\n"
    "mov %rdi, 0(%rax)\nmov %rsi, 8(%rax)\nmov %rdx, 16(%rax)\nmov %rcx, 24(%rax)\nmov %r8, 32(%rax)\nmov %r9, 40(%rax)\n"
    "movsd %xmm0, 48(%rax)\nmovsd %xmm1, 56(%rax)\nmovsd %xmm2, 64(%rax)\nmovsd %xmm3, 72(%rax)\n"
    "movsd %xmm4, 80(%rax)\nmovsd %xmm5, 88(%rax)\nmovsd %xmm6, 96(%rax)\nmovsd %xmm7, 104(%rax)\n"
    "lea 8(%rsp), %rsi\nmov %rsi, 112(%rax)\nlea 120(%rax), %rdi\nmov $512, %ecx\nrep movsb\nret\n"
    ".globl ask\nask:\npush %rbx\nmov %rdi, %rax\nlea room(%rip), %rdi\nfninit\ncall *%rax\nlea back(%rip), %rbx\n"
    "mov %rax, 0(%rbx)\nmov %rdx, 8(%rbx)\nmovsd %xmm0, 16(%rbx)\nmovsd %xmm1, 24(%rbx)\nfxsave 32(%rbx)\nfninit\n"
    "pop %rbx\nret\n");
"#;

fn run(name: &str, source: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let (text, program) = (folder.join(format!("{name}.c")), folder.join(name));
    fs::write(&text, source).expect("written");
    let output = Command::new("gcc")
        .args(["-w", "-O1", "-fno-pie", "-no-pie", "-o"])
        .args([&program, &text])
        .output()
        .expect("gcc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let output = Command::new(&program).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn definitions() -> String {
    TYPES.iter().map(|(_, c, ..)| format!("{c}\n")).collect()
}

fn known(
    name: &str,
) -> &'static (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
) {
    TYPES.iter().find(|known| known.0 == name).expect("a type")
}

fn word(bytes: &[u8], index: usize) -> u64 {
    u64::from_le_bytes(
        bytes[index * 8..index * 8 + 8]
            .try_into()
            .expect("eight bytes"),
    )
}

#[test]
fn arguments_lie_where_gcc_puts_them() {
    // Every return class before every list: a struct returned in memory takes a register.
    let returns = ["void", "Slll"];
    let mut source = format!("{STUB}{}int main() {{\n", definitions());
    for returned in returns {
        for call in CALLS {
            let values: Vec<&str> = call.iter().map(|name| known(name).3).collect();
            let (types, values) = (call.join(","), values.join(","));
            writeln!(source, "(({returned} (*)({types}))probe)({values});").expect("text");
            writeln!(source, "fwrite(seen, 632, 1, stdout);").expect("text");
        }
    }
    source += "return 0; }\n";
    let output = run("arguments", &source);
    let mut records = output.chunks_exact(632);
    for returned in returns {
        for call in CALLS {
            let record = records.next().expect("a record");
            let registers = Registers {
                gp: std::array::from_fn(|n| word(record, n)),
                sse: std::array::from_fn(|n| word(record, 6 + n)),
                stack: word(record, 14),
            };
            let stack = |at: u64, into: &mut [u8]| {
                let from = at.wrapping_sub(registers.stack) as usize;
                match record[120..]
                    .get(from..)
                    .and_then(|rest| rest.get(..into.len()))
                {
                    Some(bytes) => into.copy_from_slice(bytes),
                    None => return false,
                }
                true
            };
            let ours: Vec<&str> = call.iter().map(|name| known(name).2).collect();
            let returned = if returned == "void" {
                "void"
            } else {
                known(returned).2
            };
            let conf = format!("{returned} f({})", ours.join(", "));
            let library = crate::guest::library(&conf);
            let call_shown = CallValues {
                prepared: &Prepared::new(library.prototype("f").expect("f").clone()),
                registers: &registers,
                returned: None,
            };
            let expected: Vec<&str> = call.iter().map(|name| known(name).4).collect();
            let mut left = Vec::new();
            Show::default().left(call_shown, &stack, &mut left);
            let left = String::from_utf8(left).unwrap();
            assert_eq!(left, expected.join(", "), "{conf}");
        }
    }
    assert!(records.next().is_none());
}

#[test]
fn values_are_returned_where_gcc_returns_them() {
    let mut source = format!("{STUB}{}", definitions());
    for (name, _, _, value, _) in TYPES {
        writeln!(
            source,
            "__attribute__((noinline)) {name} make_{name}(void) {{ return {value}; }}"
        )
        .expect("text");
    }
    source += "int main() {\n";
    for (name, ..) in TYPES {
        writeln!(
            source,
            "ask(make_{name}); fwrite(back, 544, 1, stdout); fwrite(room, 64, 1, stdout);"
        )
        .expect("text");
    }
    source += "return 0; }\n";
    let output = run("returns", &source);
    let records = output.chunks_exact(544 + 64);
    assert_eq!(records.len(), TYPES.len());
    for ((name, _, ours, _, expected), record) in TYPES.iter().zip(records) {
        let st = |n: usize| {
            record[32 + 32 + 16 * n..][..10]
                .try_into()
                .expect("ten bytes")
        };
        let returned = Returned {
            rax: word(record, 0),
            rdx: word(record, 1),
            sse: [word(record, 2), word(record, 3)],
            x87: [st(0), st(1)],
        };
        let room = |at: u64, into: &mut [u8]| {
            let from = at.wrapping_sub(returned.rax) as usize;
            match record[544..]
                .get(from..)
                .and_then(|rest| rest.get(..into.len()))
            {
                Some(bytes) => into.copy_from_slice(bytes),
                None => return false,
            }
            true
        };
        let library = crate::guest::library(&format!("{ours} f()"));
        let call = CallValues {
            prepared: &Prepared::new(library.prototype("f").expect("f").clone()),
            registers: &Registers::default(),
            returned: Some(&returned),
        };
        let mut shown = Vec::new();
        Show::default().returned(call, &room, &mut shown);
        assert_eq!(String::from_utf8(shown).unwrap(), *expected, "{name}");
    }
}

#[test]
fn sizes_and_offsets_are_gccs() {
    let fields = [
        "char",
        "short",
        "int",
        "long",
        "float",
        "double",
        "ldouble",
        "addr",
        "array(short, 3)",
        "struct(char, int)",
    ];
    let c = [
        "char x",
        "short x",
        "int x",
        "long x",
        "float x",
        "double x",
        "long double x",
        "void *x",
        "short x[3]",
        "struct { char a; int b; } x",
    ];
    // Every triple.
    let count = fields.len();
    let triples: Vec<[usize; 3]> = (0..count.pow(3))
        .map(|n| [n / count / count, n / count % count, n % count])
        .collect();
    let mut source = String::from("#include <stdio.h>\n#include <stddef.h>\nint main() {\n");
    for triple in &triples {
        let members: Vec<String> = triple
            .iter()
            .enumerate()
            .map(|(n, field)| c[*field].replace('x', &format!("m{n}")))
            .collect();
        writeln!(source, "{{ struct s {{ {}; }}; printf(\"%zu %zu %zu %zu %zu\\n\", sizeof(struct s), _Alignof(struct s), \
             offsetof(struct s, m0), offsetof(struct s, m1), offsetof(struct s, m2)); }}", members.join("; ")).expect("text");
    }
    source += "return 0; }\n";
    let output = String::from_utf8(run("layout", &source)).expect("text");
    assert_eq!(output.lines().count(), triples.len());
    for (triple, line) in triples.iter().zip(output.lines()) {
        let members: Vec<&str> = triple.iter().map(|field| fields[*field]).collect();
        let conf = format!("typedef s = struct({});", members.join(", "));
        let ty = crate::guest::library(&conf).ty("s").expect("s");
        let prototypes::types::Kind::Struct(of) = &ty.kind else {
            panic!("a struct");
        };
        let offsets: Vec<String> = of.members().map(|(offset, _)| offset.to_string()).collect();
        assert_eq!(
            format!("{} {} {}", ty.size(), ty.alignment(), offsets.join(" ")),
            line,
            "{conf}"
        );
    }
}
