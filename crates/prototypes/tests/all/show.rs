//! Calls as ltrace prints them. The expected texts are those of ltrace's own manual and of the behaviour
//! its test suite asks for (`parameters`, `parameters2`, `parameters3`, `wchar`).
//!
//! Every line is printed from what the capture program copied, and must read the same from the whole memory.

use crate::guest::{Guest, PLAIN, is, neg, shown};
use prototypes::show::{Prepared, Show};
use prototypes::types::Prototype;
use prototypes::{Detail, Word};

#[test]
fn numbers() {
    let guest = || Guest::new().returns(neg(-1));
    is(
        "int f(int, uint)",
        guest().int(neg(-5)).int(neg(-1)),
        "f(-5, 4294967295) = -1",
    );
    is(
        "void f(short,short)",
        guest().int(neg(-8)).int(neg(-9)),
        "f(-8, -9) = <void>",
    );
    is(
        "void f(ushort, ushort)",
        guest().int(33).int(34),
        "f(33, 34) = <void>",
    );
    is(
        "ulong f(long)",
        guest().int(neg(-2)),
        "f(-2) = 18446744073709551615",
    );
    let lenses = "void f(octal, octal(long), hex(short), hex(long));";
    is(
        lenses,
        guest().int(22).int(23).int(24).int(0),
        "f(026, 027, 0x18, 0) = <void>",
    );
    is(
        "bool(int) f(int, bool(int));",
        guest().int(1).int(10),
        "f(1, true) = true",
    );
    // Registers' upper halves are whatever.
    is(
        "bool(int) f(bool(char));",
        guest().int(0xff00),
        "f(false) = true",
    );
    is(
        "char f(char)",
        guest().int(0x141).returns(0xff),
        "f('A') = '\\377'",
    );
    is(
        "void f(char, char, char)",
        guest().int(0).int(9).int(0x5c),
        "f('\\0', '\\t', '\\\\') = <void>",
    );
}

#[test]
fn an_unknown_function_shows_words() {
    let guest = Guest::new()
        .int(3)
        .int(neg(-1))
        .int(0x7f12_3456)
        .int(neg(-200_000))
        .int(0);
    let prototype = Prototype::unknown(5);
    let line = guest.returns(10_001).line(&prototype, "f", &PLAIN);
    assert_eq!(line, "f(3, -1, 0x7f123456, 0xfffffffffffcf2c0, 0) = 0x2711");
}

#[test]
fn floating_point() {
    let guest = || Guest::new().double(3.4).double(-0.25);
    let mut returning = guest();
    returning.returned.sse[0] = 1.5_f64.to_bits();
    is(
        "double f(double, double)",
        returning.clone(),
        "f(3.400000, -0.250000) = 1.500000",
    );
    let hex = "hex(double) hex_double(hex(double))";
    let mut call = Guest::new().double(1.5);
    call.returned.sse[0] = 2.5_f64.to_bits();
    is(hex, call, "hex_double(0x1.8p+0) = 0x1.4p+1");
    let mut call = Guest::new().float(u64::from(1.5_f32.to_bits()) | 0xdead << 32);
    call.returned.sse[0] = u64::from(2.5_f32.to_bits());
    is("hex(float) f(hex(float))", call, "f(0x1.8p+0) = 0x1.4p+1");
    for (number, expected) in [
        (0.0, "0x0p+0"),
        (-0.0, "-0x0p+0"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::MIN_POSITIVE / 2.0, "0x0.8p-1022"),
        (1e300, "0x1.7e43c8800759cp+996"),
    ] {
        is(
            "void f(hex(double))",
            Guest::new().double(number),
            &format!("f({expected}) = <void>"),
        );
    }
    // 3.25 as an x87 number: 1.101 binary, exponent 1.
    let mut call = Guest::new();
    call.returned.x87[0] = [0, 0, 0, 0, 0, 0, 0, 0xd0, 0x00, 0x40];
    call.stack(&[0, 0, 0, 0, 0, 0, 0, 0xd0, 0x00, 0xc0, 0, 0, 0, 0, 0, 0]);
    is("ldouble f(ldouble)", call, "f(-3.250000) = 3.250000");
}

