//! The accounts of threads, against a map from site to births.

use super::*;
use proptest::prelude::*;
use std::boxed::Box;
use std::collections::BTreeMap;

/// An account that counts, freed at its end.
struct Counting(Box<Account>);

impl Counting {
    fn new() -> Self {
        let mut account = Box::new(Account::NONE);
        begin(&mut account, 1);
        Counting(account)
    }

    fn rows(&self) -> BTreeMap<u32, u32> {
        // SAFETY: no row is changed while the slice is used.
        let rows = unsafe { counted(&self.0) };
        rows.iter().map(|row| (row.site, row.born)).collect()
    }
}

impl Drop for Counting {
    fn drop(&mut self) {
        let mut ledger = Box::new(crate::shared::EMPTY);
        ledger.accounts[0] = *self.0;
        free(&mut ledger);
    }
}

/// An account that was never begun has no rows and takes no births.
#[test]
fn an_account_without_memory_takes_nothing() {
    let mut account = Account::NONE;
    assert_eq!(add(&mut account, 5, 1), None);
    assert!(row(&mut account, 5).is_none());
    // SAFETY: there is no row.
    assert!(unsafe { counted(&account) }.is_empty());
}

/// Births at one site are one row.
#[test]
fn births_at_a_site_are_one_row() {
    let mut account = Counting::new();
    for _ in 0..5 {
        add(&mut account.0, 7, 2).expect("room");
    }
    assert_eq!(account.rows(), BTreeMap::from([(7, 10)]));
}

/// Rows stand in the order in which their sites came first.
#[test]
fn rows_keep_the_order_of_first_births() {
    let mut account = Counting::new();
    for site in [9, 3, 9, 700_000, 3] {
        add(&mut account.0, site, 1).expect("room");
    }
    // SAFETY: no row is changed while the slice is used.
    let sites = unsafe { counted(&account.0) }.iter().map(|row| row.site);
    assert!(sites.eq([9, 3, 700_000]));
}

/// A full account refuses new sites and still counts at those it has.
#[test]
fn a_full_account_refuses_new_sites() {
    let mut account = Counting::new();
    for site in 1..=ROWS as u32 {
        add(&mut account.0, site, 1).expect("room");
    }
    assert_eq!(add(&mut account.0, 1_000_000, 1), None);
    assert_eq!(add(&mut account.0, 1, 1), Some(()));
    assert_eq!(account.rows()[&1], 2);
    assert_eq!(account.0.used, ROWS as u64);
}

/// A row's number does not run over.
#[test]
fn a_row_does_not_run_over() {
    let mut account = Counting::new();
    add(&mut account.0, 1, u32::MAX).expect("room");
    add(&mut account.0, 1, 1).expect("room");
    assert_eq!(account.rows()[&1], u32::MAX);
}

/// An account that is begun again has no row of the one before, after few rows as after many.
#[test]
fn an_account_begins_anew() {
    for sites in [3u32, 700, ROWS as u32] {
        let mut account = Counting::new();
        for site in 1..=sites {
            add(&mut account.0, site, 1).expect("room");
        }
        begin(&mut account.0, 2);
        assert_eq!(
            (account.0.used, account.0.lost, account.0.counting),
            (0, 0, 2)
        );
        for site in (1..=sites).rev() {
            assert!(row(&mut account.0, site).is_none(), "{sites} {site}");
        }
        add(&mut account.0, 2, 1).expect("room");
        assert_eq!(account.rows(), BTreeMap::from([(2, 1)]));
    }
}

/// Sites that want the same place of the table leave nothing behind there when the account begins anew.
#[test]
fn sites_of_one_place_are_cleared() {
    let mut account = Counting::new();
    let sites = [5, 5 + PLACES as u32, 5 + 2 * PLACES as u32];
    for site in sites {
        add(&mut account.0, site, 1).expect("room");
    }
    begin(&mut account.0, 2);
    for (number, site) in (1..).zip(sites) {
        add(&mut account.0, site, 1).expect("room");
        assert_eq!(account.rows().len(), number, "{site}");
    }
    assert!(account.rows().values().all(|born| *born == 1));
}

