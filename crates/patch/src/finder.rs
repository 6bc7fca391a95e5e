//! Makes the new code known to unwinders, so that exceptions, `backtrace` and thread cancellation pass through it. Used
//! by `apply`, `plan` and `undo`.
//!
//! An unwinder asks the loader to which object an address belongs, and the loader does not know the files of patches. So the C library's
//! `_dl_find_object` (glibc 2.35 and later; libgcc's unwinder since 12 asks nothing else) is replaced, too, by a few instructions that
//! search a table of these files and continue in the original function for every other address:
//!
//! ```text
//!   int _dl_find_object(void *pc, struct dl_find_object *result)                         bits/dl_find_object.h of glibc
//!   struct dl_find_object { u64 flags; void *map_start, *map_end; struct link_map *link_map; void *eh_frame; }
//! ```
//!
//! There is one such *finder* in a process: a journal of its own with one record, and a page of code near the loader:
//!
//! ```text
//!   page + 0      CODE
//!        + 256    jmp page            the jump in the loader leads here
//!                 the function's first instructions, jmp back
//!        + 952    address of these
//!        + 960    a struct link_map of zeros: who reads it reads l_addr, which is 0
//!        + 1024   the table: begin, end, rules; 127 times at most; begin 0 = the end
//! ```
//!
//! The finder stays in the code from before the first jump of a file with rules until no patch is in force and no word of the guest's
//! memory leads into a file: the frame of a parked fiber may be unwound later.

use crate::code::{is_code, is_in_force};
use crate::error::{Error, Result};
use crate::guest::Guest;
use crate::inside::{inside, stack_pointers};
use crate::island::{self, map_near, patch};
use crate::journal::{self, Kind, Record, Set};
use crate::object::Object;
use crate::planned::{Planned, planned_function};
use crate::search::Search;
use inject::remote_call::RemoteThread;
use std::ops::Range;
use std::thread::sleep;
use std::time::Duration;

/// The function that unwinders ask.
pub(crate) const ASKED: &str = "_dl_find_object";

const PAGE: u64 = wire::PAGE as u64;
const ENTRY: u64 = 256;
const ORIGINAL: u64 = 952;
const TABLE: u64 = 1024;
/// Bytes of an entry of the table.
const ENTRY_SIZE: u64 = 24;
/// How often threads inside of a file are awaited before the finder is left in place; below, the time between two checks.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(5);
const MOST: u64 = (PAGE - TABLE) / ENTRY_SIZE - 1;

/// The code of the finder, for the beginning of its page. It reads the table, the link map and the address of the original relative to itself, so
/// it is right at no other offset in the page.
///
/// ```text
///          lea table(%rip),%r11
///   again: mov (%r11),%rax; test %rax,%rax; jz none
///          cmp %rax,%rdi; jb next; cmp 8(%r11),%rdi; jae next
///          movq $0,(%rsi); mov %rax,8(%rsi); mov 8(%r11),%rax; mov %rax,16(%rsi)
///          lea link_map(%rip),%rax; mov %rax,24(%rsi); mov 16(%r11),%rax; mov %rax,32(%rsi)
///          xor %eax,%eax; ret
///   next:  add $24,%r11; jmp again
///   none:  jmp *original(%rip)
/// ```
const CODE: [u8; 79] = [
    0x4c, 0x8d, 0x1d, 0xf9, 0x03, 0x00, 0x00, 0x49, 0x8b, 0x03, 0x48, 0x85, 0xc0, 0x74, 0x3a, 0x48,
    0x39, 0xc7, 0x72, 0x2f, 0x49, 0x3b, 0x7b, 0x08, 0x73, 0x29, 0x48, 0xc7, 0x06, 0x00, 0x00, 0x00,
    0x00, 0x48, 0x89, 0x46, 0x08, 0x49, 0x8b, 0x43, 0x08, 0x48, 0x89, 0x46, 0x10, 0x48, 0x8d, 0x05,
    0x8c, 0x03, 0x00, 0x00, 0x48, 0x89, 0x46, 0x18, 0x49, 0x8b, 0x43, 0x10, 0x48, 0x89, 0x46, 0x20,
    0x31, 0xc0, 0xc3, 0x49, 0x83, 0xc3, 0x18, 0xeb, 0xbe, 0xff, 0x25, 0x69, 0x03, 0x00, 0x00,
];

/// How unwinders find the files of a plan.
#[derive(Debug)]
pub(crate) enum Asked {
    /// A finder that is not in force and will be installed.
    Planned(Box<Planned>),
    /// The finder that is in force.
    There(Record),
}