#[test]
fn arrays() {
    let mut guest = Guest::new();
    let at = guest.ints(&[10, 11, 12, 13, 14, 15, 16, 17]);
    let conf = "void func_arrayi(array(int,arg2)*,int)";
    let call = |length| guest.clone().int(at).int(length);
    is(
        conf,
        call(8),
        "func_arrayi([ 10, 11, 12, 13... ], 8) = <void>",
    );
    is(conf, call(4), "func_arrayi([ 10, 11, 12, 13 ], 4) = <void>");
    is(conf, call(2), "func_arrayi([ 10, 11 ], 2) = <void>");
    is(conf, call(0), "func_arrayi([  ], 0) = <void>");
    // As an argument an array is a pointer, written so or not.
    is("void f(array(int, 2))", call(8), "f([ 10, 11 ]) = <void>");
    is(
        "void f(hex(array(int, 2)*))",
        call(8),
        "f([ 0xa, 0xb ]) = <void>",
    );
    let mut guest = Guest::new();
    let (a, b) = (guest.text("ls"), guest.text("-l"));
    let argv = guest.words(&[a, b, 0]);
    let execve = "int execv(string, array(string, zero)*)";
    is(
        execve,
        guest.int(a).int(argv),
        "execv(\"ls\", [ \"ls\", \"-l\" ]) = 0",
    );
    let mut guest = Guest::new();
    let at = guest.words(&[1, 0, 1, 0]);
    let shorts = "array(enum[long](A,B), 4) *f(array(enum[long](A,B), 4)*);";
    is(
        shorts,
        guest.int(at).returns(at),
        "f([ B, A, B, A ]) = [ B, A, B, A ]",
    );
}

#[test]
fn structs() {
    // struct { int simple, alen, slen; struct { int a, b; } *array; struct { int a, b; } seq[3]; char *str; }
    let mut guest = Guest::new();
    let pairs = guest.ints(&[1, 10, 3, 30, 99, 99]);
    let text = guest.text("123junk");
    let mut bytes: Vec<u8> = [89, 2, 3, 0]
        .iter()
        .flat_map(|n: &i32| n.to_le_bytes())
        .collect();
    bytes.extend(pairs.to_le_bytes());
    bytes.extend(
        [4, 40, 5, 50, 6, 60]
            .iter()
            .flat_map(|n: &i32| n.to_le_bytes()),
    );
    bytes.extend(text.to_le_bytes());
    let at = guest.put(&bytes);
    let conf = "void func_struct(struct(int,int,int,array(struct(int,int),elt2)*,\
                array(struct(int,int),3),string[elt3])*)";
    let expected = "func_struct({ 89, 2, 3, [ { 1, 10 }, { 3, 30 } ], \
                    [ { 4, 40 }, { 5, 50 }, { 6, 60 } ], \"123\" }) = <void>";
    is(conf, guest.int(at), expected);

    let conf = "struct(float,char,char) f(int, struct(string(array(char, 6)),float), double);";
    let small = u64::from_le_bytes(*b"ABCDE\0\0\0");
    let quarter = u64::from(0.25_f32.to_bits());
    let mut call = Guest::new().int(17).int(small).float(quarter).double(0.5);
    call.returned.sse[0] = quarter;
    call.returned.rax = quarter | 0x4342 << 32;
    is(
        conf,
        call,
        "f(17, { \"ABCDE\\0\", 0.250000 }, 0.500000) = { 0.250000, 'B', 'C' }",
    );

    is(
        "struct() f(struct(), int)",
        Guest::new().int(7),
        "f({  }, 7) = {  }",
    );
    is(
        "struct(short) f(struct(short))",
        Guest::new().int(5).returns(5),
        "f({ 5 }) = { 5 }",
    );
    let call = Guest::new().int(5 | 6 << 32).returns(5 | 6 << 32);
    is(
        "struct(int,int) f(struct(int,int));",
        call,
        "f({ 5, 6 }) = { 5, 6 }",
    );
    let hide = "void f(hide(int), int, hide(int), hide(int), int, hide(int));";
    is(
        hide,
        Guest::new().int(1).int(2).int(3).int(4).int(5).int(6),
        "f(2, 5) = <void>",
    );
    let mut guest = Guest::new();
    guest.stack(&[
        1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
    ]);
    let hidden = "void f(struct(hide(int), int, hide(int), hide(int), int));";
    is(hidden, guest, "f({ 2, 5 }) = <void>");
}

