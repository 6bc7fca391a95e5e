//! `--where`: every operator against what Rust says, texts across the ends of pages, what cannot be read, and hostile
//! words.

use std::time::Duration;

use capture::condition::{self, Facts, holds, line_bits};
use capture::value::{Item, Text, Value, Values};
use capture::{Registers, Returned};
use proptest::prelude::*;
use prototypes::condition::Condition;
use prototypes::types::Prototype;
use prototypes::{Library, capture};

fn prototype(text: &str) -> Prototype {
    let (library, errors) = Library::parse("test", text, &mut |_| None);
    assert!(errors.is_empty(), "{errors:?}");
    library.prototype("f").expect("it is there").clone()
}

/// Two pages from here on, and nothing behind.
const BASE: u64 = 0x10000;
const SIZE: usize = 8192;

struct Call {
    registers: Registers,
    returned: Returned,
    elapsed: u64,
    line: &'static str,
    memory: Vec<u8>,
}

impl Call {
    fn new() -> Self {
        Call {
            registers: Registers::default(),
            returned: Returned::default(),
            elapsed: 0,
            line: "",
            memory: vec![b'.'; SIZE],
        }
    }

    /// Puts a text there, and its NUL.
    fn put(&mut self, at: usize, text: &str) -> u64 {
        self.memory[at..at + text.len()].copy_from_slice(text.as_bytes());
        if let Some(end) = self.memory.get_mut(at + text.len()) {
            *end = 0;
        }
        BASE + at as u64
    }

    fn meets(&self, condition: &str, described: &str) -> bool {
        let condition = Condition::parse(condition).unwrap_or_else(|error| panic!("{error}"));
        let prototype = (!described.is_empty()).then(|| prototype(described));
        let compiled = condition
            .compile(prototype.as_ref(), &|nanos| nanos * 3)
            .unwrap();
        let facts = Facts {
            registers: &self.registers,
            returned: None,
            elapsed: 0,
            lines: line_bits(&condition.lines(), self.line.as_bytes()),
        };
        let late = Facts {
            returned: Some(&self.returned),
            elapsed: self.elapsed,
            ..facts
        };
        let read = |at: u64, into: &mut [u8]| {
            assert!(at / 4096 == (at + (into.len() as u64 - 1)) / 4096, "a page");
            let from = at.wrapping_sub(BASE) as usize;
            match self.memory.get(from..from.wrapping_add(into.len())) {
                Some(bytes) => {
                    into.copy_from_slice(bytes);
                    into.len()
                }
                None => 0,
            }
        };
        holds(&compiled.call, facts, read) && holds(&compiled.exit, late, read)
    }
}

fn truth<T: PartialOrd>(relation: &str, left: T, right: T) -> bool {
    match relation {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    }
}

const RELATIONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];

fn near(least: i128, most: i128) -> impl Strategy<Value = i128> {
    prop_oneof![
        Just(0_i128),
        Just(least),
        Just(most),
        -5..5_i128,
        least..=most
    ]
    .prop_map(move |number| number.clamp(least, most))
}

