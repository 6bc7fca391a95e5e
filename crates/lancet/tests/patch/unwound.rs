//! Exceptions, backtraces and thread cancellation pass through new code, and new code throws and catches.

use std::process::Command;

use crate::programs::{PLAIN, compiled, done, library, library_in, request};
use crate::support::{Guest, Snapshot, installed, skip};

/// Throws its argument through `between`, and catches it.
const GUEST: &str = r#"
    #include <cstdio>
    #include <cstring>
    #include <execinfo.h>
    #include <stdexcept>
    struct Noted { long *at; ~Noted() { ++*at; } };
    static long cleaned;
    extern "C" __attribute__((noipa)) long thrower(long value) {
        if (value > 100) throw std::runtime_error("large");
        if (value < 0) throw value;
        return value;
    }
    extern "C" __attribute__((noipa)) long depth(void) {
        void *frames[64];
        return backtrace(frames, 64);
    }
    extern "C" __attribute__((noipa)) long between(long value) {
        Noted noted{&cleaned};
        return value == 0 ? depth() : thrower(value) + 1;
    }
    static const char *call(long value, char *text) {
        try {
            sprintf(text, "%ld", between(value));
        } catch (long thrown) {
            sprintf(text, "threw %ld", thrown);
        } catch (const std::exception &thrown) {
            sprintf(text, "threw %s", thrown.what());
        }
        return text;
    }
    int main() {
        char line[64], text[64];
        long value;
        setvbuf(stdout, nullptr, _IOLBF, 0);
        puts("ready");
        while (fgets(line, sizeof line, stdin) && sscanf(line, "%ld", &value) == 1)
            puts(call(value, text));
        puts("answer right");
    }
"#;

fn guest(test: &str) -> Option<Guest> {
    if !installed("g++") {
        skip(test, "no g++");
        return None;
    }
    let path = compiled("c++", test, GUEST, &["-rdynamic"]);
    Some(Guest::ready(&mut Command::new(path)))
}

/// New code in C, which says nothing of exceptions: one that is thrown by what it calls passes through it, and a backtrace goes on behind it.
#[test]
fn exceptions_pass_through() {
    let Some(mut guest) = guest("unwound-through") else {
        return;
    };
    const SOURCE: &str = "
        long lancet_original(long value);
        __attribute__((noipa)) static long inner(long value) { return lancet_original(value) + 1000; }
        long between(long value) { return inner(value) + 1; }
    ";
    let before = Snapshot::take(guest.pid);
    let deep: i64 = guest.answer_to("0").parse().expect("frames");
    assert!(deep >= 5, "{deep}");
    assert_eq!(guest.answer_to("-7"), "threw -7");
    let file = library("unwound-through", SOURCE, PLAIN);
    for turn in 0..3 {
        done(guest.pid, &[&request("between", &file, "between")]);
        assert_eq!(guest.answer_to("5"), "1007", "turn {turn}");
        for _ in 0..100 {
            assert_eq!(guest.answer_to("-7"), "threw -7", "turn {turn}");
            assert_eq!(guest.answer_to("101"), "threw large", "turn {turn}");
        }
        // Two frames more than before, and 1001 that the new functions add.
        assert_eq!(guest.answer_to("0"), (deep + 2 + 1001).to_string());
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("-7"), "threw -7", "turn {turn}");
        before.text_holds(guest.pid, "undone");
    }
    guest.ends_with("answer right");
}

/// New code in C++ that throws, catches and cleans up.
#[test]
fn new_code_throws_and_catches() {
    let Some(mut guest) = guest("unwound-own") else {
        return;
    };
    const SOURCE: &str = r#"
        extern "C" long lancet_original(long value);
        static long cleaned;
        struct Noted { ~Noted() { ++cleaned; } };
        __attribute__((noipa)) static long risky(long value) {
            Noted noted;
            if (value == 7) throw value;
            return lancet_original(value);
        }
        extern "C" long between(long value) {
            try {
                return risky(value);
            } catch (long thrown) {
                return thrown > 0 ? 7000 + cleaned : throw;
            }
        }
    "#;
    let before = Snapshot::take(guest.pid);
    let file = library_in("cc", "unwound-own", SOURCE, PLAIN);
    done(guest.pid, &[&request("between", &file, "between")]);
    assert_eq!(guest.answer_to("5"), "6");
    assert_eq!(guest.answer_to("7"), "7002");
    assert_eq!(guest.answer_to("-3"), "threw -3");
    assert_eq!(guest.answer_to("200"), "threw large");
    assert_eq!(guest.answer_to("7"), "7005");
    done(guest.pid, &["--undo"]);
    assert_eq!(guest.answer_to("7"), "8");
    // The heap may hold what was noted of an exception: where it was caught, in the new code.
    before.text_holds_but(guest.pid, "undone", 1);
    guest.ends_with("answer right");
}
