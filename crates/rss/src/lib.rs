//! What the resident memory of a process is used for: every byte of it in exactly one row.
//!
//! Everything is read from outside (`smaps`, `pagemap`, the process's memory); the process is not stopped, and no code runs in it.
//!
//! ```text
//!   smaps, pagemap  ───► which pages are in memory                 (process::runs)
//!   glibc's arenas  ───► which addresses are in use, free, cached  (glibc)                ┐ laid over one another: the VM's word over
//!   a VM's heap     ───► which of its bytes hold objects           (languages::resident)  │ the allocator's, that over the mapping's
//!   stacks, modules ───► whose are the other mappings              (threads, modules)     ┘ (languages::resident::claims)
//!                        both together: bytes of each row          (languages::resident::rows)
//! ```
//!
//! A page that holds two things counts in both rows by its bytes, so the rows add up. What a process says of itself is checked where it is
//! read, and costs at most the time and memory of a [`Budget`].

#![forbid(unsafe_code)]

mod divided;
mod findings;
mod glibc;
mod kernel;
mod modules;
mod of_lancet;
mod other;
mod threads;

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use process::error::{Error, Result};
use process::guest;
use process::maps::Maps;
use process::smaps::{self, Area};

pub use findings::Finding;
pub use glibc::{ArenaFigures, Malloc};
pub use kernel::KernelSide;
pub use languages::resident::VmHeap;
use languages::resident::claims::{Claim, Layer, RowId, overlaid};
use languages::resident::rows::Rows;
pub use languages::resident::rows::{Bytes, Kind, Row};
use modules::Loaded;
pub use other::{Figures, Other};
use process::resident_memory::ResidentMemory;
use process::runs::{self, Place, Run, within};
pub use threads::ThreadStack;

/// How long a ledger may take.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// After this nothing more of the process is read. What has not been looked into by then is in the row of its mapping.
    pub patience: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            patience: Duration::from_secs(30),
        }
    }
}

/// What the resident memory of a process is used for.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// Process id in the PID namespace of lancet.
    pub pid: i32,
    /// The words of its command line; for a process without one, its name.
    pub command_line: Vec<String>,
    /// When it was looked at: nanoseconds since 1970.
    pub taken_at: u64,
    /// The sum of the rows, which is what the kernel counts (`smaps_rollup`).
    pub total: Bytes,
    /// The rows, the largest first.
    pub rows: Vec<Row>,
    /// glibc's allocator, if it is there and was found.
    pub malloc: Option<Malloc>,
    /// The allocator that has taken its place.
    pub other: Option<Other>,
    /// The heaps of its VMs.
    pub heaps: Vec<VmHeap>,
    /// The stacks of its threads.
    pub threads: Vec<ThreadStack>,
    /// What the kernel keeps for it outside of its resident memory.
    pub kernel: KernelSide,
    /// Bytes in huge pages set apart (hugetlbfs), which are in no resident memory.
    pub hugetlb: u64,
    /// What follows from the figures.
    pub findings: Vec<Finding>,
    /// What could not be looked into, and why.
    pub missing: Vec<String>,
}

/// Looks at a process.
///
/// # Errors
/// There is none, or it may not be looked at.
pub fn look(pid: i32, budget: Budget) -> Result<Ledger> {
    look_and_tell(pid, budget, || {})
}

