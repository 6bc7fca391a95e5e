//! The names of all edges, in two bytes each. Used by `file::read`, `build::edges` and `snapshot`.
//!
//! ```text
//!   0nnnnnnn nnnnnnnn   the name of this number in `common`; 7fff = look into `rare`
//!   1iiiiiii iiiiiiii   an index, of which the lower 15 bits are here
//! ```
//!
//! An index is found again by the place of its edge among those of its object, which is near it: of the indices with these lower bits it
//! is the one in the 32,768 around that place.

use foldhash::HashMap;

use crate::names::EdgeName;
use crate::rising::Rising;

/// Codes of indices have this bit.
const INDEX: u16 = 1 << 15;
const LOW: u32 = INDEX as u32 - 1;
/// The code of a name that is in `rare`.
const RARE: u16 = INDEX - 1;
/// Where more than one name in so many is rare, they are kept as they are: a rare one takes 10 bytes.
const PART: usize = 4;

/// The packed names of edges, by the numbers of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EdgeNames {
    Short {
        codes: Vec<u16>,
        common: Vec<u32>,
        /// Edges and their names, by rising edges.
        rare: Vec<(u32, u32)>,
    },
    Plain(Vec<u32>),
}

impl Default for EdgeNames {
    fn default() -> Self {
        Self::Plain(Vec::new())
    }
}

impl EdgeNames {
    /// Makes them of the packed name of each edge and its place among the edges of its object. There are `count`.
    pub fn of(names: impl Iterator<Item = (u32, u32)> + Clone, count: usize) -> Self {
        let short = Self::short(names.clone(), count);
        short.unwrap_or_else(|| Self::Plain(names.map(|(name, _)| name).collect()))
    }

    /// The same, unless too many names are rare. For each edge it takes four bytes at most: the list of rare names does not grow while it is made,
    /// and where it is full it has two.
    pub fn short(names: impl Iterator<Item = (u32, u32)>, count: usize) -> Option<Self> {
        let is_index: [bool; EdgeName::NUMBERS] =
            std::array::from_fn(|number| EdgeName::is_index(number as u8));
        let mut codes = Vec::with_capacity(count);
        let mut common: Vec<u32> = Vec::new();
        let mut rare: Vec<(u32, u32)> = Vec::with_capacity(count / PART);
        let mut known: HashMap<u32, u16> = HashMap::default();
        let mut last = None;
        for (name, place) in names {
            let (number, payload) = EdgeName::parts(name);
            if is_index[usize::from(number)] && index(payload as u16, place) == payload {
                codes.push(INDEX | payload as u16);
                continue;
            }
            if let Some((_, code)) = last.filter(|last: &(u32, u16)| last.0 == name) {
                codes.push(code);
                continue;
            }
            let known_code = known.get(&name).copied();
            let code = known_code.or_else(|| {
                let is_common = !is_index[usize::from(number)] && common.len() < usize::from(RARE);
                is_common.then(|| {
                    common.push(name);
                    let code = common.len() as u16 - 1;
                    known.insert(name, code);
                    code
                })
            });
            match code {
                Some(code) => last = Some((name, code)),
                None if rare.len() == count / PART => return None,
                None => rare.push((codes.len() as u32, name)),
            }
            codes.push(code.unwrap_or(RARE));
        }
        rare.shrink_to_fit();
        Some(Self::Short {
            codes,
            common,
            rare,
        })
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Short { codes, .. } => codes.len(),
            Self::Plain(names) => names.len(),
        }
    }

    /// The packed name of an edge, which has this place among those of its object.
    #[inline]
    pub fn get(&self, edge: u32, place: u32) -> u32 {
        let (codes, common, rare) = match self {
            Self::Short {
                codes,
                common,
                rare,
            } => (codes, common, rare),
            Self::Plain(names) => return names[edge as usize],
        };
        match codes[edge as usize] {
            RARE => {
                let found = rare.binary_search_by_key(&edge, |one| one.0);
                found.map_or(0, |at| rare[at].1)
            }
            code if code < INDEX => common[usize::from(code)],
            code => EdgeName::Index(index(code, place)).pack(),
        }
    }

    /// The packed names of all edges, in their order; `ends` says where those of each object end.
    pub fn iter<'a>(&'a self, ends: &'a Rising) -> impl Iterator<Item = u32> + 'a {
        placed(ends).map(|(edge, place)| self.get(edge, place))
    }
}

/// All edges in their order, each with its place among those of its object.
pub(crate) fn placed(ends: &Rising) -> impl Iterator<Item = (u32, u32)> + Clone + '_ {
    let ends = ends.iter().scan(0, |begin, end| {
        let range = *begin..end as u32;
        *begin = range.end;
        Some(range)
    });
    ends.flat_map(|range| range.clone().map(move |edge| (edge, edge - range.start)))
}

/// The index whose lower 15 bits are given, of the edge at this place.
fn index(low: u16, place: u32) -> u32 {
    let from = place.saturating_sub(LOW / 2);
    from + (u32::from(low).wrapping_sub(from) & LOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::TextId;

    fn check(objects: &[Vec<EdgeName>]) -> EdgeNames {
        let packed: Vec<u32> = objects.iter().flatten().map(|name| name.pack()).collect();
        let mut end = 0;
        let ends = objects.iter().map(|names| {
            end += names.len() as u64;
            end
        });
        let ends: Rising = ends.collect();
        let given = placed(&ends).map(|(edge, place)| (packed[edge as usize], place));
        let names = EdgeNames::of(given, packed.len());
        assert_eq!(names.len(), packed.len());
        assert!(names.iter(&ends).eq(packed.iter().copied()));
        for (edge, place) in placed(&ends) {
            assert_eq!(names.get(edge, place), packed[edge as usize]);
        }
        names
    }

    #[test]
    fn each_edge_has_its_name() {
        // A long list, one of which every third element is a reference, one whose references are far apart, and one that is longer than
        // indices go.
        let list = |step: usize, count: u32| -> Vec<EdgeName> {
            let indices = (0..count).step_by(step).map(EdgeName::Index);
            [EdgeName::ClassOf].into_iter().chain(indices).collect()
        };
        let beyond = vec![EdgeName::Index(EdgeName::MOST_INDEX); 3];
        let names = check(&[
            list(1, 200_000),
            vec![],
            list(3, 60_000),
            list(20_001, 1_000_000),
            beyond,
        ]);
        let EdgeNames::Short { rare, common, .. } = names else {
            panic!("they are short");
        };
        // Of the third, those that are more than half of 32,768 before their places; of the fourth, all but the first two.
        assert_eq!(common.len(), 1);
        assert!((50..20_000).contains(&rare.len()), "{}", rare.len());
    }

    #[test]
    fn names_without_end_stay_as_they_are() {
        let of = |number: u32| EdgeName::Value(Some(TextId(number)));
        let different = |count: u32| (0..count).map(of).collect::<Vec<_>>();
        let few = check(&[different(40_000)]);
        let EdgeNames::Short { rare, .. } = few else {
            panic!("they are short");
        };
        assert_eq!((rare.len(), rare.capacity()), (40_000 - 0x7fff, rare.len()));
        let many = check(&[different(400_000)]);
        assert!(matches!(many, EdgeNames::Plain(_)));
        assert_eq!(check(&[]).len(), 0);
    }
}
