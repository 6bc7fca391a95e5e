//! What no input may do: make us panic, print what we cannot read, or show more than was copied.

use crate::guest::Guest;
use proptest::prelude::*;
use prototypes::filter::{Filter, Where};
use prototypes::show::Show;
use prototypes::{Detail, Library};

fn read(text: &str) -> Library {
    Library::parse("any.conf", text, &mut |_| None).0
}

/// Words of the grammar in any order: they come further than rubbish does.
fn soup() -> impl Strategy<Value = String> {
    let words = "int|uint|long|ulong|char|short|void|float|double|struct|array|enum|string|format|typedef|import|function|\
        hex|oct|octal|bool|bitvec|hide|guess|ruby|value|addr|file|zero|arg1|arg2|elt1|retval|f|g|t|(|)|[|]|,|;|*|+|=|\"|1|0x10|-1|\n| ";
    let word = prop::sample::select(words.split('|').collect::<Vec<_>>());
    prop::collection::vec(word, 0..60).prop_map(|words| words.join(" "))
}

/// A type that means something, as text.
fn types() -> impl Strategy<Value = String> {
    let scalar = "char|short|ushort|int|uint|long|ulong|float|double|ldouble|addr|string|string[4]|string[arg2]|hex(int)|oct(long)|\
        bool(char)|guess(long)|bitvec(uint)|enum(A, B, C=5)|hide(int)|string(uint)|string(array(uint, zero)*)|node*|ruby(value)";
    let scalar = prop::sample::select(scalar.split('|').map(str::to_owned).collect::<Vec<_>>());
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            2 => inner.clone().prop_map(|ty| format!("{ty}*")),
            2 => prop::collection::vec(inner.clone(), 0..4).prop_map(|of| format!("struct({})", of.join(", "))),
            1 => (inner.clone(), 0..6).prop_map(|(ty, n)| format!("array({ty}, {n})")),
            1 => inner.clone().prop_map(|ty| format!("array({ty}, arg2)*")),
            1 => inner.clone().prop_map(|ty| format!("array({ty}, zero(3))*")),
            1 => inner.prop_map(|ty| format!("struct(int, array({ty}, elt1)*)")),
        ]
    })
}

const NODE: &str = "typedef node = struct;\ntypedef node = struct(int, node*, string);\n";

fn prototypes() -> impl Strategy<Value = String> {
    (
        types(),
        prop::collection::vec((types(), any::<bool>()), 0..6),
    )
        .prop_map(|(returns, parameters)| {
            let parameters: Vec<String> = parameters
                .into_iter()
                .map(|(ty, late)| if late { format!("+{ty}") } else { ty })
                .collect();
            format!("{NODE}{returns} f({})", parameters.join(", "))
        })
}

/// Memory in which most words are small numbers, characters or addresses of it.
fn guests() -> impl Strategy<Value = Guest> {
    let word = prop_oneof![
        3 => (0_u64..256).prop_map(|at| 0x7f00_0000_0000 + at * 8),
        1 => (0_u64..32).prop_map(|at| 0x7f00_0000_0f80 + at * 8),
        3 => 0_u64..7,
        1 => Just(u64::from_le_bytes(*b"text\n\xc3\xbc\0")),
        1 => any::<u64>(),
    ];
    let words = prop::collection::vec(word.clone(), 256..=512);
    (words, prop::collection::vec(word, 64)).prop_map(|(words, registers)| {
        let mut guest = Guest::new();
        guest.words(&words);
        guest.registers.gp.copy_from_slice(&registers[..6]);
        guest.registers.sse.copy_from_slice(&registers[6..14]);
        guest.returned.rax = registers[14];
        guest.returned.rdx = registers[15];
        for word in &registers[16..] {
            guest.stack(&word.to_le_bytes());
        }
        guest
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 192,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        let library = read(&text);
        let _ = Filter::parse(&text).map(|filter| filter.matches(&text, Where { path: &text, soname: "x", is_main: false }));
        let _ = Filter::library(&text).map_err(|error| error.to_string());
        let _ = library.to_string();
    }

    #[test]
    fn what_was_read_reads_again_as_printed(text in soup()) {
        let printed = read(&text).to_string();
        let (again, errors) = Library::parse("again.conf", &printed, &mut |_| None);
        let errors: Vec<_> = errors.iter().filter(|error| !error.problem.is_warning()).collect();
        prop_assert!(errors.is_empty(), "{errors:?}\n{printed}");
        prop_assert_eq!(again.to_string(), printed);
    }

    #[test]
    fn problems_point_into_their_line(text in soup()) {
        let (_, errors) = Library::parse("any.conf", &text, &mut |_| None);
        for error in errors {
            prop_assert!(error.column <= error.text.chars().count() + 1);
            prop_assert!(error.to_string().lines().count() == 3);
        }
    }

    #[test]
    fn types_read_as_printed(text in prototypes()) {
        let library = crate::guest::library(&text);
        let printed = library.to_string();
        prop_assert_eq!(crate::guest::library(&printed).to_string(), printed);
    }

    /// What the hook copies is enough: nothing more is shown from the whole memory.
    #[test]
    fn what_is_copied_is_what_is_shown(text in prototypes(), guest in guests()) {
        let library = crate::guest::library(&text);
        let prototype = library.prototype("f").expect("f");
        for detail in [Detail { strings: 32, array: 4, whole: false }, Detail { strings: 3, array: 2, whole: false }] {
            let show = Show { detail, ..Show::default() };
            guest.line(prototype, "f", &show);
        }
    }

    #[test]
    fn a_format_of_any_text_is_shown_from_what_is_copied(text in "[%a-zA-Z0-9*.#+ -]{0,30}", mut guest in guests()) {
        guest.registers.gp[0] = guest.text(&text);
        let library = crate::guest::library("int f(format)");
        let show = Show::default();
        guest.line(library.prototype("f").expect("f"), "f", &show);
    }
}
