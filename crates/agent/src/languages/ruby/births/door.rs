//! The methods by which a thread of the program begins, reads and ends its own account (`wire::accounts`). Used by
//! `watch`.
//!
//! The program's library has a module for them (`Lancet::Births.new_door`). Each method is a function of the agent, which the VM calls as
//! it calls those of an extension: with its lock, on the calling thread, in some nanoseconds and without a system call. The image is never
//! unmapped, so a method may be called at any time, also after the agent has left or in the child of a fork; then it returns false. The VM
//! does not let Ractors other than the first call them, because they are not declared as Ractor-safe.
//!
//! | method | answers |
//! |---|---|
//! | `begin(number)` | 1: births of this thread are counted under this number, from nothing or, if it is the last one again, on; 2: the same, and the hook had been out (`rest`); false: it has no account |
//! | `read(number)` | a String of what was counted until now, for the methods below: the session, how many births found no row, and the rows; false: it is gone |
//! | `stop(number)` | births are not counted any more; it may be begun again |
//! | `count(rows)` | how many objects that are, without those that are not shown ([`crate::births::summary`]); false, as of those below: these rows are of a session that is over |
//! | `json(rows)` | lines and types as JSON |
//! | `lines(rows)` | site and births of each line, and at the end an Array of those lines that were not named yet: site, path (false: no code ran), line, type |

use super::agent::{AGENT, Agent};
use crate::births::accounts;
use crate::births::books::text_at;
use crate::births::summary::NOWHERE;
use crate::calls::thread::thread_pointer;
use crate::guard;
use crate::languages::ruby::vmcalls::Vm;
use crate::memory::follow::kept;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::{Ordering, fence};
use wire::{AccountRow, Ledger, State};

/// Evaluates to the module of the program's library.
const MODULE: &[u8] = b"::Lancet::Births.new_door\0";
/// Evaluates to the path prefix of that library's own code.
const FOLDER: &[u8] = b"::Lancet::Births::FOLDER\0";
/// `Qfalse` of every version.
const FALSE: u64 = 0;

/// Defines the methods if the program has the library.
///
/// # Safety
/// The VM's lock is held.
pub unsafe fn define(vm: &Vm) {
    // SAFETY: the caller holds the VM's lock, as `evaluate` requires; the text ends with a zero.
    let Some(module) = (unsafe { vm.evaluate(MODULE) }) else {
        return;
    };
    if !is_object(module) {
        return;
    }
    // SAFETY: the caller holds the VM's lock, as `evaluate` requires; the text ends with a zero.
    let folder = unsafe { vm.evaluate(FOLDER) };
    if folder.and_then(leave_out).is_none() {
        return;
    }
    let mut state = 0;
    // SAFETY: the caller holds the VM's lock, as these functions require. An exception unwinds to `protect`, past the frame of
    // `define_all`, which owns nothing.
    unsafe {
        let error = vm.error();
        vm.protect(define_all as *const () as u64, module, &raw mut state);
        if state != 0 {
            vm.set_error(error);
        }
    }
}

unsafe extern "C" fn define_all(module: u64) -> u64 {
    // SAFETY: `define` calls this with the VM's lock held and with an agent that has the functions' addresses. `module` is an object, and
    // the names end with a zero.
    unsafe {
        let vm = (*(&raw const AGENT)).vm;
        vm.define(module, c"begin".as_ptr().cast(), begin, 1);
        vm.define(module, c"read".as_ptr().cast(), read, 1);
        vm.define(module, c"stop".as_ptr().cast(), stop, 1);
        vm.define(module, c"count".as_ptr().cast(), count, 1);
        vm.define(module, c"json".as_ptr().cast(), json, 1);
        vm.define(module, c"lines".as_ptr().cast(), lines, 1);
    }
    FALSE
}

/// Excludes births in files whose paths begin with the text of this String.
fn leave_out(folder: u64) -> Option<()> {
    // SAFETY: `define`, the only caller, holds the VM's lock, so no other thread uses `AGENT`. `Agent::watch`, which calls `define`, uses
    // nothing of it meanwhile but `vm`, which does not change here.
    let agent = unsafe { &mut *(&raw mut AGENT) };
    let reader = agent.names.reader().filter(|_| is_object(folder))?;
    let text = reader.text(folder).ok()?;
    let mut path = [0; 4096];
    let copied = reader.copy(text, &mut path).ok()?;
    agent.summary.leave_out(path.get(..copied.len)?)
}

/// Whether it is an object on the heap and no immediate value (`RB_SPECIAL_CONST_P`, include/ruby/internal/special_consts.h).
fn is_object(value: u64) -> bool {
    value >= 0x1000 && value & 7 == 0
}

