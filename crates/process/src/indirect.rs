//! Finds what IFUNCs have picked: functions that choose, once, when the loader calls them, the function that is really
//! called (`STT_GNU_IFUNC`; gABI supplement "GNU indirect functions"). Used by `functions`.
//!
//! `memcpy` is one: the function with this name looks at the processor and returns the address of a `memcpy` for it.
//! The picker is not called again, so a hook on it sees nothing. The loader has stored what it picked in the slots of
//! the modules that import it by name, and in those of its own module (`R_X86_64_IRELATIVE`). These slots are read; the
//! picker is never run.
//!
//! ```text
//!   libruby  .got  slot "memcpy" ──────────────┐
//!   libc     .got  slot of the picker 0x9f550 ──┴─► __memmove_avx_unaligned_erms    hooked, and shown as memcpy
//! ```
//!
//! An IFUNC that has not picked yet is hooked itself, and its thread waits before it returns until the command has
//! handled a notice of it (`wire::notices`): the picked function is hooked before it is called. Some IFUNCs pick a
//! function of the kernel's vDSO (`time`, `gettimeofday`), whose text becomes the process's own copy when it is written
//! to (`arch/x86/entry/vdso/vma.c`: `VM_MAYWRITE`).

use crate::functions::ModuleSymbols;
use crate::memory::GuestMemory;
use crate::symbols::{Kind, Slot};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns what each IFUNC has picked, by its own address. Those that have not picked yet are missing.
pub fn picked(
    places: &[Arc<ModuleSymbols>],
    kernel: Option<&ModuleSymbols>,
    memory: &GuestMemory,
) -> HashMap<u64, u64> {
    // Several IFUNCs may be versions of one name, and a slot does not say which of them filled it.
    let mut by_name: HashMap<String, Option<u64>> = HashMap::new();
    for place in places {
        for named in place.symbols.exports() {
            if named.symbol.kind == Kind::Indirect {
                let address = named.symbol.address;
                by_name
                    .entry(named.name.into_owned())
                    .and_modify(|known| *known = known.filter(|known| *known == address))
                    .or_insert(Some(address));
            }
        }
    }
    let mut found = HashMap::new();
    for place in places {
        for (at, slot) in place.symbols.slots() {
            let picker = match slot {
                Slot::Picked(by) => Some(by),
                Slot::Named(name) => by_name.get(&*name).copied().flatten(),
            };
            if let Some(picker) = picker.filter(|picker| !found.contains_key(picker))
                && let Ok(target) = memory.word(at)
                && is_function(places, kernel, memory, picker, target)
            {
                found.insert(picker, target);
            }
        }
    }
    found
}

/// Whether a slot's word is an address in code of the IFUNC's module, or of the vDSO. A slot that is not bound yet
/// points back into the linkage table of its own module.
fn is_function(
    places: &[Arc<ModuleSymbols>],
    kernel: Option<&ModuleSymbols>,
    memory: &GuestMemory,
    picker: u64,
    target: u64,
) -> bool {
    if kernel.is_some_and(|kernel| kernel.module.contains(target)) {
        return true;
    }
    let mut places = places.iter();
    let Some(place) = places.find(|place| place.module.contains(picker)) else {
        return false;
    };
    let is_code = place.module.code().any(|code| code.contains(&target));
    is_code && target != picker && !is_unbound(memory, target)
}

/// Whether the code at `at` is an entry of a linkage table that pushes a number for the resolver.
fn is_unbound(memory: &GuestMemory, at: u64) -> bool {
    const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    const PUSH: u8 = 0x68;
    let mut code = [0; 5];
    if memory.read_bytes(at, &mut code).is_err() {
        return true;
    }
    code[0] == PUSH || (code[..4] == LANDING && code[4] == PUSH)
}
