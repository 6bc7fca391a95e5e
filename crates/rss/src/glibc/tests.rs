//! The readers over memory that a hostile process could have written: they end, keep within bounds, and believe only what leads back.

use std::collections::HashSet;
use std::ops::Range;

use proptest::prelude::*;
use vm::{Fault, Memory};

use super::caches::{cached, fast, may_be_cache};
use super::find::find;
use super::walk::{Chunk, End, mapped, walk};
use super::{ArenaFigures, Walked};

/// Where the memory of these tests lies: a multiple of the size of a heap.
const START: u64 = 64 << 20;
/// Words of eight bytes that this memory has.
const WORDS: u64 = 2048;

/// Words from [`START`] on.
#[derive(Clone, Debug)]
struct Image(Vec<u64>);

impl Memory for Image {
    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Fault> {
        let ahead = at.checked_sub(START).ok_or(Fault { at })? as usize;
        let end = ahead.checked_add(into.len()).ok_or(Fault { at })?;
        let words = self.0.get(ahead / 8..end.div_ceil(8)).ok_or(Fault { at })?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        into.copy_from_slice(&bytes[ahead % 8..ahead % 8 + into.len()]);
        Ok(())
    }
}

impl Image {
    fn set(&mut self, at: u64, word: u64) {
        self.0[((at - START) / 8) as usize] = word;
    }
}

const WHOLE: Range<u64> = START..START + WORDS * 8;

/// Words as an attacker would choose them: sizes, addresses in the memory, ends of the number line.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => Just(0),
        4 => (0..WORDS).prop_map(|word| START + word * 8),
        4 => (0u64..64, 0u64..8).prop_map(|(size, bits)| (size * 16) | bits),
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn image() -> impl Strategy<Value = Image> {
    let places = prop::collection::vec((0..WORDS as usize, word()), 0..200);
    let fill = prop_oneof![Just(0u64), Just(0x21), Just(START), word()];
    (fill, places).prop_map(|(fill, places)| {
        let mut words = vec![fill; WORDS as usize];
        places.into_iter().for_each(|(at, word)| words[at] = word);
        Image(words)
    })
}

#[test]
fn what_finds_no_room_is_not_known_and_no_neighbours() {
    let mut walked = Walked {
        figures: ArenaFigures::default(),
        heaps: Vec::new(),
        parts: Vec::new(),
        caches: Vec::new(),
        cached: Vec::new(),
        room: 3,
        full: None,
    };
    for (number, used) in [true, false, true, true, false, true]
        .into_iter()
        .enumerate()
    {
        let start = START + number as u64 * 32;
        let size = 32;
        walked.chunk(0, Chunk { start, size, used });
    }
    let ends: Vec<u64> = walked.parts.iter().map(|(range, _)| range.end).collect();
    // The third and fourth are joined, the fifth would be the fourth part.
    assert_eq!(ends, [START + 32, START + 64, START + 128]);
    assert_eq!(walked.full, Some(START + 128));
    assert_eq!((walked.figures.used, walked.figures.free), (96, 32));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_walk_stays_in_its_heap_and_ends(image in image(), start in 0..WORDS, top in 0..WORDS) {
        let heap = START + start * 8 / 16 * 16..WHOLE.end;
        let mut last = heap.start;
        let end = walk(&image, heap.clone(), START + top * 8, &mut |chunk| {
            assert!(chunk.start == last && chunk.size >= 32 && chunk.range().end <= heap.end);
            last = chunk.range().end;
        });
        if let End::Broken(at) = end {
            prop_assert_eq!(at, last);
        }
    }

    #[test]
    fn caches_hold_chunks_of_heaps_each_once(image in image(), at in 0..WORDS, size in prop::sample::select(&[0x250u64, 0x290, 0x300][..])) {
        let chunk = Chunk { start: START + at * 8, size, used: true };
        prop_assert!(may_be_cache(&chunk));
        let in_heap = |at: u64| WHOLE.contains(&at);
        let found = cached(&image, &chunk, &in_heap).unwrap_or_default();
        prop_assert!(found.iter().all(|chunk| WHOLE.contains(&chunk.start)));
        let found = fast(&image, START + at * 8, &in_heap);
        prop_assert!(found.iter().all(|chunk| WHOLE.contains(&chunk.start)));
    }

    #[test]
    fn a_mapping_of_one_chunk_is_in_its_mapping(image in image(), page in 0..WORDS * 8 / 4096) {
        let at = START + page * 4096;
        if let Some(size) = mapped(&image, at, WHOLE.end) {
            prop_assert!(size % 4096 == 0 && at + size <= WHOLE.end);
        }
    }

    #[test]
    fn nothing_is_found_in_words_that_lead_nowhere(image in image()) {
        prop_assert_eq!(find(&image, &[WHOLE], Some(WHOLE)), None);
    }
}

