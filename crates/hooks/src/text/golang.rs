//! Recognises modules compiled by Go, whose code is never hooked. Used by `syscall_sites`, `text` and `open`.
//!
//! Go's runtime walks over the stacks of its threads at any time: to collect garbage, to move a stack that has become too small, to
//! preempt a goroutine by a signal (`runtime/traceback.go`, `runtime/preempt.go`, Go 1.14 and later). It looks up every return address
//! and every instruction in its own tables (`.gopclntab`), and ends the program if one is missing: "fatal error: unknown pc". A
//! call-through hook leaves such a return address. A signal may also find a thread in the stub of a hook without a frame, and
//! `morestack`, which a function's first instructions call, records their address. Moreover, Go's arguments are not in the ABI's
//! registers, and its stacks have room for its own frames only. So no hook is proven harmless.
//!
//! A library that Go has made for C (`-buildmode=c-shared`) has the same runtime, and is recognised in the same way.

use process::error::{Error, Result};
use process::functions::{Functions, ModuleSymbols};
use process::memory::GuestMemory;
use vm::Memory;

/// The reason for which functions of Go are not hooked, as the user sees it.
pub const REFUSED: &str = "it is compiled by Go, whose runtime ends the program when it meets a return address or an instruction \
                           that it does not know";

/// Sections that Go's linker always writes (`cmd/link/internal/ld/data.go`), also in stripped files.
const SECTIONS: [&str; 4] = [
    ".go.buildinfo",
    ".gopclntab",
    ".data.rel.ro.gopclntab",
    ".note.go.buildid",
];

/// The first bytes of `.go.buildinfo` (`debug/buildinfo`): aligned to 16, near the beginning of a segment that can be written.
const MAGIC: &[u8; 14] = b"\xff Go buildinf:";
/// How far into a segment the magic bytes are searched for in a file without sections.
const SEARCHED: u64 = 1 << 20;

/// Why no system call of Go is hooked, as the user sees it.
pub const NO_ROOM: &str = "Go's stacks have no room for it";

/// Refuses a process whose program was compiled by Go.
pub fn refuse_program(functions: &Functions, memory: &GuestMemory) -> Result<()> {
    let mut modules = functions.modules().iter();
    match modules.find(|place| place.module.main) {
        Some(place) if is_go(place, memory) => Err(Error::Hook {
            pid: memory.pid(),
            function: "its code (by Go)".into(),
            reason: NO_ROOM.into(),
        }),
        _ => Ok(()),
    }
}

/// Whether a module was compiled by Go.
pub fn is_go(place: &ModuleSymbols, memory: &GuestMemory) -> bool {
    if SECTIONS.iter().any(|name| place.symbols.has_section(name)) {
        return true;
    }
    let symbol = |name| place.symbols.every().any(|named| named.name == name);
    if place.symbols.has_section(".shstrtab") {
        return symbol("runtime.buildVersion");
    }
    place.module.mappings.iter().any(|part| {
        let end = part.end.min(part.start + SEARCHED);
        let mut bytes = [0; MAGIC.len()];
        (part.start..end.saturating_sub(MAGIC.len() as u64))
            .step_by(16)
            .any(|at| memory.read(at, &mut bytes).is_ok() && bytes == *MAGIC)
    })
}
