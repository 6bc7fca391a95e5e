//! The agent in a guest: its door, as crate `wire` lays it out (what the agent itself believes), and what it maps.

use std::fs::{self, File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use object::{Object, ObjectSymbol};
use wire::{ControlPage, Header, Ledger};

/// Where the control page of a guest's agent is.
pub struct Door {
    memory: File,
    base: u64,
    /// Its address.
    pub control_page: u64,
}

impl Door {
    /// Looks for an agent.
    pub fn find(pid: i32) -> Option<Self> {
        let memory = File::open(format!("/proc/{pid}/mem")).ok()?;
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
        let anonymous = maps.lines().filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let readable = words.len() == 5 && words.get(1) == Some(&"r--p");
            readable.then(|| words[0].to_owned())
        });
        for range in anonymous {
            let (start, end) = range.split_once('-')?;
            let (mut at, end) = (
                u64::from_str_radix(start, 16).ok()?,
                u64::from_str_radix(end, 16).ok()?,
            );
            while at < end {
                let mut magic = [0; 8];
                let mut control_page = [0; 8];
                let from = at + offset_of!(Header, control_page) as u64;
                let read = memory.read_exact_at(&mut magic, at).is_ok()
                    && memory.read_exact_at(&mut control_page, from).is_ok();
                if read && magic == wire::MAGIC {
                    let control_page = u64::from_le_bytes(control_page);
                    return Some(Door {
                        memory,
                        base: at,
                        control_page,
                    });
                }
                at += wire::PAGE as u64;
            }
        }
        None
    }

    /// Begin and end of the code that its stubs jump to.
    pub fn routine(&self) -> [u64; 2] {
        [0, 8].map(|word| {
            let mut bytes = [0; 8];
            let at = self.base + offset_of!(Header, routines) as u64 + word;
            self.memory
                .read_exact_at(&mut bytes, at)
                .expect("its header");
            u64::from_le_bytes(bytes)
        })
    }

    /// How it reads the threads of a Python at its births.
    pub fn form(&self) -> u64 {
        let mut bytes = [0; 8];
        let ledger = self.control_page - address("CONTROL_PAGE") + address("LEDGER");
        self.memory
            .read_exact_at(&mut bytes, ledger + offset_of!(Ledger, form) as u64)
            .expect("the agent's ledger");
        u64::from_le_bytes(bytes)
    }

    fn half(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.memory
            .read_exact_at(&mut bytes, self.control_page + offset as u64)
            .expect("the agent's control_page");
        u32::from_le_bytes(bytes)
    }

    /// A command owns it.
    pub fn open(&self) -> bool {
        self.half(offset_of!(ControlPage, state)) != 0
    }

    /// Its hook is in the VM.
    pub fn hooked(&self) -> bool {
        self.half(offset_of!(ControlPage, hooked)) != 0
    }

    /// The number of the last request that was carried out.
    pub fn answered(&self) -> u32 {
        self.half(offset_of!(ControlPage, answered))
    }

    /// It left by itself.
    pub fn deserted(&self) -> bool {
        self.half(offset_of!(ControlPage, deserted)) != 0
    }
}

/// Writable mappings made with `MAP_NORESERVE` ("nr" in `smaps`): the agent's books, and few of a guest's own. Malloc's arenas
/// begin at multiples of 64 MiB (`HEAP_MAX_SIZE`, malloc/arena.c of glibc) and come and go with threads.
pub fn unreserved(pid: i32) -> usize {
    const ARENA: u64 = 64 << 20;
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).expect("the guest's smaps");
    let mut candidate = false;
    let mut found = 0;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0].split_once('-') {
            Some((start, _)) => {
                let start = u64::from_str_radix(start, 16).expect("an address");
                candidate = words[1] == "rw-p" && !start.is_multiple_of(ARENA);
            }
            None if words[0] == "VmFlags:" => {
                found += usize::from(candidate && words.contains(&"nr"))
            }
            None => {}
        }
    }
    found
}

/// The addresses in the agent's file of the symbols that hold `name`, of which there is one at least.
fn addresses(name: &str) -> Vec<u64> {
    let file = fs::read(env!("LANCET_AGENT")).expect("the agent, built by build.rs");
    let agent = object::File::parse(&*file).expect("an ELF file");
    let symbols = agent.symbols();
    let named = symbols.filter(|symbol| symbol.name().unwrap_or_default().contains(name));
    let found: Vec<u64> = named.map(|symbol| symbol.address()).collect();
    assert!(!found.is_empty(), "the agent has no {name}");
    found
}

/// The address of the first of them.
fn address(name: &str) -> u64 {
    addresses(name)[0]
}

/// Functions of the agent in a guest that panic when they are called: the first instruction is a jump into `core`'s panics.
pub struct Spoilt {
    memory: File,
    /// Where each is, and what was there.
    all: Vec<(u64, [u8; 5])>,
}

impl Spoilt {
    /// Changes the functions whose symbols hold `name`: one, or that of each language.
    pub fn make(pid: i32, name: &str) -> Self {
        Self::changed(pid, name, |distance| {
            let mut jump = [0xe9, 0, 0, 0, 0];
            jump[1..].copy_from_slice(&distance.to_le_bytes());
            jump
        })
    }

    /// The same with functions that fault: the first instruction does not exist.
    pub fn fault(pid: i32, name: &str) -> Self {
        Self::changed(pid, name, |_| [0x0f, 0x0b, 0x90, 0x90, 0x90])
    }

    /// With the instructions that `code` returns for the distance from their end to `core`'s panics.
    fn changed(pid: i32, name: &str, code: impl Fn(u32) -> [u8; 5]) -> Self {
        let door = Door::find(pid).expect("an agent");
        let image = door.control_page - address("CONTROL_PAGE");
        let to = address("panicking9panic_fmt");
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/{pid}/mem"))
            .expect("the guest's memory");
        let spoil = |from: u64| {
            let jump = code(to.wrapping_sub(from + 5) as u32);
            let (at, mut was) = (image + from, [0; 5]);
            memory.read_exact_at(&mut was, at).expect("read");
            memory.write_all_at(&jump, at).expect("written");
            (at, was)
        };
        let all = addresses(name).into_iter().map(spoil).collect();
        Spoilt { memory, all }
    }

    /// Puts the functions back.
    pub fn mend(self) {
        for (at, was) in self.all {
            self.memory.write_all_at(&was, at).expect("written");
        }
    }
}
