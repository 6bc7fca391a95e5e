//! gdb as oracle: 500 functions of Debian's libraries picked at random.
//!
//! A small program has the libraries loaded and stands still. gdb is told that its pc is in the function, where we
//! say that the frame is at its deepest, and asked where the frame begins. It answers by its own reader of call frame
//! information, and by that alone: the distance to rsp must be the size we gave.
//!
//! Frames with a frame pointer gdb cannot measure by standing in them. There the beginning of the function is run,
//! instruction by instruction, on the program's own stack until it calls something, and rsp must have come down as far
//! as we say, for those that take their room at the beginning.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use frames::scan::{Decode, Frame, How, Scan};

const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1",
    "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/lib/x86_64-linux-gnu/libmariadb.so.3",
];
const PICKED: usize = 500;
const PICKED_BY_CODE: usize = 110;

/// What gdb's Python does with a file of `library start end place how` lines.
const SCRIPT: &str = r#"
import gdb, re
gdb.execute("set confirm off"); gdb.execute("set pagination off"); gdb.execute("set debuginfod enabled off")
gdb.execute("break raise"); gdb.execute("run"); gdb.execute("handle all stop nopass", to_string=True)
rest = int(gdb.parse_and_eval("$rip"))
maps = {}
for line in open("/proc/%d/maps" % gdb.selected_inferior().pid):
    fields = line.split()
    if len(fields) > 5 and int(fields[2], 16) == 0: maps.setdefault(fields[5], int(fields[0].split("-")[0], 16))
home = int(gdb.parse_and_eval("$rsp")) & ~0xffff
out = open(OUT, "w")
for line in open(IN):
    library, start, end, place, how = line.split()
    base, start, end, place = maps[library], int(start), int(end), int(place)
    # At a place where no function is inlined: there registers could not be set.
    gdb.execute("frame 0", to_string=True); gdb.execute("set $rip = %d" % rest); gdb.execute("frame 0", to_string=True)
    if how == "cfi":
        gdb.execute("set $rsp = %d" % home)
        gdb.execute("set $rbp = %d" % (home + 4096))
        gdb.execute("set $rip = %d" % (base + place))
        said = re.search(r"[Ss]tack frame at (0x[0-9a-f]+)|at (0x[0-9a-f]+):", gdb.execute("info frame", to_string=True))
        cfa = int(said.group(1) or said.group(2), 16)
        out.write("%d %d\n" % (start, cfa - home))
    else:
        # The CFA is a multiple of 16; return to nowhere.
        gdb.execute("set $rsp = %d" % (home - 8))
        gdb.execute("set $rip = %d" % (base + start))
        for register in ["rdi", "rsi", "rdx", "rcx", "r8", "r9", "rax", "rbx"]: gdb.execute("set $%s = %d" % (register, home + 65536))
        lowest = home - 8
        for _ in range(60):
            at = int(gdb.parse_and_eval("$rip"))
            if not base + start <= at < base + end: break
            code = gdb.selected_frame().architecture().disassemble(at)[0]["asm"]
            if code.startswith(("call", "ret", "jmp", "syscall")): break
            try: gdb.execute("stepi", to_string=True)
            except gdb.error: break
            if base + start <= int(gdb.parse_and_eval("$rip")) < base + end: lowest = min(lowest, int(gdb.parse_and_eval("$rsp")))
        out.write("%d %d\n" % (start, home - lowest))
out.close()
gdb.execute("kill")
"#;

