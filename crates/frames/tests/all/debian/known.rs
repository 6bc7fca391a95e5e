//! The biggest frames, as found by hand with readelf and objdump. The figures are those of Debian 12; with another
//! build of a library its build ID differs and the test says that it is skipped.

use std::path::Path;
use std::time::{Duration, Instant};

use frames::scan::{Decode, Scan};
use process::elf::Headers;

/// File, version of the package as Debian 12 has it now, and the frames at the top.
const KNOWN: [(&str, &str, &[u64]); 7] = [
    (
        "/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/rubyeventmachine.so",
        "ruby-eventmachine",
        &[32_976],
    ),
    (
        "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1",
        "libruby3.1",
        &[32_832, 16_528],
    ),
    (
        "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0",
        "libpython3.11",
        &[65_616, 49_760],
    ),
    ("/usr/bin/php8.2", "php8.2-cli", &[67_280, 66_304, 66_224]),
    (
        "/usr/lib/x86_64-linux-gnu/libmariadb.so.3",
        "libmariadb3",
        &[4_288],
    ),
    (
        "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
        "libssl3",
        &[11_384, 8_448, 8_288],
    ),
    ("/usr/bin/perl", "perl-base", &[8_512]),
];

/// What a person can recognise a frame by: a name, or else what it calls, says, or is called by.
#[test]
fn the_biggest_frames_can_be_recognised() {
    for (path, package, _) in KNOWN {
        let path = Path::new(path);
        if !path.exists() {
            println!("SKIPPED {}: {package} is not installed", path.display());
            continue;
        }
        let scan = Scan::path(path, Decode::AsNeeded).expect("a library");
        let top = &scan.frames()[..20];
        let unknown: Vec<u64> = top
            .iter()
            .filter(|frame| {
                let hints = scan.hints(frame);
                scan.name(frame).is_none() && hints.is_empty() && hints.caller.is_none()
            })
            .map(|frame| frame.range.start)
            .collect();
        println!("{}: {} of 20", path.display(), 20 - unknown.len());
        // libcrypto's assembly calls nothing, says nothing, and is reached through tables.
        let most = if path.ends_with("libcrypto.so.3") {
            6
        } else {
            4
        };
        assert!(unknown.len() <= most, "{}: {unknown:x?}", path.display());
    }
}

#[test]
fn the_biggest_frames_of_debians_libraries() {
    for (path, package, expected) in KNOWN {
        let path = Path::new(path);
        if !path.exists() {
            println!("SKIPPED {}: {package} is not installed", path.display());
            continue;
        }
        let scan = Scan::path(path, Decode::AsNeeded).expect("a library");
        // Padding is decided by the caller; the figures found by hand are without.
        let found: Vec<u64> = scan
            .frames()
            .iter()
            .take(expected.len())
            .map(|frame| frame.bytes - frame.padding)
            .collect();
        let id = std::fs::File::open(path)
            .ok()
            .and_then(|file| Headers::read(&file).ok()?.build_id(&file));
        assert_eq!(found, expected, "{}, build ID {id:x?}", path.display());
    }
}

#[test]
fn what_is_nameless_is_recognised() {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0");
    if !path.exists() {
        println!("SKIPPED: libpython3.11 is not installed");
        return;
    }
    let scan = Scan::path(path, Decode::AsNeeded).expect("a library");
    let select = &scan.frames()[1];
    assert_eq!(scan.name(select), None);
    let hints = scan.hints(select);
    assert_eq!(hints.calls, ["select"]);
    assert!(
        hints
            .texts
            .iter()
            .any(|text| text.starts_with("timeout must be")),
        "{hints:?}"
    );
    // Four of five of the biggest can be recognised by something. Not so in libcrypto: its big frames are those of
    // assembly, which calls nothing and says nothing.
    let compiled = KNOWN
        .iter()
        .filter(|(path, ..)| !path.contains("libcrypto"));
    for (path, ..) in compiled.filter(|(path, ..)| Path::new(path).exists()) {
        let scan = Scan::path(Path::new(path), Decode::AsNeeded).expect("a library");
        let top = &scan.frames()[..20];
        let told = top
            .iter()
            .filter(|frame| scan.name(frame).is_some() || !scan.hints(frame).is_empty())
            .count();
        assert!(told >= 16, "{path}: {told} of 20");
    }
}

#[test]
fn three_megabytes_are_read_at_once() {
    let path = Path::new("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1");
    if !path.exists() || cfg!(debug_assertions) {
        println!(
            "SKIPPED: a time is a time of the optimised build (cargo test --release), with libruby installed"
        );
        return;
    }
    let fastest = (0..10)
        .map(|_| {
            let started = Instant::now();
            let scan = Scan::path(path, Decode::AsNeeded).expect("a library");
            assert!(scan.frames().len() > 5000);
            started.elapsed()
        })
        .min();
    println!("fastest of ten: {fastest:?}");
    assert!(fastest < Some(Duration::from_millis(60)), "{fastest:?}");
}