#[test]
fn large_structs_lie_on_the_stack_and_are_returned_in_memory() {
    let mut guest = Guest::new();
    for word in 1..=8_u64 {
        guest.stack(&word.to_le_bytes());
    }
    let sums = guest.words(&[6, 8, 10, 12]);
    // The hidden first argument says where to return it.
    let call = guest.int(sums).int(9).returns(sums);
    let conf = "typedef large = struct(long,long,long,long)\nlarge f(large, large, int);";
    is(
        conf,
        call,
        "f({ 1, 2, 3, 4 }, { 5, 6, 7, 8 }, 9) = { 6, 8, 10, 12 }",
    );
}

#[test]
fn rings_are_recognised_and_lists_are_cut() {
    const LIST: &str = "typedef xxx = struct;\ntypedef xxx = struct(int, xxx*);\nvoid ll(xxx*);";
    let node = |guest: &mut Guest, number: u64, next: u64| guest.words(&[number, next]);
    let mut guest = Guest::new();
    let mut at = 0;
    for number in 1..=4 {
        at = node(&mut guest, number, at);
    }
    is(
        LIST,
        guest.int(at),
        "ll({ 4, { 3, { 2, { 1, nil } } } }) = <void>",
    );
    let mut guest = Guest::new();
    let e = node(&mut guest, 1, 0);
    let f = node(&mut guest, 2, e);
    guest.set(e + 8, &f.to_le_bytes());
    is(LIST, guest.int(f), "ll({ 2, { 1, recurse^ } }) = <void>");
    let mut guest = Guest::new();
    let g = node(&mut guest, 1, 0);
    guest.set(g + 8, &g.to_le_bytes());
    is(LIST, guest.int(g), "ll({ 1, recurse }) = <void>");
    let mut guest = Guest::new();
    let mut at = 0;
    for number in 0..10 {
        at = node(&mut guest, number, at);
    }
    is(
        LIST,
        guest.clone().int(at),
        "ll({ 9, { 8, { 7, { 6, ... } } } }) = <void>",
    );
    let five = Show {
        detail: Detail {
            strings: 32,
            array: 5,
            whole: false,
        },
        ..PLAIN
    };
    let expected = "ll({ 9, { 8, { 7, { 6, { 5, ... } } } } }) = <void>";
    assert_eq!(shown(LIST, guest.int(at), &five), expected);
}

#[test]
fn pointers() {
    let mut guest = Guest::new();
    let number = guest.ints(&[80]);
    let p = guest.words(&[number]);
    let pp = guest.words(&[p]);
    is(
        "void func_ppp(int * **)",
        guest.clone().int(pp),
        "func_ppp(80) = <void>",
    );
    is(
        "void f(hex(uint*))",
        guest.clone().int(number),
        "f(0x50) = <void>",
    );
    is("void f(+int*)", guest.clone().int(number), "f(80) = <void>");
    is(
        "addr f(addr, file)",
        guest.int(0x1234),
        "f(0x1234, nil) = nil",
    );
    let mut guest = Guest::new();
    let text = guest.text("Dude");
    let at = guest.words(&[text]);
    is(
        "void func_stringp(string*)",
        guest.int(at),
        "func_stringp(\"Dude\") = <void>",
    );
}