proptest! {
    /// Of every integer type, whatever stands in the rest of its register.
    #[test]
    fn numbers_compare_as_in_c(
        (name, bits, signed) in prop_oneof![
            Just(("short", 16_u32, true)), Just(("ushort", 16, false)), Just(("int", 32, true)), Just(("uint", 32, false)),
            Just(("long", 64, true)), Just(("ulong", 64, false)), Just(("char", 8, false)),
        ],
        number in near(i64::MIN.into(), u64::MAX.into()),
        with in near(i64::MIN.into(), i64::MAX.into()),
        rubbish in any::<u64>(),
        relation in proptest::sample::select(&RELATIONS[..]),
    ) {
        let mask = u64::MAX >> (64 - bits);
        let word = number as u64 & mask;
        let as_signed = (word << (64 - bits)) as i64 >> (64 - bits);
        let value = if signed { i128::from(as_signed) } else { i128::from(word) };
        let mut call = Call::new();
        call.registers.gp[1] = word | rubbish & !mask;
        let expected = match relation {
            // The same bits are meant.
            "==" | "!=" if with < 0 && !signed && with >= -(1_i128 << bits) => truth(relation, value, with + (1_i128 << bits)),
            "==" | "!=" if signed && with >= 1_i128 << (bits - 1) && with < 1_i128 << bits => truth(relation, value, with - (1_i128 << bits)),
            _ => truth(relation, value, with),
        };
        let described = format!("void f(int, {name});");
        prop_assert_eq!(call.meets(&format!("arg2 {relation} {with}"), &described), expected, "{} {}", value, with);
        // On the stack, and as a result.
        call.memory[4092..4100].copy_from_slice(&call.registers.gp[1].to_le_bytes());
        call.registers.stack = BASE + 4092;
        let described = format!("void f(long, long, long, long, long, long, {name});");
        prop_assert_eq!(call.meets(&format!("arg7 {relation} {with}"), &described), expected);
        call.returned.rax = call.registers.gp[1];
        let described = format!("{name} f();");
        prop_assert_eq!(call.meets(&format!("ret {relation} {with}"), &described), expected);
        prop_assert_eq!(call.meets(&format!("!(ret {relation} {with})"), &described), !expected);
    }

    #[test]
    fn floating_point_numbers_compare_as_in_c(
        number in any::<f64>(),
        with in prop_oneof![Just(0.0), Just(-0.5), -9.0..9.0_f64],
        relation in proptest::sample::select(&RELATIONS[..]),
    ) {
        for number in [number, with, 0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let mut call = Call::new();
            call.registers.sse[0] = number.to_bits();
            call.returned.sse[0] = number.to_bits();
            let expected = truth(relation, number, with);
            prop_assert_eq!(call.meets(&format!("arg2 {relation} {with:.60}"), "void f(int, double);"), expected, "{} {}", number, with);
            prop_assert_eq!(call.meets(&format!("ret {relation} {with:.60}"), "double f();"), expected);
            let (number, with) = (number as f32, with as f32);
            call.registers.sse[0] = number.to_bits().into();
            prop_assert_eq!(call.meets(&format!("arg1 {relation} {with:.60}"), "void f(float);"), truth(relation, number, with));
        }
    }

    /// Texts of all lengths anywhere, so that they cross pages and pieces, or end where memory ends.
    #[test]
    fn texts_are_found_wherever_they_lie(
        at in prop_oneof![0..SIZE, 3800..4200_usize, SIZE - 300..SIZE],
        text in "[aAb]{0,300}",
        sought in "[aAb]{0,5}",
        ended in any::<bool>(),
    ) {
        let mut call = Call::new();
        let text = &text[..text.len().min(SIZE - at - usize::from(ended).min(SIZE - at))];
        call.registers.gp[0] = call.put(at, text);
        call.registers.gp[1] = text.len() as u64;
        let has_end = at + text.len() < SIZE;
        for (described, readable) in [("void f(string);", has_end), ("", has_end), ("void f(string[arg2], ulong);", true), ("void f(string(array(char, arg2)*), ulong);", true)] {
            let found = text.contains(&sought);
            let folded = text.to_lowercase().contains(&sought.to_lowercase());
            let meets = |relation: &str| call.meets(&format!("arg1 {relation} \"{sought}\""), described);
            // What can be read is looked through, up to where it cannot.
            let some = readable || !text.is_empty();
            prop_assert_eq!(meets("~"), found && some);
            prop_assert_eq!(meets("~*"), folded && some);
            prop_assert_eq!(meets("!~"), !found && readable);
            if readable {
                prop_assert_eq!(meets("=="), text == sought);
                prop_assert_eq!(meets("!="), text != sought);
            }
        }
    }

    #[test]
    fn no_text_breaks_the_reader(text in "[ -~µ]{0,60}") {
        if let Err(error) = Condition::parse(&text) {
            prop_assert!(error.to_string().ends_with('^'), "{error}");
        }
    }

    #[test]
    fn pieces_of_the_grammar_in_any_order_break_nothing(words in proptest::collection::vec(proptest::sample::select(vec![
        "arg1", "ret", "time", "line", ":u8", "==", "~", "!~", "<", "&&", "||", "!", "(", ")", "3", "-1", "5ms", "\"a\"", "0x", "null", "1.5",
    ]), 0..12)) {
        if let Ok(condition) = Condition::parse(&words.join(" ")) {
            for described in ["int f(string, double);", "void f();"] {
                let _ = condition.compile(Some(&prototype(described)), &|nanos| nanos);
            }
            condition.compile(None, &|nanos| nanos).unwrap();
        }
    }

    /// A program that nobody compiled ends, reads only where it is allowed to, and says something.
    #[test]
    fn hostile_words_break_nothing(words in proptest::collection::vec((64..72_u64, any::<u64>()), 0..40)) {
        let words: Vec<u64> = words.into_iter().map(|(op, rest)| op | rest << 8).collect();
        let facts = Facts {
            registers: &Registers { gp: [BASE; 6], ..Registers::default() },
            returned: None,
            elapsed: 0,
            lines: 0,
        };
        holds(&words, facts, |at, into| {
            assert!(at / 4096 == (at + (into.len() as u64 - 1)) / 4096);
            into.fill(b'a');
            into.len()
        });
        line_bits(&words, b"app.rb:12");
    }
}

