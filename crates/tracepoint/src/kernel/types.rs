//! The types of a program with functions (Documentation/bpf/btf.rst). Used by `kernel`.

use super::{Refused, bpf, owned, refused};
use std::os::fd::OwnedFd;

const BTF_LOAD: libc::c_int = 18;

#[repr(C)]
#[derive(Default)]
struct LoadTypes {
    types: u64,
    log: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    padding: u32,
}

/// The types of a program with a function (Documentation/bpf/btf.rst), which the kernel wants to know of what it is to call:
/// `int`, a function that returns it, and two of that type.
pub(super) fn types() -> Result<OwnedFd, Refused> {
    const NAMES: &[u8] = b"\0int\0program\0step\0";
    const INT: u32 = 1 << 24;
    const FUNCTION: u32 = 12 << 24;
    const PROTOTYPE: u32 = 13 << 24;
    // Type 1: name, kind, 4 bytes; signed, 32 bits. Type 2: no name, no parameters, returns type 1. Types 3 and 4: name, static, type 2.
    let types: [u32; 13] = [
        1,
        INT,
        4,
        1 << 24 | 32,
        0,
        PROTOTYPE,
        1,
        5,
        FUNCTION,
        2,
        13,
        FUNCTION,
        2,
    ];
    let length = size_of_val(&types) as u32;
    let mut blob = Vec::new();
    // `struct btf_header`: magic number, version, flags; its length, and where types and names lie behind it.
    blob.extend([0x9f, 0xeb, 1, 0]);
    for word in [24, 0, length, length, NAMES.len() as u32]
        .into_iter()
        .chain(types)
    {
        blob.extend(word.to_ne_bytes());
    }
    blob.extend(NAMES);
    let mut asked = LoadTypes {
        types: blob.as_ptr() as u64,
        size: blob.len() as u32,
        ..LoadTypes::default()
    };
    // SAFETY: the address is of so many bytes, which live through the call.
    let loaded = unsafe { bpf(BTF_LOAD, &mut asked) };
    loaded.map(owned).map_err(|error| refused("types", error))
}
