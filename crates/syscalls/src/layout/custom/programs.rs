//! Programs of `bpf`: their instructions, and what links are made with. Used by `custom`.

use crate::layout::{list, ty, value};
use crate::writer::{Writer, Written};

/// What a link is made with, by what it is attached to (`link_create` in `union bpf_attr`).
pub fn link_create(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    const HEAD: u32 = 16;
    let of = match w.u32_at(at.wrapping_add(8)) {
        _ if w.call.arguments[2] as u32 <= HEAD => "bpf_link_short",
        // `BPF_CGROUP_INET_INGRESS`, which stands for none; `BPF_TRACE_ITER`, `BPF_PERF_EVENT`, `BPF_TRACE_KPROBE_MULTI`
        Ok(0) => "bpf_link_btf",
        Ok(28) => "bpf_link_iterator",
        Ok(41) => "bpf_link_event",
        Ok(42) => "bpf_link_kprobes",
        _ => "bpf_link_other",
    };
    value(w, &ty(of), at, None)
}

/// A register, in four bits of a byte.
pub fn register(w: &mut Writer, at: u64, shift: u32) -> Written {
    let [byte] = w.number(at)?;
    list("bpf_registers").name(w, u64::from(byte >> shift & 15));
    Ok(())
}

/// The code of an instruction: its class and what the class has (include/uapi/linux/bpf_common.h, bpf.h).
pub fn code(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let [code] = w.number(at)?;
    let (class, code) = (u64::from(code & 7), u64::from(code));
    list("ebpf_classes").name(w, class);
    let parts: &[(&str, u64)] = match class {
        0..=3 => &[("ebpf_sizes", 0x18), ("ebpf_modes", 0xe0)],
        4 | 7 => &[("ebpf_sources", 0x08), ("ebpf_arithmetic", 0xf0)],
        5 => &[("ebpf_sources", 0x08), ("ebpf_jumps", 0xf0)],
        _ if code & !7 != 0 => {
            w.push("|");
            w.hexadecimal(code & !7);
            w.push(" /* BPF_??? */");
            return Ok(());
        }
        _ => &[],
    };
    for (name, mask) in parts {
        w.push("|");
        list(name).name(w, code & mask);
    }
    Ok(())
}