#[test]
fn tests_are_joined_as_in_c() {
    let mut call = Call::new();
    call.registers.gp = [1, 0, 1, 0, 0, 0];
    for (text, expected) in [
        ("arg1==1 || arg1==2 && arg2==1", true),
        ("(arg1==1 || arg1==2) && arg2==1", false),
        ("!(arg2==1) && arg3==1", true),
        ("!!arg1==1", true),
        ("arg2==1 && arg1==1 || arg3==1", true),
        ("arg2==1 || arg2==2 || arg3==1", true),
        (
            "arg1==1 && (arg2==1 || arg3==0 || (arg3==1 && arg2==0))",
            true,
        ),
        ("arg2==null && arg1!=null", true),
        ("arg1 == 0x1", true),
    ] {
        assert_eq!(call.meets(text, ""), expected, "{text}");
    }
}

/// What is known early is asked early, whatever comes late: each way of splitting gives the same answer.
#[test]
fn what_is_late_is_asked_at_the_return() {
    let mut call = Call::new();
    call.registers.gp[0] = 3;
    call.returned.rax = (-1_i32) as u32 as u64;
    call.elapsed = Duration::from_millis(5).as_nanos() as u64 * 3;
    let described = "int f(int);";
    for (text, expected) in [
        ("ret < 0", true),
        ("ret == -1 && arg1 == 3", true),
        ("ret == -1 && arg1 == 4", false),
        ("arg1 == 4 || ret == -1", true),
        ("time >= 5ms", true),
        ("time > 5ms", false),
        ("time > 4999.999us && arg1 == 3 && ret != 0", true),
        ("time < 0.005s", false),
        ("time <= 5000µs", true),
        ("ret:u32 > 5", true),
        ("ret:i8 == -1", true),
    ] {
        assert_eq!(call.meets(text, described), expected, "{text}");
    }
    // Nobody said that it is an int.
    assert!(!call.meets("ret < 0", ""));
    assert!(call.meets("ret:i32 < 0", ""));
    let condition = Condition::parse("arg1 == 3 && time > 1ms").unwrap();
    let compiled = condition.compile(None, &|nanos| nanos).unwrap();
    assert_eq!((compiled.call.len(), compiled.exit.len()), (2, 2));
}

#[test]
fn lines_are_asked_as_they_are_shown() {
    let mut call = Call::new();
    call.line = "/srv/app.rb:12 in 'show'";
    for (text, expected) in [
        ("line ~ \"app.rb\"", true),
        ("line ~ \"app.rb:12 \"", true),
        ("line ~ \"app.rb:1 \"", false),
        ("line !~ \"app.rb\"", false),
        ("line == \"/srv/app.rb:12 in 'show'\"", true),
        ("line ~ \"x\" || line ~* \"SHOW\"", true),
        ("line ~ \"x\" || line ~ \"y\" || line ~ \"z\"", false),
    ] {
        assert_eq!(call.meets(text, ""), expected, "{text}");
    }
}

