//! The table of allocators, with one that the test makes up.

mod counted;

use super::*;
use crate::at_work::tests::PAGE;
use crate::shared::SCRIPT;
use core::sync::atomic::AtomicUsize;
use std::sync::{Mutex, MutexGuard};
use std::vec;
use std::vec::Vec;

const NOTHING: Table = Table {
    ctx: 0,
    malloc: 0,
    calloc: 0,
    realloc: 0,
    free: 0,
};

/// The tables of the domains, as the made-up VM has them.
static TABLES: Mutex<[Table; 2]> = Mutex::new([NOTHING; 2]);
/// Calls of the VM's own functions, as it was called: function, ctx and arguments.
static CALLS: Mutex<Vec<(&str, [u64; 4])>> = Mutex::new(Vec::new());
/// Calls of the functions that another tool has put in front.
static COVERED: AtomicUsize = AtomicUsize::new(0);
/// What these call.
static UNDER: Mutex<[Table; 2]> = Mutex::new([NOTHING; 2]);

fn tables() -> MutexGuard<'static, [Table; 2]> {
    TABLES
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

unsafe extern "C" fn get(domain: i32, into: *mut Table) {
    // SAFETY: `read` passes the address of its own table.
    unsafe { *into = tables()[domain as usize - 1] };
}

unsafe extern "C" fn set(domain: i32, from: *mut Table) {
    // SAFETY: `write` passes the address of its own table.
    tables()[domain as usize - 1] = unsafe { *from };
}

fn called(function: &'static str, arguments: [u64; 4]) {
    CALLS
        .lock()
        .expect("no holder panics")
        .push((function, arguments));
}

unsafe extern "C" fn own_malloc(ctx: u64, size: u64) -> u64 {
    called("malloc", [ctx, size, 0, 0]);
    if size > 1 << 40 {
        0
    } else {
        0x1000 + size * 16
    }
}

unsafe extern "C" fn own_calloc(ctx: u64, count: u64, size: u64) -> u64 {
    called("calloc", [ctx, count, size, 0]);
    0x2000
}

unsafe extern "C" fn own_realloc(ctx: u64, block: u64, size: u64) -> u64 {
    called("realloc", [ctx, block, size, 0]);
    if size > 1 << 40 { 0 } else { block + 0x100 }
}

unsafe extern "C" fn own_free(ctx: u64, block: u64) {
    called("free", [ctx, block, 0, 0]);
}

unsafe extern "C" fn cover_malloc(ctx: u64, size: u64) -> u64 {
    COVERED.fetch_add(1, Ordering::Relaxed);
    let under = UNDER.lock().expect("no holder panics")[ctx as usize];
    // SAFETY: it was in the table.
    unsafe { behind::<Malloc>(&AtomicU64::new(under.malloc))(under.ctx, size) }
}

unsafe extern "C" fn cover_free(ctx: u64, block: u64) {
    let under = UNDER.lock().expect("no holder panics")[ctx as usize];
    // SAFETY: it was in the table.
    unsafe { behind::<Free>(&AtomicU64::new(under.free))(under.ctx, block) }
}

/// A table of another tool, which calls what is in the table now.
fn cover() {
    let mut all = tables();
    *UNDER.lock().expect("no holder panics") = *all;
    for (domain, table) in all.iter_mut().enumerate() {
        *table = Table {
            ctx: domain as u64,
            malloc: cover_malloc as *const () as u64,
            free: cover_free as *const () as u64,
            ..*table
        };
    }
}

/// A VM whose tables have its own functions, with another `ctx` for each domain.
fn vm() -> ([Table; 2], MutexGuard<'static, ()>) {
    // The statics are one for all tests.
    let one = PAGE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // SAFETY: the lock is held, under which alone these tests use `SCRIPT`'s addresses; no other test does.
    unsafe {
        (&raw mut SCRIPT.functions[GET_ALLOCATOR]).write(get as *const () as u64);
        (&raw mut SCRIPT.functions[SET_ALLOCATOR]).write(set as *const () as u64);
    }
    for behind in &BEHIND {
        behind.set(Table::default());
    }
    let own = [77, 88].map(|ctx| Table {
        ctx,
        malloc: own_malloc as *const () as u64,
        calloc: own_calloc as *const () as u64,
        realloc: own_realloc as *const () as u64,
        free: own_free as *const () as u64,
    });
    let functions = [own[0].malloc, own[0].calloc, own[0].realloc, own[0].free];
    for (place, function) in OWN.iter().zip(functions) {
        place.store(function, Ordering::Relaxed);
    }
    *tables() = own;
    CALLS.lock().expect("no holder panics").clear();
    COVERED.store(0, Ordering::Relaxed);
    (own, one)
}

fn calls() -> Vec<(&'static str, [u64; 4])> {
    core::mem::take(&mut *CALLS.lock().expect("no holder panics"))
}

/// Takes and frees a block as the VM does.
fn use_domain(domain: usize) -> u64 {
    let table = tables()[domain];
    // SAFETY: these are the functions of the made-up VM, of the cover, or ours.
    unsafe {
        let block = behind::<Malloc>(&AtomicU64::new(table.malloc))(table.ctx, 10);
        behind::<Free>(&AtomicU64::new(table.free))(table.ctx, block);
        block
    }
}

