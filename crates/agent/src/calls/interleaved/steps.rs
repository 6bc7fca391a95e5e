//! Interrupts code behind each of its instructions, by the processor's trap flag (Intel's manual, volume 3, §19.3.1.4): the kernel then sends SIGTRAP
//! after each instruction, and behind the wanted one its handler does what the other does.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use std::sync::Once;

/// Bit of the flags register.
const TRAP_FLAG: i64 = 0x100;
/// More instructions than any code here has: tests of the agent are optimised. Each takes as many signals as instructions are before it.
const MOST: usize = 3_000;

/// Calls a function, whose address is the first argument, with what the second one points to.
type Run = unsafe fn(*const (), *const ());

struct Step {
    /// How many instructions have passed.
    passed: Cell<usize>,
    /// Behind how many of them the other comes.
    at: Cell<usize>,
    came: Cell<bool>,
    /// What the other does, and to what.
    other: Cell<(Run, *const (), *const ())>,
}

unsafe fn nothing(_: *const (), _: *const ()) {}

std::thread_local! {
    static STEP: Step = const {
        Step {
            passed: Cell::new(0),
            at: Cell::new(usize::MAX),
            came: Cell::new(false),
            other: Cell::new((nothing, core::ptr::null(), core::ptr::null())),
        }
    };
}

extern "C" fn on_trap(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    STEP.with(|step| {
        let passed = step.passed.get();
        step.passed.set(passed + 1);
        if passed != step.at.get() {
            return;
        }
        step.came.set(true);
        // SAFETY: the kernel hands the handler the context of the thread, which it restores afterwards; without the flag no other signal comes.
        unsafe {
            let context = &mut *context.cast::<libc::ucontext_t>();
            context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
        }
        let (run, other, state) = step.other.get();
        // SAFETY: `interrupted` has stored the three, which fit one another and live until it returns.
        unsafe { run(other, state) };
    });
}

/// Calls `other`, a `fn(&S)`, with `state`, a `&S`.
unsafe fn run<S>(other: *const (), state: *const ()) {
    // SAFETY: the caller's promise: the pointers are of these types, and the state lives.
    unsafe { core::mem::transmute::<*const (), fn(&S)>(other)(&*state.cast::<S>()) };
}

/// Runs `code`, and `other` behind that instruction of it; whether `other` came.
#[inline(never)]
fn interrupted<S>(state: &S, code: fn(&S), other: fn(&S), at: usize) -> bool {
    STEP.with(|step| {
        step.passed.set(0);
        step.came.set(false);
        step.at.set(at);
        let state = core::ptr::from_ref(state).cast();
        step.other.set((run::<S>, other as *const (), state));
    });
    // SAFETY: the flag changes nothing but that signals come, whose handler is installed; the stack is as before behind each of the two.
    unsafe {
        core::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        code(state);
        core::arch::asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq");
    }
    STEP.with(|step| step.came.get())
}

/// For each instruction of `code`, on a new state each time: `other` comes behind it, and `check` looks at what the two have left. Returns how
/// many instructions there are.
pub fn everywhere<S>(
    make: impl Fn() -> S,
    code: fn(&S),
    other: fn(&S),
    check: impl Fn(&S, usize),
) -> usize {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: all zeros is a valid `sigaction`, and the handler has the form that SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = core::mem::zeroed();
            action.sa_sigaction = on_trap as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(
                libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()),
                0
            );
        }
    });
    for at in 0..MOST {
        let state = make();
        if !interrupted(&state, code, other, at) {
            return at;
        }
        check(&state, at);
    }
    panic!("the code has more than {MOST} instructions");
}

/// Each instruction is met once, in order.
#[test]
fn the_other_comes_behind_each_instruction() {
    struct Word(Cell<u32>, Cell<u32>);
    let seen = core::cell::RefCell::new(std::vec::Vec::new());
    let steps = everywhere(
        || Word(Cell::new(0), Cell::new(0)),
        |word| (0..5).for_each(|_| word.0.set(word.0.get() + 1)),
        |word| word.1.set(word.0.get()),
        |word, _| seen.borrow_mut().push((word.0.get(), word.1.get())),
    );
    let seen = seen.into_inner();
    assert_eq!(seen.len(), steps);
    assert!(seen.iter().all(|(last, _)| *last == 5));
    let mut between: std::vec::Vec<u32> = seen.iter().map(|(_, then)| *then).collect();
    assert!(between.is_sorted());
    between.dedup();
    assert_eq!(between, [0, 1, 2, 3, 4, 5]);
}
