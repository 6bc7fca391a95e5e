//! An allocator that has taken malloc's place, and what it says of itself. Used by `divided` and `modules`, and by
//! `lancet::commands::heap::ledger`.
//!
//! Its memory is not read: it keeps no records that are the same in two builds of it. So which of its pages hold what is not known, only how much
//! there is of each, and the row of its memory is divided by that (`divided`).

use wire::snapshot::allocator::{Asked, QUESTIONS};

/// An allocator that has taken malloc's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Name of the allocator.
    pub name: &'static str,
    /// How it is asked what it has, and the address of the function; `None`: it has none that is known.
    pub asked: Option<(Asked, u64)>,
    /// What it has said; `None`: it was not asked.
    pub figures: Option<Figures>,
}

/// What an allocator says that it has, in bytes, in memory or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// What the program has.
    pub used: u64,
    /// Free, in parts of pages that also hold what is in use, and kept for threads.
    pub free: u64,
    /// Free, in whole pages that it has not given back to the kernel.
    pub pages: u64,
    /// Its own records; `None`: it does not say.
    pub records: Option<u64>,
    /// Addresses without memory that it keeps for later; `None`: it does not say.
    pub retained: Option<u64>,
}

impl Figures {
    /// Makes figures of the answers to the questions of `wire::snapshot::allocator`; `None` if the most important one is missing.
    pub fn of(asked: Asked, answers: &[Option<u64>; QUESTIONS]) -> Option<Self> {
        let answer = |number: usize| answers[number].unwrap_or(0);
        let allocated = answers[0]?;
        Some(match asked {
            Asked::Jemalloc => {
                let cached = answer(8).min(allocated);
                let whole = answer(6).saturating_add(answer(7));
                Figures {
                    used: allocated - cached,
                    free: answer(1).saturating_sub(allocated).saturating_add(cached),
                    pages: whole.saturating_mul(answer(9)),
                    records: answers[2],
                    retained: answers[5],
                }
            }
            Asked::Tcmalloc => Figures {
                used: allocated,
                free: (4..7).fold(0, |sum: u64, number| sum.saturating_add(answer(number))),
                pages: answer(2),
                records: None,
                retained: answers[3],
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_what_the_allocators_manuals_say() {
        let answers = [1000, 1300, 50, 9, 9, 7000, 2, 1, 100, 4096].map(Some);
        let jemalloc = Figures {
            used: 900,
            free: 400,
            pages: 3 * 4096,
            records: Some(50),
            retained: Some(7000),
        };
        assert_eq!(Figures::of(Asked::Jemalloc, &answers), Some(jemalloc));
        let tcmalloc = Figures {
            used: 1000,
            free: 7000 + 2 + 1,
            pages: 50,
            records: None,
            retained: Some(9),
        };
        let answers = [1000, 1300, 50, 9, 7000, 2, 1].map(Some);
        let mut all = [None; QUESTIONS];
        all[..7].copy_from_slice(&answers);
        assert_eq!(Figures::of(Asked::Tcmalloc, &all), Some(tcmalloc));
        // Answers of a process that lies.
        let most = [Some(u64::MAX - 1); QUESTIONS];
        assert!(Figures::of(Asked::Jemalloc, &most).is_some());
        assert_eq!(Figures::of(Asked::Tcmalloc, &[None; QUESTIONS]), None);
    }
}
