//! Reads the stacks of a process that is gone from its core file. Used by the crates `lancet` and `dump`.
//!
//! A core (`fs/binfmt_elf.c`, `elf_core_dump`) is an ELF file of type `ET_CORE`: memory as `PT_LOAD` segments, and in
//! `PT_NOTE` its threads, their registers, what was mapped (`core/notes.rs`).
//!
//! Pages of files that were only read are usually left out (`/proc/PID/coredump_filter`). They are read from the files, if those still
//! exist.

mod notes;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use object::LittleEndian as LE;
use object::elf;
use object::pod;
use process::elf::{Bytes, ElfError, read_table};
use process::modules::open_regular;
use process::room::Room;
use process::snapshot::{Copies, Thread};
use vm::Memory;

use notes::{Mapped, Notes};

use super::loaded::Modules;
use super::open::Look;
use super::scripts::{self, Found, NoSources};
use super::stack::{self, Process};
use super::unwind::Unwinder;
use crate::Result;

/// The path that the kernel gives shared memory without a file (`mm/shmem.c`, `shmem_zero_setup`).
const SHARED: &str = "/dev/zero (deleted)";

/// Bytes below rsp that belong to the frame (psABI §3.2.2).
const RED_ZONE: u64 = 128;
/// Limit of the program headers: no process has as many mappings (`vm.max_map_count` is 65,530).
const MOST_SEGMENTS: u64 = 1 << 20;

#[derive(Debug)]
struct Segment {
    range: Range<u64>,
    offset: u64,
    dumped: u64,
}

/// A core file of a process, opened.
#[derive(Debug)]
pub struct Core {
    file: File,
    segments: Vec<Segment>,
    mapped: Vec<Mapped>,
    opened: RefCell<HashMap<PathBuf, Option<File>>>,
    threads: Vec<Thread>,
    pid: i32,
    command: String,
    entry: u64,
    cut: u64,
    lacks: Vec<String>,
}

impl Core {
    /// Returns whether the file at `path` is a core file.
    pub fn is_one(path: &Path) -> bool {
        let Ok(file) = open_regular(path) else {
            return false;
        };
        let mut start = [0; 18];
        file.read_at(0, &mut start)
            && start.starts_with(b"\x7fELF")
            && start[16..] == elf::ET_CORE.0.to_le_bytes()
    }

    /// Reads the notes of a core file, and which memory it holds.
    pub fn open(path: &Path) -> Result<Core> {
        let failed = |source| ElfError::File {
            path: path.to_owned(),
            source,
        };
        let malformed = |reason| ElfError::Malformed {
            file: path.to_owned(),
            reason,
        };
        let file = open_regular(path).map_err(failed)?;
        let headers = program_headers(&file).map_err(malformed)?;
        let size = Bytes::size(&file);
        let (mut segments, mut notes_read) = (Vec::new(), Notes::default());
        let mut cut: u64 = 0;
        for header in &headers {
            let (offset, bytes) = (header.p_offset.get(LE), header.p_filesz.get(LE));
            if header.p_type.get(LE) == elf::PT_LOAD {
                let start = header.p_vaddr.get(LE);
                let there = size.saturating_sub(offset).min(bytes);
                cut = cut.saturating_add(bytes - there);
                segments.push(Segment {
                    range: start..start.saturating_add(header.p_memsz.get(LE)),
                    offset,
                    dumped: there,
                });
            } else if header.p_type.get(LE) == elf::PT_NOTE {
                let notes = read_table(&file, offset, bytes).ok_or_else(|| {
                    malformed("its notes reach past its end: the core is cut short")
                })?;
                notes_read.read(&notes);
            }
        }
        if notes_read.threads.is_empty() {
            return Err(malformed("no thread is noted in it").into());
        }
        // Headers that name the same bytes many times would make a small file a large memory.
        segments.sort_by_key(|segment: &Segment| (segment.dumped > 0, segment.offset));
        let is_shared = |pair: &[Segment]| {
            pair[0].dumped > 0 && pair[0].offset.saturating_add(pair[0].dumped) > pair[1].offset
        };
        if segments.windows(2).any(is_shared) {
            return Err(malformed("two of its segments are the same bytes of it").into());
        }
        segments.sort_by_key(|segment: &Segment| segment.range.start);
        let mut core = Core {
            file,
            segments,
            mapped: notes_read.mapped,
            opened: RefCell::default(),
            threads: notes_read.threads,
            pid: notes_read.pid,
            command: notes_read.command,
            entry: notes_read.entry,
            cut,
            lacks: Vec::new(),
        };
        if cut > 0 {
            core.lacks.push(format!(
                "it is cut short by {cut} bytes (ulimit -c, or a full disk)"
            ));
        }
        core.place_threads();
        Ok(core)
    }

