//! System calls that the agent must handle whatever is requested: they make a child, end a thread or a process, run another program, or
//! may forbid what hooks do. This is the only list of them, used by the command, which chooses the places that get probes, and by the
//! agent.
//!
//! Numbers: Linux arch/x86/entry/syscalls/syscall_64.tbl.

/// `clone`
pub const CLONE: u64 = 56;
/// `fork`
pub const FORK: u64 = 57;
/// `vfork`
pub const VFORK: u64 = 58;
/// `execve`
pub const EXECVE: u64 = 59;
/// `exit`
pub const EXIT: u64 = 60;
/// `prctl`
pub const PRCTL: u64 = 157;
/// `exit_group`
pub const EXIT_GROUP: u64 = 231;
/// `seccomp`
pub const SECCOMP: u64 = 317;
/// `execveat`
pub const EXECVEAT: u64 = 322;
/// `clone3`
pub const CLONE3: u64 = 435;

/// Whether a call needs more of the agent than a record.
#[inline(always)]
pub const fn is_special(number: u64) -> bool {
    makes_child(number) || ends(number) || replaces(number) || may_lock(number)
}

/// Whether it makes a child, which returns from it as well.
#[inline(always)]
pub const fn makes_child(number: u64) -> bool {
    matches!(cut(number), FORK) || may_lend(number)
}

/// Whether the child may share its parent's memory: it uses the ring of its parent's thread meanwhile.
#[inline(always)]
pub const fn may_lend(number: u64) -> bool {
    matches!(cut(number), CLONE | VFORK | CLONE3)
}

/// Whether it ends its thread or its process.
#[inline(always)]
pub const fn ends(number: u64) -> bool {
    matches!(cut(number), EXIT | EXIT_GROUP)
}

/// Whether another program runs in its place if it succeeds.
#[inline(always)]
pub const fn replaces(number: u64) -> bool {
    matches!(cut(number), EXECVE | EXECVEAT)
}

/// Whether its thread may use it to forbid what hooks do.
#[inline(always)]
pub const fn may_lock(number: u64) -> bool {
    matches!(cut(number), PRCTL | SECCOMP)
}

/// The kernel uses 32 bits of the number.
#[inline(always)]
const fn cut(number: u64) -> u64 {
    number & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_looks_at_32_bits() {
        let special = [56, 57, 58, 59, 60, 157, 231, 317, 322, 435];
        let found = (0..512).filter(|number| is_special(*number));
        assert!(found.eq(special));
        assert!(special.iter().all(|number| is_special(number | 7 << 32)));
    }
}
