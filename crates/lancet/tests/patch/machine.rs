//! Functions of interpreters replaced by C and put back, while several threads of a script call them.

use std::process::Command;

use crate::programs::{PLAIN, done, library, request};
use crate::support::{Guest, Snapshot, installed, skip};

/// Array#join answers what the new function says while it is in force, and what it always said before and after. Four
/// threads join arrays all the time, and count answers that are neither.
#[test]
fn a_function_of_ruby_is_replaced_under_load() {
    if !installed("ruby") {
        return skip("patch ruby", "no ruby");
    }
    const SCRIPT: &str = r#"
        $stdout.sync = true
        wrong = 0
        stop = false
        made = 0
        threads = 4.times.map do |number|
          Thread.new do
            until stop
              text = ["a", number, "b", "x" * 200].join(",")
              right = "a,#{number},b,#{"x" * 200}"
              wrong += 1 unless text == right || text == "patched"
              made += text.bytesize
              GC.start if made % 1000 == 0
              # Or the main thread would wait for a time slice of each of them before each answer.
              Thread.pass
            end
          end
        end
        puts "ready"
        while (line = $stdin.gets)
          puts [1, 2, 3].join("-")
        end
        stop = true
        threads.each(&:join)
        puts "answer #{wrong}"
    "#;
    const SOURCE: &str = r#"
        typedef unsigned long VALUE;
        VALUE rb_str_new_cstr(const char *text);
        VALUE lancet_original(VALUE array, VALUE separator);
        static long joined;
        VALUE join(VALUE array, VALUE separator) {
            /* Every other call is the old function's, so that both are seen in one phase. */
            return joined++ & 1 ? rb_str_new_cstr("patched") : lancet_original(array, separator);
        }
    "#;
    let mut guest = Guest::ready(Command::new("ruby").args(["-e", SCRIPT]));
    let before = Snapshot::take(guest.pid);
    let file = library("join", SOURCE, PLAIN);
    for turn in 0..20 {
        assert_eq!(guest.answer_to("join"), "1-2-3", "turn {turn}");
        done(
            guest.pid,
            &["--wait", "1m", &request("rb_ary_join", &file, "join")],
        );
        let mut answers: Vec<String> = (0..40).map(|_| guest.answer_to("join")).collect();
        answers.sort();
        answers.dedup();
        assert_eq!(answers, ["1-2-3", "patched"], "turn {turn}");
        done(guest.pid, &["--undo"]);
        assert_eq!(guest.answer_to("join"), "1-2-3", "turn {turn}");
    }
    before.text_holds(guest.pid, "undone");
    guest.ends_with("answer 0");
}
