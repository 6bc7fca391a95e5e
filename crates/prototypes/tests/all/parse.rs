//! The grammar: what it takes, and what it says of what it does not.

use std::sync::Arc;

use crate::guest::library;
use prototypes::location::Location;
use prototypes::{Error, Library, Problem};

/// The one function of a text, printed.
fn printed(text: &str) -> String {
    let library = library(text);
    let (name, prototype) = library.prototypes().next().expect("a prototype");
    prototype.named(name).to_string()
}

fn problem(text: &str) -> Error {
    let (_, mut errors) = Library::parse("my.conf", text, &mut |_| None);
    assert_eq!(errors.len(), 1, "{text}: {errors:?}");
    errors.remove(0)
}

/// ltrace's own files have no better word for it; the value is in the x87's registers all the same.
#[test]
fn a_double_in_the_place_of_a_long_double_is_not_taken_at_its_word() {
    let text = "typedef ldouble = double;\ntypedef ldouble_complex = struct(ldouble, ldouble);\nldouble a(ldouble);\nldouble_complex b();\ntypedef mine = double;\nmine c();\n";
    let (library, errors) = Library::parse("test", text, &mut |_| None);
    assert!(errors.is_empty(), "{errors:?}");
    let returned = |name: &str| library.prototype(name).expect("there").locations().returned;
    assert_eq!(returned("a"), Location::X87);
    assert_eq!(returned("b"), Location::ComplexX87);
    assert_eq!(returned("c"), Location::Sse(0));
}

#[test]
fn lines_as_people_write_them() {
    for (text, expected) in [
        ("int kill(int,int);", "int kill(int, int)"),
        ("void	somefunc	(	)	;", "void somefunc()"),
        ("void f(void)", "void f()"),
        ("void f(int,)", "void f(int)"),
        ("int f(int * **)", "int f(int***)"),
        (
            "int f(addr, file, void*, itn)",
            "int f(addr, addr, addr, int)",
        ),
        (
            "int f(octal, oct(long), octal(uint*))",
            "int f(oct(int), oct(long), oct(uint*))",
        ),
        (
            "int f(string, string4, string0, string[3], string[zero(arg2)], string[zero])",
            "int f(string, string[arg4], string[retval], string[3], string[arg2], string)",
        ),
        (
            "int f(string(array(char, 6)), string(uint), string(char*))",
            "int f(string(array(char, 6)), string(uint), string(char*))",
        ),
        ("int f(+string, format)", "int f(+string, format)"),
        ("int f(format[arg2], long)", "int f(format[arg2], long)"),
        ("int f(+int*, +int*)", "int f(+int*, int*)"),
        (
            "enum[ushort](A, B = 0x10, C) f(enum(X))",
            "enum[ushort](A=0, B=16, C=17) f(enum(X=0))",
        ),
        (
            "int open(string,int,octal);		; WARNING: 3rd argument may not be there",
            "int open(string, int, oct(int))",
        ),
        ("int f(int) # why", "int f(int)"),
        (
            "ruby(value) f(ruby( id ), python(object), perl(sv)*, php(zval), php(string))",
            "ruby(value) f(ruby(id), python(object), perl(sv)*, php(zval), php(string))",
        ),
        (
            "function int f(bitvec(array(char, 32)*), hide(int), guess(long), bool(int))",
            "int f(bitvec(array(char, 32)*), hide(int), guess(long), bool(int))",
        ),
        (
            "int f(struct(), struct(int, hex(uint), array(struct(int), elt1)*))",
            "int f(struct(), struct(int, hex(uint), array(struct(int), elt1)*))",
        ),
        (
            "int f(hex(struct(int, int)*)*)",
            "int f(hex(struct(int, int)*)*)",
        ),
    ] {
        assert_eq!(printed(text), expected, "{text}");
        assert_eq!(printed(expected), expected, "again");
    }
}

#[test]
fn names_may_be_keywords() {
    let text = "typedef function = int;\ntypedef import = int;\ntypedef typedef = int;\n\
        function function f();\nfunction import i();\nfunction typedef t();\ntypedef typedef1 = int;\ntypedef1 g();";
    let library = library(text);
    assert_eq!(library.prototypes().count(), 4);
    assert_eq!(
        library.prototype("f").expect("f").named("f").to_string(),
        "function function f()"
    );
    let (again, errors) = Library::parse("again", &library.to_string(), &mut |_| None);
    assert!(errors.is_empty(), "{errors:?}\n{library}");
    assert_eq!(again.to_string(), library.to_string());
}

#[test]
fn comments_and_empty_lines() {
    assert_eq!(
        library("; a\n# b\n\n   \n\t; c\nint f();\r\n")
            .prototypes()
            .count(),
        1
    );
}

#[test]
fn structs_may_hold_themselves_behind_pointers() {
    let text = "typedef a = struct;\ntypedef b = struct(a*, int);\ntypedef a = struct(int, b*, a*);\nvoid f(a*, b);";
    let library = library(text);
    assert_eq!(library.ty("a").expect("a").size(), 24);
    assert_eq!(library.ty("b").expect("b").size(), 16);
    assert_eq!(printed(text), "void f(a*, b)");
    let (again, errors) = Library::parse("again", &library.to_string(), &mut |_| None);
    assert!(errors.is_empty(), "{errors:?}\n{library}");
    assert_eq!(again.to_string(), library.to_string());
}