/// Does what `look` does, and calls `counted` when the kernel has said how much of each mapping is in memory, and what of that other
/// processes have too. A copy of the process that is made from then on changes nothing in the ledger.
///
/// # Errors
/// There is none, or it may not be looked at.
pub fn look_and_tell(pid: i32, budget: Budget, counted: impl FnOnce()) -> Result<Ledger> {
    let memory = guest::reach_to_look(pid)?;
    process::elf::require_x86_64(pid).map_err(|error| Error::Elf { pid, error })?;
    let until = Instant::now() + budget.patience;
    let of_proc = |name| move |error| Error::of_proc(pid, name, error);
    let maps = Maps::of(pid)?;
    let areas = smaps::areas(pid).map_err(of_proc("smaps"))?;
    let rollup = smaps::rollup(pid).map_err(of_proc("smaps_rollup"))?;
    counted();
    let (runs, left_out) = runs::runs(pid, &areas).map_err(of_proc("pagemap"))?;
    let seen = ResidentMemory::new(&memory, &areas, &runs, until);
    let loaded = Loaded::of(pid, &maps, &seen);
    let mut look = Look {
        areas: &areas,
        runs: &runs,
        seen: &seen,
        rows: Rows::default(),
        missing: Vec::new(),
    };
    if !left_out.is_empty() {
        let count = left_out.len();
        look.missing.push(format!(
            "{count} mappings, which are too large to be looked at page by page"
        ));
    }
    let (malloc, layer) = look.malloc(&loaded);
    let (heaps, layer) = look.heaps(&loaded, layer);
    let found = threads::look(pid, &seen, &areas, &runs, &layer, &mut look.rows);
    if found.unknown > 0 && found.unsearched > 0 {
        look.missing.push(format!(
            "stacks of {} threads: {} MiB of memory were not searched for them, because there is too much",
            found.unknown,
            found.unsearched.div_ceil(1 << 20)
        ));
    }
    let (threads, stacks) = (found.stacks, found.layer);
    let mappings = overlaid(&look.variables(&loaded), &look.agents());
    let layer = overlaid(&mappings, &overlaid(&stacks, &layer));
    if seen.is_late() {
        let seconds = budget.patience.as_secs();
        look.missing
            .push(format!("what was not read within {seconds} s"));
    }
    look.add_up(&layer, loaded.other_allocator(), rollup);
    let rows = look.rows.finish();
    let mut total = Bytes::default();
    rows.iter().for_each(|row| total.add(row.bytes));
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(Ledger {
        pid,
        command_line: guest::command_line(pid),
        taken_at: since.map_or(0, |since| since.as_nanos() as u64),
        total,
        findings: findings::of(&rows, total.rss, malloc.as_ref(), &heaps),
        rows,
        malloc,
        other: loaded.other(),
        heaps,
        threads,
        kernel: KernelSide::of(pid),
        hugetlb: areas.iter().map(|area| area.hugetlb).sum(),
        missing: look.missing,
    })
}

/// A look under way.
struct Look<'a> {
    areas: &'a [Area],
    runs: &'a [Run],
    seen: &'a ResidentMemory<'a>,
    rows: Rows,
    missing: Vec<String>,
}

impl Look<'_> {
    fn malloc(&mut self, loaded: &Loaded) -> (Option<Malloc>, Layer) {
        let resident = |start, end| {
            let runs = within(self.runs, start, end).iter();
            let there = runs.filter(|run| run.place != Place::Swap);
            there
                .map(|run| run.end.min(end) - run.start.max(start))
                .sum()
        };
        for data in loaded.c_libraries() {
            let found = glibc::look(self.seen, &data, &resident, &mut self.rows);
            let Some((malloc, layer)) = found else {
                continue;
            };
            let unread: u64 = malloc.arenas.iter().map(|arena| arena.unread).sum();
            if unread > 0 {
                let text = format!(
                    "{unread} bytes of malloc's arenas, which the process changed while they were read"
                );
                self.missing.push(text);
            }
            return (Some(malloc), layer);
        }
        let mut areas = self.areas.iter();
        if loaded.has_glibc() && areas.any(|area| area.mapping.is_named("[heap]")) {
            self.missing.push("malloc: its state was not found".into());
        }
        (None, Layer::default())
    }

    fn heaps(&mut self, loaded: &Loaded, mut layer: Layer) -> (Vec<VmHeap>, Layer) {
        let mut heaps = Vec::new();
        for look in languages::ALL.iter().filter_map(|entry| entry.resident) {
            let Some(found) = look(self.seen, loaded, &mut self.rows) else {
                continue;
            };
            match found {
                Ok((heap, claims)) => {
                    layer = overlaid(&layer, &claims);
                    if heap.unread > 0 {
                        let text = format!(
                            "{} pages of its {} heap, which it changed while they were read",
                            heap.unread, heap.language
                        );
                        self.missing.push(text);
                    }
                    heaps.push(heap);
                }
                Err(why) => self.missing.push(format!("the heap of its VM: {why}")),
            }
        }
        (heaps, layer)
    }

    /// Variables of modules that no file has.
    fn variables(&mut self, loaded: &Loaded) -> Layer {
        let all = loaded.variables();
        let claims =
            all.map(|(range, path)| Claim::new(range, self.rows.id(Kind::Variables, path)));
        Layer::of(claims.collect())
    }

    /// What lancet has mapped there itself.
    fn agents(&mut self) -> Layer {
        let row = self.rows.id(Kind::Agent, String::new());
        of_lancet::mappings(self.areas, self.seen, row)
    }

    /// Adds up the bytes that are in memory, by who has them.
    fn add_up(&mut self, layer: &Layer, other: Option<&'static str>, rollup: u64) {
        let mut sum = 0;
        for area in self.areas {
            let mut parts: HashMap<RowId, Bytes> = HashMap::new();
            for run in within(self.runs, area.mapping.start, area.mapping.end) {
                let (kind, of) = of_mapping(area, run.place, other);
                let base = self.rows.id(kind, of);
                for (row, bytes) in split(layer, run, base) {
                    let part = parts.entry(row).or_default();
                    match run.place {
                        Place::Swap => part.swap += bytes,
                        _ => part.rss += bytes,
                    }
                }
            }
            self.fit(area, &mut parts);
            // A page of shared memory that is in swap has no entry in a page table, so `pagemap` does not tell of it; `smaps` counts it
            // (`shmem_swap_usage`, `fs/proc/task_mmu.c`).
            let told: u64 = parts.values().map(|part| part.swap).sum();
            if area.swap > told {
                let (kind, of) = of_mapping(area, Place::Swap, other);
                let row = self.rows.id(kind, of);
                parts.entry(row).or_default().swap += area.swap - told;
            }
            sum += area.rss;
            for (row, bytes) in parts {
                self.rows.add(row, bytes);
            }
        }
        let rest = rollup.saturating_sub(sum);
        self.add_changed(rest);
    }

    fn add_changed(&mut self, bytes: u64) {
        let row = self.rows.id(Kind::Changed, String::new());
        self.rows.add(
            row,
            Bytes {
                rss: bytes,
                pss: bytes,
                swap: 0,
            },
        );
    }

    /// Makes the parts of a mapping add up to what the kernel counts of it. It counts less than are mapped where a page of zeros was only
    /// read, which is in memory once for all processes; the largest part is less by that. What it counts more, pages that have come or a
    /// mapping that was not looked at, has changed.
    fn fit(&mut self, area: &Area, parts: &mut HashMap<RowId, Bytes>) {
        let counted: u64 = parts.values().map(|part| part.rss).sum();
        let mut over = counted.saturating_sub(area.rss);
        while over > 0 {
            let Some(largest) = parts.values_mut().max_by_key(|part| part.rss) else {
                break;
            };
            let less = over.min(largest.rss);
            largest.rss -= less;
            over -= less;
        }
        let missing = area.rss.saturating_sub(counted);
        if missing > 0 {
            let row = match parts.is_empty() {
                true => {
                    let (kind, of) = of_mapping(area, Place::Own, None);
                    self.rows.id(kind, of)
                }
                false => self.rows.id(Kind::Changed, String::new()),
            };
            parts.entry(row).or_default().rss += missing;
        }
        for part in parts.values_mut() {
            let share = u128::from(area.pss) * u128::from(part.rss);
            part.pss = share.checked_div(u128::from(area.rss)).unwrap_or(0) as u64;
        }
    }
}