/// A birth that turns out to be of another kind moves from one row to the other.
#[test]
fn a_birth_moves_to_another_row() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    begin(&mut ledger.accounts[4], 1);
    add(&mut ledger.accounts[4], 10, 2).expect("room");
    rebook(&mut ledger, 5, 10, 11);
    let rows = |ledger: &Ledger| {
        // SAFETY: no row is changed while the slice is used.
        let rows = unsafe { counted(&ledger.accounts[4]) };
        rows.iter()
            .map(|row| (row.site, row.born))
            .collect::<BTreeMap<_, _>>()
    };
    assert_eq!(rows(&ledger), BTreeMap::from([(10, 1), (11, 1)]));
    rebook(&mut ledger, 5, 10, 10);
    assert_eq!(rows(&ledger), BTreeMap::from([(10, 1), (11, 1)]));
    free(&mut ledger);
}

/// A birth that an account has not counted, or that no account has, moves nothing.
#[test]
fn a_birth_of_nobody_moves_nothing() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    begin(&mut ledger.accounts[0], 1);
    add(&mut ledger.accounts[0], 10, 1).expect("room");
    for (account, from) in [
        (0, 10),
        (1, 99),
        (2, 10),
        (ACCOUNTS as u8 + 1, 10),
        (255, 10),
    ] {
        rebook(&mut ledger, account, from, 11);
    }
    rebook(&mut ledger, 1, 10, 11);
    // The row has no birth left to move.
    rebook(&mut ledger, 1, 10, 11);
    // SAFETY: no row is changed while the slice is used.
    let rows = unsafe { counted(&ledger.accounts[0]) };
    assert!(
        rows.iter()
            .map(|row| (row.site, row.born))
            .eq([(10, 0), (11, 1)])
    );
    free(&mut ledger);
}

/// A birth that moves to a full account's new row is counted as lost.
#[test]
fn a_birth_that_finds_no_row_is_lost() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    begin(&mut ledger.accounts[0], 1);
    for site in 1..=ROWS as u32 {
        add(&mut ledger.accounts[0], site, 1).expect("room");
    }
    rebook(&mut ledger, 1, 5, 1_000_000);
    assert_eq!(ledger.accounts[0].lost, 1);
    free(&mut ledger);
}

/// Whether anybody counts is seen in any of the accounts.
#[test]
fn any_account_that_counts_is_seen() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    assert!(!any_wanted(&ledger));
    for number in [0, ACCOUNTS - 1] {
        ledger.accounts[number].wanted = 3;
        assert!(any_wanted(&ledger));
        ledger.accounts[number].wanted = 0;
    }
}

/// A thread that was just given an account finds it by the kernel's id, and from then on by its pointer.
#[test]
fn a_thread_finds_its_account() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    assert_eq!(find(&mut ledger, 0x7000), None);
    ledger.accounts[3].tid = sys::thread_id().into();
    assert_eq!(find(&mut ledger, 0x7000), Some(3));
    assert_eq!(ledger.accounts[3].thread, 0x7000);
    ledger.accounts[3].tid = 1;
    assert_eq!(find(&mut ledger, 0x7000), Some(3));
}

/// The account of a thread that has ended is not that of a thread which has its memory now.
#[test]
fn an_account_of_a_dead_thread_is_given_up() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    (ledger.accounts[2].tid, ledger.accounts[2].thread) = (1, 0x7000);
    ledger.accounts[2].wanted = 5;
    ledger.accounts[6].tid = sys::thread_id().into();
    assert_eq!(find(&mut ledger, 0x7000), Some(6));
    assert_eq!((ledger.accounts[2].tid, ledger.accounts[2].wanted), (0, 0));
}

/// Freed accounts have no memory and belong to nobody.
#[test]
fn freed_accounts_are_nobodys() {
    let mut ledger = Box::new(crate::shared::EMPTY);
    begin(&mut ledger.accounts[1], 1);
    ledger.accounts[1].tid = 9;
    free(&mut ledger);
    assert!(
        ledger
            .accounts
            .iter()
            .all(|account| *account == Account::NONE)
    );
}

proptest! {
    /// Whatever sites come in whatever order, and however often the account begins anew, its rows are those of a map.
    #[test]
    #[cfg_attr(miri, ignore = "minutes under Miri")]
    fn an_account_is_a_map(rounds in prop::collection::vec(
        prop::collection::vec((prop_oneof![0u32..50, any::<u32>()], 1u32..10), 0..400), 1..4)
    ) {
        let mut account = Counting::new();
        for (number, births) in rounds.into_iter().enumerate() {
            begin(&mut account.0, number as u64);
            let mut model = BTreeMap::new();
            for (site, born) in births {
                prop_assert_eq!(add(&mut account.0, site, born), Some(()));
                *model.entry(site).or_insert(0) += born;
            }
            prop_assert_eq!(account.rows(), model);
        }
    }
}
