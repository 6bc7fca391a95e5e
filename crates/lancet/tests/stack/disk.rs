//! Files.

use super::output::{folder, records, stack, text};
use crate::support::assert_shown;

#[test]
fn a_limit_is_a_check() {
    let library = compile(
        "limit",
        "void use(char *); void f(void) { char b[5000]; use(b); } void g(void) { f(); }",
    );
    let fine = stack(&["--max", "6000", &library]);
    assert_eq!(fine.status.code(), Some(0), "{fine:?}");
    let exceeded = stack(&["--max", "4096", &library]);
    assert_eq!(exceeded.status.code(), Some(3), "{exceeded:?}");
    assert_eq!(
        String::from_utf8_lossy(&exceeded.stderr),
        "lancet: 1 frame is larger than 4096 bytes\n"
    );
}

#[test]
fn the_variable_is_named() {
    let library = compile(
        "variable",
        "void use(char *);\nvoid f(void) {\n  char buffer[5000];\n  use(buffer);\n}",
    );
    let said = text(&stack(&["--top", "1", &library]));
    assert_shown(
        &said,
        &[(&library, "LIBRARY")],
        r"
        LIBRARY: 7 functions, 1 by call frame information, 6 by their code; 0 dynamic

        bytes  function
        5,024  f: buffer, char [5000], 5,000 bytes at source.c:3
               … and 6 more
        ",
    );
    let frames = records(&stack(&["--json", &library]), "function");
    assert_eq!(frames[0]["variable"]["name"], "buffer");
}

