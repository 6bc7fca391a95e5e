//! `clone3`: a struct, and what the kernel writes where it points to; the namespaces that a call has led into. Used by `memory` and `result`.

use crate::call::RawCall;
use crate::types::ty;
use crate::writer::{Place, Unknown, Writer, Written};
use crate::{forms, layout};
use prototypes::digits::decimal;
use prototypes::show::Memory as _;

const PIDFD: u64 = 0x1000;
const PARENT_TID: u64 = 0x10_0000;
const CHILD_TID: u64 = 0x0100_0000 | 0x20_0000;
const TLS: u64 = 0x8_0000;
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// The size of `struct clone_args` that is known here, and of its first version.
const KNOWN: u64 = 88;
const LEAST: u64 = 64;

/// The namespaces that a call has led into that was asked for some: a child, or the thread itself.
pub fn entered(call: &RawCall, result: u64) -> Option<String> {
    /// The signal at the end of a child, in the flags of `clone` (include/uapi/linux/sched.h, `CSIGNAL`).
    const SIGNAL: u64 = 0xff;
    let namespaces = call.namespaces?;
    let [first, second, ..] = *call.arguments;
    let child = Some(result as i32);
    match call.name {
        // There `CLONE_INTO_CGROUP` has no meaning.
        "clone" => namespaces(child, first & !SIGNAL & !INTO_CGROUP),
        "clone3" => {
            let mut flags = [0; 8];
            let known = call.entry.read(first, &mut flags);
            known.then(|| namespaces(child, u64::from_le_bytes(flags)))?
        }
        "setns" => namespaces(None, second & !INTO_CGROUP),
        "unshare" => namespaces(None, first & !INTO_CGROUP),
        _ => None,
    }
}

/// The words of a `struct clone_args` as it was given to the kernel; those behind its size are 0.
struct Asked(Vec<u8>);

impl Asked {
    fn word(&self, index: usize) -> u64 {
        let bytes = self.0.get(8 * index..8 * index + 8);
        bytes.map_or(0, |bytes| {
            u64::from_le_bytes(bytes.try_into().unwrap_or_default())
        })
    }

    fn has(&self, flag: u64) -> bool {
        self.word(0) & flag != 0
    }
}

/// `{flags=…, child_tid=0x7f…, …} => {parent_tid=[71]}`: the members that mean something (kernel/fork.c,
/// `clone3_args_valid`; `struct clone_args` in include/uapi/linux/sched.h).
pub fn clone_arguments(w: &mut Writer, at: u64, size: u64) -> Written {
    let there = size.min(KNOWN);
    let asked = Asked(w.before(|w| w.bytes(at, there as usize)));
    if size < LEAST || (asked.0.len() as u64) < there {
        return Err(Unknown);
    }
    w.push("{flags=");
    w.plain(&ty("clone3_flags"), Place::Word(asked.word(0)))?;
    for (flag, name, index) in [
        (PIDFD, "pidfd", 1),
        (CHILD_TID, "child_tid", 2),
        (PARENT_TID, "parent_tid", 3),
    ] {
        if asked.has(flag) {
            w.push(&format!(", {name}="));
            w.address(asked.word(index));
        }
    }
    w.push(", exit_signal=");
    match asked.word(4) {
        signal if signal < i32::MAX as u64 => forms::signal_number(w, signal),
        signal => decimal(signal, w.out),
    }
    w.push(", stack=");
    w.address(asked.word(5));
    w.push(", stack_size=");
    w.hexadecimal(asked.word(6));
    if asked.has(TLS) {
        w.push(", tls=");
        w.address(asked.word(7));
    }
    set_tids(w, asked.word(8), asked.word(9));
    if there >= KNOWN && (asked.word(10) != 0 || asked.has(INTO_CGROUP)) {
        w.push(&format!(", cgroup={}", asked.word(10)));
    }
    w.before_mut(|w| layout::behind(w, at, KNOWN, size));
    w.push("}");
    if w.late && w.call.error().is_none() {
        let told = told(w, &asked, at, size);
        if !told.is_empty() {
            w.push(&format!(" => {{{}}}", told.join(", ")));
        }
    }
    Ok(())
}

/// What the kernel has written: to where the members `pidfd` and `parent_tid` point, and behind the struct.
fn told(w: &mut Writer, asked: &Asked, at: u64, size: u64) -> Vec<String> {
    let mut told = Vec::new();
    for (flag, name, index) in [(PIDFD, "pidfd", 1), (PARENT_TID, "parent_tid", 3)] {
        if !asked.has(flag) {
            continue;
        }
        let pointer = asked.word(index);
        let text = aside(w, |w| match w.u32_at(pointer) {
            Ok(number) => {
                w.push(&format!("[{}", number as i32));
                match flag {
                    PIDFD => w.name_of(number as i32),
                    _ => w.process(number as i32),
                }
                w.push("]");
            }
            Err(Unknown) => w.address(pointer),
        });
        told.push(format!("{name}={text}"));
    }
    let behind = aside(w, |w| layout::behind(w, at, KNOWN, size));
    told.extend(behind.strip_prefix(", ").map(str::to_owned));
    told
}

/// What `write` writes, taken out of the line again.
fn aside(w: &mut Writer, write: impl FnOnce(&mut Writer)) -> String {
    let begins = w.out.len();
    write(w);
    String::from_utf8_lossy(&w.out.split_off(begins)).into_owned()
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
