//! The methods by which a thread of the program begins, reads and ends its own account (`wire::accounts`).
//!
//! The program's library has a module for them (`Lancet::Births.new_door`), and each is a function of ours, which the VM calls as it
//! calls those of an extension: with its lock, on the thread that asks, in some nanoseconds and without a system call. The image is
//! never unmapped, so a method may be called at any time, also when the agent has left, or in the child of a fork: then it answers false.
//! The VM refuses them to Ractors other than the first, as all of whom it was not told that they bear several.
//!
//! | method | answers |
//! |---|---|
//! | `begin(number)` | 1: births of this thread are counted under this number, from nothing or, if it is the last one again, on; 2: the same, and the hook had been out (`rest`); false: it has no account |
//! | `read(number)` | how many births found no row, and then site and births of each row; false: what was counted is gone |
//! | `stop(number)` | births are not counted any more; it may be begun again |

use super::accounts;
use super::agent::{AGENT, Agent};
use super::vmcalls::Vm;
use crate::calls::thread::thread_pointer;
use crate::guard;
use crate::shared::{CONTROL_PAGE, LEDGER};
use core::sync::atomic::{Ordering, fence};
use wire::{AccountRow, Ledger, State};

/// What the program's library answers with a module of its own.
const MODULE: &[u8] = b"::Lancet::Births.new_door\0";
/// `Qfalse`, of every version.
const FALSE: u64 = 0;

/// Defines the methods, if the library is there.
///
/// # Safety
/// The VM's lock is held.
pub unsafe fn define(vm: &Vm) {
    // SAFETY: the caller's.
    let Some(module) = (unsafe { vm.evaluate(MODULE) }) else {
        return;
    };
    // An object on the heap, and no immediate value (`RB_SPECIAL_CONST_P`, include/ruby/internal/special_consts.h).
    if module < 0x1000 || module & 7 != 0 {
        return;
    }
    let mut state = 0;
    // SAFETY: the caller's; a raise skips `define_all`, which owns nothing.
    unsafe {
        let error = vm.error();
        vm.protect(define_all as *const () as u64, module, &raw mut state);
        if state != 0 {
            vm.set_error(error);
        }
    }
}

unsafe extern "C" fn define_all(module: u64) -> u64 {
    // SAFETY: `define` holds the VM's lock, and the agent is open.
    unsafe {
        let vm = (*(&raw const AGENT)).vm;
        vm.define(module, c"begin".as_ptr().cast(), begin, 1);
        vm.define(module, c"read".as_ptr().cast(), read, 1);
        vm.define(module, c"stop".as_ptr().cast(), stop, 1);
    }
    FALSE
}

/// The number of this thread's account, if births can be counted.
fn own(agent: &mut Agent, ledger: &mut Ledger) -> Option<usize> {
    let is_open = CONTROL_PAGE.state.load(Ordering::Relaxed) == State::Open as u32;
    if !is_open || guard::broken() || (agent.hook.is_none() && ledger.rests == 0) {
        return None;
    }
    agent.own_account(ledger)
}

unsafe extern "C" fn begin(_: u64, number: u64) -> u64 {
    let Some(wanted) = integer(number) else {
        return FALSE;
    };
    // SAFETY: a method is called with the VM's lock, and not from within the agent.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    let Some(own) = own(agent, ledger) else {
        return FALSE;
    };
    ledger.accounts[own].wanted = wanted;
    // The command takes accounts away first, and looks then whether they are wanted.
    fence(Ordering::SeqCst);
    // SAFETY: live words of ours, which the command writes at any time, whole: first that this thread has it no more, then whose it is.
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
    agent.wanted = true;
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
        // SAFETY: as in `begin`; the references end before the VM is called.
        let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
        let Some(own) = own(agent, ledger) else {
            return FALSE;
        };
        if ledger.accounts[own].counting != wanted {
            return FALSE;
        }
        agent.settle_account(ledger, own);
        let counted = ledger.accounts[own];
        // The answer is no birth of this thread's.
        ledger.accounts[own].wanted = 0;
        (agent.vm, own, counted)
    };
    // SAFETY: the VM's lock is held. The rows stay mapped, and only this thread adds to them, which it does not now: a collection
    // in between may rebook one, which is a store of a word.
    unsafe {
        let array = vm.array(2 * counted.used as i64 + 1);
        vm.push(array, value(counted.lost));
        let rows = counted.rows as *const AccountRow;
        for number in 0..counted.used as usize {
            let row = rows.add(number).read_volatile();
            if row.born != 0 {
                vm.push(array, value(u64::from(row.site)));
                vm.push(array, value(u64::from(row.born)));
            }
        }
        (*(&raw mut LEDGER)).accounts[own].wanted = counted.wanted;
        array
    }
}

unsafe extern "C" fn stop(_: u64, number: u64) -> u64 {
    // SAFETY: as in `begin`.
    let (agent, ledger) = unsafe { (&mut *(&raw mut AGENT), &mut *(&raw mut LEDGER)) };
    if let Some(own) = own(agent, ledger)
        && integer(number) == Some(ledger.accounts[own].wanted)
    {
        ledger.accounts[own].wanted = 0;
    }
    FALSE
}

/// A small Integer of the VM's (`RB_FIXNUM_P`), if it is one and positive.
fn integer(value: u64) -> Option<u64> {
    (value & 1 == 1 && value as i64 > 1).then_some(value >> 1)
}

fn value(integer: u64) -> u64 {
    integer << 1 | 1
}