#[test]
fn enums() {
    let color = "typedef color = enum (RED=0,GREEN=1,BLUE=2,CHARTREUSE=3,PETUNIA=4)\n";
    is(
        &format!("{color}void f(color, color)"),
        Guest::new().int(2).int(7),
        "f(BLUE, 7) = <void>",
    );
    let negative = "enum[long](A=-1) f(enum[short](A=-1), enum[ushort](A=-1), enum[uint](A=-1), enum[ulong](A=-1));";
    let call = (0..4).fold(Guest::new().returns(neg(-1)), |guest, _| guest.int(neg(-1)));
    is(negative, call, "f(A, A, A, A) = A");
    // Counting goes on from the last value.
    is(
        "enum(A, B = 0x10, C) f(enum(A, B = 0x10, C))",
        Guest::new().int(17),
        "f(C) = A",
    );
}

#[test]
fn bit_vectors() {
    for (bits, expected) in [
        (0, "<>"),
        (0x123, "<0-1,5,8>"),
        (0xffff_fffe, "~<0>"),
        (0xffff_ffff, "~<>"),
        (0x8000_0000, "<31>"),
        (0x0000_ffff, "<0-15>"),
    ] {
        is(
            "void fun(bitvec(uint))",
            Guest::new().int(bits),
            &format!("fun({expected}) = <void>"),
        );
    }
    let mut guest = Guest::new();
    let mut bytes = [0; 32];
    (bytes[1], bytes[31]) = (0xff, 0x80);
    let at = guest.put(&bytes);
    is(
        "void f(bitvec(array(char, 32)*))",
        guest.int(at),
        "f(<8-15,255>) = <void>",
    );
}

#[test]
fn what_is_late_waits_for_the_return() {
    let mut guest = Guest::new();
    let (x, y) = (guest.text("x"), guest.text("y"));
    let guest = guest.int(7).int(x).int(y);
    let library = crate::guest::library("int f(int, +string, string)");
    let prototype = library.prototype("f").expect("f");
    let captures = guest.capture(prototype, PLAIN.detail);
    let prepared = Prepared::new(prototype.clone());
    let (mut left, mut right) = (Vec::new(), Vec::new());
    PLAIN.left(guest.call(&prepared), &captures, &mut left);
    PLAIN.right(guest.call(&prepared), &captures, &mut right);
    assert_eq!(left, b"7");
    assert_eq!(right, b", \"x\", \"y\"");
    assert!(
        prototype.capture(PLAIN.detail).call.is_empty(),
        "nothing is copied at the call"
    );
}

#[test]
fn values_of_a_language_are_decoded_by_who_knows_it() {
    let decode = |word, value| (word == Word::RubyValue && value == 8).then(|| ":sym".to_owned());
    let show = Show {
        decode: Some(&decode),
        ..PLAIN
    };
    let mut guest = Guest::new();
    let argv = guest.words(&[8, 0x77]);
    let conf = "ruby(value) rb_funcallv(ruby(value), ruby(id), int, array(ruby(value), arg3)*)";
    let call = guest.int(8).int(0x1c1).int(2).int(argv).returns(8);
    let expected = "rb_funcallv(:sym, 0x1c1, 2, [ :sym, 0x77 ]) = :sym";
    assert_eq!(shown(conf, call, &show), expected);
}

#[test]
fn a_line_is_never_without_end() {
    let mut conf = String::from("typedef t0 = struct(int, int);\n");
    for level in 1..30 {
        conf += &format!("typedef t{level} = struct(t{0}, t{0});\n", level - 1);
    }
    conf += "void f(t29*);";
    let at = 0x10000;
    let library = crate::guest::library(&conf);
    let call = Guest::new().int(at);
    let prototype = library.prototype("f").expect("f");
    let prepared = Prepared::new(prototype.clone());
    let zeros = |_: u64, into: &mut [u8]| {
        into.fill(0);
        true
    };
    let line = PLAIN.line("f", call.call(&prepared), &zeros);
    assert!((60_000..80_000).contains(&line.len()), "{}", line.len());
}
