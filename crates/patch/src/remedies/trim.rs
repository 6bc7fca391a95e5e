//! `trim`: free memory of the C library's heap given back to the kernel, once. Used by `remedies`.
//!
//! **What it mends.** glibc gives memory back only from the end of a heap. After a peak (a large request, an import, a collection of many objects) hundreds of megabytes may be free within
//! it and stay resident; with an arena for every thread, more. `malloc_trim(0)` gives back every page that is free as a whole, of all arenas.
//!
//! **How.** It must not be called in a thread that stands anywhere: that may hold the lock of an arena. So `free` is replaced for a moment: the first thread that has called
//! it, and holds no lock of the allocator by then, calls `malloc_trim(0)`, and `errno` is kept. Then `free` is put back.
//!
//! **What it risks.** That thread is late by the time it takes (some 0.1 ms a MiB that is given back), and others that need the same arena wait for it. Pages that are used again cost a fault each (0.1 to 0.5 µs).
//! In a process that needs the memory again at once nothing is gained.
//!
//! **Undo.** There is none, and none is needed: what was given back holds nothing, and comes back as zeros when it is used.
//!
//! **When it refuses.** The process's `free` is not that of glibc (jemalloc, tcmalloc); nobody calls `free` within ten seconds (then it is put back, and nothing has happened).
//!
//! **How it was measured.** `tests/patch/settings.rs`: a Ruby that has dropped 200 MiB of strings, resident memory before and after.

use super::remedy::{Remedy, Way, refused};
use crate::error::Result;
use crate::guest::Guest;
use crate::journal::Record;
use crate::object::{Object, Word};
use crate::plan::{Limits, Once, Plan, plan_objects};
use crate::request::Request;
use inject::image::Part;
use std::path::PathBuf;

const NAME: &str = "trim";
const FILE: &str = "remedy trim";

pub(super) const REMEDY: Remedy = Remedy {
    name: NAME,
    arguments: "",
    mends: "free memory within glibc's heaps stays resident after a peak: malloc_trim(0), once, by the next thread that calls free",
    risks: "that thread is late by the time it takes; there is nothing to undo; refuses other allocators",
    way: Way::Functions(plan),
};

/// Where the words are that the loader fills in, and those that the code and we write; offsets in the file.
const IMPORTS: [(u64, &str); 3] = [
    (4096, "lancet_original_free"),
    (4104, "malloc_trim"),
    (4112, "__errno_location"),
];
const ASKED: u64 = 8192;
const DONE: u64 = 8200;
const SIZE: u64 = 12288;

fn plan(guest: &Guest, arguments: &str, limits: Limits) -> Result<Plan> {
    if !arguments.is_empty() || limits.lasts.is_some() {
        return Err(refused(
            NAME,
            "it takes no arguments and no --for: it is done once",
        ));
    }
    let modules = guest.in_search_order();
    let first = modules
        .iter()
        .find(|place| place.symbols.exported("free").is_some());
    match first {
        Some(place) if place.name.starts_with("libc.so") => {}
        Some(place) => {
            let reason = format!("its memory is allocated by {}, not by glibc", place.name);
            return Err(refused(NAME, reason));
        }
        None => return Err(refused(NAME, "it shows no function free")),
    }
    let mut bytes = code();
    bytes.resize(SIZE as usize, 0);
    let part = |range, protection| Part { range, protection };
    let parts = vec![
        part(0..4096, libc::PROT_READ | libc::PROT_EXEC),
        part(4096..8192, libc::PROT_READ),
        part(8192..SIZE, libc::PROT_READ | libc::PROT_WRITE),
    ];
    let words = IMPORTS.map(|(at, name)| (at, Word::Import(name)));
    let object = Object::built_in(FILE, bytes, parts, &words, &[("free", 0)]);
    let request = Request {
        function: "free".into(),
        library: Some("libc".into()),
        file: PathBuf::from(FILE),
        new: "free".into(),
    };
    let mut plan = plan_objects(guest, &[request], vec![object], limits)?;
    // Who is inside of the old function goes on in it.
    plan.functions.iter_mut().for_each(|one| one.goes_on = true);
    plan.once = Some(Once { ask, answer });
    Ok(plan)
}

/// Has the thread that calls the function next do it.
fn ask(guest: &Guest, record: &Record) -> Result<()> {
    let at = |offset: u64| record.code.start + offset;
    guest.memory.write(at(DONE), &[0; 8])?;
    Ok(guest.memory.write(at(ASKED), &1u64.to_le_bytes())?)
}

/// What has come of it, if it is done.
fn answer(guest: &Guest, record: &Record) -> Option<&'static str> {
    match guest.memory.word(record.code.start + DONE).ok()? {
        0 => None,
        1 => Some("there was nothing to give back"),
        _ => Some("memory was given back"),
    }
}

fn code() -> Vec<u8> {
    unsafe extern "C" {
        static lancet_trim_code: [u8; 128];
    }
    // SAFETY: The assembly below fills so many bytes there, constants.
    unsafe { lancet_trim_code }.to_vec()
}

// void free(void *): as it was; then, if it was asked for, malloc_trim(0), by one thread, and 1 + what that says.
core::arch::global_asm!(
    r#"
    .pushsection .rodata.lancet_trim, "a", @progbits
    .balign 64
lancet_trim_code:
    sub rsp, 8
    call [rip + lancet_trim_code + 4096]
    cmp qword ptr [rip + lancet_trim_code + 8192], 0
    jne 1f
    add rsp, 8
    ret
1:  xor eax, eax
    xchg [rip + lancet_trim_code + 8192], rax
    test rax, rax
    jz 2f
    push rbx
    push r12
    call [rip + lancet_trim_code + 4112]
    mov rbx, rax
    mov r12d, [rbx]
    xor edi, edi
    call [rip + lancet_trim_code + 4104]
    inc eax
    mov [rip + lancet_trim_code + 8200], rax
    mov [rbx], r12d
    pop r12
    pop rbx
2:  add rsp, 8
    ret
    .org lancet_trim_code + 128, 0xcc
    .popsection
    .globl lancet_trim_code
"#
);
