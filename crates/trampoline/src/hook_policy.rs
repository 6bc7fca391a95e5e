//! Functions that get no frame, and functions that get no hook. Used by `hooks::set` and `hooks::policy`.
//!
//! A call-through hook puts a frame below the function's caller and calls the function from there. This is wrong for a function
//! that returns twice or looks at its return address: such a function is hooked [entry-only], because its stack is as it was once
//! `enter` has returned. A function that is entered by other rules than the ABI's is not hooked at all.

/// How a function may be hooked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// With a frame of ours below that of the caller: `enter` and `leave` both run.
    CallThrough,
    /// At its entry only: `leave` does not run. The text is the reason.
    EntryOnly(&'static str),
    /// At its entry only; a probe reports its returns ([`vfork`](crate::vfork)). The text is the reason.
    EntryAndProbe(&'static str),
    /// Not at all. The text is the reason.
    Never(&'static str),
}

use Treatment::{EntryAndProbe, EntryOnly, Never};

const TWICE: Treatment = EntryOnly("it returns a second time, when a frame of ours would be gone");
const SWITCHES: Treatment = EntryOnly("it leaves on another stack than it came on");
const CHILD: Treatment =
    EntryOnly("a child may return from it on this very stack, or begin on another");
const SHARED: Treatment =
    EntryAndProbe("a child returns from it on this very stack, and then its parent");
const ENDS: Treatment = EntryOnly("it does not return");
const UNWINDS: Treatment = EntryOnly("it walks over the stack from its own frame upwards");
const CALLER: Treatment = EntryOnly("its answer depends on which library calls it");
const ASKED: Treatment = Never("the agent answers there for its own frames");
const LOADER: Treatment =
    Never("the loader enters it with values in registers that calls do not keep");
const REGISTERS: Treatment = Never("it is entered by other rules than those of calls");
const PART: Treatment =
    Never("it is a part of a function, which jumps into it with its own frame on the stack");
const KERNEL: Treatment = Never("the kernel enters it, and there is no return address");

/// Names of functions, in groups. A star at the end matches any suffix.
const TABLE: &[(&str, Treatment)] = &[
    // <setjmp.h>, <ucontext.h>
    ("setjmp", TWICE),
    ("_setjmp", TWICE),
    ("__setjmp", TWICE),
    ("sigsetjmp", TWICE),
    ("__sigsetjmp", TWICE),
    ("savectx", TWICE),
    ("getcontext", TWICE),
    ("__getcontext", TWICE),
    ("swapcontext", SWITCHES),
    ("__swapcontext", SWITCHES),
    ("setcontext", SWITCHES),
    ("__setcontext", SWITCHES),
    // Variadic functions that read as many stack arguments as their own arguments say.
    (
        "makecontext",
        EntryOnly("how many arguments it has on the stack stands in one of them"),
    ),
    (
        "__makecontext",
        EntryOnly("how many arguments it has on the stack stands in one of them"),
    ),
    ("__start_context", REGISTERS),
    // Context switches of Ruby, Boost, PHP, libcoro and libco.
    ("coroutine_transfer", SWITCHES),
    ("coroutine_initialize*", SWITCHES),
    ("jump_fcontext", SWITCHES),
    ("ontop_fcontext", SWITCHES),
    ("make_fcontext", SWITCHES),
    ("coro_transfer", SWITCHES),
    ("co_switch", SWITCHES),
    ("slp_switch", SWITCHES),
    // Functions that make child processes.
    ("vfork", SHARED),
    ("__vfork", SHARED),
    ("__libc_vfork", SHARED),
    ("clone", CHILD),
    ("__clone", CHILD),
    ("__clone2", CHILD),
    ("clone3", CHILD),
    ("__clone3", CHILD),
    ("__clone_internal", CHILD),
    // `syscall` can make SYS_vfork and SYS_clone.
    ("syscall", CHILD),
    // Functions that do not return.
    ("longjmp", ENDS),
    ("_longjmp", ENDS),
    ("__longjmp", ENDS),
    ("siglongjmp", ENDS),
    ("__libc_longjmp", ENDS),
    ("__libc_siglongjmp", ENDS),
    ("__longjmp_chk", ENDS),
    ("exit", ENDS),
    ("_exit", ENDS),
    ("_Exit", ENDS),
    ("quick_exit", ENDS),
    ("abort", ENDS),
    ("__assert", ENDS),
    ("__assert_fail", ENDS),
    ("__assert_perror_fail", ENDS),
    ("__stack_chk_fail", ENDS),
    ("__chk_fail", ENDS),
    ("__fortify_fail", ENDS),
    ("__libc_fatal", ENDS),
    ("err", ENDS),
    ("errx", ENDS),
    ("verr", ENDS),
    ("verrx", ENDS),
    ("pthread_exit", ENDS),
    ("__pthread_exit", ENDS),
    ("thrd_exit", ENDS),
    ("__pthread_unwind", ENDS),
    ("__pthread_unwind_next", ENDS),
    ("__libc_start_main", ENDS),
    // The loader's functions that look at their return address to find the calling module.
    ("_Unwind_Find_FDE", ASKED),
    ("_dl_find_object", ASKED),
    ("dl_iterate_phdr", ASKED),
    ("_Unwind_*", UNWINDS),
    ("__cxa_*", UNWINDS),
    ("__gxx_personality_v0", UNWINDS),
    ("__gcc_personality_v0", UNWINDS),
    ("rust_eh_personality", UNWINDS),
    ("__frame_state_for", UNWINDS),
    // The loader's, by return address.
    ("dlopen", CALLER),
    ("dlmopen", CALLER),
    ("dlsym", CALLER),
    ("dlvsym", CALLER),
    ("dladdr", CALLER),
    ("dladdr1", CALLER),
    ("__libc_dlopen_mode", CALLER),
    ("__libc_dlsym", CALLER),
    (
        "__tls_get_addr",
        EntryOnly("compilers call it with the stack pointer where it happens to be"),
    ),
    (
        "___tls_get_addr",
        EntryOnly("compilers call it with the stack pointer where it happens to be"),
    ),
    ("__tls_get_addr_slow", REGISTERS),
    // The loader's functions that are entered from the PLT or through a TLS descriptor, by rules of their own.
    ("_dl_runtime_resolve*", LOADER),
    ("_dl_runtime_profile*", LOADER),
    ("_dl_fixup", LOADER),
    ("_dl_profile_fixup", LOADER),
    ("_dl_tlsdesc*", LOADER),
    ("_dl_start*", KERNEL),
    ("_start", KERNEL),
    ("__restore_rt", KERNEL),
    ("__restore", KERNEL),
    // Calls that compilers insert by themselves, with registers of their own.
    ("mcount", REGISTERS),
    ("_mcount", REGISTERS),
    ("__fentry__", REGISTERS),
    ("__morestack*", REGISTERS),
    ("__rust_probestack", REGISTERS),
    ("__probestack", REGISTERS),
    ("__x86_indirect_thunk*", REGISTERS),
    ("__x86_return_thunk", REGISTERS),
    ("__llvm_retpoline*", REGISTERS),
    // V8's builtins, made by its own compiler, which recognises frames by their contents.
    ("Builtins_*", REGISTERS),
];

/// Whether the symbol is that of a part of a function. gcc's `-freorder-blocks-and-partition` and LLVM's BOLT give the unlikely
/// blocks (BOLT also those that run sometimes, `.warm`) a symbol of type function.
fn is_part(symbol: &str) -> bool {
    let name = symbol.split('@').next().unwrap_or(symbol);
    let mut kinds = [".cold", ".warm"].into_iter();
    kinds.any(|kind| {
        let behind = name.split(kind).skip(1);
        { behind }.any(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Returns how a function of this name may be hooked. A symbol version (`@GLIBC_2.2.5`) is ignored.
pub fn treatment(symbol: &str) -> Treatment {
    let name = symbol.split('@').next().unwrap_or(symbol);
    if is_part(name) {
        return PART;
    }
    let found = TABLE.iter().find(|(pattern, _)| {
        pattern
            .strip_suffix('*')
            .map_or(name == *pattern, |begin| name.starts_with(begin))
    });
    found.map_or(Treatment::CallThrough, |(_, treatment)| *treatment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_treatment() {
        let entry_only = [
            "setjmp",
            "_setjmp@GLIBC_2.2.5",
            "__cxa_throw",
            "_Unwind_Resume",
            "dlsym",
        ];
        for name in entry_only {
            assert!(matches!(treatment(name), EntryOnly(_)), "{name}");
        }
        assert!(matches!(treatment("vfork@@GLIBC_2.2.5"), EntryAndProbe(_)));
        for name in [
            "_Unwind_Find_FDE",
            "_dl_runtime_resolve_xsavec",
            "_start",
            "mcount",
            "rb_raise.cold",
            "parse.cold.12",
            "parse.cold.localalias",
            "parse.llvm.123.warm",
            "Builtins_LdaZeroHandler",
        ] {
            assert!(matches!(treatment(name), Never(_)), "{name}");
        }
        for name in [
            "malloc",
            "fork",
            "exit_group",
            "setjmper",
            "rb_yield",
            "cold",
            "lib.colder",
            "parse.part.0",
            "qsort",
            "",
        ] {
            assert_eq!(treatment(name), Treatment::CallThrough, "{name}");
        }
    }

    #[test]
    fn no_name_is_hidden_behind_another() {
        for (index, (pattern, treatment)) in TABLE.iter().enumerate() {
            let name = pattern.trim_end_matches('*');
            assert_eq!(super::treatment(name), *treatment, "{name}");
            assert!(
                TABLE[..index].iter().all(|(before, _)| before != pattern),
                "{pattern} twice"
            );
        }
    }
}
