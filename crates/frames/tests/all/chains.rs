//! What is said of chains of calls that may be deeper than they are shown.

use std::path::PathBuf;
use std::process::Command;

use frames::Scan;
use frames::chains::{self, Chain};
use frames::scan::Decode;

const SOURCE: &str = r#"
void use(char *);
void another_file(void) { use(0); }
void maybe_another_file(int n) { if (n) use(0); }
void pointer(void (**f)(void)) { (*f)(); }
void pick(int n, volatile int *out) {
  switch (n) {
    case 0: *out = 7; break;
    case 1: *out = n + *out; break;
    case 2: out[1] = 9; out[2] = 3; break;
    case 3: *out = *out * 5; break;
    case 4: out[3] = out[4]; break;
    case 5: out[5] = out[5] - n; break;
    case 6: *out = 0; out[9] = 2; break;
    case 7: out[8] = *out; break;
  }
}
static void deep(int n) { volatile char b[2000]; b[n] = 1; }
static void open(int n, void (*f)(void)) { volatile char b[900]; b[n] = 1; f(); b[n] = 2; }
static void again(int n) { volatile char b[300]; b[n] = 1; if (n) again(n - 1); b[n] = 2; }
void deep_alone(int n) { deep(n); deep(n + 1); }
void beside_open(int n, void (*f)(void)) { deep(n); open(n, f); deep(n); }
void beside_recursion(int n) { deep(n); again(n); deep(n); }
void round_by_jump(int n);
void round_by_call(int n) { volatile char b[200]; b[n] = 1; if (n) round_by_jump(n - 1); b[n] = 2; }
void round_by_jump(int n) { volatile char b[100]; b[n] = 1; round_by_call(n); }
__asm__(
  ".pushsection .text\n"
  ".globl table_in_frame\n .type table_in_frame, @function\n"
  "table_in_frame: sub $24, %rsp\n jmp *(%rdi,%rsi,8)\n 1: add $24, %rsp\n ret\n"
  ".size table_in_frame, .-table_in_frame\n"
  ".globl pointer_behind_frame\n .type pointer_behind_frame, @function\n"
  "pointer_behind_frame: sub $24, %rsp\n add $24, %rsp\n jmp *%rax\n"
  ".size pointer_behind_frame, .-pointer_behind_frame\n"
  ".globl jumps_by_turns\n .type jumps_by_turns, @function\n"
  "jumps_by_turns: test %edi, %edi\n jne jumped_by_turns\n ret\n"
  ".size jumps_by_turns, .-jumps_by_turns\n"
  ".globl jumped_by_turns\n .type jumped_by_turns, @function\n"
  "jumped_by_turns: dec %edi\n jmp jumps_by_turns\n"
  ".size jumped_by_turns, .-jumped_by_turns\n"
  ".popsection\n");
"#;

/// Else another file could replace a function, and it would be called by the linkage table.
const HIDDEN: [&str; 1] = ["-fvisibility=hidden"];

fn scan(name: &str, text: &str, options: &[&str]) -> Scan {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("chains-{name}.c"));
    let library = folder.join(format!("chains-{name}.so"));
    std::fs::write(&source, text).expect("written");
    let output = Command::new("gcc")
        .args(["-O2", "-w", "-fPIC", "-shared", "-nostdlib", "-fno-inline"])
        .args(["-fno-ipa-icf", "-fno-ipa-cp"])
        .args(options)
        .args(["-fno-toplevel-reorder", "-fno-stack-protector"])
        .arg(&source)
        .arg("-o")
        .arg(&library)
        .output()
        .expect("gcc");
    assert!(output.status.success(), "{output:?}");
    Scan::path(&library, Decode::AsNeeded).expect("read")
}

/// Returns whether a chain is open, and whether it is recursive.
fn marks(scan: &Scan, chains: &[Chain], name: &str) -> (bool, bool) {
    let begins = |chain: &&Chain| scan.name(&chain.frames[0]).as_deref() == Some(name);
    let chain = chains.iter().find(begins).expect(name);
    (chain.open, chain.recursive)
}

