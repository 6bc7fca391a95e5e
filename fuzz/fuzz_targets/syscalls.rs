//! The text of system calls: any arguments and any memory, of which the programs of a call copy what they would copy of a guest. Rows that are
//! reached by a number (commands of `ioctl`, `bpf`, `keyctl`, `ptrace`, types of netlink) are reached by the numbers that our files name.
#![no_main]

use capture::{CopyLimits, GuestAccess, Registers, Returned, run};
use libfuzzer_sys::fuzz_target;
use prototypes::bundle::Bundle;
use prototypes::show::Captures;
use prototypes::{Detail, Programs};
use prototypes::types::Prototype;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;
use syscalls::{Constants, Hex, IdKind, Name, Netlink, Part, RawCall, Style};

/// What the tracer copies of one call, at most (`calls::live::traced`).
const LIMITS: CopyLimits = CopyLimits {
    bytes: 256 << 10,
    steps: 64 << 10,
};
/// The text of a call, at most: each byte that was copied is written in a bounded number of characters.
const LONGEST: usize = 16 << 20;

static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| prototypes::bundle::system_calls().map(|(_, name)| name).collect());

/// The numbers of commands and of all names.
static NUMBERS: LazyLock<[Vec<u64>; 2]> = LazyLock::new(|| {
    const COMMANDS: &str = include_str!("../../crates/syscalls/conf/ioctls.conf");
    const NAMES: [&str; 5] = [
        include_str!("../../crates/syscalls/conf/names.conf"),
        include_str!("../../crates/syscalls/conf/calls.conf"),
        include_str!("../../crates/syscalls/conf/ptrace.conf"),
        include_str!("../../crates/syscalls/conf/keys.conf"),
        include_str!("../../crates/syscalls/conf/commands.conf"),
    ];
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse::<i64>().ok().map(i64::cast_unsigned),
    };
    let commands = COMMANDS
        .lines()
        .filter_map(|line| number(line.strip_prefix("number ")?.split_whitespace().nth(1)?));
    let words = NAMES.iter().flat_map(|text| text.split_whitespace());
    let named = words.filter_map(|word| number(word.rsplit_once('=')?.1));
    let mut named: Vec<u64> = named.collect();
    named.sort_unstable();
    named.dedup();
    [commands.collect(), named]
});

/// Input, byte by byte; zeros behind its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self, bytes: usize) -> u64 {
        let mut word = [0; 8];
        let (now, later) = self.0.split_at(bytes.min(self.0.len()));
        word[..now.len()].copy_from_slice(now);
        self.0 = later;
        u64::from_le_bytes(word)
    }

    fn word(&mut self) -> u64 {
        let pick = |of: &[u64], index: u64| of[index as usize % of.len()];
        match self.number(1) % 7 {
            // Addresses, at the beginning of a page, within one and just before its end.
            0 => 0x10_0000,
            1 => 0x10_0000 + self.number(2),
            2 => pick(&NUMBERS[0], self.number(2)),
            3 => pick(&NUMBERS[1], self.number(2)),
            4 => self.number(1),
            5 => self.number(4),
            _ => self.number(8),
        }
    }
}

/// Memory of these bytes, over and over, but for every sixteenth page; what is copied of it.
struct Memory<'a> {
    bytes: &'a [u8],
    copied: Captures,
}

impl GuestAccess for Memory<'_> {
    fn read(&mut self, at: u64, into: &mut [u8]) -> bool {
        if self.bytes.is_empty() || at >> 12 & 15 == 15 {
            return false;
        }
        let first = at as usize % self.bytes.len();
        let bytes = self.bytes.iter().cycle().skip(first);
        for (place, byte) in into.iter_mut().zip(bytes) {
            *place = *byte;
        }
        true
    }

    fn output(&mut self, at: u64, bytes: &[u8]) -> bool {
        self.copied.add(at, bytes);
        true
    }
}

fn style(input: &mut Input) -> Style {
    let bits = input.number(2);
    let bit = |number: u32| bits >> number & 1 != 0;
    Style {
        strings: [0, 2, 32, 70_000][bits as usize >> 8 & 3],
        verbose: bit(0),
        hex: [Hex::Never, Hex::NotText, Hex::Characters, Hex::Always][bits as usize >> 10 & 3],
        raw: bits & 0xf000 == 0xf000,
        addresses: bits & 0xf000 == 0xe000,
        date: bit(1).then_some(|seconds, _| Some(seconds.to_string())),
        constants: [Constants::Names, Constants::Numbers, Constants::Both]
            [(bits as usize >> 5 & 3) % 3],
        whole: bit(2),
        names: bit(3),
    }
}

