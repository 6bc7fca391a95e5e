//! Writes signals that came, by what the kernel says of them. Used by `report::syscalls::lines::ends` and
//! `report::syscalls::lines`.

use crate::call::{Processes, RawCall, Style};
use crate::forms;
use crate::types::ty;
use crate::writer::{Place, Writer};
use prototypes::show::Captures;
use prototypes::types::Prototype;

/// What a signal is, by the beginning of its `siginfo_t`.
pub fn information(style: &Style, bytes: &[u8], processes: Option<Processes>) -> Option<String> {
    /// Where the bytes are read from: any address will do.
    const PLACE: u64 = 0x1000;
    let mut copies = Captures::new();
    copies.add(PLACE, bytes);
    let prototype = Prototype::unknown(0);
    let call = RawCall {
        name: "",
        prototype: &prototype,
        arguments: &[0; 6],
        entry: &copies,
        returned: None,
        descriptors: None,
        processes,
        netlink: None,
        namespaces: None,
    };
    let mut text = Vec::new();
    let mut w = Writer::new(style, &call, forms::by_name, &mut text);
    w.value(&ty("siginfo"), Place::Memory(PLACE)).ok()?;
    String::from_utf8(text).ok()
}
