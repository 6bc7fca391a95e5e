//! The agent in a guest: its door, as crate `wire` lays it out (what the agent itself believes), and what it maps.

use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;

use wire::{Board, Header};

/// Where the board of a guest's agent is.
pub struct Door {
    memory: File,
    board: u64,
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
                let mut board = [0; 8];
                let from = at + offset_of!(Header, board) as u64;
                let read = memory.read_exact_at(&mut magic, at).is_ok()
                    && memory.read_exact_at(&mut board, from).is_ok();
                if read && magic == wire::MAGIC {
                    let board = u64::from_le_bytes(board);
                    return Some(Door { memory, board });
                }
                at += wire::PAGE as u64;
            }
        }
        None
    }

    fn half(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.memory
            .read_exact_at(&mut bytes, self.board + offset as u64)
            .expect("the agent's board");
        u32::from_le_bytes(bytes)
    }

    /// A command owns it.
    pub fn open(&self) -> bool {
        self.half(offset_of!(Board, state)) != 0
    }

    /// Its hook is in the VM.
    pub fn hooked(&self) -> bool {
        self.half(offset_of!(Board, hooked)) != 0
    }

    /// It left by itself.
    pub fn deserted(&self) -> bool {
        self.half(offset_of!(Board, deserted)) != 0
    }
}

/// How many mappings there are beside the pages of the VM's own heap, which come and go as it likes: 64 KiB each,
/// aligned to their size (`HEAP_PAGE_ALIGN`, gc.c of Ruby 3.2 and later, which maps them one by one).
pub fn mappings(pid: i32) -> usize {
    const HEAP_PAGE: u64 = 1 << 16;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("the guest's maps");
    let ends = maps.lines().map(|line| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let (start, end) = range.expect("a range");
        (start, end, line.split_whitespace().count() == 5)
    });
    ends.filter(|(start, end, anonymous)| {
        let of_pages = |text: &str| {
            u64::from_str_radix(text, 16).is_ok_and(|address| address.is_multiple_of(HEAP_PAGE))
        };
        !(*anonymous && of_pages(start) && of_pages(end))
    })
    .count()
}