/// The parts of a run by row; `base` has what nobody claims.
fn split(layer: &Layer, run: &Run, base: RowId) -> Vec<(RowId, u64)> {
    let claims = layer.claims();
    let first = claims.partition_point(|claim| claim.end <= run.start);
    let mut parts = Vec::new();
    let mut from = run.start;
    for claim in claims[first..]
        .iter()
        .take_while(|claim| claim.start < run.end)
    {
        let (start, end) = (claim.start.max(run.start), claim.end.min(run.end));
        parts.push((base, start - from));
        parts.push((claim.row, end - start));
        from = end;
    }
    parts.push((base, run.end - from));
    parts.retain(|(_, bytes)| *bytes > 0);
    parts
}

/// What pages of a mapping are for that nobody claims.
fn of_mapping(area: &Area, place: Place, other: Option<&'static str>) -> (Kind, String) {
    let mapping = &area.mapping;
    let path = mapping
        .path
        .as_ref()
        .map(|path| path.to_string_lossy().into_owned());
    let path = path.unwrap_or_default();
    let plain = mapping.inode == 0 && !mapping.permissions.shared;
    let made_to_be_shared = ["/memfd:", "/dev/shm/", "/SYSV", "/dev/zero"];
    match path.as_str() {
        "[vdso]" | "[vvar]" | "[vvar_vclock]" | "[vsyscall]" => (Kind::Kernel, String::new()),
        "[stack]" => (Kind::Stack, "main".into()),
        _ if !plain
            && made_to_be_shared
                .iter()
                .any(|begins| path.starts_with(begins)) =>
        {
            (Kind::Shared, path)
        }
        _ if mapping.is_file() && place == Place::File => (Kind::File, path),
        _ if mapping.is_file() => (Kind::Variables, path),
        _ if mapping.permissions.shared => (Kind::Shared, path),
        _ if mapping.permissions.execute => (Kind::Code, path),
        // tcmalloc takes its memory by `brk`, and nobody else does where malloc is not glibc's.
        "" | "[heap]" if mapping.permissions.write => match other {
            Some(other) => (Kind::OtherAllocator, other.into()),
            None => (Kind::Anonymous, path),
        },
        _ => (Kind::Anonymous, path),
    }
}