#[test]
fn gdb_agrees_on_500_functions_picked_at_random() {
    let libraries: Vec<&str> = LIBRARIES
        .into_iter()
        .filter(|path| Path::new(path).exists())
        .collect();
    let found = Command::new("gdb")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    if libraries.is_empty() || !found {
        println!("SKIPPED: gdb or all of the libraries are not installed");
        return;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("gdb");
    fs::create_dir_all(&folder).expect("a folder");
    let picked = pick(&libraries);
    let lines: Vec<String> = picked
        .iter()
        .map(|(path, frame)| line(path, frame))
        .collect();
    let (input, output) = (folder.join("asked"), folder.join("told"));
    fs::write(&input, lines.concat()).expect("written");
    let program = program(&folder, &libraries);
    let script = folder.join("ask.py");
    let named = format!(
        "IN, OUT = {:?}, {:?}\n{SCRIPT}",
        input.display(),
        output.display()
    );
    fs::write(&script, named).expect("written");
    let ran = Command::new("gdb")
        .args(["-nx", "-batch", "-x"])
        .arg(&script)
        .arg(&program)
        .output()
        .expect("gdb runs");
    let told = fs::read_to_string(&output).unwrap_or_default();
    let told: Vec<u64> = told
        .lines()
        .filter_map(|line| line.split(' ').nth(1)?.parse().ok())
        .collect();
    assert_eq!(
        told.len(),
        picked.len(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );

    let (mut exact, mut run, mut below) = (0, 0, 0);
    for ((path, frame), told) in picked.iter().zip(told) {
        let place = format!(
            "{path} {:#x}: {} by {:?}, gdb {told}",
            frame.range.start, frame.bytes, frame.how
        );
        match frame.how {
            How::Cfi => {
                assert_eq!(told, frame.bytes, "{place}");
                exact += 1;
            }
            // What ran may have returned early; it must never have come lower than we say.
            How::Code => {
                assert!(frame.dynamic || told <= frame.bytes, "{place}");
                run += 1;
                below += u32::from(told + frame.padding < frame.bytes);
            }
        }
    }
    println!(
        "{exact} by call frame information, {run} by running them, {below} of those not to their deepest"
    );
    assert!(run > 100, "{run}");
    assert!(
        below * 2 < run,
        "{below} of {run} did not come as deep as we say"
    );
}

fn line(path: &str, frame: &Frame) -> String {
    let real = fs::canonicalize(path).expect("a path");
    let how = match frame.how {
        How::Cfi => "cfi",
        How::Code => "code",
    };
    format!(
        "{} {} {} {} {how}\n",
        real.display(),
        frame.range.start,
        frame.range.end,
        frame.deepest_at
    )
}

/// Told by call frame information or, where that is partial, by the code.
fn pick(libraries: &[&str]) -> Vec<(String, Frame)> {
    let mut all = Vec::new();
    for path in libraries {
        let scan = Scan::path(Path::new(path), Decode::AsNeeded).expect("a library");
        let mut frames = scan.frames().to_vec();
        // Those that are decoded because nothing is on their stack say little.
        frames.retain(|frame| frame.bytes > 8 && !frame.unclear);
        frames.sort_by_key(|frame| frame.range.start);
        all.extend(frames.into_iter().map(|frame| ((*path).to_owned(), frame)));
    }
    // The seed is fixed so that a failure can be repeated; LANCET_SEED picks others.
    let seed = std::env::var("LANCET_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut state: u64 = seed.unwrap_or(2009);
    let mut draw = |all: &mut Vec<(String, Frame)>, count: usize| -> Vec<(String, Frame)> {
        let one = |_| {
            // Knuth's MMIX multiplier.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(state >> 33).unwrap_or(0) % all.len();
            all.swap_remove(at)
        };
        (0..count).map(one).collect()
    };
    let mut picked = draw(&mut all, PICKED);
    // Few functions keep a frame pointer: more of those.
    all.retain(|(_, frame)| frame.how == How::Code);
    picked.extend(draw(&mut all, PICKED_BY_CODE));
    picked
}

/// A program that has the libraries loaded, room on its stack, and stops.
fn program(folder: &Path, libraries: &[&str]) -> PathBuf {
    let source = folder.join("host.c");
    let opens: String = libraries
        .iter()
        .map(|path| format!("  if (!dlopen(\"{path}\", RTLD_LAZY)) return 1;\n"))
        .collect();
    let text = format!(
        "#include <dlfcn.h>\n#include <signal.h>\n#include <string.h>\nint main(void) {{\n  char room[1 << 20];\n  \
         memset(room, 0, sizeof room);\n{opens}  return raise(SIGCONT) + room[1];\n}}\n"
    );
    fs::write(&source, text).expect("written");
    let program = folder.join("host");
    let output = Command::new("gcc")
        .arg(&source)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("gcc");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    program
}
