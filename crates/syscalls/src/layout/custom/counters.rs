//! What `perf_event_open` counts: `struct perf_event_attr` (include/uapi/linux/perf_event.h), as large as it says itself.
//! Used by `custom`.

use crate::layout::{counted, list, ty as layout_type};
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use prototypes::digits::decimal;

/// `PERF_ATTR_SIZE_VER0`, which a size of 0 stands for, and the end of the last member that is known (`sig_data`).
const LEAST: usize = 64;
const WHOLE: usize = 128;
/// Where `wakeup_events` begins, from which on it is written with `-v` alone.
const BRIEF: usize = 48;

// `enum perf_type_id`, `PERF_SAMPLE_BRANCH_STACK`, `PERF_SAMPLE_STACK_USER`
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;
const TRACEPOINT: u32 = 2;
const CACHE: u32 = 3;
const BREAKPOINT: u32 = 5;
const BRANCH_STACK: u64 = 1 << 11;
const STACK_USER: u64 = 1 << 13;

// Bits of the flags.
const FREQUENCY: u32 = 10;
const WATERMARK: u32 = 14;
const PRECISE: u32 = 15;
const USE_CLOCK: u32 = 25;
const RESERVED: u32 = 38;

/// The flags, by their bits; `precise_ip` has two of them.
const FLAGS: [&str; 38] = [
    "disabled",
    "inherit",
    "pinned",
    "exclusive",
    "exclude_user",
    "exclude_kernel",
    "exclude_hv",
    "exclude_idle",
    "mmap",
    "comm",
    "freq",
    "inherit_stat",
    "enable_on_exec",
    "task",
    "watermark",
    "precise_ip",
    "",
    "mmap_data",
    "sample_id_all",
    "exclude_host",
    "exclude_guest",
    "exclude_callchain_kernel",
    "exclude_callchain_user",
    "mmap2",
    "comm_exec",
    "use_clockid",
    "context_switch",
    "write_backward",
    "namespaces",
    "ksymbol",
    "bpf_event",
    "aux_output",
    "cgroup",
    "text_poke",
    "build_id",
    "inherit_thread",
    "remove_on_exec",
    "sigtrap",
];

/// The bytes of one `struct perf_event_attr`, with zeros behind those that were copied.
struct Attributes {
    bytes: [u8; WHOLE],
    there: usize,
}

impl Attributes {
    fn read(w: &Writer, at: u64) -> Result<Self, Unknown> {
        let said = match w.u32_at(at.wrapping_add(4))? as usize {
            0 => LEAST,
            said => said.min(WHOLE),
        };
        let there = if w.style.verbose { said } else { BRIEF };
        let known = w.bytes(at, there);
        if said < LEAST || known.len() < there {
            return Err(Unknown);
        }
        let mut bytes = [0; WHOLE];
        bytes[..there].copy_from_slice(&known);
        Ok(Attributes { bytes, there })
    }

    /// Returns the number of `size` bytes, at most 8, at an offset.
    fn number(&self, at: usize, size: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&self.bytes[at..at + size]);
        u64::from_le_bytes(bytes)
    }

    fn kind(&self) -> u32 {
        self.number(0, 4) as u32
    }

    fn flag(&self, bit: u32) -> bool {
        self.number(40, 8) >> bit & 1 != 0
    }
}

/// `{type=PERF_TYPE_HARDWARE, size=PERF_ATTR_SIZE_VER7, config=PERF_COUNT_HW_CPU_CYCLES, …}`
pub fn attributes(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let of = w.before(|w| Attributes::read(w, at))?;
    w.push("{type=");
    list("perf_types").name(w, of.kind().into());
    size(w, at, &of);
    w.push(", config=");
    configuration(w, of.kind(), of.number(8, 8));
    let sample = if of.flag(FREQUENCY) {
        ", sample_freq="
    } else {
        ", sample_period="
    };
    w.push(sample);
    decimal(of.number(16, 8), w.out);
    w.push(", sample_type=");
    list("perf_samples").flags(w, of.number(24, 8));
    w.push(", read_format=");
    list("perf_reads").flags(w, of.number(32, 8));
    flags(w, of.number(40, 8));
    if w.style.verbose {
        addresses(w, &of);
        rest(w, &of);
    }
    let said = of.number(4, 4) as usize;
    if said.max(LEAST) > of.there {
        w.push(", ...");
    }
    w.push("}");
    Ok(())
}

/// `E2BIG` (include/uapi/asm-generic/errno-base.h).
const E2BIG: i32 = 7;

/// Its size, and the one that the kernel wants (`E2BIG`).
fn size(w: &mut Writer, at: u64, of: &Attributes) {
    let sizes = list("perf_sizes");
    w.push(", size=");
    sizes.name(w, of.number(4, 4));
    if w.call.error() != Some(E2BIG) {
        return;
    }
    w.push(" => ");
    match w.u32_at(at.wrapping_add(4)) {
        Ok(wanted) => sizes.name(w, wanted.into()),
        Err(Unknown) => w.push("???"),
    }
}