/// How a call is made, and what is copied of it.
type Known = Rc<(Prototype, Programs)>;

thread_local! {
    /// Those that were made before: a plan takes a thousand times as long as a run of it.
    static KNOWN: RefCell<HashMap<(&'static str, u32, bool), Known>> = RefCell::default();
}

fn known(name: &'static str, detail: Detail, whole: bool) -> Option<Known> {
    let key = (name, detail.strings, whole);
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).cloned()) {
        return Some(known);
    }
    let prototype = Bundle::prototype("SYS", name)?;
    let programs = programs(name, &prototype, detail, whole);
    let known = Rc::new((prototype, programs));
    KNOWN.with_borrow_mut(|all| all.insert(key, known.clone()));
    Some(known)
}

fn programs(name: &str, prototype: &Prototype, detail: Detail, whole: bool) -> Programs {
    let mut programs = prototype.capture(detail);
    let mut others = vec![syscalls::copies(name, detail)];
    if whole {
        others.push(syscalls::copies_of_environment(name, prototype, detail));
    }
    for other in others {
        programs.call.extend(other.call);
        programs.exit.extend(other.exit);
    }
    programs
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let name = NAMES[input.number(2) as usize % NAMES.len()];
    let style = style(&mut input);
    let arguments: [u64; 6] = std::array::from_fn(|_| input.word());
    let result = match input.number(1) % 4 {
        0 => 0,
        1 => (-(input.number(2) as i64 % 600)).cast_unsigned(),
        _ => input.word(),
    };
    let protocol = input.number(1) as u32 % 24;
    let split = input.number(2) as usize;
    let (before, after) = input.0.split_at(split.min(input.0.len()));
    let detail = Detail {
        strings: style.strings.max(32) as u32,
        array: if style.verbose { 4096 } else { 32 },
        whole: style.verbose,
    };
    let Some(known) = known(name, detail, style.verbose) else {
        return;
    };
    let (prototype, programs) = &*known;
    let registers = Registers {
        gp: arguments,
        ..Registers::default()
    };
    let returned = Returned {
        rax: result,
        ..Returned::default()
    };
    let copy = |program: &[u64], returned: Option<&Returned>, bytes| {
        let copied = Captures::new();
        let mut memory = Memory { bytes, copied };
        run(program, &registers, returned, LIMITS, &mut memory);
        memory.copied
    };
    let entry = copy(&programs.call, None, before);
    let exit = copy(&programs.exit, Some(&returned), after);
    let descriptors = |number: i32| {
        (number % 3 == 0).then(|| Name {
            text: String::from_utf8_lossy(&before[..before.len().min(40)]).into_owned(),
            ..Name::default()
        })
    };
    let processes = |number: i32, _: IdKind| syscalls::Known {
        comm: (number % 2 == 0).then(|| "comm".to_owned()),
        note: None,
    };
    let protocol = |_| Some(protocol);
    let family = |number: u16| {
        let names = ["nlctrl", "ethtool", "devlink", "nl80211", "TASKSTATS", "tcp_metrics", "any"];
        names.get(number as usize % 8).map(|name| (*name).to_owned())
    };
    let netlink = Netlink { protocol: &protocol, family: &family };
    let namespaces = |child: Option<i32>, flags: u64| {
        (flags % 3 == 0).then(|| format!("net:[{}]", child.unwrap_or_default()))
    };
    let call = RawCall {
        name,
        prototype,
        arguments: &arguments,
        entry: &entry,
        returned: None,
        descriptors: Some(&descriptors),
        processes: Some(&processes),
        netlink: Some(netlink),
        namespaces: Some(&namespaces),
    };
    let mut text = Vec::new();
    style.arguments(&call, Part::Entry, &mut text);
    let back = RawCall {
        returned: Some((&exit, result)),
        ..call
    };
    style.arguments(&back, Part::Exit, &mut text);
    style.result(&back, &mut text);
    style.each_argument(&back, Part::Entry, |argument| {
        text.extend_from_slice(argument)
    });
    let _ = (back.paths(), back.numbers());
    text.extend(
        style
            .signal(before, Some(&processes))
            .unwrap_or_default()
            .bytes(),
    );
    assert!(text.len() < LONGEST, "{name}: {} characters", text.len());
});