#[test]
fn ours_are_put_in_front_and_taken_out_again() {
    let (own, _one) = vm();
    // SAFETY: no other thread uses the made-up VM.
    assert!(unsafe { take() });
    let taken = *tables();
    assert!(
        taken
            .iter()
            .zip(own)
            .all(|(table, own)| table.ctx == own.ctx
                && table.malloc != own.malloc
                && table.free != own.free)
    );
    for (domain, own) in own.iter().enumerate() {
        calls();
        let table = tables()[domain];
        // SAFETY: ours, in front of the made-up VM's.
        let answers = unsafe {
            [
                behind::<Malloc>(&AtomicU64::new(table.malloc))(table.ctx, 10),
                behind::<Malloc>(&AtomicU64::new(table.malloc))(table.ctx, u64::MAX),
                behind::<Calloc>(&AtomicU64::new(table.calloc))(table.ctx, 3, 4),
                behind::<Realloc>(&AtomicU64::new(table.realloc))(table.ctx, 0x500, 20),
                behind::<Realloc>(&AtomicU64::new(table.realloc))(table.ctx, 0x500, u64::MAX),
            ]
        };
        assert_eq!(answers, [0x10a0, 0, 0x2000, 0x600, 0]);
        // SAFETY: as above.
        unsafe { behind::<Free>(&AtomicU64::new(table.free))(table.ctx, 0x700) };
        let ctx = own.ctx;
        let wanted = vec![
            ("malloc", [ctx, 10, 0, 0]),
            ("malloc", [ctx, u64::MAX, 0, 0]),
            ("calloc", [ctx, 3, 4, 0]),
            ("realloc", [ctx, 0x500, 20, 0]),
            ("realloc", [ctx, 0x500, u64::MAX, 0]),
            ("free", [ctx, 0x700, 0, 0]),
        ];
        assert_eq!(calls(), wanted);
    }
    // SAFETY: no other thread uses the made-up VM.
    unsafe {
        assert!(take(), "they are there already");
        assert_eq!(*tables(), taken);
        assert!(put_back());
        assert_eq!(*tables(), own);
        assert!(!are_covered() && !are_all_called());
        assert!(put_back(), "nothing is to be done");
        assert_eq!(*tables(), own);
    }
}

/// `tracemalloc` was started after us: ours are called by its functions, and stay there.
#[test]
fn what_others_put_in_front_stays() {
    let (own, _one) = vm();
    // SAFETY: no other thread uses the made-up VM.
    unsafe {
        assert!(take());
        let taken = *tables();
        cover();
        let covered = *tables();
        assert!(are_all_called() && are_covered());
        assert!(put_back(), "none of ours is in the table");
        assert_eq!(*tables(), covered);
        // The next command: ours are not put in front of what calls them.
        assert!(take());
        assert_eq!(*tables(), covered);
        calls();
        assert_eq!(use_domain(0), 0x10a0);
        assert_eq!(
            calls(),
            [("malloc", [77, 10, 0, 0]), ("free", [77, 0x10a0, 0, 0])]
        );
        // It is stopped, and puts back what it found.
        *tables() = taken;
        assert!(put_back());
        assert_eq!(*tables(), own);
    }
}

/// `tracemalloc` was started before us and is stopped: it puts back what it found, and ours are gone without a word.
#[test]
fn that_ours_are_gone_is_seen() {
    let (own, _one) = vm();
    // SAFETY: no other thread uses the made-up VM.
    unsafe {
        cover();
        assert!(take());
        COVERED.store(0, Ordering::Relaxed);
        use_domain(1);
        assert_eq!(COVERED.load(Ordering::Relaxed), 1, "ours call it");
        *tables() = own;
        assert!(!are_all_called());
        assert!(take(), "they are put in front again");
        assert!(are_all_called());
        assert!(put_back());
    }
    assert_eq!(*tables(), own);
}

/// Whether the tool in front answers from what it has in store, and how many bytes it puts before each block.
static STORE: AtomicUsize = AtomicUsize::new(0);
static HEADER: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" fn store_malloc(ctx: u64, size: u64) -> u64 {
    if STORE.load(Ordering::Relaxed) != 0 {
        return 0x7000;
    }
    // SAFETY: as `cover_malloc`.
    unsafe { cover_malloc(ctx, size) + HEADER.load(Ordering::Relaxed) }
}

unsafe extern "C" fn store_free(ctx: u64, block: u64) {
    if STORE.load(Ordering::Relaxed) == 0 {
        // SAFETY: as `cover_free`.
        unsafe { cover_free(ctx, block - HEADER.load(Ordering::Relaxed)) };
    }
}

/// A tool that has blocks in store, in front of ours: it answers without calling ours, and would be called by them without end if they were
/// put in front of it.
#[test]
fn ours_are_not_put_in_front_of_what_may_lead_to_them() {
    let (own, _one) = vm();
    // SAFETY: no other thread uses the made-up VM.
    unsafe {
        assert!(take());
        let taken = *tables();
        cover();
        for table in tables().iter_mut() {
            table.malloc = store_malloc as *const () as u64;
            table.free = store_free as *const () as u64;
        }
        let stored = *tables();
        STORE.store(1, Ordering::Relaxed);
        HEADER.store(0, Ordering::Relaxed);
        assert!(put_back() && are_covered() && !are_all_called());
        assert!(!take());
        assert_eq!(*tables(), stored);
        STORE.store(0, Ordering::Relaxed);
        assert!(take() && are_all_called(), "they are called");
        assert_eq!(*tables(), stored);
        // What is freed has another address than what is used: lines would be kept under addresses that die unseen.
        HEADER.store(16, Ordering::Relaxed);
        assert!(!take() && !are_all_called() && are_covered());
        assert_eq!(*tables(), stored);
        HEADER.store(0, Ordering::Relaxed);
        *tables() = taken;
        assert!(put_back());
    }
    assert_eq!(*tables(), own);
}
