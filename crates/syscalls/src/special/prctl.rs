//! `prctl`: the first argument says how many others there are and what they are (include/uapi/linux/prctl.h). Used by
//! `special` and `result`.

use super::control::named;
use crate::call::Constants;
use crate::call::IdKind;
use crate::types::ty;
use crate::words;
use crate::writer::{Place, Unknown, Writer, Written};
use crate::{forms, text};
use prototypes::digits::decimal;

/// What an argument is.
#[derive(Clone, Copy)]
enum Is {
    /// A number in decimals, without a sign.
    Number,
    /// A number in hexadecimal.
    Hex,
    /// An address, of which nothing more is looked at.
    Address,
    /// The number of a signal, by its name.
    Signal,
    /// One of this type of `syscalls.conf`.
    Of(&'static str),
    /// The address of one of this type of `syscalls.conf`, which the kernel writes.
    To(&'static str),
    /// The name of a thread, which is read or written.
    Name,
    /// A process, which the call may be about.
    Process,
    /// The length of a vector register, with flags above it.
    Vector(&'static str),
    /// How tagged addresses are treated.
    Tagged,
}

use Is::{Address, Hex, Name, Number, Of, Process, Signal, Tagged, To, Vector};

/// Options and what follows them; those that are in none of these lines have four numbers.
const OPTIONS: &[(u64, &[Is])] = &[
    (1, &[Signal]),
    (2, &[To("signum")]),
    (3, &[]),
    (SET_DUMPABLE, &[Of("dumpable")]),
    (5, &[To("unalign_flags")]),
    (6, &[Of("unalign_flags")]),
    (7, &[]),
    (8, &[Number]),
    (9, &[To("int")]),
    (10, &[Hex]),
    (11, &[To("int")]),
    (12, &[Hex]),
    (13, &[]),
    (14, &[Number]),
    (15, &[Name]),
    (16, &[Name]),
    (19, &[To("int")]),
    (20, &[Hex]),
    (21, &[]),
    (23, &[Of("capability")]),
    (24, &[Of("capability")]),
    (25, &[To("tsc_flag")]),
    (26, &[Of("tsc_flag")]),
    (27, &[]),
    (28, &[Of("secure_bits")]),
    (29, &[Number]),
    (30, &[]),
    (31, &[]),
    (32, &[]),
    (36, &[Number]),
    (37, &[To("int")]),
    (38, &[Number, Hex, Hex, Hex]),
    (40, &[To("pointer")]),
    (41, &[Number, Hex, Hex, Hex]),
    (45, &[Of("fp_mode")]),
    (46, &[]),
    (50, &[Vector("sve_flags")]),
    (51, &[]),
    (52, &[Of("speculation")]),
    (
        SET_SPECULATION,
        &[Of("speculation"), Of("speculation_flags")],
    ),
    (54, &[Of("pac_keys"), Hex, Hex, Hex]),
    (55, &[Tagged, Hex, Hex, Hex]),
    (59, &[Of("user_dispatch"), Hex, Hex, Address]),
    (
        60,
        &[Of("pac_enabled_keys"), Of("pac_enabled_keys"), Hex, Hex],
    ),
    (62, &[Of("sched_core"), Process, Of("pid_kind"), Address]),
    (63, &[Vector("sme_flags")]),
    (64, &[]),
    (SET_PTRACER, &[Process]),
];

// Options of which one argument decides about the next.
const SET_SECCOMP: u64 = 22;
const MACHINE_CHECKS: u64 = 33;
const AMBIENT: u64 = 47;
const SCHED_CORE: u64 = 62;
const SET_VMA: u64 = 0x5356_4d41;
const SET_DUMPABLE: u64 = 4;
const SET_SPECULATION: u64 = 53;
const SET_PTRACER: u64 = 0x5961_6d61;

fn option(w: &Writer) -> u64 {
    w.call.arguments[0] & 0xffff_ffff
}

/// How many arguments mean something.
pub fn arguments(all: &[u64; 6]) -> Option<usize> {
    const STRICT: u64 = 1;
    const FILTER: u64 = 2;
    match all[0] & 0xffff_ffff {
        SET_SECCOMP if all[1] == STRICT => Some(2),
        SET_SECCOMP if all[1] == FILTER => Some(3),
        option => {
            let known = OPTIONS.iter().find(|(number, _)| *number == option);
            known.map(|(_, kinds)| 1 + kinds.len())
        }
    }
}

/// Writes the argument with this index.
pub fn argument(w: &mut Writer, index: usize, word: u64) -> Written {
    let kind = match (option(w), index) {
        (SET_SECCOMP, 1) => Of("seccomp_mode"),
        (SET_SECCOMP, 2) if w.call.arguments[1] == 2 => Address,
        (MACHINE_CHECKS, 1) => Of("machine_checks"),
        (MACHINE_CHECKS, 2) if w.call.arguments[1] == 1 => Of("machine_check_kill"),
        (AMBIENT, 1) => Of("ambient"),
        (AMBIENT, 2) if (1..4).contains(&w.call.arguments[1]) => Of("capability"),
        (SET_VMA, 1) => Of("vma_option"),
        (SET_VMA, 2) => Address,
        (SET_VMA, 3) if w.call.arguments[1] == 0 => Number,
        (SET_VMA, 4) if w.call.arguments[1] == 0 => return name_of_mapping(w, word),
        (SET_SPECULATION, 2) if w.call.arguments[1] > 2 => Hex,
        (SCHED_CORE, 3) => return kind_of_process(w, word),
        // Where a cookie is to be written.
        (SCHED_CORE, 4) if w.call.arguments[1] as u32 == 0 => To("ulong_hex"),
        (option, index) => {
            let known = OPTIONS.iter().find(|(number, _)| *number == option);
            let kinds = known.map_or(&[][..], |(_, kinds)| *kinds);
            kinds.get(index - 1).copied().unwrap_or(Hex)
        }
    };
    one(w, kind, word)
}

fn one(w: &mut Writer, kind: Is, word: u64) -> Written {
    // The kernel looks at 32 bits of it (kernel/sched/core_sched.c).
    let word = match option(w) == SCHED_CORE && matches!(kind, Of(_)) {
        true => u64::from(word as u32),
        false => word,
    };
    match kind {
        Number => decimal(word, w.out),
        Hex => w.hexadecimal(word),
        Address => w.address(word),
        Signal if word <= 64 => forms::signal_number(w, word),
        Signal => decimal(word, w.out),
        Of(list) => return whole_word(w, list, word),
        To(list) => return pointed(w, list, word),
        Name => return name_of_thread(w, word),
        // Any process may trace this one.
        Process if option(w) == SET_PTRACER && word as i32 == -1 => {
            w.known_decimal(-1, "PR_SET_PTRACER_ANY");
        }
        Process => {
            let number = word as i32;
            decimal(number, w.out);
            match (option(w), w.call.arguments[3] as u32) {
                // `enum pid_type` (include/linux/pid_types.h)
                (SCHED_CORE, 0) => w.id(number, IdKind::Thread),
                (SCHED_CORE, 2) => w.id(number, IdKind::Group),
                (SCHED_CORE, 3) => w.id(number, IdKind::Session),
                (SCHED_CORE, 4..) => {}
                _ => w.process(number),
            }
        }
        Vector(flags) => vector(w, flags, word),
        Tagged => tagged(w, word),
    }
    Ok(())
}

/// A number of 64 bits by its name, or its bits by theirs.
fn whole_word(w: &mut Writer, list: &str, word: u64) -> Written {
    let of = ty(list);
    match &of.lens {
        Some(prototypes::types::Lens::Flags(names)) => {
            words::flags(word, names, w.style.constants, w.out);
        }
        _ => named(w, list, word),
    }
    Ok(())
}

/// The kernel's names of these numbers are in no header that programs include (include/linux/pid.h): the number goes first.
fn kind_of_process(w: &mut Writer, word: u64) -> Written {
    let word = u64::from(word as u32);
    let of = ty("pid_kind");
    let style = match w.style.constants {
        Constants::Numbers => Constants::Numbers,
        _ => Constants::Both,
    };
    if let Some(prototypes::types::Lens::Enum(names)) = &of.lens {
        words::name(word, of.size(), names, style, w.out);
    }
    Ok(())
}

/// `[PR_TSC_SIGSEGV]`, of a call that has written it.
fn pointed(w: &mut Writer, list: &str, at: u64) -> Written {
    if at == 0 || w.call.error().is_some() {
        return Err(Unknown);
    }
    let bytes = match list {
        "pointer" | "ulong_hex" => w.u64_at(at)?,
        _ => w.u32_at(at)?.into(),
    };
    w.push("[");
    match list {
        "int" => decimal(bytes as i32, w.out),
        "pointer" => w.address(bytes),
        "ulong_hex" => w.hexadecimal(bytes),
        "signum" => forms::signal_number(w, bytes),
        list => w.whole(&ty(list), Place::Word(bytes)),
    }
    w.push("]");
    Ok(())
}

/// Fifteen characters and a NUL (`TASK_COMM_LEN` in include/linux/sched.h); dots stand for what the kernel leaves out.
fn name_of_thread(w: &mut Writer, at: u64) -> Written {
    const ROOM: usize = 15;
    if w.call.error().is_some() && option(w) == 16 {
        return Err(Unknown);
    }
    // The kernel gives all sixteen bytes, and takes fifteen.
    let name = w.bytes(at, if option(w) == 16 { ROOM + 1 } else { ROOM });
    let end = name.iter().position(|byte| *byte == 0);
    let cut = match end {
        Some(_) => "",
        None if name.len() >= ROOM => "...",
        None => return Err(Unknown),
    };
    text::quoted(&name[..end.unwrap_or(ROOM)], w.style.hex, w.out);
    w.push(cut);
    Ok(())
}

/// The name of a mapping, of at most 80 characters (`ANON_VMA_NAME_MAX_LEN` in kernel/sys.c).
fn name_of_mapping(w: &mut Writer, at: u64) -> Written {
    const ROOM: usize = 80;
    if at == 0 {
        return Err(Unknown);
    }
    let name = w.bytes(at, ROOM);
    let end = name.iter().position(|byte| *byte == 0);
    if end.is_none() && name.len() <= w.style.strings {
        return Err(Unknown);
    }
    let end = end.unwrap_or(name.len());
    let shown = end.min(w.style.strings);
    text::quoted(&name[..shown], w.style.hex, w.out);
    if shown < end {
        w.push("...");
    }
    Ok(())
}

/// `PR_SVE_VL_INHERIT|0x40`: flags above 16 bits of length.
fn vector(w: &mut Writer, flags: &str, word: u64) {
    match word & !0xffff {
        0 => w.push("0"),
        _ => w.known(word, &vector_text(flags, word)),
    }
}

fn vector_text(flags: &str, word: u64) -> String {
    let (high, length) = (word & !0xffff, words::plain(word & 0xffff));
    let mut text = Vec::new();
    if let Some(prototypes::types::Lens::Flags(names)) = &ty(flags).lens {
        words::flags(high, names, Constants::Names, &mut text);
    }
    // What was not found has a comment of its own only where it stands alone.
    let text = String::from_utf8_lossy(&text);
    let text = text.split(" /*").next().unwrap_or_default();
    format!("{text}|{length}")
}

/// How tagged addresses are treated, by bits: `PR_TAGGED_ADDR_ENABLE|PR_MTE_TCF_SYNC|0x1<<PR_MTE_TAG_SHIFT`.
fn tagged(w: &mut Writer, word: u64) {
    w.known(word, &tagged_text(word));
}

fn tagged_text(word: u64) -> String {
    const CHECKS: [&str; 4] = [
        "PR_MTE_TCF_NONE",
        "PR_MTE_TCF_SYNC",
        "PR_MTE_TCF_ASYNC",
        "PR_MTE_TCF_MASK",
    ];
    let mut text = String::from(if word & 1 != 0 { "" } else { "!" });
    text.push_str("PR_TAGGED_ADDR_ENABLE|");
    text.push_str(CHECKS[(word >> 1 & 3) as usize]);
    let (tags, rest) = (word >> 3 & 0xffff, word & !0x7_ffff);
    if tags != 0 {
        text.push_str(&format!("|{tags:#x}<<PR_MTE_TAG_SHIFT"));
    }
    if rest != 0 {
        text.push_str(&format!("|{rest:#x}"));
    }
    text
}

/// Appends a result and what it says; false if it is a number like any other.
pub fn result(w: &mut Writer, result: u64) -> bool {
    let list = match option(w) {
        3 => "dumpable",
        27 => "secure_bits",
        34 => "machine_check_kill",
        46 => "fp_mode",
        52 if w.call.arguments[1] <= 2 => "speculation_result",
        61 => "pac_enabled_keys",
        50 | 51 => return vector_result(w, "sve_flags", result),
        63 | 64 => return vector_result(w, "sme_flags", result),
        56 => {
            w.hexadecimal(result);
            if w.style.constants != Constants::Numbers {
                w.push(" (");
                w.push(&tagged_text(result));
                w.push(")");
            }
            return true;
        }
        _ => return false,
    };
    let flags = matches!(ty(list).lens, Some(prototypes::types::Lens::Flags(_)));
    match flags {
        true => w.hexadecimal(result),
        false => decimal(result, w.out),
    }
    if result != 0 || list == "dumpable" || list == "speculation_result" {
        behind(w, list, result);
    }
    true
}

/// What a result means, in parentheses, if anything of it has a name.
fn behind(w: &mut Writer, list: &str, result: u64) {
    let before = w.out.len();
    let of = ty(list);
    match &of.lens {
        Some(prototypes::types::Lens::Flags(names)) => {
            words::flags(result, names, Constants::Names, w.out)
        }
        _ => named(w, list, result),
    }
    let text = String::from_utf8_lossy(&w.out[before..]).into_owned();
    w.out.truncate(before);
    if w.style.constants != Constants::Numbers && !text.ends_with("??? */") {
        w.push(&format!(" ({text})"));
    }
}

fn vector_result(w: &mut Writer, flags: &str, result: u64) -> bool {
    w.hexadecimal(result);
    if result & !0xffff != 0 && w.style.constants != Constants::Numbers {
        w.push(" (");
        w.push(&vector_text(flags, result));
        w.push(")");
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::call::{Constants, Hex, Part, RawCall, Style};
    use prototypes::bundle::Bundle;
    use prototypes::show::Captures;

    fn style(constants: Constants) -> Style {
        Style {
            strings: 32,
            verbose: false,
            hex: Hex::Never,
            raw: false,
            addresses: false,
            date: None,
            constants,
            whole: false,
            names: false,
        }
    }

    /// The call with these arguments, what lies at 0x1000, and its result.
    fn shown(constants: Constants, arguments: [u64; 5], memory: &[u8], result: u64) -> String {
        let prototype = Bundle::prototype("SYS", "prctl").expect("it is in syscalls.conf");
        let [option, a, b, c, d] = arguments;
        let (entry, mut exit) = (Captures::new(), Captures::new());
        exit.add(0x1000, memory);
        let call = RawCall {
            name: "prctl",
            prototype: &prototype,
            arguments: &[option, a, b, c, d, 0],
            entry: &entry,
            returned: Some((&exit, result)),
            descriptors: None,
            processes: None,
            netlink: None,
            namespaces: None,
        };
        let mut text = Vec::new();
        let style = style(constants);
        style.arguments(&call, Part::Entry, &mut text);
        style.arguments(&call, Part::Exit, &mut text);
        text.extend_from_slice(b" = ");
        style.result(&call, &mut text);
        String::from_utf8(text).expect("it is ASCII")
    }

    #[test]
    fn each_option_has_the_arguments_that_it_takes() {
        let names = |arguments, memory| shown(Constants::Names, arguments, memory, 0);
        assert_eq!(
            names([3, 1, 2, 3, 4], b""),
            "PR_GET_DUMPABLE = 0 (SUID_DUMP_DISABLE)"
        );
        assert_eq!(names([1, 2, 0, 0, 0], b""), "PR_SET_PDEATHSIG, SIGINT = 0");
        assert_eq!(
            names([25, 0x1000, 0, 0, 0], &[2, 0, 0, 0]),
            "PR_GET_TSC, [PR_TSC_SIGSEGV] = 0"
        );
        assert_eq!(
            names([15, 0x1000, 0, 0, 0], b"worker\0"),
            "PR_SET_NAME, \"worker\" = 0"
        );
        assert_eq!(
            names([15, 0x1000, 0, 0, 0], b"0123456789abcdef\0"),
            "PR_SET_NAME, \"0123456789abcde\"... = 0"
        );
        // Memory that ends before the name does.
        assert_eq!(
            names([15, 0x1000, 0, 0, 0], b"0123"),
            "PR_SET_NAME, 0x1000 = 0"
        );
        assert_eq!(
            names([57, 1, 0, 0, 0], b""),
            "PR_SET_IO_FLUSHER, 0x1, 0, 0, 0 = 0"
        );
        assert_eq!(
            names([55, 0x9, 0, 0, 0], b""),
            "PR_SET_TAGGED_ADDR_CTRL, PR_TAGGED_ADDR_ENABLE|PR_MTE_TCF_NONE|0x1<<PR_MTE_TAG_SHIFT, 0, 0, 0 = 0"
        );
    }

    #[test]
    fn numbers_stand_beside_names_or_for_them() {
        let all = |constants| shown(constants, [24, 13, 0, 0, 0], b"", 0);
        assert_eq!(all(Constants::Names), "PR_CAPBSET_DROP, CAP_NET_RAW = 0");
        assert_eq!(all(Constants::Numbers), "0x18, 0xd = 0");
        assert_eq!(
            all(Constants::Both),
            "0x18 /* PR_CAPBSET_DROP */, 0xd /* CAP_NET_RAW */ = 0"
        );
        // A name that no header for programs has never stands alone.
        let kind = shown(Constants::Names, [62, 1, 7, 2, 0], b"", 0);
        assert_eq!(
            kind,
            "PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 7, 0x2 /* PIDTYPE_PGID */, NULL = 0"
        );
    }

    #[test]
    fn results_with_a_meaning_say_it() {
        let bits = |result| shown(Constants::Names, [27, 0, 0, 0, 0], b"", result);
        assert_eq!(bits(0), "PR_GET_SECUREBITS = 0");
        assert_eq!(
            bits(3),
            "PR_GET_SECUREBITS = 0x3 (SECBIT_NOROOT|SECBIT_NOROOT_LOCKED)"
        );
        let length = shown(Constants::Names, [51, 0, 0, 0, 0], b"", 0x2_0040);
        assert_eq!(length, "PR_SVE_GET_VL = 0x20040 (PR_SVE_VL_INHERIT|0x40)");
    }
}