#[test]
fn a_chain_without_a_mark_is_bounded() {
    let scan = scan("marks", SOURCE, &HIDDEN);
    let chains = chains::of(&scan, usize::MAX, None).rows;
    for (name, open, recursive) in [
        ("another_file", true, false),
        ("maybe_another_file", true, false),
        ("pointer", true, false),
        ("pointer_behind_frame", true, false),
        ("beside_open", true, false),
        ("beside_recursion", false, true),
        ("round_by_call", false, true),
        ("deep_alone", false, false),
        ("pick", false, false),
        ("table_in_frame", false, false),
    ] {
        assert_eq!(marks(&scan, &chains, name), (open, recursive), "{name}");
    }
    // Nothing but jumps: the stack does not grow with the rounds.
    assert!(!marks(&scan, &chains, "jumps_by_turns").1);
}

/// Two thousand functions that begin a chain of two thousand others: only the wanted chains have their frames put together. All
/// of them would take some 360 MB.
#[test]
fn only_the_wanted_chains_are_put_together() {
    const MANY: usize = 2000;
    let mut source = String::from("__asm__(\".pushsection .text\\n\"\n");
    let mut add = |name: String, code: String| {
        source += &format!(
            "\".type {name}, @function\\n{name}: {code}\\n ret\\n.size {name}, .-{name}\\n\"\n"
        );
    };
    for number in 1..MANY {
        add(format!("f{number}"), format!("call f{}", number + 1));
    }
    add(format!("f{MANY}"), "nop".to_owned());
    for number in 1..=MANY {
        add(format!("root{number}"), "call f1".to_owned());
    }
    source += "\".popsection\\n\");";
    let scan = scan("many", &source, &HIDDEN);
    let before = resident();
    let found = chains::of(&scan, 3, Some(8 * MANY as u64));
    let after = resident();
    assert!(found.count >= MANY, "{}", found.count);
    assert_eq!(found.larger, MANY as u64);
    assert_eq!(found.rows.len(), 3);
    assert!(
        found
            .rows
            .iter()
            .all(|chain| chain.frames.len() == MANY + 1)
    );
    assert!(after - before < 100_000, "{before} kB, then {after}");
}

/// Returns the most memory that this process has had, in kB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("read");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("VmHWM")
}

const EXPORTED: &str = r#"
int elsewhere(int);
static int one(int n) { return n + 1; }
static int (*choose(void))(int) { return one; }
int chosen(int) __attribute__((ifunc("choose")));
int leaf(int n) { volatile char b[1000]; b[n] = 1; return b[n]; }
int middle(int n) { volatile char b[2000]; b[n] = 1; return b[n] + leaf(n); }
int outer(int n) { volatile char b[3000]; b[n] = 1; return b[n] + middle(n) + leaf(n); }
int jumps(int n) { return outer(n + 1); }
int calls_another_file(int n) { return leaf(n) + elsewhere(n); }
int calls_what_is_chosen(int n) { return leaf(n) + chosen(n); }
"#;

/// What a library exports is called through the loader, by a stub (with call frame information or without) or by the slot itself.
#[test]
fn a_librarys_own_functions_are_followed_through_the_loader() {
    let ways: [(&str, &[&str]); 4] = [
        ("plt", &["-Wl,-z,lazy"]),
        (
            "plt-sec",
            &["-fcf-protection", "-Wl,-z,ibtplt", "-Wl,-z,now"],
        ),
        ("no-ld-cfi", &["-Wl,--no-ld-generated-unwind-info"]),
        ("slot", &["-fno-plt"]),
    ];
    for (way, options) in ways {
        let scan = scan(&format!("exported-{way}"), EXPORTED, options);
        let chains = chains::of(&scan, usize::MAX, None).rows;
        let names = |chain: &Chain| -> Vec<String> {
            let frames = chain.frames.iter();
            frames
                .map(|frame| scan.name(frame).unwrap_or_else(|| "?".into()))
                .collect()
        };
        assert_eq!(
            names(&chains[0]),
            ["jumps", "outer", "middle", "leaf"],
            "{way}"
        );
        assert!(!chains[0].open && !chains[0].recursive, "{way}");
        assert!(chains[0].bytes > 5500, "{way}: {}", chains[0].bytes);
        for name in ["calls_another_file", "calls_what_is_chosen"] {
            assert_eq!(marks(&scan, &chains, name), (true, false), "{way}: {name}");
        }
        // A stub is no function that begins a chain.
        let begins: Vec<String> = chains.iter().map(|chain| names(chain)[0].clone()).collect();
        let deep = chains.iter().filter(|chain| chain.bytes > 5500).count();
        assert_eq!(deep, 1, "{way}: {begins:?}");
    }
}
