//! `lancet profile` of programs that know which stacks they can have: what is told of a thread belongs to one moment.

use std::collections::BTreeMap;
use std::process::Command;

use super::languages::FREE_THREADED;
use crate::support::{Guest, LIMIT, chosen, lancet, run};

/// Functions whose names begin with one of these call each other and no others: `a_top` calls `a_down`, which calls itself
/// [`DEPTH`] times and then `a_leaf`.
const LETTERS: &str = "abcdefgh";
const DEPTH: usize = 12;

/// A language, the option for a program in the command line, the functions of a letter, and what calls those of all letters in turn.
const PROGRAMS: [(&str, &str, &str, [&str; 3]); 4] = [
    (
        "ruby",
        "-e",
        "def X_leaf
           s = i = 0
           while i < 30; s += i; i += 1; end
           s
         end
         def X_down(n) = n == 0 ? X_leaf : X_down(n - 1)
         def X_top = X_down(12)
        ",
        ["puts 'ready'; STDOUT.flush; while true\n", "X_top\n", "end"],
    ),
    (
        "python",
        "-c",
        "def X_leaf():
    s = 0
    for i in range(30): s += i
    return s
def X_down(n): return X_leaf() if n == 0 else X_down(n - 1)
def X_top(): return X_down(12)
",
        [
            "def main():\n    while True:\n",
            "        X_top()\n",
            "print('ready', flush=True)\nmain()\n",
        ],
    ),
    (
        "perl",
        "-e",
        "sub X_leaf { my ($s, $i) = (0, 0); while ($i < 30) { $s += $i; $i++ } return $s }
         sub X_down { my $n = shift; my $r = $n == 0 ? X_leaf() : X_down($n - 1); return $r }
         sub X_top { my $r = X_down(12); return $r }
        ",
        ["$| = 1; print \"ready\\n\"; while (1) {", "X_top();", "}"],
    ),
    (
        "php",
        "-r",
        "function X_leaf() { $s = 0; for ($i = 0; $i < 30; $i++) $s += $i; return $s; }
         function X_down($n) { return $n == 0 ? X_leaf() : X_down($n - 1); }
         function X_top() { return X_down(12); }
        ",
        ["echo \"ready\\n\"; while (true) {", "X_top();", "}"],
    ),
];

/// The program of a language.
fn program(functions: &str, [begins, calls, ends]: [&str; 3]) -> String {
    let each = |text: &str| -> String {
        let letters = LETTERS.chars();
        letters
            .map(|letter| text.replace("X_", &format!("{letter}_")))
            .collect()
    };
    format!("{}{begins}{}{ends}", each(functions), each(calls))
}

/// What a frame is called, if it is one of these functions: its letter, and how far it is from the outside.
fn known(frame: &str) -> Option<(char, usize)> {
    let name = frame
        .split([' ', '(', ':'])
        .find(|word| word.contains('_'))?;
    let name = name.rsplit(['#', '\\']).next()?;
    let kinds = ["top", "down", "leaf"];
    let (letter, kind) = name.split_once('_')?;
    let kind = kinds.iter().position(|known| kind.starts_with(known))?;
    let letter = letter.chars().next()?;
    LETTERS.contains(letter).then_some((letter, kind))
}

/// Whether the program can have had these frames, from the outside inward, at one moment.
fn is_possible(frames: &[(char, usize)]) -> bool {
    let Some(&(letter, outermost)) = frames.first() else {
        return true;
    };
    let count = |kind: usize| frames.iter().filter(|frame| frame.1 == kind).count();
    let downs = count(1);
    let are_called_so = frames.is_sorted_by_key(|frame| frame.1) && outermost == 0;
    let is_whole = match count(2) {
        0 => downs <= DEPTH + 1,
        1 => downs == DEPTH + 1,
        _ => false,
    };
    are_called_so && is_whole && count(0) == 1 && frames.iter().all(|frame| frame.0 == letter)
}

#[test]
fn what_is_told_of_a_thread_belongs_to_one_moment() {
    for (language, option, functions, calls) in PROGRAMS {
        let mut interpreters = chosen(language, "profile");
        if language == FREE_THREADED.name {
            let mut free_threaded = FREE_THREADED.interpreters();
            free_threaded.retain(|one| !one.is_system());
            interpreters.extend(free_threaded);
        }
        for interpreter in interpreters {
            let text = program(functions, calls);
            let mut command: Command = interpreter.command();
            let guest = Guest::ready(command.args([option, &text]));
            let mut seen: BTreeMap<char, u64> = BTreeMap::new();
            let began = std::time::Instant::now();
            // Each letter has an eighth of the time.
            while seen.len() < LETTERS.len() || seen.values().sum::<u64>() < 400 {
                assert!(began.elapsed() < LIMIT, "{interpreter}: {seen:?}");
                let line = [
                    "profile", "--for", "1s", "--every", "1ms", "--format", "folded", "-p",
                ];
                let output = run(lancet().args(line).arg(guest.pid.to_string()), LIMIT);
                for stack in output.stdout.lines() {
                    let (stack, count) = stack.rsplit_once(' ').expect("a count");
                    let frames: Vec<_> = stack.split(';').filter_map(known).collect();
                    assert!(is_possible(&frames), "{interpreter}: {stack}");
                    if let Some((letter, _)) = frames.first() {
                        *seen.entry(*letter).or_default() +=
                            count.parse::<u64>().expect("a number");
                    }
                }
            }
        }
    }
}