fn configuration(w: &mut Writer, kind: u32, word: u64) {
    let high = |w: &mut Writer| {
        if word >> 32 != 0 {
            w.hexadecimal(word >> 32);
            w.push("<<32|");
        }
    };
    match kind {
        HARDWARE => {
            high(w);
            list("perf_hardware").name(w, word & 0xffff_ffff);
        }
        SOFTWARE => list("perf_software").name(w, word),
        TRACEPOINT => decimal(word, w.out),
        CACHE => {
            high(w);
            if word >> 24 & 0xff != 0 {
                w.hexadecimal(word >> 24 & 0xff);
                w.push("<<24|");
            }
            list("perf_cache_results").name(w, word >> 16 & 0xff);
            w.push("<<16|");
            list("perf_cache_operations").name(w, word >> 8 & 0xff);
            w.push("<<8|");
            list("perf_caches").name(w, word & 0xff);
        }
        _ => w.hexadecimal(word),
    }
}

/// All flags with `-v`, else those that are set.
fn flags(w: &mut Writer, word: u64) {
    /// What `precise_ip` asks of the address in a sample.
    const SKIDS: [&str; 4] = [
        "arbitrary skid",
        "constant skid",
        "requested to have 0 skid",
        "must have 0 skid",
    ];
    for (bit, name) in (0..).zip(FLAGS) {
        let is_set = word >> bit & 1;
        if bit == PRECISE {
            let skid = word >> bit & 3;
            w.push(&format!(", {name}={skid} /* {} */", SKIDS[skid as usize]));
        } else if !name.is_empty() && (w.style.verbose || is_set != 0) {
            w.push(&format!(", {name}={is_set}"));
        }
    }
    if word >> RESERVED != 0 {
        w.push(", __reserved_1=");
        w.hexadecimal(word >> RESERVED);
        w.push(" /* Bits 63..38 */");
    }
}

/// When it wakes its reader, and what the kind of event decides: an address, or more of the configuration.
fn addresses(w: &mut Writer, of: &Attributes) {
    let wakes = if of.flag(WATERMARK) {
        "watermark"
    } else {
        "events"
    };
    w.push(&format!(", wakeup_{wakes}={}", of.number(48, 4)));
    let is_breakpoint = of.kind() == BREAKPOINT;
    if is_breakpoint {
        w.push(", bp_type=");
        breakpoint(w, of.number(52, 4));
    }
    w.push(if is_breakpoint {
        ", bp_addr="
    } else {
        ", config1="
    });
    w.hexadecimal(of.number(56, 8));
    if of.there <= 64 {
        return;
    }
    if is_breakpoint {
        w.push(&format!(", bp_len={}", of.number(64, 8)));
    } else {
        w.push(", config2=");
        w.hexadecimal(of.number(64, 8));
    }
}

/// Reading or writing and executing together is none (`HW_BREAKPOINT_INVALID`).
fn breakpoint(w: &mut Writer, word: u64) {
    const INVALID: u64 = 7;
    let types = list("breakpoint_types");
    match types.find(word) {
        None if word <= INVALID => {
            let style = w.style.constants;
            words::nameless(words::plain(word), "HW_BREAKPOINT_INVALID", style, w.out);
        }
        _ => types.name(w, word),
    }
}

/// The members that came later: each is there if the struct is long enough.
fn rest(w: &mut Writer, of: &Attributes) {
    let samples = of.number(24, 8);
    let has = |at: usize| at < of.there;
    if has(72) && samples & BRANCH_STACK != 0 {
        w.push(", branch_sample_type=");
        list("perf_branches").flags(w, of.number(72, 8));
    }
    let hexadecimal = |w: &mut Writer, name: &str, at: usize, size: usize| {
        w.push(&format!(", {name}="));
        w.hexadecimal(of.number(at, size));
    };
    if has(80) {
        hexadecimal(w, "sample_regs_user", 80, 8);
    }
    if has(88) && samples & STACK_USER != 0 {
        hexadecimal(w, "sample_stack_user", 88, 4);
    }
    if has(92) && of.flag(USE_CLOCK) {
        w.push(", clockid=");
        w.whole(&ty("clock"), Place::Word(of.number(92, 4)));
    }
    if has(96) {
        hexadecimal(w, "sample_regs_intr", 96, 8);
    }
    for (at, size, name, unused, length) in [
        (104, 4, "aux_watermark", 0, 0),
        (108, 2, "sample_max_stack", 110, 2),
        (112, 4, "aux_sample_size", 116, 4),
    ] {
        if !has(at) {
            return;
        }
        w.push(&format!(", {name}={}", of.number(at, size)));
        let more = of.number(unused, length);
        if length > 0 && has(unused) && more != 0 {
            let last = unused + length - 1;
            w.push(&format!(" /* bytes {unused}..{last}: {more:#x} */"));
        }
    }
    if has(120) {
        hexadecimal(w, "sig_data", 120, 8);
    }
}

/// `struct perf_event_query_bpf`: how many programs there is room for, and those that there are.
pub fn query(w: &mut Writer, at: u64, _: Option<usize>) -> Written {
    let room = w.before(|w| w.u32_at(at))?;
    w.push(&format!("{{ids_len={room}, "));
    let programs = w.u32_at(at.wrapping_add(4));
    match programs {
        Ok(count) if w.call.error().is_none() => {
            w.push(&format!("prog_cnt={count}, ids="));
            let ids = at.wrapping_add(8);
            let before = w.out.len();
            if counted(w, &layout_type("u32"), ids, count.into()).is_err() {
                w.out.truncate(before);
                w.address(ids);
            }
        }
        _ => w.push("..."),
    }
    w.push("}");
    Ok(())
}