/// The finder among the sets of a process, in force or not.
pub(crate) fn present(sets: &[Set]) -> Option<Record> {
    let mut finders = sets.iter().filter(|set| set.kind == Kind::Finder);
    finders.find_map(|set| set.records.first()).cloned()
}

/// What the files of a set add to the table.
pub(crate) fn entries(set: &Set, objects: &[Object]) -> Vec<[u64; 3]> {
    let mut base = set.base + journal::size(set.records.len());
    let mut entries = Vec::new();
    for object in objects {
        let end = base + object.size();
        entries.extend(object.rules.map(|rules| [base, end, base + rules]));
        base = end;
    }
    entries
}

/// Makes the files of a set known to unwinders in the stopped guest. [`entries`] made the entries; `present` is the guest's finder.
pub(crate) fn tell(
    guest: &Guest,
    asked: &Asked,
    remote: &mut RemoteThread,
    present: Option<&Record>,
    entries: &[[u64; 3]],
) -> Result<()> {
    let record = match (asked, present) {
        (Asked::There(record), _) if is_in_force(guest, record) => record.clone(),
        (Asked::There(_), _) => return Err(refused("it changed while we looked at it: try again")),
        (Asked::Planned(one), Some(record)) if is_intact(guest, one, record) => record.clone(),
        (Asked::Planned(one), _) => make(guest, one, remote)?,
    };
    add(guest, &record, entries)?;
    if !is_in_force(guest, &record) {
        guest.memory.write(record.place, &record.new)?;
    }
    if is_in_force(guest, &record) {
        return Ok(());
    }
    Err(refused(
        "what was written into its code could not be read back",
    ))
}

fn refused(reason: &str) -> Error {
    Error::Function {
        function: format!("{ASKED} (which unwinders ask)"),
        reason: reason.into(),
    }
}

/// Whether a finder is still intact.
fn is_intact(guest: &Guest, asked: &Planned, record: &Record) -> bool {
    let mut code = [0; CODE.len()];
    let same = guest.memory.read_bytes(record.island, &mut code).is_ok() && code == CODE;
    let jump = patch(asked, record.island + ENTRY);
    let stub = stub(asked, record.island);
    let (Ok(jump), Ok(stub)) = (jump, stub) else {
        return false;
    };
    let mut there = vec![0; stub.bytes.len()];
    same && jump == (record.place, record.old, record.new)
        && guest
            .memory
            .read_bytes(record.island + ENTRY, &mut there)
            .is_ok()
        && there == stub.bytes
}

fn stub(asked: &Planned, island: u64) -> Result<trampoline::Stub> {
    island::stub(asked, island + ENTRY, island, None)
}

/// Makes the finder; nothing leads to it yet.
fn make(guest: &Guest, asked: &Planned, remote: &mut RemoteThread) -> Result<Record> {
    let size = journal::size(1);
    let base = remote.map(0, size, libc::PROT_READ, 0)?;
    let made = fill(guest, asked, remote, base);
    if made.is_err() {
        // If it cannot be unmapped, nothing leads there.
        let _ = remote.unmap(base, size);
    }
    made
}

fn fill(guest: &Guest, asked: &Planned, remote: &mut RemoteThread, base: u64) -> Result<Record> {
    let mut set = Set {
        base,
        size: journal::size(1),
        key: 0,
        kind: Kind::Finder,
        whole: true,
        records: vec![Record::default()],
        settings: Vec::new(),
        mapped: Vec::new(),
    };
    set.begin(&guest.memory)?;
    let island = map_near(remote, asked)?;
    let mut write = |island: u64| {
        set.note(&guest.memory, 0, (island, PAGE))?;
        let stub = stub(asked, island)?;
        let (place, old, new) = patch(asked, island + ENTRY)?;
        let record = Record {
            id: u64::MAX,
            entry: asked.function.address,
            size: asked.function.size,
            place,
            old,
            new,
            island,
            original: stub.original,
            replacement: island,
            function: asked.function.name.clone(),
            module: asked.function.module.to_string(),
            ..Record::default()
        };
        guest.memory.write(island, &CODE)?;
        guest.memory.write(island + ENTRY, &stub.bytes)?;
        let original = stub.original.to_le_bytes();
        guest.memory.write(island + ORIGINAL, &original)?;
        set.records = vec![record.clone()];
        set.finish(&guest.memory)?;
        Ok(record)
    };
    let written = write(island);
    if written.is_err() {
        // Removed from the journal before it is unmapped, because its address may be reused afterwards.
        set.forget(&guest.memory, 0)?;
        let _ = remote.unmap(island, PAGE);
    }
    written
}

