//! A failure in `enter`, `leave` or `probe` is left by the compiler's unwinding rules: the call goes on, and its
//! caller finds every register that a function must preserve.

use std::sync::atomic::Ordering;

use routine::frame::COPIED;
use trampoline::probe::{self, Spot};
use trampoline::{Descriptor, Destination, Options, usdt};

use crate::guest::{
    FAILS, IN_ENTER, IN_LEAVE, IN_PROBE, calls, island, seen, shapes, trampoline_probe, turn, write,
};
use crate::probes::Patched;

core::arch::global_asm!(
    // Calls rdi with six arguments and a value of its own in every preserved register. The result, or -1 if one was
    // changed.
    "preserves:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "sub rsp, 8",
    "mov rax, rdi",
    "mov rbx, 0x1b1b1b1b",
    "mov rbp, 0x2b2b2b2b",
    "mov r12, 0x12121212",
    "mov r13, 0x13131313",
    "mov r14, 0x14141414",
    "mov r15, 0x15151515",
    "mov edi, 1",
    "mov esi, 2",
    "mov edx, 3",
    "mov ecx, 4",
    "mov r8d, 5",
    "mov r9d, 6",
    "call rax",
    "cmp rbx, 0x1b1b1b1b",
    "jne 2f",
    "cmp rbp, 0x2b2b2b2b",
    "jne 2f",
    "cmp r12, 0x12121212",
    "jne 2f",
    "cmp r13, 0x13131313",
    "jne 2f",
    "cmp r14, 0x14141414",
    "jne 2f",
    "cmp r15, 0x15151515",
    "je 3f",
    "2:",
    "mov rax, -1",
    "3:",
    "add rsp, 8",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);
unsafe extern "C" {
    fn preserves(function: u64) -> i64;
}

/// What `function` returns when the hook on its way fails there, and how many events were noted.
fn failing(function: u64, at: u32) -> (i64, usize) {
    let before = seen().len();
    FAILS.store(at, Ordering::Relaxed);
    // SAFETY: a function of the fixtures that takes six integers at most.
    let result = unsafe { preserves(function) };
    assert_eq!(FAILS.load(Ordering::Relaxed), 0, "it has failed");
    (result, seen().len() - before)
}

#[test]
fn a_call_goes_on_when_its_hook_fails() {
    let _turn = turn();
    let library = calls();
    let hook = library.hook("six", 0, COPIED);
    let six = library.address("six");
    assert_eq!(failing(six, IN_ENTER), (91, 0), "as if it were not wanted");
    assert_eq!(failing(six, IN_LEAVE), (91, 1), "with its result");
    // SAFETY: as above.
    assert_eq!(unsafe { preserves(six) }, 91);
    assert_eq!(seen().len(), 3, "and the next is seen, and its return");
    hook.lift();
}

#[test]
fn a_probe_that_fails_disturbs_nothing() {
    let _turn = turn();
    let probed = shapes().address("probed");
    // SAFETY: as above.
    let bare = unsafe { preserves(probed) };
    let _patched = hooked_probe();
    assert_eq!(failing(probed, IN_PROBE), (bare, 0));
    // SAFETY: as above.
    assert_eq!(unsafe { preserves(probed) }, bare);
    assert_eq!(seen().len(), 1);
}

/// The fixture's probe `early`, hooked.
fn hooked_probe() -> Patched {
    let module = shapes().module();
    let (base, notes) = module.probes();
    let found = usdt::probes(&notes, base).find(|probe| probe.name == "early");
    let pc = found.expect("in shapes.S").pc;
    let named = module.functions().find(|named| named.name == "probed");
    let (targets, mut pads) = (module.targets(), module.pads());
    let code = named.expect("in shapes.S").code;
    let plan = probe::plan(
        &code,
        pc,
        Spot::Nop,
        &targets,
        &mut pads,
        Options::default(),
    );
    let (plan, at) = (plan.expect("a plan"), island(pc));
    let descriptor = Box::leak(Box::new(Descriptor::new(0, 0, 0, 5, pc)));
    let to = Destination {
        routine: trampoline_probe as *const () as u64,
        descriptor: &raw const *descriptor as u64,
    };
    write(at, &plan.stub(at, to, None).expect("near").bytes);
    let patches = plan.patches(at).expect("near");
    patches.iter().for_each(|patch| write(patch.at, &patch.new));
    Patched(patches)
}
