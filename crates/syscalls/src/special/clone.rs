//! `clone3`: a struct, and what the kernel writes where it points to.

use crate::types::ty;
use crate::writer::{Place, Unknown, Writer, Written};
use crate::{forms, layout};
use prototypes::digits::decimal;

/// `{flags=…, child_tid=0x7f…, …} => {parent_tid=[71]}`: the members that mean something (kernel/fork.c,
/// `clone3_args_valid`; `struct clone_args` in include/uapi/linux/sched.h).
pub fn clone_arguments(w: &mut Writer, at: u64, size: u64) -> Written {
    const PIDFD: u64 = 0x1000;
    const PARENT_TID: u64 = 0x10_0000;
    const CHILD_TID: u64 = 0x0100_0000 | 0x20_0000;
    const TLS: u64 = 0x8_0000;
    const INTO_CGROUP: u64 = 0x2_0000_0000;
    const KNOWN: u64 = 88;
    const LEAST: u64 = 64;
    let there = size.min(KNOWN);
    let asked = w.before(|w| w.bytes(at, there as usize));
    if size < LEAST || (asked.len() as u64) < there {
        return Err(Unknown);
    }
    let word = |index: usize| {
        let bytes = asked.get(8 * index..8 * index + 8);
        bytes.map_or(0, |bytes| {
            u64::from_le_bytes(bytes.try_into().unwrap_or_default())
        })
    };
    let flags = word(0);
    w.push("{flags=");
    w.plain(&ty("clone3_flags"), Place::Word(flags))?;
    for (bits, name, index) in [
        (PIDFD, "pidfd", 1),
        (CHILD_TID, "child_tid", 2),
        (PARENT_TID, "parent_tid", 3),
    ] {
        if flags & bits != 0 {
            w.push(&format!(", {name}="));
            w.address(word(index));
        }
    }
    w.push(", exit_signal=");
    match word(4) {
        signal if signal < i32::MAX as u64 => forms::signal_number(w, signal),
        signal => decimal(signal, w.out),
    }
    w.push(", stack=");
    w.address(word(5));
    w.push(", stack_size=");
    w.hexadecimal(word(6));
    if flags & TLS != 0 {
        w.push(", tls=");
        w.address(word(7));
    }
    set_tids(w, word(8), word(9));
    if there >= KNOWN && (word(10) != 0 || flags & INTO_CGROUP != 0) {
        w.push(&format!(", cgroup={}", word(10)));
    }
    w.before_mut(|w| layout::behind(w, at, KNOWN, size));
    w.push("}");
    if !w.late || w.call.error().is_some() {
        return Ok(());
    }
    let mut after = Vec::new();
    for (bits, name, index) in [(PIDFD, "pidfd", 1), (PARENT_TID, "parent_tid", 3)] {
        if flags & bits == 0 {
            continue;
        }
        let pointer = word(index);
        let begins = w.out.len();
        match w.u32_at(pointer) {
            Ok(number) => {
                w.push(&format!("[{}", number as i32));
                match name {
                    "pidfd" => w.name_of(number as i32),
                    _ => w.process(number as i32),
                }
                w.push("]");
            }
            Err(Unknown) => w.address(pointer),
        }
        let text = w.out.split_off(begins);
        after.push(format!("{name}={}", String::from_utf8_lossy(&text)));
    }
    let begins = w.out.len();
    layout::behind(w, at, KNOWN, size);
    let text = w.out.split_off(begins);
    let text = String::from_utf8_lossy(&text);
    if let Some(text) = text.strip_prefix(", ") {
        after.push(text.to_owned());
    }
    if !after.is_empty() {
        w.push(&format!(" => {{{}}}", after.join(", ")));
    }
    Ok(())
}

/// The ids that a process is to have in its namespaces.
fn set_tids(w: &mut Writer, at: u64, count: u64) {
    /// How deep PID namespaces may lie in one another: `MAX_PID_NS_LEVEL`
    /// (include/linux/pid_namespace.h).
    const MOST: u64 = 32;
    if at == 0 && count == 0 {
        return;
    }
    w.push(", set_tid=");
    let before = w.out.len();
    let known = at != 0 && (1..=MOST).contains(&count);
    let most = w.style.strings as u64;
    let written = known.then(|| {
        layout::listed(w, at, 4, count, most, |w, here, _| {
            let number = w.u32_at(here)? as i32;
            decimal(number, w.out);
            Ok(())
        })
    });
    if !matches!(written, Some(Ok(()))) {
        w.out.truncate(before);
        w.address(at);
    }
    w.push(&format!(", set_tid_size={count}"));
}
