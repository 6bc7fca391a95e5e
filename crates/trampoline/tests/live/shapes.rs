//! Beginnings that are hard: too short, calling, looping, relative to themselves.

use std::path::Path;

use routine::frame::{COPIED, flags};
use trampoline::hook_policy::{Treatment, treatment};
use trampoline::{Destination, Kind, Options, Refusal, Stub, plan};

use crate::guest::{Hook, Library, calls, count, shapes, turn};

type Two = extern "C" fn(u64, u64) -> u64;

const SHAPES: [(&str, &str); 21] = [
    ("padded", "padded"),
    ("returns", "padded"),
    ("tight", "short"),
    ("landing", "long"),
    ("calls_first", "long"),
    ("calls_by_slot", "long"),
    ("stack_call", "long"),
    ("jumps_first", "long"),
    ("jumps_by_slot", "long"),
    ("branches", "long"),
    ("short_branch", "long"),
    ("counts", "whole"),
    ("counts_inside", "short"),
    ("looks_at_rcx", "long"),
    ("loops", "long"),
    ("relative", "long"),
    ("enters_kernel", "long"),
    ("takes_itself", "long"),
    ("knows_itself", "long"),
    ("counts_from_itself", "long"),
    ("calls_next", "long"),
];

fn function(library: &Library, name: &str) -> Two {
    // SAFETY: the fixture's functions have this type.
    unsafe { std::mem::transmute(library.address(name)) }
}

#[test]
fn every_beginning_is_stolen_and_does_what_it_did() {
    let _turn = turn();
    let library = shapes();
    for (name, kind) in SHAPES {
        // Through the function that fills rax for it.
        let called = function(
            library,
            if name == "stack_call" {
                "calls_by_stack"
            } else {
                name
            },
        );
        let answers = || [(0, 1), (1, 0), (2, 7), (1000, 5), (3, 900)].map(|(a, b)| called(a, b));
        // `returns` returns what was in rax.
        let same = |now: [u64; 5], then| name == "returns" || now == then;
        let bare = answers();
        for flags in [0, flags::ENTRY_ONLY] {
            let before = count();
            let hook = library.hook(name, flags, COPIED);
            let found = match hook.plan.kind {
                Kind::Long => "long",
                Kind::Padded => "padded",
                Kind::Short { .. } => "short",
                Kind::Whole => "whole",
            };
            assert_eq!(found, kind, "{name}");
            assert!(
                hook.stub.bytes.len() <= 64 || kind == "whole",
                "{name}: {}",
                hook.stub.bytes.len()
            );
            assert!(
                same(answers(), bare),
                "{name} with flags {flags}: {:?}, not {bare:?}",
                answers()
            );
            drop(hook);
            let calls = count() - before;
            let expected = if flags == 0 { [10, 20] } else { [5, 10] };
            assert!(
                expected.contains(&calls),
                "{name} with flags {flags}: {calls}"
            );
        }
        let before = count();
        assert!(same(answers(), bare), "{name} after");
        assert_eq!(count(), before);
    }
}

/// An address that a function takes of itself is its own, hooked or not; and a call of itself is a call.
#[test]
fn an_address_that_is_taken_is_the_originals() {
    let _turn = turn();
    let library = shapes();
    let entry = library.address("takes_itself");
    let hook = library.hook("takes_itself", 0, COPIED);
    assert_eq!(function(library, "takes_itself")(entry, 0), 1);
    assert_eq!(function(library, "takes_itself")(hook.stub.original, 0), 0);
    assert_eq!(function(library, "knows_itself")(0, 0), 1);
    drop(hook);
    for name in ["calls_itself", "calls_itself_first"] {
        let before = count();
        let hook = library.hook(name, flags::ENTRY_ONLY, COPIED);
        assert_eq!(function(library, name)(3, 1), 4, "{name}");
        drop(hook);
        assert_eq!(count() - before, 4, "{name}: each turn is a call");
    }
}

