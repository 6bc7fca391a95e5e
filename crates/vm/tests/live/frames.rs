//! Frames of waiting threads against `caller_locations`.

use vm::ruby::Ruby;

use crate::guest::{each_version, hex};

#[test]
fn frames_are_those_of_caller_locations() {
    each_version(include_str!("frames.rb"), |version, guest| {
        let ruby = Ruby::new(&guest.memory, guest.facts).expect("a known version");
        let vm = ruby.vm().expect("a VM");
        let thread = guest
            .lines
            .iter()
            .find_map(|line| line.strip_prefix("object\t"))
            .map(hex)
            .expect("a thread");
        let thread_ec = ruby.thread_ec(thread).expect("a Thread").expect("a Thread");
        for (who, ec) in [
            ("main", ruby.main_ec(vm).expect("main")),
            ("thread", thread_ec),
        ] {
            let cfp = ruby.current_cfp(ec).expect("a frame");
            let found: Vec<String> = ruby
                .frames(ec, cfp)
                .expect("a stack")
                .map(|frame| frame.expect("a frame"))
                // Not begun: backtraces leave such frames out.
                .filter(|frame| frame.pc != 0)
                .map(|frame| {
                    let mut path = String::new();
                    let text = ruby.path(frame.iseq).expect("a path");
                    ruby.write_text(text, u64::MAX, &mut path).expect("a path");
                    let line = ruby.line(frame.iseq, frame.pc).expect("a line");
                    let mut label = String::new();
                    let text = ruby.base_label(frame.iseq).expect("a label");
                    ruby.write_text(text, u64::MAX, &mut label)
                        .expect("a label");
                    format!("{who}\t{path}\t{line}\t{label}")
                })
                // Written in Ruby since 3.3; hidden from backtraces since 3.4.
                .filter(|line| !line.contains("<internal:"))
                .collect();
            let told: Vec<&str> = guest
                .lines
                .iter()
                .map(String::as_str)
                .filter(|line| line.starts_with(&format!("{who}\t")))
                .collect();
            // The waiting itself is further in than `stack`.
            let inner = found.len() - told.len();
            assert!(inner <= 3, "ruby {version} {who}: {found:#?}\n{told:#?}");
            assert_eq!(found[inner..], told, "ruby {version} {who}");
            let first = ruby.ruby_frame(ec, cfp).expect("a stack");
            let walked = ruby.frames(ec, cfp).expect("a stack").next();
            assert_eq!(first, walked.transpose().expect("a frame"));
            println!("ruby {version}: {} frames of {who}", told.len());
        }
    });
}