#[test]
fn what_cannot_be_read_fails_its_test() {
    let mut call = Call::new();
    for wild in [
        0,
        8,
        4095,
        u64::MAX,
        u64::MAX - 3,
        1 << 63,
        BASE - 1,
        BASE + SIZE as u64,
    ] {
        call.registers.gp[0] = wild;
        for text in [
            "arg1 ~ \"\"",
            "arg1 ~ \".\"",
            "arg1 != \"a\"",
            "arg1 !~ \"a\"",
            "arg1 == \"\"",
        ] {
            assert!(!call.meets(text, "void f(string);"), "{wild:x} {text}");
        }
    }
    // A word on the stack that is not there.
    call.registers.stack = BASE + SIZE as u64 - 4;
    assert!(!call.meets("arg7 != 3", ""));
    // A length that was never one.
    call.registers.gp = [BASE, u64::MAX, 0, 0, 0, 0];
    assert!(!call.meets("arg1 !~ \"x\"", "void f(string[arg2], int);"));
    // No end within what is looked at.
    call.registers.gp[0] = BASE;
    assert!(call.meets("arg1 !~ \"x\"", "void f(string);"));
}

#[test]
fn refusals_point_at_the_place() {
    let refusal = |text: &str| Condition::parse(text).unwrap_err().to_string();
    assert_eq!(
        refusal("arg1 == 3 && agr2 ~ \"x\""),
        "condition, column 14: `agr2` is none of arg1, arg2 …, ret, time, line\n    arg1 == 3 && agr2 ~ \"x\"\n                 ^"
    );
    for (text, column, why) in [
        ("", 1, "expected arg1, arg2 …, ret, time or line"),
        ("arg0 == 1", 1, "arguments are counted from 1 to 99"),
        ("arg1 = 1", 6, "expected ==, !=, <, <=, >, >=, ~, !~ or ~*"),
        ("arg1 ~ 1", 6, "a number has no ~"),
        ("arg1 < \"a\"", 6, "a text has ==, !=, ~, !~ and ~*"),
        ("arg1 > 5ms", 6, "only `time` is compared with a duration"),
        (
            "time > 5",
            6,
            "a time is compared with a duration: time > 5ms",
        ),
        ("line == 12", 6, "a line is compared with a text"),
        ("arg1:u7 == 1", 6, "`u7` is none of i8, u8,"),
        ("arg1 ~ \"abc", 8, "no closing `\"`"),
        ("arg1 ~ \"a\\q\"", 10, "after a backslash only"),
        ("(arg1 == 1", 11, "expected `)`"),
        ("arg1 == 1 and ret == 2", 11, "expected && or || or the end"),
        ("arg1 == 99999999999999999999", 9, "out of range"),
        ("time > 5min", 8, "expected a unit: ns, us, ms, s, m or h"),
    ] {
        let said = refusal(text);
        assert!(
            said.starts_with(&format!("condition, column {column}: ")),
            "{text}: {said}"
        );
        assert!(said.contains(why), "{text}: {said}");
    }
    let long = format!("arg1 ~ \"{}\"", "x".repeat(65));
    assert!(refusal(&long).contains("at most 64 bytes"));
    assert!(refusal(&"(".repeat(1000)).contains("too deeply"));
    assert!(refusal(&"!".repeat(1000)).contains("too deeply"));
}

#[test]
fn functions_that_cannot_be_asked_say_why() {
    let unfit = |condition: &str, described: &str| {
        let condition = Condition::parse(condition).unwrap();
        let unfit = condition.compile(Some(&prototype(described)), &|nanos| nanos);
        unfit.unwrap_err().to_string()
    };
    assert_eq!(unfit("arg2 == 1", "int f(int);"), "it has no argument 2");
    assert_eq!(unfit("ret == 1", "void f(int);"), "it returns nothing");
    let only = "only numbers and `char` strings can be asked";
    assert_eq!(
        unfit("arg1 ~ \"x\"", "int f(double);"),
        format!("argument 1 is `double`: {only}")
    );
    assert_eq!(
        unfit("arg1 ~ \"x\"", "int f(ruby(reason));"),
        format!("argument 1 is `ruby(reason)`: {only}")
    );
    let value = "is a value of the script's language";
    assert_eq!(
        unfit("arg1 < nil", "int f(ruby(value));"),
        format!("argument 1 {value}: null is only equal or not")
    );
    assert_eq!(
        unfit("ret == 0xffffffffffffffff", "perl(sv) f();"),
        format!("its result {value}: it is compared with numbers of 64 bits with a sign")
    );
    assert_eq!(
        unfit("arg2 == 1", "ruby(value) f(ruby(self), ruby(value));"),
        "it has no argument 2"
    );
    assert!(
        unfit("arg1 == 1 || ret == 1", "perl(result) f(perl(arguments));")
            .contains("at the call only")
    );
    assert_eq!(
        unfit("ret == 1", "ldouble f();"),
        format!("its result is `ldouble`: {only}")
    );
}

