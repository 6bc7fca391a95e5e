//! Texts as ltrace prints them: escapes, lengths, wide characters, formats. What ltrace 0.7.3 prints for these calls
//! was compared by hand; where it is wrong (`%Lf`, a width that cuts) `like_ltrace` decides.

use crate::guest::{Guest, PLAIN, is, neg, shown};
use prototypes::Detail;
use prototypes::show::Show;

#[test]
fn strings() {
    let mut guest = Guest::new();
    let hello = guest.text("Hello world");
    let call =
        |conf: &str, expected| is(conf, guest.clone().int(hello).int(4).returns(11), expected);
    call("int f(string)", "f(\"Hello world\") = 11");
    call("int f(string[4])", "f(\"Hell\") = 11");
    call("int f(string[arg2], int)", "f(\"Hell\", 4) = 11");
    call("int f(string2, int)", "f(\"Hell\", 4) = 11");
    call("int f(+string[retval])", "f(\"Hello world\") = 11");
    call("int f(+string[arg0])", "f(\"Hello world\") = 11");
    call("int f(+string0)", "f(\"Hello world\") = 11");
    call("int f(string(char *))", "f(\"Hello world\") = 11");
    call("int f(string(array(char, 4)*))", "f(\"Hell\") = 11");
    call("int f(string(array(char, zero(4))*))", "f(\"Hell\") = 11");
    call("int f(char *)", "f('H') = 11");
    call("int f(hex(char) *)", "f(0x48) = 11");
    // What a failed read left there is not shown; as an argument -1 means up to the NUL.
    is(
        "long read(+string[retval])",
        guest.clone().int(hello).returns(neg(-1)),
        "read(\"\") = -1",
    );
    is(
        "int f(string[arg2], int)",
        guest.clone().int(hello).int(neg(-1)),
        "f(\"Hello world\", -1) = 0",
    );
    is("void f(string)", Guest::new(), "f(nil) = <void>");
    // Not readable: its address.
    is(
        "void f(string, int)",
        Guest::new().int(0x1234).int(1),
        "f(0x1234, 1) = <void>",
    );
    let mut guest = Guest::new();
    let at = guest.text("tab\t, bell\x07, ü, \x7f \"quoted\" back\\slash");
    let show = Show {
        detail: Detail {
            strings: 100,
            array: 4,
            whole: false,
        },
        ..PLAIN
    };
    assert_eq!(
        shown("string f()", guest.returns(at), &show),
        "f() = \"tab\\t, bell\\a, \\303\\274, \\177 \"quoted\" back\\\\slash\""
    );
}

#[test]
fn strings_are_cut_at_the_size_asked_for() {
    // ltrace has dots behind a text that just fits; we have not.
    let mut guest = Guest::new();
    let at = guest.text(&"x".repeat(32));
    let fits = format!("f(\"{}\") = <void>", "x".repeat(32));
    assert_eq!(
        shown("void f(string)", guest.int(at), &Show::default()),
        fits
    );
    for (length, expected) in [(31, false), (32, true), (33, true), (5000, true)] {
        let mut guest = Guest::new();
        let at = guest.text(&"x".repeat(length));
        let dots = if expected { "..." } else { "" };
        let text = format!("f(\"{}\"{dots}) = <void>", "x".repeat(length.min(32)));
        is("void f(string)", guest.int(at), &text);
    }
    // One whose end cannot be read is shown as far as it goes.
    let mut guest = Guest::new();
    let at = guest.put_last(b"no end");
    is(
        "void f(string)",
        guest.clone().int(at),
        "f(\"no end\"...) = <void>",
    );
    is(
        "void f(string[6])",
        guest.clone().int(at),
        "f(\"no end\") = <void>",
    );
    is(
        "void f(string[arg2], long)",
        guest.int(at).int(neg(-1)),
        "f(\"no end\"..., -1) = <void>",
    );
}

#[test]
fn wide_strings() {
    let mut guest = Guest::new();
    let at = guest.wide("Что-то.\n");
    let conf = "typedef wchar_t = string(uint)\ntypedef wstring_t = string(array(uint, zero)*);\n";
    let call = guest.int(at).int(0x424).returns(0x424);
    is(
        &format!("{conf}string(int) f(wstring_t, wchar_t)"),
        call,
        "f(\"Что-то.\\n\", 'Ф') = 'Ф'",
    );
    // WEOF, of which only 32 bits are the function's.
    is(
        "string(int) f()",
        Guest::new().returns(0xffff_ffff),
        "f() = 'EOF'",
    );
    is(
        "string(int) f()",
        Guest::new().returns(0x202e),
        "f() = '\\u202e'",
    );
}

#[test]
fn formats() {
    let conf = "void func_printf(format);";
    let mut guest = Guest::new();
    let format = guest.text("sotnuh %d %ld %g %c\n");
    let call = guest.int(format).int(5).int(6).double(1.5).int(88);
    is(
        conf,
        call,
        "func_printf(\"sotnuh %d %ld %g %c\\n\", 5, 6, 1.500000, 'X') = <void>",
    );

    // ltrace cuts a string at its field's width; printf does not.
    let mut guest = Guest::new();
    let format = guest.text("%s %10s %10s\n");
    let (a, b, c) = (
        guest.text("a string"),
        guest.text("a trimmed string"),
        guest.text("short"),
    );
    let call = guest.int(format).int(a).int(b).int(c);
    let cut = "func_printf(\"%s %10s %10s\\n\", \"a string\", \"a trimmed \", \"short\") = <void>";
    is(conf, call.clone(), cut);
    let show = Show {
        like_ltrace: false,
        ..PLAIN
    };
    let whole = cut.replace("a trimmed ", "a trimmed string");
    assert_eq!(shown(conf, call, &show), whole);

    let mut guest = Guest::new();
    let (format, text) = (
        guest.text("sotnuh3 %*s %.*s %.2s\n"),
        guest.text("a trimmed string"),
    );
    let call = guest
        .int(format)
        .int(4)
        .int(text)
        .int(4)
        .int(text)
        .int(text);
    let expected =
        "func_printf(\"sotnuh3 %*s %.*s %.2s\\n\", 4, \"a tr\", 4, \"a tr\", \"a \") = <void>";
    is(conf, call, expected);

    // Late, and on the stack.
    let mut guest = Guest::new();
    let format = guest.text("test %d %d %d %d%% %p %s %Lf\n");
    let text = guest.text("the end");
    let mut call = guest
        .int(0)
        .int(format)
        .int(1)
        .int(2)
        .int(3)
        .int(4)
        .int(0x42)
        .int(text);
    call.stack(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f, 0, 0, 0, 0, 0, 0]);
    let expected = "func_sprintf(nil, \"test %d %d %d %d%% %p %s %Lf\\n\", 1, 2, 3, 4, 0x42, \"the end\", 1.000000)";
    is(
        "void func_sprintf(+string,format);",
        call,
        &format!("{expected} = <void>"),
    );
}
