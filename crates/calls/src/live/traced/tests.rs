//! When what is known of a call is worked out.

use super::*;
use process::functions::Function;

/// A program makes some twenty of the 370 system calls, and whoever starts one waits for what is planned before.
#[test]
fn what_is_copied_is_planned_only_for_calls_that_were_seen() {
    let signatures = Signatures::read(&[], false).expect("there are no files to read");
    let all = prototypes::bundle::system_calls().map(|(number, name)| {
        let function = Function {
            name: name.into(),
            module: SYSTEM.into(),
            address: number.into(),
            ..Function::default()
        };
        (Wanted::of(function), signatures.of(SYSTEM, name))
    });
    let copying = Copying {
        detail: Detail {
            strings: 32,
            array: 16,
            whole: false,
        },
        messages: 0,
        environment: false,
        copies: true,
        callers: false,
    };
    let table = Table::new(all.collect(), copying, |one| {
        let function = Arc::new(one.function.clone());
        Some(Arc::new(CallEdge {
            function,
            ..CallEdge::default()
        }))
    });
    let planned = || {
        let told = table.told.borrow();
        let mut all: Vec<u64> = told.keys().copied().collect();
        all.retain(|number| {
            told[number]
                .as_ref()
                .is_some_and(|of| of.copy.get().is_some())
        });
        all
    };
    assert_eq!(planned(), []);
    let execve = table.told(EXECVE).expect("it is among them");
    assert!(!execve.copies()[0].is_empty());
    assert_eq!(planned(), [EXECVE]);
}

/// The row of a number is made when the first call of that number is, and only once; others have the row of those without a name.
#[test]
fn rows_are_made_when_they_are_asked_for() {
    let asked = Rc::new(RefCell::new(Vec::new()));
    let notes = asked.clone();
    let table = Table::asked_later(Box::new(move |number| {
        notes.borrow_mut().push(number);
        let function = Function {
            name: "any".into(),
            address: number,
            ..Function::default()
        };
        let edge = Arc::new(CallEdge {
            function: function.clone().into(),
            ..CallEdge::default()
        });
        let copying = Copying {
            detail: Detail::default(),
            messages: 0,
            environment: false,
            copies: true,
            callers: false,
        };
        let shown = number == EXECVE || number == OTHERS;
        shown.then(|| Told::new(&Wanted::of(function), None, copying, edge))?
    }));
    assert!(asked.borrow().is_empty());
    for (number, row) in [(EXECVE, EXECVE), (EXECVE, EXECVE), (7, OTHERS), (7, OTHERS)] {
        let told = table.told(number).expect("a row");
        assert_eq!(told.edge.function.address, row);
    }
    assert_eq!(*asked.borrow(), [EXECVE, 7, OTHERS]);
}

/// Programs in the kernel copy what the arguments of system calls point to by the same words.
#[test]
fn programs_in_the_kernel_know_every_word() {
    let signatures = Signatures::read(&[], false).expect("there are no files to read");
    let copying = Copying {
        detail: Detail::default(),
        messages: 0,
        environment: true,
        copies: true,
        callers: false,
    };
    let mut seen = 0;
    for (number, name) in prototypes::bundle::system_calls() {
        let function = Function {
            name: name.into(),
            module: SYSTEM.into(),
            address: number.into(),
            ..Function::default()
        };
        let Some(prototype) = signatures.of(SYSTEM, name) else {
            continue;
        };
        let programs = copying.of(&function, Some(&prototype));
        seen += programs.concat().len();
        let unknown: Vec<_> = programs
            .concat()
            .into_iter()
            .filter(|word| !tracepoint::knows(*word))
            .map(prototypes::capture::Op::decode)
            .collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
    }
    assert!((2_000..24_000).contains(&seen), "{seen} words");
}

/// 15 is `rt_sigreturn`, whose argument lies in the frame of the signal; for programs of 32 bits it is `chmod`, which has its own.
#[test]
fn only_a_return_from_a_signal_points_into_its_frame() {
    let first = |is_32_bits| {
        let stop = AtSystemCall {
            behind: 0x1002,
            stack: 0x7000,
            is_32_bits,
            side: Side::Begins {
                number: 15,
                arguments: [0x5000, 0o755, 0, 0, 0, 0],
            },
        };
        let begun = Begun::at(&stop, 0).expect("it begins");
        (begun.number, begun.registers.gp[0])
    };
    assert_eq!(first(false), (15, 0x7000 + 296));
    assert_eq!(first(true), (15 | OF_32_BITS, 0x5000));
}

/// Messages are long; what other sockets send and receive, and what other calls write, is shown in its first characters.
#[test]
fn more_is_copied_of_messages_of_netlink_alone() {
    use std::os::fd::AsRawFd;

    let signatures = Signatures::read(&[], false).expect("there are no files to read");
    let copying = Copying {
        detail: Detail::default(),
        messages: 32 << 10,
        environment: false,
        copies: true,
        callers: false,
    };
    let told = |name: &str| {
        let numbers = prototypes::bundle::system_calls();
        let (number, _) = { numbers }
            .find(|(_, known)| *known == name)
            .expect("a call");
        let function = Function {
            name: name.into(),
            module: SYSTEM.into(),
            address: number.into(),
            ..Function::default()
        };
        let edge = Arc::new(CallEdge {
            function: function.clone().into(),
            ..CallEdge::default()
        });
        let prototype = signatures.of(SYSTEM, name);
        Told::new(&Wanted::of(function), prototype, copying, edge).expect("no condition")
    };
    let here = std::process::id() as i32;
    let null = std::fs::File::open("/dev/null").expect("it is there");
    let file = null.as_raw_fd() as u64;
    // SAFETY: it makes a descriptor, which lives until the test ends.
    let netlink = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, 0) };
    assert!(netlink >= 0);
    let (sends, writes) = (told("sendto"), told("write"));
    assert_ne!(
        sends.copies_for(here, netlink as u64),
        sends.copies_for(here, file)
    );
    assert_eq!(sends.copies_for(here, netlink as u64), &sends.copies());
    assert_eq!(
        writes.copies_for(here, netlink as u64),
        writes.copies_for(here, file)
    );
    // SAFETY: it was made above, and nobody else has it.
    unsafe { libc::close(netlink) };
}