/// Whether births can be counted: the books belong to a session that is open.
fn is_counting(agent: &Agent, ledger: &Ledger) -> bool {
    let is_open = CONTROL_PAGE.state.load(Ordering::Relaxed) == State::Open as u32;
    is_open && !guard::broken() && (agent.hook.is_some() || ledger.rests != 0)
}

/// Returns the index of this thread's account, if births can be counted.
fn own(agent: &mut Agent, ledger: &mut Ledger) -> Option<usize> {
    match is_counting(agent, ledger) {
        true => agent.own.of_this_thread(ledger),
        false => None,
    }
}

unsafe extern "C" fn begin(_: u64, number: u64) -> u64 {
    let Some(wanted) = integer(number) else {
        return FALSE;
    };
    // SAFETY: the VM calls a method with its lock held, so no other thread uses `AGENT` and `LEDGER`; and it calls none while the agent
    // runs, so no other reference is alive.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    let Some(own) = own(agent, ledger) else {
        return FALSE;
    };
    ledger.accounts[own].wanted = wanted;
    // The command first takes the account away and then reads `wanted`; the fence orders the reverse here.
    fence(Ordering::SeqCst);
    // SAFETY: `ledger` is a live reference. The command writes both words at any time, each as one aligned word: first that the account is
    // taken from this thread, then to whom it is given.
    let is_ours = unsafe {
        let account = &raw const ledger.accounts[own];
        (&raw const (*account).tid).read_volatile() != 0
            && (&raw const (*account).thread).read_volatile() == thread_pointer()
    };
    let rested = ledger.rests != 0;
    if !is_ours || (rested && !agent.rise(&CONTROL_PAGE, ledger)) {
        ledger.accounts[own].wanted = 0;
        return FALSE;
    }
    agent.held = false;
    let account = &mut ledger.accounts[own];
    if account.counting != wanted {
        accounts::begin(account, wanted);
    }
    value(1 + u64::from(rested))
}

unsafe extern "C" fn read(_: u64, number: u64) -> u64 {
    let Some(wanted) = integer(number) else {
        return FALSE;
    };
    let (vm, own, counted) = {
        // SAFETY: the VM calls a method with its lock held, so no other thread uses `AGENT` and `LEDGER`. The references end with this
        // block, before the VM is called.
        let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
        let Some(own) = own(agent, ledger) else {
            return FALSE;
        };
        if ledger.accounts[own].counting != wanted {
            return FALSE;
        }
        agent.settle_account(ledger, own);
        let account = &mut ledger.accounts[own];
        let counted = *account;
        let head = [agent.config.session, account.lost];
        // SAFETY: `rows` and `used` of the account describe written rows, and no birth is counted while they are copied, because the VM is
        // not called.
        let rows = unsafe { accounts::counted(account) };
        if agent.summary.copy(head, rows).is_none() {
            return FALSE;
        }
        // The String of the answer must not count as a birth of this thread.
        account.wanted = 0;
        (agent.vm, own, counted)
    };
    // SAFETY: the VM's lock is held, as `bytes` requires, and no reference from above is alive, because making the String calls the hook.
    // The copied bytes stay mapped while the agent is held.
    unsafe {
        hold();
        let summary = &raw const AGENT.summary;
        let bytes = (*summary).copied();
        let answer = vm.bytes(bytes.as_ptr(), bytes.len() as i64);
        release();
        (*(&raw mut LEDGER)).accounts[own].wanted = counted.wanted;
        answer
    }
}

unsafe extern "C" fn count(_: u64, rows: u64) -> u64 {
    // SAFETY: the VM calls a method with its lock held, so no other thread uses `AGENT` and `LEDGER`, and no other reference is alive.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    match gather(agent, ledger, rows) {
        Some(()) => value(agent.summary.created),
        None => FALSE,
    }
}

unsafe extern "C" fn json(_: u64, rows: u64) -> u64 {
    // SAFETY: the VM calls a method with its lock held, so no other thread uses `AGENT` and `LEDGER`. The references end with this block,
    // before the VM is called.
    let (vm, at, length) = unsafe {
        let (agent, ledger) = (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER));
        if gather(agent, ledger, rows).is_none() {
            return FALSE;
        }
        agent.summary.sort();
        let Some(text) = agent.summary.json(ledger) else {
            return FALSE;
        };
        (agent.vm, text.as_ptr(), text.len())
    };
    // SAFETY: the VM's lock is held, as `text` requires, and no reference to the agent is alive. The text stays mapped while the agent is
    // held.
    unsafe {
        hold();
        let answer = vm.text(at, length as i64);
        release();
        answer
    }
}