#[test]
fn what_cannot_be_proven_is_refused_with_its_reason() {
    let library = shapes();
    let module = library.module();
    let refused = |name: &str, options| {
        let entry = library.address(name);
        let named = module
            .functions()
            .find(|named| named.code.entry == entry)
            .expect(name);
        plan(
            &named.code,
            &module.targets(),
            &mut Default::default(),
            options,
        )
        .err()
    };
    let free = Options::default();
    assert_eq!(refused("calls_too_early", free), Some(Refusal::CallWithin));
    assert_eq!(refused("broken", free), Some(Refusal::Undecodable));
    assert_eq!(refused("stopped", free), Some(Refusal::Breakpoint));
    assert_eq!(refused("inside_taken", free), Some(Refusal::AddressTaken));
    assert_eq!(refused("reads_itself", free), Some(Refusal::ReadAsData));
    assert_eq!(refused("is_read", free), Some(Refusal::ReadAsData));
    assert!(refused("relative_to_inside", free).is_some());
    assert_eq!(refused("restarts", free), Some(Refusal::BranchInto));
    for name in ["takes_inside", "reads_another", "calls_itself"] {
        assert_eq!(refused(name, free), None, "{name}");
    }
    // Without padding to take from.
    assert_eq!(refused("tight", free), Some(Refusal::TooShort));
    assert_eq!(
        refused("calls_first", Options { shadow_stack: true }),
        Some(Refusal::ShadowStack)
    );
    assert_eq!(refused("calls_first", free), None);
}

#[test]
fn a_stub_out_of_reach_is_refused() {
    let library = shapes();
    let module = library.module();
    let entry = library.address("relative");
    let named = module
        .functions()
        .find(|named| named.code.entry == entry)
        .expect("relative");
    let plan = plan(
        &named.code,
        &module.targets(),
        &mut module.pads(),
        Options::default(),
    )
    .expect("a plan");
    let to = Destination {
        routine: 0,
        descriptor: 0,
    };
    assert!(plan.stub(entry - (1 << 30), to).is_ok());
    assert_eq!(
        plan.stub(entry ^ (1 << 40), to).err(),
        Some(Refusal::OutOfReach)
    );
    assert_eq!(
        plan.patches(entry ^ (1 << 40)).err(),
        Some(Refusal::OutOfReach)
    );
}

#[test]
fn threads_in_stolen_bytes_have_a_place_to_go() {
    let _turn = turn();
    let library = shapes();
    let hook = library.hook("landing", 0, COPIED);
    let (at, stub) = (hook.plan.patch_at, &hook.stub);
    assert_eq!(at, library.address("landing") + 4, "behind endbr64");
    // push rbx is one byte, mov rbx, rdi three, lea four: the patch covers the beginning of all three.
    assert_eq!(
        stub.moves
            .iter()
            .map(|(from, _)| from - at)
            .collect::<Vec<_>>(),
        [0, 1, 4]
    );
    let moved = |stub: &Stub, pc: u64| {
        let found = stub.moves.iter().find(|(from, _)| *from == pc);
        found.map(|(_, to)| *to)
    };
    assert_eq!(moved(stub, at), Some(stub.original + 4));
    assert_eq!(moved(stub, at + 1), Some(stub.original + 5));
    assert_eq!(moved(stub, at + 8), None);
    // A thread that waits in the kernel stands behind the system call; made again, it must find it before.
    let hook = library.hook("enters_kernel", 0, COPIED);
    let behind = moved(&hook.stub, hook.plan.patch_at + 5).expect("a place");
    let offset = (behind - hook.stub.at) as usize;
    assert_eq!(hook.stub.bytes[offset - 2..offset], [0x0f, 0x05]);
    let hook = library.hook("counts", 0, COPIED);
    assert!(
        hook.stub.moves.len() >= 5,
        "all of a function that is copied whole"
    );
}

#[test]
fn functions_that_get_no_frame_are_hooked_entry_only() {
    let _turn = turn();
    let library = calls();
    let hook = |of: &Library, name: &str| {
        assert!(matches!(treatment(name), Treatment::EntryOnly(_)), "{name}");
        of.hook(name, flags::ENTRY_ONLY, 0)
    };
    let libc = Library::load(Path::new("libc.so.6"));
    let stdlib = Library::load(Path::new("libstdc++.so.6"));
    let unwinder = Library::load(Path::new("libgcc_s.so.1"));
    for (checker, hooks) in [
        (
            "check_longjmp",
            ["_setjmp", "longjmp"]
                .map(|name| hook(&libc, name))
                .into_iter()
                .collect::<Vec<Hook>>(),
        ),
        (
            "check_fibers",
            ["getcontext", "makecontext", "swapcontext"]
                .map(|name| hook(&libc, name))
                .into(),
        ),
        (
            "check_exceptions",
            ["__cxa_throw", "__cxa_begin_catch", "__cxa_end_catch"]
                .map(|name| hook(&stdlib, name))
                .into(),
        ),
        (
            "check_exceptions",
            ["_Unwind_RaiseException", "_Unwind_Resume"]
                .map(|name| hook(&unwinder, name))
                .into(),
        ),
    ] {
        let before = count();
        assert_eq!(library.check(checker), 0, "{checker}");
        drop(hooks);
        assert!(count() - before >= 200, "{checker}: {}", count() - before);
    }
}