#[test]
fn imports_bring_types_and_functions() {
    let mut import = |name: &str| {
        (name == "libc.so-types").then(|| Arc::new(library("typedef size_t = ulong;\nint g();")))
    };
    let text = "import \"libc.so-types\";\nsize_t f(size_t);\n";
    let (library, errors) = Library::parse("libc.so.conf", text, &mut import);
    assert!(errors.is_empty(), "{errors:?}");
    assert!(library.prototype("g").is_some());
    assert_eq!(library.prototype("f").expect("f").returns.size(), 8);
    assert_eq!(library.to_string(), text);
}

#[test]
fn what_is_wrong_is_shown_where_it_is() {
    let error = problem("; mine\nint f();\nint sin(flaot);\n");
    assert_eq!((error.line, error.column), (3, 9));
    assert_eq!(
        error.to_string(),
        "my.conf:3:9: unknown type `flaot`\n    int sin(flaot);\n            ^"
    );
    // Wide characters and tabs do not move the caret.
    let error = problem("int\tf(int, \u{fc}nt);");
    assert_eq!(
        error.to_string(),
        "my.conf:1:12: expected a name\n    int f(int, ünt);\n               ^"
    );
    let long = format!("int f({}, what);", vec!["int"; 100].join(", "));
    let text = problem(&long).to_string();
    let lines: Vec<&str> = text.lines().collect();
    let caret = lines[2].chars().count() - 1;
    let under: String = lines[1].chars().skip(caret).take(4).collect();
    assert_eq!(under, "what", "{text}");
    assert!(lines[1].chars().count() < 110, "{text}");
}

#[test]
fn every_problem_has_its_line() {
    for (text, column, message) in [
        ("int", 4, "expected a name"),
        ("int f", 6, "expected `(` after the function's name"),
        ("int f(int", 10, "expected `,` or `)`"),
        ("int f(int int)", 11, "expected `,` or `)`"),
        (
            "int f(array(int))",
            16,
            "expected `,` and the array's length",
        ),
        (
            "int f(array(int, foo))",
            18,
            "unknown length `foo`: a number, argN, eltN, retval, zero or zero(N)",
        ),
        (
            "int f(array(int, 99999999999))",
            18,
            "the number is out of range",
        ),
        (
            "int f(array(int, zero(zero)))",
            23,
            "expected a number, argN, eltN or retval",
        ),
        (
            "int f(array(int, arg99999999))",
            18,
            "the number is out of range",
        ),
        (
            "int f(hex int)",
            11,
            "expected `(` and a type after the lens",
        ),
        (
            "int f(format, format)",
            15,
            "only one `format` per function",
        ),
        (
            "typedef x = format;",
            13,
            "`format` can only be an argument",
        ),
        ("int f(enum[float](A))", 17, "an enum needs an integer type"),
        ("int f(enum)", 11, "expected `(` and the enum's names"),
        (
            "int f(string(float))",
            19,
            "a string is made of `char*`, `array(char, …)` or of wider integers",
        ),
        (
            "int f(struct;)",
            13,
            "a struct is announced only as `typedef NAME = struct;`",
        ),
        ("ruby(vlaue) f()", 11, "unknown VM value `ruby(vlaue)`"),
        ("import \"nowhere\";", 8, "`nowhere.conf` was not found"),
        ("import nowhere;", 8, "expected a file name in quotes"),
        (
            "import \"a\\b\";",
            9,
            "expected a closing quote, and no backslash before it",
        ),
        (
            "typedef aa = int;\ntypedef aa = int;",
            9,
            "`aa` is already defined",
        ),
        (
            "typedef aa = struct;\ntypedef aa = int;",
            9,
            "`aa` was announced as a struct and must be one",
        ),
        (
            "typedef aa = struct;\ntypedef aa = struct();\ntypedef aa = struct();",
            9,
            "`aa` is already defined",
        ),
        (
            "typedef aa = struct;\ntypedef aa = struct(int, aa);",
            26,
            "`aa` is only announced here: its size is not known, a pointer to it can be used",
        ),
        ("int f() garbage", 9, "ignored what follows"),
        (
            "int f(int, void)",
            12,
            "a `void` argument is taken for `hide(int)`",
        ),
    ] {
        let error = problem(text);
        assert_eq!(
            (error.column, &*error.problem.to_string()),
            (column, message),
            "{text}"
        );
        assert_eq!(error.line, text.lines().count(), "{text}");
    }
}

#[test]
fn lines_without_problems_count() {
    let text = "int f(flaot);\nint g(int, void) junk\nint h();";
    let (library, errors) = Library::parse("my.conf", text, &mut |_| None);
    assert_eq!(
        errors
            .iter()
            .filter(|error| error.problem.is_warning())
            .count(),
        2
    );
    assert!(library.prototype("f").is_none());
    assert_eq!(
        library.prototype("g").expect("g").named("g").to_string(),
        "int g(int, hide(int))"
    );
    assert!(library.prototype("h").is_some());
}

#[test]
fn depth_is_bounded() {
    let stars = format!("int f(int{});", "*".repeat(5000));
    assert_eq!(problem(&stars).problem, Problem::Depth);
    let nested = format!("int f({}int{});", "struct(".repeat(5000), ")".repeat(5000));
    assert_eq!(problem(&nested).problem, Problem::Depth);
    let mut aliases = String::from("typedef t0 = int*;\n");
    for level in 1..100 {
        aliases += &format!("typedef t{level} = t{}*;\n", level - 1);
    }
    let (_, errors) = Library::parse("my.conf", &aliases, &mut |_| None);
    assert_eq!(errors[0].problem, Problem::Depth);
    assert!(errors[0].line > 30);
}
