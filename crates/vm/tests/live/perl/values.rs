//! Scalars against what Perl makes of them, subs in C against `B`, and the interpreter of another thread.

use std::ops::ControlFlow;

use vm::perl::{Error, Kind, Sub, Xsub};

use super::frames::View;
use super::guest::each_version;
use crate::process::hex;

#[test]
fn scalars_subs_and_threads() {
    each_version(include_str!("values.pl"), |version, guest| {
        assert!(guest.next(), "{version}");
        let (perl, main) = (guest.perl(), guest.interpreter());
        let (mut subs, mut values, mut others) = (0, 0, 0);
        for line in &guest.script.lines {
            let parts: Vec<&str> = line.split('\t').collect();
            match parts[..] {
                ["sub", name, code, address] => {
                    let (code, address) = (hex(code), hex(address));
                    assert_eq!(
                        perl.xsub(&main, name),
                        Ok(Xsub { code, address }),
                        "{version}: {name}"
                    );
                    let mut written = String::new();
                    perl.write_code_name(code, &mut written).expect(name);
                    assert_eq!(written, name, "{version}");
                    subs += 1;
                }
                ["value", address, expected] => {
                    let mut written = String::new();
                    perl.write_value(hex(address), 100, &mut written)
                        .expect(line);
                    assert_eq!(written, expected, "{version}: {line}");
                    values += 1;
                }
                ["other", thread_pointer] => {
                    let interpreter = perl.interpreter(hex(thread_pointer)).expect("a thread");
                    let interpreter = interpreter.expect("an interpreter");
                    assert_ne!(interpreter, main);
                    let view = View { perl, interpreter };
                    let frames = view.frames();
                    assert_eq!(view.name(frames[0].kind), "main::in_thread", "{version}");
                    assert_eq!(frames.last().map(|frame| frame.kind), Some(Kind::Main));
                    others += 1;
                }
                _ => {}
            }
        }
        println!("{version}: {subs} subs, {values} scalars, {others} threads");
        assert!(subs >= 3 && values == 22, "{version}");
        assert_eq!(others, i32::from(guest.facts.has_threads()));

        assert_eq!(perl.xsub(&main, "plain"), Err(Error::WrittenInPerl));
        assert!(matches!(
            perl.sub(&main, "main::plain"),
            Ok(Sub::Perl { .. })
        ));
        assert_eq!(perl.xsub(&main, "declared"), Err(Error::NotDefined));
        assert_eq!(perl.xsub(&main, "nothing"), Err(Error::NoSub));
        assert_eq!(perl.xsub(&main, "Not::Here::f"), Err(Error::NoPackage));
        let mut names = Vec::new();
        perl.each_sub(&main, "List::Util", &mut |name, _| {
            let mut written = String::new();
            perl.write_text(name, 100, &mut written).expect("a name");
            names.push(written);
            ControlFlow::Continue(())
        })
        .expect("a package");
        assert!(
            names.iter().any(|name| name == "first"),
            "{version}: {names:?}"
        );
    });
}
