//! Births of one thread, counted apart from all others; `wire::accounts` says for whom, and who writes what. Used by
//! `languages::ruby::births::door`, `languages::ruby::births::presence`, `languages::ruby::births::birth` and others.

use crate::calls::thread::thread_pointer;
use crate::memory::follow::ours;
use crate::memory::sys;
use wire::accounts::{ACCOUNTS, PLACES, ROWS};
use wire::{Account, AccountRow, Ledger};

/// The account that the last birth was looked up for. Births of one thread come in long runs, because only the holder of the
/// VM's lock makes objects.
pub struct Own {
    /// Pointer of the thread that last looked for its account (the word at its `fs` base); 0 = none has yet.
    thread: u64,
    /// [`Ledger::accounts_given`] when the account was looked up. If the word has changed since, the account may have too.
    given: u64,
    /// Index of that thread's account in the ledger; `None` if it has no account.
    account: Option<u8>,
}

impl Own {
    /// No thread has this pointer, so the first birth looks up its account.
    pub const NONE: Own = Own {
        thread: 0,
        given: 0,
        account: None,
    };

    /// Counts a birth that was booked at `site` in the account of this thread, if it has one that counts. Returns the number of that
    /// account plus one; 0 = none has counted it.
    #[inline(never)]
    pub fn count(&mut self, ledger: &mut Ledger, site: u32) -> u8 {
        let Some(number) = self.of_this_thread(ledger) else {
            return 0;
        };
        let Some(account) = ledger.accounts.get_mut(number) else {
            return 0;
        };
        if account.wanted == 0 {
            return 0;
        }
        if add(account, site, 1).is_none() {
            account.lost += 1;
        }
        number as u8 + 1
    }

    /// Returns the index of this thread's account, if it has one.
    pub fn of_this_thread(&mut self, ledger: &mut Ledger) -> Option<usize> {
        // glibc and musl keep the pointer at its own address, and a thread that runs a script was made by one of them.
        let thread = thread_pointer();
        // SAFETY: `ledger` is a live reference; the command writes the word at any time, as one aligned word, hence the
        // volatile read.
        let given = unsafe { (&raw const ledger.accounts_given).read_volatile() };
        if (self.thread, self.given) != (thread, given) {
            let account = find(ledger, thread);
            *self = Own {
                thread,
                given,
                account,
            };
        }
        self.account.map(usize::from)
    }
}

/// Whether any account counts births.
pub fn any_wanted(ledger: &Ledger) -> bool {
    ledger.accounts.iter().any(|account| account.wanted != 0)
}

/// Moves the birth of an object that account `account` (its number plus one; 0 = none) has counted from site `from` to site
/// `to`. An account that was begun since has no row for `from` and stays as it is.
pub fn rebook(ledger: &mut Ledger, account: u8, from: u32, to: u32) {
    let Some(number) = usize::from(account).checked_sub(1) else {
        return;
    };
    let Some(account) = ledger.accounts.get_mut(number) else {
        return;
    };
    if from == to || account.rows == 0 {
        return;
    }
    if let Some(row) = row(account, from)
        && row.born != 0
    {
        row.born -= 1;
        if add(account, to, 1).is_none() {
            account.lost += 1;
        }
    }
}

/// Returns the rows of an account.
///
/// # Safety
/// No row may be added or changed while the slice is used.
pub unsafe fn counted(account: &Account) -> &[AccountRow] {
    match account.rows {
        0 => &[],
        // SAFETY: `begin` has mapped room for [`ROWS`] rows at `rows`, and the first `used` of them are written. The caller
        // changes none.
        rows => unsafe {
            core::slice::from_raw_parts(ours::<AccountRow>(rows), account.used as usize)
        },
    }
}

/// Unmaps the rows and tables of all accounts.
pub fn free(ledger: &mut Ledger) {
    for account in &mut ledger.accounts {
        for (at, bytes) in [(account.rows, ROWS_BYTES), (account.places, PLACES_BYTES)] {
            if at != 0 {
                // SAFETY: `begin` has mapped that many bytes at this address for this account. The account forgets them below.
                unsafe { sys::unmap(at, bytes) };
            }
        }
        *account = Account::NONE;
    }
}

const ROWS_BYTES: u64 = (ROWS * size_of::<AccountRow>()) as u64;
const PLACES_BYTES: u64 = (PLACES * size_of::<u16>()) as u64;
const _: () =
    assert!(ROWS < u16::MAX as usize && PLACES.is_power_of_two() && ACCOUNTS < u8::MAX as usize);

