//! The heap as a stream: roots first, then page by page each object with its references. Used by `snapshot`.
//!
//! Roots come first because the VM looks for them on the machine stack too, where a walk over the objects would leave addresses.

use crate::guard;
use crate::languages::ruby::births::agent::AGENT;
use crate::languages::ruby::births::names::Type;
use crate::languages::ruby::vmcalls::Vm;
use crate::memory::direct::Direct;
use crate::shared::SNAPSHOT;
use crate::snapshot::stream::Stream;
use core::sync::atomic::Ordering;
use vm::ruby::{Page, Ruby, Slot};
use wire::snapshot::stream::zigzag;
use wire::snapshot::{LONGEST_CATEGORY, stream};

/// What the VM's callbacks get.
struct Walk<'a> {
    stream: &'a mut Stream,
    ruby: &'a Ruby<'static, Direct>,
    /// There are pages that await a sweep.
    sweeping: bool,
    /// The object whose references are asked for, and its class if it has one.
    object: u64,
    class: u64,
    /// Address of the name of the root table that was told last.
    category: u64,
    objects: u64,
    edges: u64,
    roots: u64,
}

/// Writes everything. In the child, which has the VM's lock and no other thread.
pub fn write(stream: &mut Stream) {
    // SAFETY: nobody else runs in this process.
    let agent = unsafe { &*(&raw const AGENT) };
    let Some(ruby) = agent.names.reader() else {
        return;
    };
    let mut walk = Walk {
        stream,
        ruby,
        sweeping: false,
        object: 0,
        class: 0,
        category: 0,
        objects: 0,
        edges: 0,
        roots: 0,
    };
    if let Ok(mut pages) = ruby.pages() {
        walk.sweeping = pages.any(|page| {
            let awaits = page.map(|page| ruby.awaits_sweep(&page));
            matches!(awaits, Ok(Ok(true)))
        });
    }
    // SAFETY: the VM's lock is held and the collector does not run: the clone was made at a safe point.
    unsafe {
        agent
            .vm
            .reachable_from_roots(on_root, (&raw mut walk).cast())
    };
    let mut class = 0;
    if let Ok(pages) = ruby.pages() {
        for page in pages.flatten() {
            walk.page(agent.vm, page, &mut class);
        }
    }
    let Walk {
        stream,
        objects,
        edges,
        roots,
        ..
    } = walk;
    if guard::broken() {
        // Without its end a stream is not whole.
        return;
    }
    stream.byte(stream::END);
    for count in [objects, edges, roots] {
        stream.number(count);
    }
    stream.send();
}

impl Walk<'_> {
    fn page(&mut self, vm: Vm, page: Page, class: &mut u64) {
        let ruby = self.ruby;
        self.stream.byte(stream::PAGE);
        self.stream.number(page.start);
        self.stream.number(page.slot_size);
        let awaits_sweep = ruby.awaits_sweep(&page).unwrap_or(false);
        let (mut next, mut garbage) = (page.start, 0);
        for slot in ruby.slots(page).flatten() {
            match Type::of(slot.flags) {
                // Not objects; the VM ends the process if it is asked for the references of one.
                Type::None | Type::Moved | Type::Zombie | Type::Node | Type::Unknown => continue,
                _ => {}
            }
            if awaits_sweep && !ruby.is_marked(&page, slot.address).unwrap_or(true) {
                garbage += 1;
                continue;
            }
            self.stream.byte(stream::OBJECT);
            self.stream
                .number((slot.address - next) / page.slot_size.max(1));
            self.stream.number(slot.flags);
            self.stream.number(zigzag(slot.klass.wrapping_sub(*class)));
            (*class, next) = (slot.klass, slot.address + page.slot_size);
            self.object(vm, slot);
        }
        if garbage != 0 {
            self.stream.byte(stream::GARBAGE);
            self.stream.number(garbage);
        }
    }

    /// Whether what is referred to is garbage that awaits its sweep. Only a word of a stack that happens to look like a reference
    /// leads to such; the collector does not follow it either, because it ends a sweep before it marks.
    fn is_garbage(&self, target: u64) -> bool {
        self.sweeping
            && self.ruby.page_of(target).is_ok_and(|page| {
                self.ruby.awaits_sweep(&page) == Ok(true)
                    && self.ruby.is_marked(&page, target) == Ok(false)
            })
    }

    /// Writes the size of an object in bytes plus one (0 = not known) and its references, which a 0 ends.
    fn object(&mut self, vm: Vm, slot: Slot) {
        SNAPSHOT.at.store(slot.address, Ordering::Relaxed);
        let of = Type::of(slot.flags);
        let bytes = match of {
            // SAFETY: as in `write`; the object lives or is garbage that is still whole.
            Type::Data => unsafe { vm.memsize_guarded(slot.address) },
            // SAFETY: the same.
            _ => Some(unsafe { vm.memsize(slot.address) }),
        };
        self.stream
            .number(bytes.map_or(0, |bytes| bytes.wrapping_add(1)));
        self.object = slot.address;
        // What an imemo has in this place is no class.
        self.class = if of == Type::Imemo { 0 } else { slot.klass };
        // SAFETY: as above.
        unsafe { vm.reachable(slot.address, on_reference, (&raw mut *self).cast()) };
        self.stream.byte(0);
        self.objects += 1;
    }
}

/// Called by the VM for each reference of an object.
unsafe extern "C" fn on_reference(target: u64, data: *mut u8) {
    // SAFETY: `object` passes its own live value, which it does not use meanwhile.
    let walk = unsafe { &mut *data.cast::<Walk>() };
    if walk.is_garbage(target) {
        return;
    }
    walk.edges += 1;
    if target == walk.class {
        walk.stream.byte(1);
        return;
    }
    let difference = (target.wrapping_sub(walk.object) as i64 >> 3) as u64;
    walk.stream.number(zigzag(difference).wrapping_add(2));
}

/// Called by the VM for each root.
unsafe extern "C" fn on_root(category: *const u8, target: u64, data: *mut u8) {
    // SAFETY: as above.
    let walk = unsafe { &mut *data.cast::<Walk>() };
    if walk.is_garbage(target) {
        return;
    }
    if walk.category != category as u64 {
        walk.category = category as u64;
        let (mut name, mut length) = ([0; LONGEST_CATEGORY], 0);
        for (index, place) in name.iter_mut().enumerate() {
            // SAFETY: the VM passes a constant that ends with a zero, and none was met before. (Not a `CStr`, which calls strlen.)
            *place = unsafe { category.add(index).read_volatile() };
            if *place == 0 {
                break;
            }
            length = index + 1;
        }
        let name = name.get(..length).unwrap_or(&[]);
        walk.stream.byte(stream::CATEGORY);
        walk.stream.number(name.len() as u64);
        for byte in name {
            walk.stream.byte(*byte);
        }
    }
    walk.roots += 1;
    walk.stream.byte(stream::ROOT);
    walk.stream.number(target);
}
