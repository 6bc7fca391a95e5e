//! Births of one thread, counted apart from those of all others ([`wire::accounts`]). Used by `tracked`.

use std::mem::offset_of;
use std::path::Path;

use inject::records::ReadRecords;
use inject::seccomp::{self, OF_ACCOUNTS};
use process::error::{Error, Result};
use wire::accounts::ACCOUNTS;
use wire::{Account, Ledger};

use super::Session;

impl Session {
    /// Gives a thread an account. The thread has it until it ends, or the agent leaves. Accounts of threads that have ended are given to
    /// others, and, when there are no more, the one that was wanted least recently; its thread requests another one when it wants one
    /// again.
    ///
    /// # Errors
    /// The process cannot be read or written, a filter of one of its threads does not let the agent ask for a thread's id, or too many
    /// threads have an account.
    pub(crate) fn give_account(&mut self, tid: u64) -> Result<()> {
        let pid = self.pid();
        let lives = |tid: u64| self.has_thread(tid);
        if !lives(tid) {
            let reason = "it has no thread of that number";
            return Err(Error::NotAGuest { pid, reason });
        }
        seccomp::check_all_threads(pid, &OF_ACCOUNTS)?;
        let accounts = self.accounts()?;
        // An earlier thread may have had the same id; its account is this thread's now.
        let same = accounts.iter().position(|account| account.tid == tid);
        let unused = |account: &Account| account.tid == 0 || !lives(account.tid);
        let free = same.or_else(|| accounts.iter().position(unused));
        let number = match free {
            Some(number) => number,
            None => self.take_unwanted(&accounts)?,
        };
        let at = self.account_at(number);
        let fresh = Account {
            tid,
            wanted: 0,
            thread: 0,
            ..accounts[number]
        };
        // The thread waits for our answer, and a dead thread's account is not used, so the agent changes none of these words now.
        let words = [fresh.wanted, fresh.thread];
        self.vm
            .memory()
            .write(at + offset_of!(Account, wanted) as u64, &bytes(words))?;
        self.vm.memory().write(at, &bytes([fresh.tid]))?;
        self.has_accounts = true;
        let given = self.ledger_field(offset_of!(Ledger, accounts_given));
        let next = self.vm.memory().word(given)?.wrapping_add(1);
        self.vm.memory().write(given, &next.to_le_bytes())
    }

    /// Takes away the account that was wanted least recently and is not wanted now. A thread first says that it wants its account and then
    /// checks that it still has it; this function first takes the account and then checks that it is not wanted, so at least one of the two
    /// notices the other.
    fn take_unwanted(&self, accounts: &[Account]) -> Result<usize> {
        let mut unwanted: Vec<usize> = (0..accounts.len())
            .filter(|number| accounts[*number].wanted == 0)
            .collect();
        // The number of an account is a time.
        unwanted.sort_by_key(|number| accounts[*number].counting);
        for number in unwanted {
            let at = self.account_at(number);
            self.vm.memory().write(at, &bytes([0]))?;
            let wanted = at + offset_of!(Account, wanted) as u64;
            if self.vm.memory().word(wanted)? == 0 {
                return Ok(number);
            }
            self.vm.memory().write(at, &bytes([accounts[number].tid]))?;
        }
        let reason = "64 of its threads count their births now, which is the most that can";
        let pid = self.pid();
        Err(Error::NotAGuest { pid, reason })
    }

    /// Allows the agent to take the hook out while no thread wants its account.
    pub(crate) fn let_rest(&self) -> Result<()> {
        let at = self.ledger_field(offset_of!(Ledger, may_rest));
        self.vm.memory().write(at, &1u64.to_le_bytes())
    }

    /// Makes the agent keep the hook set from now on, whether or not a thread wants its account.
    pub(crate) fn keep_hook(&mut self) -> Result<()> {
        let at = self.ledger_field(offset_of!(Ledger, may_rest));
        self.vm.memory().write(at, &0u64.to_le_bytes())?;
        if self
            .vm
            .memory()
            .word(self.ledger_field(offset_of!(Ledger, rests)))?
            == 0
        {
            return Ok(());
        }
        self.vm.rise()
    }

    /// Takes all accounts back if none is in use. Returns whether it did.
    pub(crate) fn take_accounts_back(&self) -> Result<bool> {
        let given = self.accounts()?;
        let tids = |tid: &dyn Fn(&Account) -> u64| {
            let each = given.iter().enumerate();
            each.map(|(number, account)| (self.account_at(number), tid(account)))
                .try_for_each(|(at, tid)| self.vm.memory().write(at, &bytes([tid])))
        };
        tids(&|_| 0)?;
        let in_use = self.accounts()?.iter().any(|account| account.wanted != 0);
        if in_use {
            tids(&|account| account.tid)?;
        }
        Ok(!in_use)
    }

    /// Ends the accounts that threads wanted when they ended: nobody else would, and the hook would stay in for them. No thread of the guest changes
    /// them any more.
    pub(crate) fn end_accounts_of_the_dead(&self) -> Result<()> {
        for (number, account) in self.accounts()?.iter().enumerate() {
            if account.wanted != 0 && account.tid != 0 && !self.has_thread(account.tid) {
                let wanted = self.account_at(number) + offset_of!(Account, wanted) as u64;
                self.vm.memory().write(wanted, &bytes([0]))?;
            }
        }
        Ok(())
    }

    fn has_thread(&self, tid: u64) -> bool {
        Path::new(&format!("/proc/{}/task/{tid}", self.pid())).exists()
    }

    /// All accounts as they are now.
    pub(crate) fn accounts(&self) -> Result<Vec<Account>> {
        self.vm.memory().records(self.account_at(0), ACCOUNTS)
    }

    fn account_at(&self, number: usize) -> u64 {
        self.ledger_field(offset_of!(Ledger, accounts) + number * size_of::<Account>())
    }

    fn ledger_field(&self, offset: usize) -> u64 {
        self.vm.resident().header.ledger + offset as u64
    }
}

fn bytes<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}