/// Adds those entries that the table lacks.
fn add(guest: &Guest, record: &Record, entries: &[[u64; 3]]) -> Result<()> {
    let table = record.island + TABLE;
    let mut words = vec![0; (MOST * 3) as usize];
    guest.memory.read_words(table, &mut words)?;
    for entry in entries {
        let mut there = words.as_chunks::<3>().0.iter();
        if there.clone().any(|known| known == entry) {
            continue;
        }
        let Some(free) = there.position(|known| known[0] == 0) else {
            return Err(refused(
                "the process has as many files of patches as unwinders can be told of",
            ));
        };
        // The begin comes first in memory and last into it: one write within a page is done by one copy.
        let bytes: Vec<u8> = entry.iter().flat_map(|word| word.to_le_bytes()).collect();
        guest
            .memory
            .write(table + free as u64 * ENTRY_SIZE, &bytes)?;
        words[free * 3..free * 3 + 3].copy_from_slice(entry);
    }
    Ok(())
}

/// Removes the finder from the code if nothing needs it: no patch is in force, no thread is in a file, and no other word in the guest's
/// memory leads into one. Returns why it stays although no patch is in force; `None` if a patch is in force, or the finder was removed.
pub(crate) fn leave(guest: &Guest) -> Result<Option<String>> {
    for _ in 0..TRIES {
        let search = Search::before_stop(guest)?;
        let maps = guest.maps()?;
        let sets = search.sets(&guest.memory, &maps);
        let finder = present(&sets).filter(|record| is_in_force(guest, record));
        let Some(finder) = finder.filter(|_| !is_any_in_force(guest, &sets)) else {
            return Ok(None);
        };
        let code = files(&sets);
        let ((is_inside, stacks), _) = guest.stopped(|stop, remote| {
            let found = inside(stop, remote, &guest.memory, &maps, &code)?;
            Ok((!found.is_empty(), stack_pointers(stop, remote)))
        })?;
        // A thread that was about to leave the file has left it a moment later.
        if is_inside {
            sleep(PAUSE);
            continue;
        }
        if hooks::leads_into(&guest.memory, &code, &code, &stacks) {
            break;
        }
        let (is_done, _) = guest.stopped(|_, _| {
            // Another lancet may have applied a file since; it relies on the finder that it has seen, or has undone its patch and left a frame there.
            let maps = guest.maps()?;
            let sets = search.sets(&guest.memory, &maps);
            if is_any_in_force(guest, &sets) || !is_in_force(guest, &finder) {
                return Ok(true);
            }
            if files(&sets) != code {
                return Ok(false);
            }
            if is_code(&maps, finder.place) {
                guest.memory.write(finder.place, &finder.old)?;
            }
            Ok(true)
        })?;
        if is_done {
            return Ok(None);
        }
    }
    Ok(Some(
        "something in its memory may lead into the new code".into(),
    ))
}

fn is_any_in_force(guest: &Guest, sets: &[Set]) -> bool {
    let of_patches = sets.iter().filter(|set| set.is_of_patches());
    let mut records = of_patches.flat_map(|set| &set.records);
    records.any(|record| is_in_force(guest, record))
}

/// The memory of the files of patches.
fn files(sets: &[Set]) -> Vec<Range<u64>> {
    let of_patches = sets.iter().filter(|set| set.is_of_patches());
    of_patches
        .map(|set| set.base..set.base.saturating_add(set.size))
        .collect()
}

/// How unwinders will find these files, if one of them has rules and the process has `_dl_find_object`.
pub(crate) fn asked(guest: &Guest, objects: &[Object]) -> Result<Option<Asked>> {
    if objects.iter().all(|object| object.rules.is_none()) {
        return Ok(None);
    }
    let there = present(&Set::all(&guest.memory, &guest.maps()?));
    if let Some(record) = there.filter(|record| is_in_force(guest, record)) {
        return Ok(Some(Asked::There(record)));
    }
    // Unwinders call the one that a module shows; a static program shows none.
    let found = |all| guest.functions.find(all, |name, _| name == ASKED);
    let shown = found(false);
    let found = if shown.is_empty() { found(true) } else { shown };
    match found.as_slice() {
        [one] => planned_function(guest, one)
            .map(|one| Some(Asked::Planned(Box::new(one))))
            .map_err(|reason| refused(&reason)),
        // With an older glibc or another C library unwinding ends at the new code.
        _ => Ok(None),
    }
}