unsafe extern "C" fn lines(_: u64, rows: u64) -> u64 {
    // SAFETY: the VM calls a method with its lock held, so no other thread uses `AGENT` and `LEDGER`. The references end with this block,
    // before the VM is called.
    let (vm, at, count) = unsafe {
        let (agent, ledger) = (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER));
        if gather(agent, ledger, rows).is_none() {
            return FALSE;
        }
        agent.summary.sort();
        let Some(values) = agent.summary.numbers() else {
            return FALSE;
        };
        (agent.vm, values.as_ptr(), values.len())
    };
    // SAFETY: the VM's lock is held, as the functions require, and no reference to the agent is alive. The values are small integers, and
    // stay mapped while the agent is held.
    unsafe {
        hold();
        let answer = vm.array_of(count as i64, at);
        vm.push(answer, names(&vm));
        release();
        answer
    }
}

/// Returns an Array of the lines that the library does not know yet: site, path, line and type, one after the other. A missing path is
/// false, because nil does not have the same value in all versions (8; since 3.2 it is 4).
///
/// # Safety
/// The VM's lock and [`hold`]; no reference to the agent is alive.
unsafe fn names(vm: &Vm) -> u64 {
    // SAFETY: the caller holds the VM's lock and the agent ([`hold`]), and keeps no reference to the agent. The lines change only in
    // `gather`; texts never change, and the VM copies them.
    unsafe {
        let answer = vm.array(0);
        let count = (*(&raw const AGENT)).summary.lines.len();
        for number in 0..count {
            let (agent, ledger) = (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER));
            let Some(line) = agent.summary.unknown(number) else {
                continue;
            };
            let text = |text: &[u8]| (text.as_ptr(), text.len() as i64);
            let path = match line.path {
                NOWHERE => None,
                path => Some(text(text_at(&ledger.text, path))),
            };
            let Some((name, length)) = agent.summary.name_of(ledger, line.name).map(text) else {
                continue;
            };
            vm.push(answer, value(line.site.into()));
            vm.push(
                answer,
                path.map_or(FALSE, |(at, length)| vm.text(at, length)),
            );
            vm.push(answer, value(line.line.into()));
            vm.push(answer, vm.text(name, length));
        }
        answer
    }
}

/// Makes the summary of the rows in an answer of `read`. `None`: they are of another session, whose books are gone, or are no such rows.
fn gather(agent: &mut Agent, ledger: &mut Ledger, rows: u64) -> Option<()> {
    if !is_counting(agent, ledger) || !is_object(rows) {
        return None;
    }
    let text = agent.names.reader()?.text(rows).ok()?;
    let count = text.len.checked_sub(HEAD)? / ROW;
    // SAFETY: the reader has found `text.len` bytes of a String at this address, callers ask only for offsets within them, and the String
    // cannot change before the VM is called again.
    let word = |at: u64| unsafe { kept::<u64>(text.address + at).read_unaligned() };
    if word(0) != agent.config.session {
        return None;
    }
    let rows = (0..count).map(|number| {
        let row = word(HEAD + number * ROW);
        AccountRow {
            site: row as u32,
            born: (row >> 32) as u32,
        }
    });
    agent.summary.gather(ledger, rows)
}

/// Bytes of an answer of `read` before its rows, and bytes of a row.
const HEAD: u64 = 16;
const ROW: u64 = size_of::<AccountRow>() as u64;
const _: () = assert!(ROW == 8);

/// Keeps the agent from leaving at the births that the VM's functions cause when they are called here, because they read the agent's
/// memory.
unsafe fn hold() {
    // SAFETY: the caller holds the VM's lock, under which alone `AGENT` is used, and keeps no reference to it.
    unsafe { (*(&raw mut AGENT)).held = true };
}

unsafe fn release() {
    // SAFETY: the caller holds the VM's lock, under which alone `AGENT` is used, and keeps no reference to it.
    unsafe { (*(&raw mut AGENT)).held = false };
}

unsafe extern "C" fn stop(_: u64, number: u64) -> u64 {
    // SAFETY: the VM calls a method with its lock held, so no other thread uses `AGENT` and `LEDGER`, and no other reference is alive.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    if let Some(own) = own(agent, ledger)
        && integer(number) == Some(ledger.accounts[own].wanted)
    {
        ledger.accounts[own].wanted = 0;
        agent.is_unwanted(ledger);
    }
    FALSE
}

/// Returns the value of a small positive Integer (`RB_FIXNUM_P`).
fn integer(value: u64) -> Option<u64> {
    (value & 1 == 1 && value as i64 > 1).then_some(value >> 1)
}

fn value(integer: u64) -> u64 {
    integer << 1 | 1
}