    /// Reads the program from another file than the one that was mapped, because that had another path on the machine of the core, or is
    /// gone.
    ///
    /// # Errors
    /// The core does not say which of the mapped files is the program.
    pub fn set_executable(&mut self, core: &Path, executable: &Path) -> Result<()> {
        let entry = self.entry;
        let program = self.mapped.iter().find(|one| one.range.contains(&entry));
        let program = program.map(|one| one.path.clone());
        let Some(program) = program else {
            return Err(ElfError::Malformed {
                file: core.to_owned(),
                reason: "it does not say which of the mapped files is the program",
            }
            .into());
        };
        for mapped in &mut self.mapped {
            if mapped.path == program {
                executable.clone_into(&mut mapped.path);
            }
        }
        Ok(())
    }

    /// Returns its threads, with their registers.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// Returns how many bytes of the process's memory are in it.
    pub fn size(&self) -> u64 {
        let sizes = self.segments.iter().map(|segment| segment.dumped);
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns by how many bytes it is shorter than its headers say.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// Returns the id that the process had.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns its command line, of which a core file keeps 80 bytes at most.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Describes what was needed and is not in the core.
    pub fn lacks(&self) -> &[String] {
        &self.lacks
    }

    fn place_threads(&mut self) {
        for thread in &mut self.threads {
            let sp = thread.context.sp;
            let behind = self
                .segments
                .partition_point(|segment| segment.range.start <= sp);
            let segment = behind.checked_sub(1).map(|at| &self.segments[at]);
            let segment = segment.filter(|segment| segment.range.contains(&sp));
            thread.mapping = segment.map_or(0..0, |segment| segment.range.clone());
            thread.main = thread.tid == self.pid;
            if thread.mapping.is_empty() {
                self.lacks
                    .push(format!("the stack of thread {} is not in it", thread.tid));
            }
        }
    }

    /// Returns the files that were mapped, each from its first to its last page.
    pub fn modules(&self) -> Modules {
        let mut files: Vec<(PathBuf, Range<u64>)> = Vec::new();
        for mapped in &self.mapped {
            if mapped.path == Path::new(SHARED) {
                continue;
            }
            match files.last_mut() {
                Some((path, range)) if *path == mapped.path && mapped.offset > 0 => {
                    range.end = mapped.range.end
                }
                _ if mapped.offset == 0 => files.push((mapped.path.clone(), mapped.range.clone())),
                _ => {}
            }
        }
        Modules::of_list(files)
    }

    /// Reads the stacks, with `fibers` also those that are parked. Data that turn out to be missing are added to [`lacks`](Core::lacks).
    pub fn look(&mut self, modules: &Modules, fibers: bool) -> (Look, Vec<String>) {
        let mut copies = self.stacks();
        let Found { vms, unread, notes } = scripts::find(modules, &*self, &NoSources);
        let (mut coroutines, all) = if fibers {
            scripts::coroutines(&vms, &*self)
        } else {
            (Vec::new(), true)
        };
        coroutines.extend(scripts::threads_apart(&vms, &*self));
        // References to objects in frames are counted in copies.
        let end = |at: u64| self.around(at).end;
        for range in scripts::wanted_of_parked(&vms, &*self, &coroutines, &end) {
            copies.add(range.start, &self.dumped(range));
        }
        let objects: Vec<_> = vms.iter().map(|vm| vm.objects(&*self)).collect();
        let process = Process {
            modules,
            vms: &vms,
            memory: &*self,
            copies: &copies,
        };
        let mut unwinder = Unwinder::default();
        let mut stacks: Vec<_> = self
            .threads
            .iter()
            .map(|thread| stack::read(&process, &mut unwinder, thread, &objects))
            .collect();
        let mapping = |at: u64| self.around(at);
        stacks.extend(coroutines.iter().filter_map(|one| {
            stack::read_parked(&process, &mut unwinder, one, &mapping, &objects)
        }));
        let room = |thread: &Thread| Room {
            mapped: thread.mapping.end - thread.mapping.start,
            ..Room::default()
        };
        let look = Look {
            standstill: false,
            rooms: stacks
                .iter()
                .map(|stack| {
                    if stack.lines.is_empty() || stack.copied.is_some() {
                        Room::default()
                    } else {
                        room(&stack.thread)
                    }
                })
                .collect(),
            stacks,
            all,
            unread,
            notes,
            not_read: scripts::not_read(&vms, fibers),
            stopped: std::time::Duration::ZERO,
            copied: copies.size(),
            kept: HashSet::new(),
            late: HashSet::new(),
            queued: Vec::new(),
            again: 0,
            why_stopped: None,
        };
        let languages = vms.iter().map(|vm| vm.language()).collect();
        let gone = self.gone_files();
        self.lacks.extend(
            gone.into_iter()
                .map(|path| format!("{path}, which was mapped, is no longer there")),
        );
        (look, languages)
    }

    /// Returns the stacks of all threads, as far as they are in the core.
    fn stacks(&self) -> Copies {
        let mut copies = Copies::default();
        let threads = self.threads.iter();
        for thread in threads.filter(|thread| !thread.mapping.is_empty()) {
            let from = thread.context.sp.saturating_sub(RED_ZONE);
            let from = from.max(thread.mapping.start);
            copies.add(from, &self.dumped(from..thread.mapping.end));
        }
        copies
    }

    /// Returns the paths of mapped files that were needed and could not be opened.
    fn gone_files(&self) -> Vec<String> {
        let opened = self.opened.borrow();
        let paths = self.mapped.iter().map(|mapped| mapped.path.display());
        let mut gone: Vec<String> = paths.map(|path| path.to_string()).collect();
        gone.dedup();
        gone.retain(|path| opened.get(Path::new(path)).is_some_and(Option::is_none));
        gone
    }

    /// Returns the mapping that holds an address; empty if there is none.
    fn around(&self, at: u64) -> Range<u64> {
        let found = self
            .segments
            .iter()
            .find(|segment| segment.range.contains(&at));
        found.map_or(0..0, |segment| segment.range.clone())
    }

    /// Returns the bytes of a range that are in the core, from its start.
    fn dumped(&self, range: Range<u64>) -> Vec<u8> {
        let Some(segment) = self
            .segments
            .iter()
            .find(|segment| segment.range.contains(&range.start))
        else {
            return Vec::new();
        };
        let within = range.start - segment.range.start;
        let length = (range.end - range.start).min(segment.dumped.saturating_sub(within));
        read_table(&self.file, segment.offset.saturating_add(within), length).unwrap_or_default()
    }
}

impl Core {
    /// Fills the beginning of `into` from `at`, as far as one segment or mapped file reaches. Returns the number of bytes.
    fn piece(&self, at: u64, into: &mut [u8]) -> std::result::Result<usize, vm::Fault> {
        let fault = vm::Fault { at };
        let left = |end: u64| {
            let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
            left.min(into.len())
        };
        let behind = self
            .segments
            .partition_point(|segment| segment.range.start <= at);
        if let Some(segment) = behind.checked_sub(1).map(|last| &self.segments[last]) {
            let dumped = left(segment.range.start.saturating_add(segment.dumped));
            if dumped > 0 {
                let offset = segment.offset.saturating_add(at - segment.range.start);
                let read = self.file.read_at(offset, &mut into[..dumped]);
                return read.then_some(dumped).ok_or(fault);
            }
        }
        let after = self
            .mapped
            .partition_point(|mapped| mapped.range.start <= at);
        let mapped = after.checked_sub(1).map(|last| &self.mapped[last]);
        let mapped = mapped.filter(|mapped| at < mapped.range.end);
        let mapped = mapped.ok_or(fault)?;
        // The bytes behind it may be in a segment of their own.
        let dumped = self.segments.get(behind);
        let next = dumped.map_or(u64::MAX, |segment| segment.range.start);
        let length = left(mapped.range.end.min(next));
        let mut opened = self.opened.borrow_mut();
        let file = opened
            .entry(mapped.path.clone())
            .or_insert_with(|| open_regular(&mapped.path).ok());
        let offset = mapped.offset.saturating_add(at - mapped.range.start);
        let into = &mut into[..length];
        let read = length > 0 && file.as_ref().is_some_and(|file| file.read_at(offset, into));
        read.then_some(length).ok_or(fault)
    }
}

impl Memory for Core {
    fn read(&self, at: u64, into: &mut [u8]) -> std::result::Result<(), vm::Fault> {
        let mut done = 0;
        while done < into.len() {
            let from = at.checked_add(done as u64).ok_or(vm::Fault { at })?;
            done += self.piece(from, &mut into[done..])?;
        }
        Ok(())
    }
}

fn program_headers(
    file: &File,
) -> std::result::Result<Vec<elf::ProgramHeader64<LE>>, &'static str> {
    let mut header = [0; size_of::<elf::FileHeader64<LE>>()];
    if !file.read_at(0, &mut header) {
        return Err("too short for an ELF header");
    }
    let (header, _) = pod::from_bytes::<elf::FileHeader64<LE>>(&header)
        .map_err(|()| "too short for an ELF header")?;
    if process::elf::architecture_of(bytes_of(header)) != Some(process::elf::Architecture::X86_64) {
        return Err("not a core of an x86-64 process");
    }
    // With 65,535 or more the count is in section 0 (gABI, `PN_XNUM`); the kernel writes that section only then.
    let mut count = u64::from(header.e_phnum.get(LE));
    if count == 0xffff {
        let mut section = [0; size_of::<elf::SectionHeader64<LE>>()];
        if !file.read_at(header.e_shoff.get(LE), &mut section) {
            return Err("its count of segments is not in it: the core is cut short");
        }
        let section = pod::from_bytes::<elf::SectionHeader64<LE>>(&section)
            .map_err(|()| "too short")?
            .0;
        count = u64::from(section.sh_info.get(LE));
    }
    let entry = size_of::<elf::ProgramHeader64<LE>>() as u64;
    if count > MOST_SEGMENTS {
        return Err("the program header has an impossible size");
    }
    let table = read_table(file, header.e_phoff.get(LE), count * entry)
        .ok_or("its program header reaches past its end: the core is cut short")?;
    let table =
        pod::slice_from_all_bytes::<elf::ProgramHeader64<LE>>(&table).map_err(|()| "too short")?;
    Ok(table.to_vec())
}

/// Returns the first bytes of a header, which say which machine it is for.
fn bytes_of(header: &elf::FileHeader64<LE>) -> &[u8; 20] {
    pod::bytes_of(header)
        .first_chunk()
        .expect("a header is longer")
}