/// A `main_arena` at this address, with so many words before `bins`, and nothing in its bins but one chunk.
fn arena(image: &mut Image, state: u64, before: u64, next: u64) {
    let bins = state + before;
    for bin in 0..127 {
        for word in 0..2 {
            image.set(bin * 16 + bins + word * 8, bins + bin * 16 - 16);
        }
    }
    image.set(bins + 5 * 16, START + 0x7000);
    image.set(bins + 5 * 16 + 8, START + 0x7000);
    image.set(bins - 16, START + 0x7100);
    image.set(bins + 2048, next);
    image.set(bins + 2072, 4096);
}

#[test]
fn an_arena_is_found_by_its_bins_and_by_what_leads_back_to_it() {
    for (before, fastbins) in [(112, true), (24, false)] {
        let state = START + 0x1008;
        let mut image = Image(vec![0; WORDS as usize]);
        arena(&mut image, state, before, state);
        let found = find(&image, &[WHOLE], None).expect("it is there");
        assert_eq!(found.arenas.len(), 1);
        let one = found.arenas[0];
        assert_eq!(
            (one.state, one.top, one.system, one.main),
            (state, START + 0x7100, 4096, true)
        );
        assert_eq!(one.fastbins.is_some(), fastbins);
        // A second one behind its `heap_info`, which leads back.
        let second = START + 48;
        image.set(START, second);
        image.set(state + before + 2048, second);
        image.set(second + before + 2048, state);
        image.set(second + before + 2072, 8192);
        image.set(second + before - 16, START + 0x900);
        let systems = |image: &Image| {
            let found = find(image, &[WHOLE], None)?;
            Some(
                found
                    .arenas
                    .iter()
                    .map(|arena| arena.system)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(systems(&image), Some(vec![4096, 8192]));
        // One that leads to itself for ever, and one that no `heap_info` names.
        image.set(second + before + 2048, second);
        assert_eq!(systems(&image), None);
        image.set(second + before + 2048, state);
        image.set(START, second + 8);
        assert_eq!(systems(&image), None);
    }
}

/// In a heap that has become fragmented hardly one bin is empty (Python, 4 of 127; redmine, 6): that their chunks lead back to them proves them.
#[test]
fn an_arena_is_found_though_its_bins_are_full() {
    let state = START + 0x1008;
    let bins = state + 112;
    let mut image = Image(vec![0; WORDS as usize]);
    arena(&mut image, state, 112, state);
    let chunk = |bin: u64| START + 0x2000 + bin * 64;
    for bin in 4..127 {
        image.set(bins + bin * 16, chunk(bin));
        image.set(bins + bin * 16 + 8, chunk(bin));
        image.set(chunk(bin) + 16, bins + bin * 16 - 16);
        image.set(chunk(bin) + 24, bins + bin * 16 - 16);
    }
    let found = |image: &Image| find(image, &[WHOLE], None).map(|found| found.arenas.len());
    assert_eq!(found(&image), Some(1));
    // Some lists have changed while they were read.
    for bin in 20..40 {
        image.set(chunk(bin) + 24, START);
    }
    assert_eq!(found(&image), Some(1));
    for bin in 20..100 {
        image.set(chunk(bin) + 24, START);
    }
    assert_eq!(found(&image), None);
}

#[test]
fn a_cache_is_believed_if_its_counts_and_sizes_are_right() {
    let heap = START..START + 0x4000;
    let in_heap = |at: u64| heap.contains(&at);
    let mut image = Image(vec![0; WORDS as usize]);
    let cache = Chunk {
        start: START,
        size: 0x290,
        used: true,
    };
    assert!(
        cached(&image, &cache, &in_heap).is_none(),
        "an empty one holds nothing"
    );
    // Two chunks of 48 bytes, in the bin of their size; the links are mixed with their places.
    let (one, two) = (START + 0x1000, START + 0x2000);
    image.set(one + 8, 0x31);
    image.set(two + 8, 0x31);
    image.set(START + 16, 2 << 16);
    image.set(START + 16 + 128 + 8, one + 16);
    image.set(one + 16, (two + 16) ^ ((one + 16) >> 12));
    image.set(two + 16, (two + 16) >> 12);
    let starts = |image: &Image| {
        let found = cached(image, &cache, &in_heap)?;
        Some(
            found
                .iter()
                .map(|chunk| chunk.start)
                .collect::<HashSet<_>>(),
        )
    };
    assert_eq!(starts(&image), Some(HashSet::from([one, two])));
    // Before 2.32 they are plain.
    image.set(one + 16, two + 16);
    image.set(two + 16, 0);
    assert_eq!(starts(&image), Some(HashSet::from([one, two])));
    image.set(START + 16, 3 << 16);
    assert_eq!(starts(&image), None, "a wrong count");
    image.set(START + 16, 2 << 16);
    image.set(two + 8, 0x41);
    assert_eq!(starts(&image), None, "a chunk of another size");
    image.set(two + 8, 0x31);
    image.set(two + 16, one + 16);
    assert_eq!(starts(&image), None, "a list without an end");
}
