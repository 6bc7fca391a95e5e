//! Which slots of a Ruby's heap hold objects, and which objects the last mark has reached. Used by `core`.

use foldhash::HashMap;
use process::pages::Pages;
use vm::Memory;
use vm::ruby::{Error, Facts, Ruby, Type};

/// Bytes of the smallest page of a Ruby's heap (2.7, 3.1).
const PAGE: u64 = 16 << 10;

/// Pages of memory that are kept while the pages of a heap are counted: the list of them, and what describes neighbours.
const HEADS: usize = 256;

/// How many slots the heap of a Ruby has, which has so many bytes in memory; `None` if it cannot be read.
pub fn room(memory: &dyn Memory, facts: Facts, resident: u64) -> Option<u64> {
    // Of each page of objects only its head is read, once: a cache of larger blocks would read the whole heap for them.
    let heads = Pages::keeping(HEADS, memory);
    let ruby = Ruby::new(&heads, facts).ok()?;
    let pages = ruby.pages().ok()?.take((resident / PAGE) as usize);
    Some(pages.flatten().map(|page| page.total_slots).sum())
}

/// The slots of one Ruby's heap in a core file. Any word may be looked up: one that is not the address of a slot with an object is reported
/// as none.
pub struct Slots {
    /// The slots of each page, by the address at which the page begins.
    pages: HashMap<u64, Bits>,
    /// Alignment of the pages, in bytes.
    align: u64,
}

/// The slots of one page: one bit each for whether it holds an object, and whether the last mark has reached that.
struct Bits {
    start: u64,
    slot_size: u64,
    objects: Box<[u64]>,
    marked: Box<[u64]>,
}

impl Bits {
    fn number(&self, address: u64) -> Option<usize> {
        let distance = address.checked_sub(self.start)?;
        let number = usize::try_from(distance / self.slot_size).ok()?;
        let is_start = distance.is_multiple_of(self.slot_size);
        (is_start && number / 64 < self.objects.len()).then_some(number)
    }
}

fn is_set(bits: &[u64], number: usize) -> bool {
    bits[number / 64] >> (number % 64) & 1 != 0
}

fn set(bits: &mut [u64], number: usize) {
    bits[number / 64] |= 1 << (number % 64);
}

impl Slots {
    /// Reads every page. Pages that cannot be read have no objects; nor have slots that a sweep would free.
    pub fn of<M: Memory>(ruby: &Ruby<M>) -> Result<Self, Error> {
        let align = ruby.layout().heap.align;
        let mut pages = HashMap::default();
        for page in ruby.pages()?.flatten() {
            let words = usize::try_from(page.total_slots.div_ceil(64)).unwrap_or(0);
            let empty = || vec![0; words].into_boxed_slice();
            let mut bits = Bits {
                start: page.start,
                slot_size: page.slot_size,
                objects: empty(),
                marked: empty(),
            };
            let awaits_sweep = ruby.awaits_sweep(&page).unwrap_or(false);
            for slot in ruby.slots(page).flatten() {
                let is_marked = ruby.is_marked(&page, slot.address).unwrap_or(true);
                let Some(number) = bits.number(slot.address) else {
                    continue;
                };
                if is_object(slot.flags) && (is_marked || !awaits_sweep) {
                    set(&mut bits.objects, number);
                    if is_marked {
                        set(&mut bits.marked, number);
                    }
                }
            }
            pages.insert(page.start & !(align - 1), bits);
        }
        Ok(Slots { pages, align })
    }

    fn find(&self, address: u64) -> Option<(&Bits, usize)> {
        let bits = self.pages.get(&(address & !(self.align - 1)))?;
        let number = bits.number(address)?;
        is_set(&bits.objects, number).then_some((bits, number))
    }

    /// Whether a slot with an object begins at this address.
    pub fn has(&self, address: u64) -> bool {
        self.find(address).is_some()
    }

    /// Whether the last mark has reached the object that is there.
    pub fn is_marked(&self, address: u64) -> bool {
        let found = self.find(address);
        found.is_some_and(|(bits, number)| is_set(&bits.marked, number))
    }
}

/// Whether a slot with these flags is an object.
fn is_object(flags: u64) -> bool {
    !matches!(
        Type::of(flags),
        Type::None | Type::Moved | Type::Zombie | Type::Node | Type::Unknown
    )
}
