//! The types of a program with functions (Documentation/bpf/btf.rst). Used by `kernel`.

/// The types of a program with a function (Documentation/bpf/btf.rst), which the kernel wants to know of what it is to call:
/// `int`, a function that returns it, and two of that type.
pub(super) fn types() -> Vec<u8> {
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
    blob
}
