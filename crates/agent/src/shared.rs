//! The statics that command and agent share; the command finds them by their names in the agent's file. Used by
//! `languages::php::births::counting`, `languages::ruby::jobs`, `languages::python::births::counting` and others.

use core::sync::atomic::AtomicBool;
use wire::accounts::{ACCOUNTS, Account};
use wire::ledger::{LARGE, Large};
use wire::{Config, ControlPage, Ledger, Script, Segments, Snapshot, ledger};

/// The control page, which a fork wipes.
#[unsafe(no_mangle)]
pub static CONTROL_PAGE: ControlPage = ControlPage::new();

/// The configuration, which the command writes before [`enter`](crate::jobs) is called.
#[unsafe(no_mangle)]
pub static mut CONFIG: Config = Config::NONE;

/// Text to evaluate, and its answer.
#[unsafe(no_mangle)]
pub static mut SCRIPT: Script = Script::NONE;

/// The state of a snapshot's child process. A fork copies it.
#[unsafe(no_mangle)]
pub static SNAPSHOT: Snapshot = Snapshot::new();

/// The counts of births, which the command reads.
#[unsafe(no_mangle)]
pub static mut LEDGER: Ledger = EMPTY;

/// A ledger in which nothing is counted.
pub const EMPTY: Ledger = Ledger {
    sites: Segments::new(ledger::SITES),
    frames: Segments::new(ledger::FRAMES),
    kinds: Segments::new(ledger::KINDS),
    stacks: Segments::new(ledger::STACKS),
    text: Segments::new(ledger::TEXT),
    entries: 0,
    entry_count: 0,
    slot_roots: 0,
    page_shift: 0,
    site_counts: 0,
    site_count: 0,
    kind_counts: 0,
    kind_count: 0,
    gc_nanos: 0,
    walk_nanos: 0,
    garbage: 0,
    lost_memory: 0,
    unbooked: 0,
    elsewhere: 0,
    unlocked: 0,
    misplaced: 0,
    unreadable: 0,
    form: 0,
    unsized_objects: 0,
    empty_bytes: 0,
    mapped: 0,
    slots: 0,
    moved: 0,
    epoch: 0,
    intervals: [0; wire::slots::EPOCHS as usize],
    collections: 0,
    collected: 0,
    accounts: [Account::NONE; ACCOUNTS],
    accounts_given: 0,
    may_rest: 0,
    rests: 0,
    large: [Large::NONE; LARGE],
    large_count: 0,
    collector_off: 0,
};

/// Whether the thread that does a job is in a remote call: then the part of its stack below the place where it was stopped is
/// ours. It is written under the VM's lock only.
pub static BORROWED: AtomicBool = AtomicBool::new(false);