/// A VM whose values are what the word and the argument's number say.
struct Vm;

impl Values for Vm {
    fn value(&mut self, item: Item, word: u64) -> Option<Value> {
        Some(match (word, item.index) {
            (0, _) => return None,
            (1, _) => Value::Nothing,
            (2, _) => Value::Other,
            (3, _) => Value::Text(Text {
                at: 0,
                left: TEXT.len() as u64,
                width: 0,
            }),
            (word, index) => Value::Integer(word as i64 + i64::from(index)),
        })
    }

    fn fetch(&mut self, text: &mut Text, into: &mut [u8]) -> Option<usize> {
        let from = text.at as usize;
        let capture = &TEXT[from..TEXT.len().min(from + 3)];
        into[..capture.len()].copy_from_slice(capture);
        text.at += capture.len() as u64;
        text.left -= capture.len() as u64;
        Some(capture.len())
    }
}

const TEXT: &[u8] = b"SELECT 1";

#[test]
fn values_of_a_vm_are_counted_and_compared_as_it_has_them() {
    let holds = |condition: &str, described: &str, gp: [u64; 3], rax: u64| {
        let condition = Condition::parse(condition).unwrap();
        let compiled = condition.compile(Some(&prototype(described)), &|nanos| nanos);
        let compiled = compiled.unwrap();
        assert!(compiled.values);
        let mut registers = Registers::default();
        registers.gp[..3].copy_from_slice(&gp);
        let returned = Returned {
            rax,
            ..Returned::default()
        };
        let ask = |words: &[u64], returned| {
            let facts = Facts {
                registers: &registers,
                returned,
                elapsed: 0,
                lines: 0,
            };
            condition::holds_of(words, facts, |_, _| 0, &mut Vm)
        };
        ask(&compiled.call, None) && ask(&compiled.exit, Some(&returned))
    };
    let of_c = "ruby(value) f(ruby(value), ruby(value));";
    let fixed = "ruby(value) f(ruby(self), ruby(value), ruby(value));";
    let hidden = "ruby(value) f(hide(addr), ruby(value));";
    let list = "ruby(value) f(ruby(method));";
    let fast = "python(object) f(python(self), python(fast));";
    for (condition, described, gp, rax, expected) in [
        ("arg1 == 10 && arg2 == 20", of_c, [10, 20, 0], 0, true),
        ("arg1 == 20 && arg2 == 30", fixed, [10, 20, 30], 0, true),
        ("arg1 == 20", hidden, [10, 20, 30], 0, true),
        ("arg1 == 10 && arg3 == 12", list, [10, 20, 30], 0, true),
        ("arg1 == 20 && arg2 == 21", fast, [10, 20, 30], 0, true),
        ("arg1 == null", of_c, [1, 0, 0], 0, true),
        ("arg1 != null", of_c, [1, 0, 0], 0, false),
        ("arg1 != undef", of_c, [2, 0, 0], 0, true),
        ("arg1 != null || arg1 == null", of_c, [0, 0, 0], 0, false),
        ("arg1 != 5", of_c, [2, 0, 0], 0, false),
        ("arg1 < 100.5", of_c, [100, 0, 0], 0, true),
        ("arg1 ~ \"CT 1\"", of_c, [3, 0, 0], 0, true),
        ("arg1 == \"SELECT 1\"", of_c, [3, 0, 0], 0, true),
        ("arg1 !~ \"SELECT\"", of_c, [2, 0, 0], 0, false),
        ("ret == 7 && arg1 ~ \"S\"", of_c, [3, 0, 0], 7, true),
        ("ret == 7 && arg1 ~ \"S\"", of_c, [3, 0, 0], 8, false),
        ("arg1:u64 == 3 && arg1 ~ \"S\"", of_c, [3, 0, 0], 0, true),
    ] {
        let held = holds(condition, described, gp, rax);
        assert_eq!(held, expected, "{condition} of {described}");
    }
}