/// Looks up the account of this thread. One that was given and has no thread pointer yet is known by the kernel's id.
#[cold]
fn find(ledger: &mut Ledger, thread: u64) -> Option<u8> {
    let is_new = |account: &Account| account.tid != 0 && account.thread == 0;
    if ledger.accounts.iter().any(is_new) {
        let tid = u64::from(sys::thread_id());
        for account in &mut ledger.accounts {
            if account.thread == thread && account.tid != tid {
                // The account was of a thread that has ended, whose memory this thread has now.
                account.wanted = 0;
                account.tid = 0;
                account.thread = 0;
            } else if account.tid == tid {
                account.thread = thread;
            }
        }
    }
    let of_thread = |account: &Account| account.tid != 0 && account.thread == thread;
    let found = ledger.accounts.iter().position(of_thread)?;
    u8::try_from(found).ok()
}

/// Empties an account, and maps its memory the first time. Without memory, births are counted as lost.
pub fn begin(account: &mut Account, wanted: u64) {
    for (at, bytes) in [
        (&mut account.rows, ROWS_BYTES),
        (&mut account.places, PLACES_BYTES),
    ] {
        if *at == 0 {
            *at = sys::map(bytes).unwrap_or(0);
        }
    }
    if account.rows != 0 && account.places != 0 {
        clear_places(account);
    }
    (account.used, account.lost) = (0, 0);
    account.counting = wanted;
}

/// Empties the table. The places of few rows are cleared one by one, because the whole table is as large as the processor's
/// first-level cache.
fn clear_places(account: &Account) {
    let places = ours::<u16>(account.places);
    if account.used as usize > PLACES / 32 {
        // SAFETY: `begin` has mapped [`PLACES_BYTES`] bytes for the table.
        unsafe { ours::<u8>(account.places).write_bytes(0, PLACES_BYTES as usize) };
        return;
    }
    // The last row comes first, because the probe sequence of a row passes places that were taken before it.
    for number in (0..account.used as usize).rev() {
        // SAFETY: `number` is less than `used`, and the first `used` rows are written.
        let row = unsafe { *ours::<AccountRow>(account.rows).add(number) };
        let (place, _) = look_up(account, row.site);
        // SAFETY: `look_up` returns indices below [`PLACES`], which the mapping of the table has.
        unsafe { places.add(place).write(0) };
    }
}

/// Adds births at a site; `None` = there is no room.
#[inline]
fn add(account: &mut Account, site: u32, births: u32) -> Option<()> {
    if account.rows == 0 || account.places == 0 {
        return None;
    }
    let (place, number) = look_up(account, site);
    if number == 0 {
        let used = account.used as usize;
        if used >= ROWS {
            return None;
        }
        // SAFETY: `used` is less than [`ROWS`] and `place` less than [`PLACES`]; `begin` has mapped that many rows and places.
        // The VM's lock admits one writer.
        unsafe {
            ours::<AccountRow>(account.rows)
                .add(used)
                .write(AccountRow { site, born: births });
            ours::<u16>(account.places)
                .add(place)
                .write(used as u16 + 1);
        }
        account.used += 1;
        return Some(());
    }
    // SAFETY: the table holds the index plus one of rows in use only, so the row is written; `account` is borrowed mutably, so
    // no other reference to it is alive.
    let row = unsafe { &mut *ours::<AccountRow>(account.rows).add(usize::from(number) - 1) };
    row.born = row.born.saturating_add(births);
    Some(())
}

/// Returns the row of a site, if it has one.
fn row(account: &mut Account, site: u32) -> Option<&mut AccountRow> {
    if account.rows == 0 || account.places == 0 {
        return None;
    }
    let (_, number) = look_up(account, site);
    let number = usize::from(number).checked_sub(1)?;
    // SAFETY: the table holds the index plus one of rows in use only, so the row is written; the result borrows `account`
    // mutably, so no other reference to the row is alive.
    Some(unsafe { &mut *ours::<AccountRow>(account.rows).add(number) })
}

/// Returns a site's place in the table and its content: the index of the site's row plus one, or 0.
#[inline]
fn look_up(account: &Account, site: u32) -> (usize, u16) {
    // Sites have consecutive numbers, so neighbours get different places.
    let mut place = site.wrapping_mul(0x9e37_79b1) as usize % PLACES;
    loop {
        // SAFETY: `place` is less than [`PLACES`], which the mapping of the table has. At most half of the places are taken,
        // so the search ends.
        let number = unsafe { *ours::<u16>(account.places).add(place) };
        if number == 0 {
            return (place, 0);
        }
        // SAFETY: the table holds the index plus one of rows in use only, so the row is written.
        let row = unsafe { *ours::<AccountRow>(account.rows).add(usize::from(number) - 1) };
        if row.site == site {
            return (place, number);
        }
        place = (place + 1) % PLACES;
    }
}

#[cfg(test)]
mod tests;
