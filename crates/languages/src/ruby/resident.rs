//! The heap of a Ruby: pages of slots (`vm::ruby`, `heap`), and the stacks of its fibers. Used by `ruby`.
//!
//! A page's memory comes from `mmap` (since 3.1) or from malloc; its slots hold an object each, and what an object has besides is
//! malloc's. Slots whose objects are garbage and not yet swept are in use here, as the VM counts them.

use vm::Language;
use vm::ruby::{Facts, Fiber, FiberSearch, Page, Ruby};

use crate::resident::claims::{Claim, Layer, MOST, RowId, add};
use crate::resident::rows::{Kind, Rows};
use crate::resident::{HeapRows, LoadedFiles, VmHeap, steadiest};
use process::resident_memory::ResidentMemory;

/// Up to 3.0 a page comes from malloc, which keeps a record behind it (`REQUIRED_SIZE_BY_MALLOC`, `gc.c`).
const BY_MALLOC: u64 = 40;

/// Fibers that are kept. A process cannot have more stacks than the kernel gives it mappings, 65,530 where nobody has changed that.
const MOST_FIBERS: usize = 1 << 20;

/// Looks for the heap of a Ruby; `None` if the process has no Ruby.
pub fn look(
    memory: &ResidentMemory,
    loaded: &dyn LoadedFiles,
    rows: &mut Rows,
) -> Option<Result<(VmHeap, Layer), String>> {
    let (symbols, _) = loaded.with_data(Language::Ruby.description().mark)?;
    let symbol = |name: &str| symbols.symbol(name).map(|symbol| symbol.address);
    steadiest(memory, || Some(attempt(memory, &symbol, rows)))
}

/// Reads the heap once.
fn attempt(
    memory: &ResidentMemory,
    symbol: &dyn Fn(&str) -> Option<u64>,
    rows: &mut Rows,
) -> Result<(VmHeap, Layer), String> {
    let facts = Facts::find(memory, symbol).map_err(|error| error.to_string())?;
    let ruby = Ruby::new(memory, facts).map_err(|error| error.to_string())?;
    Walk::of(&ruby, rows)
}

struct Walk {
    heap: VmHeap,
    claims: Vec<Claim>,
    rows: HeapRows,
    /// `None` = the VM's structures were not recognised, and no fiber is looked for.
    search: Option<FiberSearch>,
    /// Fibers that were met, some of them more than once.
    fibers: Vec<Fiber>,
}

impl Walk {
    fn of(ruby: &Ruby<ResidentMemory>, rows: &mut Rows) -> Result<(VmHeap, Layer), String> {
        let search = ruby.vm().and_then(|vm| ruby.fiber_search(vm));
        let mut walk = Walk {
            heap: VmHeap::new(Language::Ruby, ruby.facts().version().to_string()),
            claims: Vec::new(),
            rows: HeapRows::of(Language::Ruby, rows),
            search: search.ok(),
            fibers: Vec::new(),
        };
        for page in ruby.pages().map_err(|error| error.to_string())? {
            match page {
                Ok(page) => walk.page(ruby, page),
                Err(_) => walk.heap.unread += 1,
            }
            if walk.claims.len() >= MOST {
                return Err("it has more pages than memory".into());
            }
        }
        let mut stacks = walk.stacks(ruby, rows.id(Kind::FiberStack, Language::Ruby.to_string()));
        walk.claims.append(&mut stacks);
        Ok((walk.heap, Layer::of(walk.claims)))
    }

    fn page(&mut self, ruby: &Ruby<ResidentMemory>, page: Page) {
        let align = ruby.layout().heap.align;
        let body = page.start & !(align - 1);
        let behind = if ruby.layout().heap.pools.is_none() {
            BY_MALLOC
        } else {
            0
        };
        let whole = body..body + align - behind;
        let slots = page.start..page.start + page.slot_size * page.total_slots;
        let mut used: Vec<u64> = Vec::new();
        for slot in ruby.slots(page) {
            match slot {
                Ok(slot) => {
                    used.push(slot.address);
                    if let Some(search) = &mut self.search {
                        ruby.fibers_at(search, &slot, &mut |fiber| {
                            if self.fibers.len() < MOST_FIBERS {
                                self.fibers.push(fiber);
                            }
                        });
                    }
                }
                Err(_) => {
                    self.heap.unread += 1;
                    return;
                }
            }
        }
        let count = used.len() as u64;
        let heap = &mut self.heap;
        heap.pages += 1;
        heap.bytes += whole.end - whole.start;
        heap.in_malloc += if behind > 0 {
            whole.end - whole.start
        } else {
            0
        };
        heap.used += count;
        heap.used_bytes += count * page.slot_size;
        let free = page.total_slots.saturating_sub(count);
        if count == 0 {
            heap.empty_pages += 1;
            heap.empty_bytes += whole.end - whole.start;
            return self.claims.push(Claim::new(whole, self.rows.empty));
        }
        heap.free += free;
        heap.free_bytes += free * page.slot_size;
        heap.sparse_pages += u64::from(count * 4 <= page.total_slots);
        self.claims
            .push(Claim::new(whole.start..slots.start, self.rows.records));
        let mut from = slots.start;
        for at in used {
            add(&mut self.claims, from..at, self.rows.free);
            from = at + page.slot_size;
            add(&mut self.claims, at..from, self.rows.used);
        }
        add(&mut self.claims, from..slots.end, self.rows.free);
        self.claims.push(Claim::new(
            slots.end..whole.end.max(slots.end),
            self.rows.records,
        ));
    }

    /// The machine stacks of parked fibers; those that run have the stack that `threads` would find, or are not told.
    fn stacks(&mut self, ruby: &Ruby<ResidentMemory>, row: RowId) -> Vec<Claim> {
        let found = &self.fibers;
        let context = found.iter().find_map(|fiber| ruby.context_of(fiber));
        let Some(context) = context else {
            return Vec::new();
        };
        let parked = found
            .iter()
            .filter_map(|fiber| ruby.parked(fiber, context).ok().flatten());
        let stacks = parked
            .map(|parked| parked.stack)
            .filter(|stack| !stack.is_empty());
        let layer = Layer::of(stacks.map(|stack| Claim::new(stack, row)).collect());
        self.heap.fibers = layer.claims().len() as u64;
        layer.claims().to_vec()
    }
}
