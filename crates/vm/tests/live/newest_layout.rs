//! The tables taken away: a Ruby is read as the newest one with a table, and has the same frames, or none.

use vm::Memory;
use vm::ruby::{Facts, Ruby};

use crate::guest::{Guest, each_version};
use crate::process::Symbols;

/// The frames of all threads, each with its path, line and label.
fn frames(guest: &Guest, facts: Facts) -> Vec<Vec<[String; 3]>> {
    let ruby = Ruby::new(&guest.memory, facts).expect("it was read");
    let vm = ruby.vm().expect("a VM");
    let main = ruby.main_thread(vm).expect("a thread");
    let mut all = Vec::new();
    ruby.threads_beside(vm, main, &mut |thread| {
        let ec = ruby.running_ec(thread).expect("a context");
        let cfp = ruby.current_cfp(ec).expect("a frame");
        let frames = ruby.frames(ec, cfp).expect("frames");
        let told = frames.map(|frame| told(&ruby, frame.expect("a frame")));
        all.push(told.collect());
    });
    all
}

fn told(ruby: &Ruby<'_, impl Memory>, frame: vm::ruby::Frame) -> [String; 3] {
    let [mut path, mut label] = [String::new(), String::new()];
    let text = ruby.path(frame.iseq).expect("a path");
    ruby.write_text(text, 4096, &mut path).expect("its text");
    let text = ruby.label(frame.iseq).expect("a label");
    ruby.write_text(text, 4096, &mut label).expect("its text");
    let line = ruby.line(frame.iseq, frame.pc);
    [path, format!("{line:?}"), label]
}

#[test]
fn a_ruby_is_read_as_the_newest_or_not_at_all() {
    each_version(include_str!("frames.rb"), |version, guest| {
        let libruby = Symbols::find(guest.pid(), "/libruby").expect("libruby is mapped");
        let began = std::time::Instant::now();
        let read = Facts::by_newest_layout(&guest.memory, &|name| libruby.address(name));
        let took = began.elapsed();
        match read {
            Ok((facts, proven)) => {
                let found = frames(guest, facts);
                assert_eq!(found, frames(guest, guest.facts), "{version}");
                assert_eq!(found.len(), proven.threads as usize, "{version}");
                println!("ruby {version}: {proven:?} in {took:?}");
            }
            // Threads and code lie elsewhere in these.
            Err(why) => {
                println!("ruby {version}: {why}, {took:?}");
                assert!(["2.7", "3.0", "3.1"].contains(&version), "{version}: {why}");
            }
        }
    });
}
