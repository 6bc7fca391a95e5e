//! Held against gcc's own figures: `fixtures/c/frames`, compiled with `-fstack-usage` at every level of
//! optimisation, with and without stack clash protection and frame pointers, then read whole, stripped, and
//! with the call frame information taken out.
//!
//! gcc writes the figures in the order in which it writes the functions into its assembly, and there they have
//! the names the linker knows.

mod compile;

use std::collections::BTreeMap;

use compile::{Corpus, Kind, Usage};
use frames::scan::{Decode, Frame, How, Scan};

/// What a reading of one library agreed on.
#[derive(Debug, Default)]
struct Tally {
    exact: (u32, u32),
    other: (u32, u32),
    dynamic: (u32, u32),
    differ: Vec<String>,
}

impl Tally {
    fn hold(&mut self, what: &str, name: &str, usage: &Usage, frame: &Frame) {
        let by_stack_pointer =
            usage.kind == Kind::Static && !frame.frame_pointer && frame.padding == 0;
        let agrees = match usage.kind {
            // For each alloca gcc counts 16 bytes for aligning it on top of what is certain.
            Kind::Dynamic => frame.bytes <= usage.bytes && frame.bytes + 16 >= usage.bytes,
            // Its largest padding is short by 16 where a register was saved before the stack was aligned:
            // after two pushes and with the CFA 16 past a multiple of 64, `and $-64,%rsp` takes 56.
            _ if frame.padding > 0 => frame.bytes == usage.bytes || frame.bytes == usage.bytes + 16,
            _ => frame.bytes == usage.bytes,
        };
        let counts = if by_stack_pointer {
            &mut self.exact
        } else {
            &mut self.other
        };
        counts.1 += 1;
        counts.0 += u32::from(agrees);
        if usage.kind == Kind::Dynamic {
            self.dynamic.1 += 1;
            self.dynamic.0 += u32::from(frame.dynamic);
        } else if frame.dynamic {
            self.differ.push(format!(
                "{what} {name}: called dynamic, is {:?}",
                usage.kind
            ));
        }
        if !agrees {
            self.differ.push(format!(
                "{what} {name}: {} {:?}, found {} by {:?} at {:#x}",
                usage.bytes, usage.kind, frame.bytes, frame.how, frame.range.start
            ));
        }
    }
}

#[test]
fn every_frame_is_the_one_gcc_says() {
    let corpus = Corpus::compile();
    let mut tally = Tally::default();
    for library in &corpus.libraries {
        for (what, path) in [("whole", &library.whole), ("stripped", &library.stripped)] {
            let by_address = frames_by_address(path, Decode::AsNeeded);
            for (name, usage) in &library.usages {
                let at = library.addresses[name];
                let what = format!("{} {what}", library.flags);
                match by_address.get(&at) {
                    Some(frame) => tally.hold(&what, name, usage, frame),
                    None => tally
                        .differ
                        .push(format!("{what} {name}: not found at {at:#x}")),
                }
            }
        }
    }
    report(&tally);
    assert!(
        tally.exact.1 > 2000 && tally.other.1 > 3000,
        "the corpus is too small: {tally:?}"
    );
    assert_eq!(
        tally.exact.0, tally.exact.1,
        "told by rsp: {:#?}",
        tally.differ
    );
    assert!(
        f64::from(tally.other.0) >= 0.995 * f64::from(tally.other.1),
        "told otherwise: {:?} {:#?}",
        tally.other,
        tally.differ
    );
    assert!(
        !tally
            .differ
            .iter()
            .any(|line| line.contains("called dynamic") || line.contains("not found")),
        "{:#?}",
        tally.differ
    );
}

#[test]
fn code_alone_tells_as_much() {
    let corpus = Corpus::compile();
    let mut tally = Tally::default();
    for library in &corpus.libraries {
        let by_address = frames_by_address(&library.without_cfi, Decode::AsNeeded);
        assert!(
            by_address.values().all(|frame| frame.how == How::Code),
            "{}",
            library.flags
        );
        for (name, usage) in &library.usages {
            match by_address.get(&library.addresses[name]) {
                Some(frame) => tally.hold(&format!("{} no CFI", library.flags), name, usage, frame),
                None => tally
                    .differ
                    .push(format!("{} {name}: not found", library.flags)),
            }
        }
    }
    report(&tally);
    let (agree, of) = (tally.exact.0 + tally.other.0, tally.exact.1 + tally.other.1);
    assert!(of > 2500, "{tally:?}");
    assert!(
        f64::from(agree) >= 0.995 * f64::from(of),
        "{agree} of {of}: {:#?}",
        tally.differ
    );
}

#[test]
fn functions_are_found_with_neither_symbols_nor_cfi() {
    let corpus = Corpus::compile();
    for library in &corpus.libraries {
        let by_address = frames_by_address(&library.bare, Decode::AsNeeded);
        let biggest = by_address.values().map(|frame| frame.bytes).max();
        let told = library.usages.values().map(|usage| usage.bytes).max();
        assert_eq!(biggest, told, "{}", library.flags);
        let sound = |(name, at): &(&String, &u64)| {
            let frame = by_address.get(at);
            frame.is_some_and(|frame| frame.bytes == library.usages[*name].bytes)
        };
        let found = library.bare_addresses.iter().filter(sound).count();
        let of = library.bare_addresses.len();
        println!("{}: {found} of {of}", library.flags);
        assert!(found * 5 >= of * 4, "{}: {found} of {of}", library.flags);
    }
}

/// Behind `.text` a few bytes of padding come before `.fini`; read as code they make no sense of the last function.
#[test]
fn the_last_function_of_a_bare_program() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("bare.c"), folder.join("bare"));
    let text = "int puts(const char *);\n\
        int main(int argc, char **argv) { char room[20000]; room[argc] = 1; puts(room); return room[0]; }\n";
    std::fs::write(&source, text).expect("written");
    let built = std::process::Command::new("gcc")
        .args(["-O1", "-s", "-w", "-fno-asynchronous-unwind-tables", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(built.expect("gcc").success());
    let by_address = frames_by_address(&program, Decode::AsNeeded);
    let biggest = by_address.values().map(|frame| frame.bytes).max();
    assert!(
        biggest.is_some_and(|bytes| (20000..20100).contains(&bytes)),
        "{by_address:#?}"
    );
}

fn frames_by_address(path: &std::path::Path, decode: Decode) -> BTreeMap<u64, Frame> {
    let scan = Scan::path(path, decode).expect("an ELF file of ours");
    let frames = scan.frames().iter();
    frames
        .map(|frame| (frame.range.start, frame.clone()))
        .collect()
}

fn report(tally: &Tally) {
    println!(
        "told by rsp {} of {}, otherwise {} of {}, dynamic seen {} of {}",
        tally.exact.0,
        tally.exact.1,
        tally.other.0,
        tally.other.1,
        tally.dynamic.0,
        tally.dynamic.1
    );
    for line in tally.differ.iter().take(40) {
        println!("  {line}");
    }
}
