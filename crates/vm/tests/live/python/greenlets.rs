//! Parked greenlets against what they say of themselves.

use vm::python::{Frame, Greenlet};

use super::frames::line_of;
use super::guest::each_version;

#[test]
fn greenlets_are_parked_where_they_say() {
    each_version(include_str!("greenlets.py"), |version, guest| {
        let python = guest.python();
        let mut found: Vec<Greenlet> = Vec::new();
        let loaded = python
            .each_greenlet(&mut |greenlet| {
                found.push(greenlet);
                Ok(())
            })
            .expect("greenlets");
        if guest.lines == ["none"] {
            assert!(!loaded);
            println!("skipped: python {version} has no greenlet");
            return;
        }
        let (mut greenlets, mut frames) = (0, 0);
        for line in &guest.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            let ["greenlet", address, saved, alive, main] = parts[..] else {
                continue;
            };
            greenlets += 1;
            let greenlet = found
                .iter()
                .find(|greenlet| greenlet.address.to_string() == address)
                .unwrap_or_else(|| panic!("python {version}: {line}: {found:x?}"));
            assert_eq!(
                greenlet.saved.to_string(),
                saved,
                "python {version}: {line}"
            );
            let (start, stop) = greenlet.stack;
            assert_eq!(start != 0, alive == "1", "python {version}: {line}");
            if main == "1" {
                continue;
            }
            assert!(start <= stop, "python {version}: {greenlet:x?}");
            let prefix = format!("frame\t{address}\t");
            let told: Vec<&str> = guest
                .lines
                .iter()
                .filter_map(|line| line.strip_prefix(&prefix))
                .collect();
            let lines: Vec<String> = python
                .greenlet_frames(greenlet)
                .map(|frame: Result<Frame, _>| line_of(&python, &frame.expect("a frame")))
                .collect();
            assert_eq!(lines, told, "python {version}: {line}");
            frames += lines.len();
        }
        println!("python {version}: {greenlets} greenlets, {frames} parked frames");
        assert!(greenlets == 8 && frames > 50, "python {version}: {frames}");
    });
}
