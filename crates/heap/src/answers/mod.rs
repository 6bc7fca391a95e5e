//! Answers from an analysed snapshot: who is suspected, what is biggest, what is there twice, what is half empty. Used
//! by the crates `report` and `lancet`.

pub mod diff;
pub mod duplicates;
pub mod garbage;
pub mod groups;
pub mod holders;
pub mod paths;
pub mod sparse;
pub mod suspects;
pub mod threads;
pub mod tree;

use crate::analysis::Analysis;
use crate::snapshot::Site;
use crate::text::TextId;
use duplicates::{EqualTexts, SameName};
use garbage::Garbage;
use groups::Group;
use holders::Born;
use paths::Paths;
use sparse::Sparse;
use suspects::Suspect;
use threads::Stack;

/// All answers about one snapshot. Each list has what weighs most first.
#[derive(Debug)]
pub struct Answers<'a> {
    /// The snapshot, with its dominators.
    pub analysis: &'a Analysis<'a>,
    /// The path to each object.
    pub paths: Paths<'a>,
    /// Objects and groups of objects that retain a tenth of the living bytes or more.
    pub suspects: Vec<Suspect>,
    /// What was made while births were watched.
    pub born: Option<Born>,
    /// Living objects by type.
    pub types: Vec<Group<TextId>>,
    /// Living objects by kind.
    pub kinds: Vec<Group<TextId>>,
    /// Objects by the line that made them; empty where no line is known.
    pub sites: Vec<Group<Option<Site>>>,
    /// Objects by whose code made them; empty where no line is known.
    pub owners: Vec<Group<Option<String>>>,
    /// What nothing keeps alive.
    pub garbage: Garbage,
    /// Living texts with equal contents.
    pub texts: Vec<EqualTexts>,
    /// Classes of the same name.
    pub classes: Vec<SameName>,
    /// Sparse lists and maps.
    pub sparse: Vec<Sparse>,
    /// Threads and fibers with the bytes that each retains.
    pub stacks: Vec<Stack>,
}

impl<'a> Answers<'a> {
    /// Finds all answers; `owner` says of a file's path whose it is.
    #[must_use]
    pub fn of(analysis: &'a Analysis<'a>, owner: impl Fn(&[u8]) -> String) -> Self {
        let has_sites = !analysis.snapshot().sites.is_empty();
        let garbage = garbage::garbage(analysis);
        Self {
            analysis,
            paths: Paths::of(analysis.snapshot()),
            suspects: suspects::suspects(analysis, &garbage),
            born: holders::born(analysis),
            types: groups::by_type(analysis),
            kinds: groups::by_kind(analysis),
            sites: if has_sites {
                groups::by_site(analysis)
            } else {
                Vec::new()
            },
            owners: if has_sites {
                groups::by_owner(analysis, owner)
            } else {
                Vec::new()
            },
            garbage,
            texts: duplicates::texts(analysis),
            classes: duplicates::classes(analysis),
            sparse: sparse::sparse(analysis),
            stacks: threads::stacks(analysis),
        }
    }
}