#[test]
fn what_cannot_be_read_is_said_in_one_line() {
    let folder = folder("refused");
    let short = folder.join("short.so");
    std::fs::write(&short, b"\x7fELF\x02\x01\x01").expect("written");
    let short = short.display().to_string();
    let cases = [
        (
            "/etc/passwd",
            "lancet: /etc/passwd: not an x86-64 ELF file\n",
        ),
        (
            "/nonexistent",
            "lancet: /nonexistent: No such file or directory (os error 2)\n",
        ),
        ("/dev/null", "lancet: /dev/null: not a regular file\n"),
        (&short, "lancet: SHORT: too short for an ELF header\n"),
    ];
    for (path, says) in cases {
        let output = stack(&[path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_shown(&said, &[(&short, "SHORT")], says);
    }
    // Of several the others are ranked.
    let library = compile(
        "refused",
        "void use(char *); void f(void) { char b[5000]; use(b); }",
    );
    let output = stack(&["--top", "1", "/etc/passwd", &library]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let ranked = String::from_utf8_lossy(&output.stdout);
    assert_shown(
        &ranked,
        &[(&library, "LIBRARY")],
        r"
        LIBRARY: 7 functions, 1 by call frame information, 6 by their code; 0 dynamic

        bytes  function
        5,024  f: b, char [5000], 5,000 bytes at source.c:1
               … and 6 more
        ",
    );
    let said = String::from_utf8_lossy(&output.stderr);
    assert_shown(&said, &[], "lancet: /etc/passwd: not an x86-64 ELF file\n");
}

#[test]
fn everything_a_process_has_loaded() {
    let output = stack(&["--json", "--process", &std::process::id().to_string()]);
    let files = records(&output, "file");
    let named = |name: &str| {
        files
            .iter()
            .any(|file| file["file"].as_str().unwrap_or("").contains(name))
    };
    assert!(named("libc.so.6") && named("ld-linux"), "{files:#?}");
}

#[test]
fn a_process_that_is_not_there() {
    for option in ["-p", "--process"] {
        let output = stack(&[option, "4194304"]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_shown(
            &said,
            &[],
            "lancet: there is no process 4194304: look it up again, for instance with pgrep -af NAME\n",
        );
    }
}

/// `_fini` has a symbol without a size and no call frame information, and where code and data share a segment what follows
/// it is data. Here that reads as functions that take 28 KiB each.
#[test]
fn a_function_ends_where_its_section_ends() {
    let source = "
        #define EIGHT(...) __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__ __VA_ARGS__
        const unsigned char data[] = { EIGHT(EIGHT(EIGHT(0x48, 0x81, 0xec, 0x00, 0x70, 0x00, 0x00, 0xc3,))) };
        void use(char *);
        void f(void) { char b[500]; use(b); }
    ";
    let library = compile_with("section", source, &["-Wl,-z,noseparate-code"]);
    let said = text(&stack(&["--top", "2", &library]));
    assert!(
        said.contains(" f: b, char [500]") && !said.contains("_fini"),
        "{said}"
    );
    let said = text(&stack(&["--check", "--top", "1", &library]));
    // What is left out is counted among those that differ, and here none does.
    assert!(!said.contains(" more"), "{said}");
}

#[test]
fn two_builds_are_compared_by_the_names_of_their_functions() {
    let source = |grown: usize, last: &str| {
        format!(
            "void use(char *);\n\
             void same(void) {{ char b[300]; use(b); }}\n\
             void grown(void) {{ char b[{grown}]; use(b); }}\n\
             static void twice(void) {{ char b[400]; use(b); }}\n\
             void {last}(void) {{ char b[2000]; use(b); twice(); }}\n"
        )
    };
    let options = ["-fno-inline", "-nostdlib", "-fno-stack-protector"];
    let old = compile_with("difference-old", &source(1000, "gone"), &options);
    let new = compile_with("difference-new", &source(5000, "added"), &options);

    let said = text(&stack(&["--diff", &old, &new]));
    assert_shown(
        &said,
        &[(&old, "OLD"), (&new, "NEW")],
        r"
        OLD, then NEW: 1 frame grew, 1 is new, 0 shrank, 1 is gone, 2 are as before; the largest had 2,016 bytes, now 5,024

        before  after  change  function
         1,024  5,024  +4,000  grown
             –  2,016  +2,016  added (new)
         2,016      –  -2,016  gone (gone)
        ",
    );
    let output = stack(&["--json", "--diff", &old, &new]);
    let all = records(&output, "difference");
    assert_eq!(all[0]["same"], 2, "{}", all[0]);
    let changes = records(&output, "change");
    assert_eq!(changes.len(), 3);
    assert_eq!(changes[0]["name"], "grown");
    assert_eq!(changes[0]["bytes"], 4000);
    assert_eq!(changes[2]["after"], serde_json::Value::Null);

    // What was as large before is no reason to fail; what is new or grew is.
    let judged =
        |max: &str, old: &str, new: &str| stack(&["--max", max, "--diff", old, new]).status.code();
    assert_eq!(judged("5024", &old, &new), Some(0));
    assert_eq!(judged("5023", &old, &new), Some(3));
    assert_eq!(judged("100", &new, &new), Some(0));
    // Smaller again; but the function that is back is as good as new.
    assert_eq!(judged("2015", &new, &old), Some(3));
    assert_eq!(judged("2016", &new, &old), Some(0));

    // A build without names cannot be compared, which is said.
    let stripped = [&options[..], &["-s", "-fvisibility=hidden"]].concat();
    let bare = compile_with("difference-bare", &source(1000, "gone"), &stripped);
    let said = text(&stack(&["--diff", &old, &bare]));
    assert!(
        said.contains("of the new one have no name and are not compared"),
        "{said}"
    );
    // With a limit that one of its frames exceeds, nobody knows whether that one grew.
    assert_eq!(judged("2016", &old, &bare), Some(0));
    let unknown = stack(&["--max", "2015", "--json", "--diff", &old, &bare]);
    assert_eq!(unknown.status.code(), Some(4), "{unknown:?}");
    let said = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        said.contains("1 function has no name and cannot be compared"),
        "{said}"
    );
    assert_eq!(stack(&["--diff", &old]).status.code(), Some(2));
    assert_eq!(
        stack(&["--diff", &old, "/etc/passwd"]).status.code(),
        Some(1)
    );
}

#[test]
fn chains_of_calls_are_added_up() {
    let source = "
        void use(char *);
        void *there(int);
        static void leaf(void) { char b[1000]; use(b); }
        static void middle(void) { char b[2000]; use(b); leaf(); use(b); }
        void outer(void) { char b[3000]; use(b); middle(); leaf(); use(b); }
        void again(int n) { char b[500]; use(b); if (n) again(n - 1); use(b); }
        void tail(void) { char b[6500]; use(b); }
        void jumps(void) { use(0); tail(); }
        void large(void) { char b[5000]; use(b); }
        int small(int n) { return n * 3; }
        int calls_small(int n) { return small(n) + small(n + 1); }
    ";
    // Hidden, because else another file could replace a function, and it would be called by the linkage table.
    let options = [
        "-O2",
        "-fno-inline",
        "-nostdlib",
        "-fno-stack-protector",
        "-fvisibility=hidden",
        "-fno-ipa-icf",
    ];
    let library = compile_with("chains", source, &options);
    let output = stack(&["--chains", "--json", &library]);
    let chains = records(&output, "chain");
    let of = |name: &str| {
        let chain = chains
            .iter()
            .find(|chain| chain["frames"][0]["name"] == name);
        chain.unwrap_or_else(|| panic!("no chain of {name}: {chains:?}"))
    };
    let names = |chain: &serde_json::Value| -> Vec<String> {
        let frames = chain["frames"].as_array().expect("frames").iter();
        frames
            .map(|frame| frame["name"].as_str().unwrap_or("?").to_owned())
            .collect()
    };
    // The sizes are those of the ranking: of the deepest chain all three.
    let frames = records(&stack(&["--json", &library]), "function");
    let bytes = |name: &str| {
        let frame = frames.iter().find(|frame| frame["name"] == name);
        frame.expect(name)["bytes"].as_u64().expect("bytes")
    };
    let outer = of("outer");
    assert_eq!(names(outer), ["outer", "middle", "leaf"]);
    assert_eq!(
        outer["bytes"],
        bytes("outer") + bytes("middle") + bytes("leaf")
    );
    assert_eq!(
        (&outer["open"], &outer["recursive"]),
        (&true.into(), &false.into())
    );
    assert_eq!(of("again")["recursive"], true);
    // A jump takes the place of its caller's frame.
    assert_eq!(names(of("jumps")), ["jumps", "tail"]);
    assert_eq!(of("jumps")["bytes"], bytes("tail"));
    assert_eq!(of("calls_small")["open"], false);
    // Who is called by others begins no chain.
    assert!(
        chains
            .iter()
            .all(|chain| chain["frames"][0]["name"] != "middle")
    );

    let said = text(&stack(&["--chains", "--top", "1", &library]));
    let row = said.lines().nth(1).expect("a row");
    assert!(
        row.contains("+ jumps ") && row.contains(" > tail "),
        "{said}"
    );
    let judged = |max: u64| stack(&["--chains", "--max", &max.to_string(), &library]);
    let deepest = bytes("tail");
    assert_eq!(judged(deepest).status.code(), Some(0));
    let exceeded = judged(deepest - 1);
    assert_eq!(exceeded.status.code(), Some(3));
    assert_eq!(
        String::from_utf8_lossy(&exceeded.stderr),
        format!(
            "lancet: 1 chain of calls takes more than {} bytes\n",
            deepest - 1
        )
    );
}

fn compile(name: &str, source: &str) -> String {
    compile_with(name, source, &[])
}

fn compile_with(name: &str, source: &str, options: &[&str]) -> String {
    let folder = folder(name);
    let (text, library) = (folder.join("source.c"), folder.join("library.so"));
    std::fs::write(&text, source).expect("written");
    let built = std::process::Command::new("gcc")
        .args(["-shared", "-fPIC", "-g", "-O1"])
        .args(options)
        .arg(&text)
        .arg("-o")
        .arg(&library)
        .output()
        .expect("gcc");
    assert!(built.status.success(), "{built:?}");
    library.to_str().expect("a path").to_owned()
}
