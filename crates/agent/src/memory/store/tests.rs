//! Lists, indexes and segments, against `Vec` and `HashMap`.

use super::*;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};
use std::vec::Vec;
use wire::ledger::PIECES;

/// Nothing is mapped for a list in which nothing was put.
#[test]
fn an_empty_list_maps_nothing() {
    let list = List::<u64>::new();
    assert_eq!((list.len(), list.address(), list.mapped()), (0, 0, 0));
    assert!(list.all().is_empty());
}

/// Elements keep their index and value while the list is moved to a larger mapping.
#[test]
fn elements_survive_growth() {
    let mut list = List::<u64>::new();
    for number in 0..5000u64 {
        assert_eq!(list.push(number * 3), Some(number as u32));
    }
    let expected: Vec<u64> = (0..5000).map(|number| number * 3).collect();
    assert_eq!(list.all(), expected);
    list.free();
}

/// An element larger than a word, whose size is no power of two, is stored whole.
#[test]
fn elements_of_any_size_are_stored_whole() {
    let mut list = List::<[u32; 5]>::new();
    for number in 0..700 {
        list.push([number; 5]).expect("memory");
    }
    assert!((0..700).all(|number| list.all()[number as usize] == [number; 5]));
    list.free();
}

/// Appending a slice is the same as appending its elements one by one.
#[test]
fn a_slice_is_appended_whole() {
    let mut list = List::<u16>::new();
    list.push(7).expect("memory");
    let many: Vec<u16> = (0..4000).collect();
    list.extend(&many).expect("memory");
    list.extend(&[]).expect("memory");
    assert_eq!(list.len(), 4001);
    assert_eq!(list.all()[0], 7);
    assert_eq!(list.all()[1..], many);
    list.free();
}

/// A shorter list forgets only its end, and never becomes longer by it.
#[test]
fn clearing_keeps_the_beginning() {
    let mut list = List::<u8>::new();
    list.extend(b"abcdef").expect("memory");
    list.clear_to(3);
    assert_eq!(list.all(), b"abc");
    list.clear_to(9);
    assert_eq!(list.all(), b"abc");
    list.free();
}

/// New elements of a list that was made longer for the first time are zero.
#[test]
fn resizing_gives_zeros() {
    let mut list = List::<u32>::new();
    list.push(5).expect("memory");
    list.resize(10_000).expect("memory");
    assert_eq!(list.all()[0], 5);
    assert!(list.all()[1..].iter().all(|word| *word == 0));
    list.free();
}

/// A freed list is as a new one, and can be filled again.
#[test]
fn a_freed_list_is_new() {
    let mut list = List::<u64>::new();
    list.extend(&[1, 2, 3]).expect("memory");
    list.free();
    assert_eq!((list.len(), list.address(), list.mapped()), (0, 0, 0));
    assert_eq!(list.push(9), Some(0));
    assert_eq!(list.all(), [9]);
    list.free();
}

/// The bytes that are said to be mapped are whole pages and have room for all elements.
#[test]
fn what_is_mapped_has_room_for_all() {
    let mut list = List::<[u8; 24]>::new();
    for _ in 0..3000 {
        list.push([0; 24]).expect("memory");
        assert!(list.mapped().is_multiple_of(PAGE));
        assert!(list.mapped() >= u64::from(list.len()) * 24);
    }
    list.free();
}

/// Elements are changed in place.
#[test]
fn elements_can_be_changed() {
    let mut list = List::<u64>::new();
    list.extend(&[4, 2, 3]).expect("memory");
    list.all_mut().sort_unstable();
    list.all_mut()[0] = 9;
    assert_eq!(list.all(), [9, 3, 4]);
    list.free();
}

/// A list that cannot be mapped is refused without losing what it has.
#[test]
fn a_list_that_is_too_long_is_refused() {
    let mut list = List::<[u64; 64]>::new();
    list.push([8; 64]).expect("memory");
    // 2 TiB and more than an address space has: the kernel refuses to map it.
    assert_eq!(List::<[[u64; 64]; 1024]>::new().resize(u32::MAX), None);
    assert_eq!(list.all(), [[8; 64]]);
    list.free();
}

/// Nothing is found in an empty index, and removing from it changes nothing.
#[test]
fn an_empty_index_finds_nothing() {
    let mut index = Index::new();
    assert_eq!(index.find(5, |_| panic!("asked")), None);
    index.remove(1, 5);
    assert_eq!(index.mapped(), 0);
}

/// Numbers with the same hash are told apart by what they stand for.
#[test]
fn one_hash_leads_to_many_numbers() {
    let mut index = Index::new();
    for number in 1..=100 {
        index.insert(number, |_| 77).expect("memory");
    }
    for number in 1..=100 {
        assert_eq!(index.find(77, |found| found == number), Some(number));
    }
    assert_eq!(index.find(77, |found| found == 101), None);
    index.free();
}

/// A hash at the end of the table goes on at its beginning.
#[test]
fn probing_wraps_around() {
    let mut index = Index::new();
    for number in 1..=5 {
        index.insert(number, |_| u64::MAX).expect("memory");
    }
    for number in 1..=5 {
        assert_eq!(index.find(u64::MAX, |found| found == number), Some(number));
    }
    index.free();
}

/// A removed number does not hide those that were put behind it.
#[test]
fn removal_keeps_the_rest_of_a_chain() {
    let mut index = Index::new();
    for number in 1..=3 {
        index.insert(number, |_| 9).expect("memory");
    }
    index.remove(2, 9);
    assert_eq!(index.find(9, |found| found == 2), None);
    assert_eq!(index.find(9, |found| found == 3), Some(3));
    index.free();
}

/// The place of a removed number is used again, so that adding and removing does not make the table longer.
#[test]
fn removed_places_are_used_again() {
    let mut index = Index::new();
    index.insert(1, u64::from).expect("memory");
    let mapped = index.mapped();
    for number in 2..50_000 {
        index.insert(number, u64::from).expect("memory");
        index.remove(number, u64::from(number));
    }
    assert_eq!(index.mapped(), mapped);
    assert_eq!(index.find(1, |found| found == 1), Some(1));
    index.free();
}

/// A removal with a hash that the number does not have changes nothing.
#[test]
fn a_removal_under_another_hash_changes_nothing() {
    let mut index = Index::new();
    index.insert(1, |_| 3).expect("memory");
    index.remove(1, 500);
    assert_eq!(index.find(3, |found| found == 1), Some(1));
    index.free();
}

/// A cleared index finds nothing, keeps its memory, and can be filled again.
#[test]
fn a_cleared_index_is_empty() {
    let mut index = Index::new();
    for number in 1..2000 {
        index.insert(number, u64::from).expect("memory");
    }
    let mapped = index.mapped();
    index.clear();
    assert_eq!(index.find(5, |_| panic!("asked")), None);
    assert_eq!(index.mapped(), mapped);
    index.insert(5, u64::from).expect("memory");
    assert_eq!(index.find(5, |found| found == 5), Some(5));
    index.free();
}

/// A search asks only of numbers that were added: neither a free place nor a deleted one is passed on.
#[test]
fn only_added_numbers_are_asked_of() {
    let mut index = Index::new();
    for number in 1..300 {
        index.insert(number, |_| 0).expect("memory");
        if number.is_multiple_of(2) {
            index.remove(number, 0);
        }
    }
    index.find(0, |number| {
        assert!(number % 2 == 1 && number < 300, "{number}");
        false
    });
    index.free();
}

/// Texts that differ in one byte, in length, or in zeros at their end have different hashes.
#[test]
fn similar_texts_have_different_hashes() {
    let mut texts: Vec<Vec<u8>> = (0..40).map(|length| std::vec![0u8; length]).collect();
    for at in 0..33 {
        let mut text = std::vec![b'a'; 33];
        text[at] = b'b';
        texts.push(text);
    }
    let hashes: HashSet<u64> = texts.iter().map(|text| hash_bytes(text)).collect();
    assert_eq!(hashes.len(), texts.len());
}

/// Records get consecutive numbers and keep their content beyond the end of a piece.
#[test]
fn records_keep_their_numbers() {
    let mut segments = Segments::new(4);
    for number in 0..40u32 {
        assert_eq!(append(&mut segments, u64::from(number) + 100), Some(number));
    }
    for number in 0..40u64 {
        // SAFETY: the record was appended above.
        assert_eq!(unsafe { *record::<u64>(&segments, number) }, number + 100);
    }
    free::<u64>(&mut segments);
}

/// The pieces never move: an address stays right while records are added.
#[test]
fn records_never_move() {
    let mut segments = Segments::new(8);
    append(&mut segments, 1u32).expect("memory");
    let first = record::<u32>(&segments, 0);
    for number in 0..500u32 {
        append(&mut segments, number).expect("memory");
    }
    assert_eq!(record::<u32>(&segments, 0), first);
    free::<u32>(&mut segments);
}

/// Adjacent records lie within one piece; the rest of the piece before is left out.
#[test]
fn adjacent_records_share_a_piece() {
    let mut segments = Segments::new(10);
    assert_eq!(reserve::<u32>(&mut segments, 7), Some(0));
    assert_eq!(reserve::<u32>(&mut segments, 4), Some(10));
    assert_eq!(reserve::<u32>(&mut segments, 6), Some(14));
    assert_eq!(reserve::<u32>(&mut segments, 1), Some(20));
    assert_eq!(segments.length, 21);
    free::<u32>(&mut segments);
}

/// More records than a piece holds are refused, and nothing is counted as used for them.
#[test]
fn more_than_a_piece_is_refused() {
    let mut segments = Segments::new(10);
    append(&mut segments, 3u8).expect("memory");
    assert_eq!(reserve::<u8>(&mut segments, 11), None);
    assert_eq!(segments.length, 1);
    free::<u8>(&mut segments);
}

/// When all pieces are full, a record is refused and those before keep what they hold.
#[test]
fn full_segments_refuse() {
    let mut segments = Segments::new(1);
    for number in 0..PIECES as u64 {
        assert_eq!(append(&mut segments, number), Some(number as u32));
    }
    assert_eq!(append(&mut segments, 7u64), None);
    // SAFETY: the record was appended above.
    assert_eq!(unsafe { *record::<u64>(&segments, 1000) }, 1000);
    free::<u64>(&mut segments);
    assert_eq!(mapped::<u64>(&segments), 0);
}

/// Reserved records are zero, also in a piece that is mapped for them.
#[test]
fn reserved_records_are_zero() {
    let mut segments = Segments::new(3);
    for _ in 0..9 {
        let number = reserve::<[u64; 3]>(&mut segments, 1).expect("memory");
        // SAFETY: the record was reserved just now.
        assert_eq!(unsafe { *record::<[u64; 3]>(&segments, number) }, [0; 3]);
    }
    free::<[u64; 3]>(&mut segments);
}

/// What is said to be mapped grows by a piece at a time and is nothing after all was freed.
#[test]
fn mapped_pieces_are_counted() {
    let mut segments = Segments::new(512);
    assert_eq!(mapped::<u64>(&segments), 0);
    append(&mut segments, 1u64).expect("memory");
    assert_eq!(mapped::<u64>(&segments), PAGE);
    for _ in 0..512 {
        append(&mut segments, 1u64).expect("memory");
    }
    assert_eq!(mapped::<u64>(&segments), 2 * PAGE);
    free::<u64>(&mut segments);
    assert_eq!((mapped::<u64>(&segments), segments.length), (0, 0));
}

#[derive(Clone, Debug)]
enum Change {
    Add(u64),
    Remove(usize),
    Clear,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        // Few hashes, so that chains are long and overlap.
        20 => (0u64..40).prop_map(Change::Add),
        12 => any::<usize>().prop_map(Change::Remove),
        1 => Just(Change::Clear),
    ]
}

proptest! {
    /// Whatever is added and removed in whatever order, an index finds exactly what a map has.
    #[test]
    fn an_index_is_a_map(changes in prop::collection::vec(change(), 1..1500)) {
        let mut index = Index::new();
        let mut hashes = std::vec![0u64];
        let mut model = HashMap::new();
        for change in changes {
            match change {
                Change::Add(hash) => {
                    let number = hashes.len() as u32;
                    hashes.push(hash);
                    model.insert(number, hash);
                    index.insert(number, |number| hashes[number as usize]).expect("memory");
                }
                Change::Remove(which) => {
                    let number = (which % hashes.len()) as u32;
                    if let Some(hash) = model.remove(&number) {
                        index.remove(number, hash);
                    }
                }
                Change::Clear => {
                    index.clear();
                    model.clear();
                }
            }
        }
        for (number, hash) in hashes.iter().enumerate().skip(1) {
            let number = number as u32;
            let found = index.find(*hash, |found| found == number);
            prop_assert_eq!(found, model.contains_key(&number).then_some(number));
        }
        index.free();
    }

    /// A list is a vector, whatever is appended, cut off and made longer.
    #[test]
    fn a_list_is_a_vector(steps in prop::collection::vec((0u8..4, 0u32..3000), 1..60)) {
        let mut list = List::<u32>::new();
        let mut model = Vec::new();
        for (step, number) in steps {
            match step {
                0 => {
                    list.push(number).expect("memory");
                    model.push(number);
                }
                1 => {
                    let more: Vec<u32> = (0..number).collect();
                    list.extend(&more).expect("memory");
                    model.extend(more);
                }
                2 => {
                    list.clear_to(number);
                    model.truncate(number as usize);
                }
                _ => {
                    if let Some(last) = list.all_mut().last_mut() {
                        *last = number;
                    }
                    if let Some(last) = model.last_mut() {
                        *last = number;
                    }
                }
            }
            prop_assert_eq!(list.all(), &model[..]);
        }
        list.free();
    }

    /// The hash of a text depends on its bytes alone, wherever they lie.
    #[test]
    fn a_hash_is_of_the_bytes(text in prop::collection::vec(any::<u8>(), 0..100), shift in 0usize..8) {
        let mut moved = std::vec![1u8; shift];
        moved.extend(&text);
        prop_assert_eq!(hash_bytes(&text), hash_bytes(&moved[shift..]));
    }

    /// Reserved runs of records never overlap and never cross the end of a piece.
    #[test]
    fn runs_are_disjoint(counts in prop::collection::vec(1u64..=16, 1..200)) {
        let mut segments = Segments::new(16);
        let mut end = 0;
        for count in counts {
            let first = reserve::<u16>(&mut segments, count).expect("memory");
            prop_assert!(first >= end);
            prop_assert_eq!(first / 16, (first + count - 1) / 16);
            end = first + count;
            prop_assert_eq!(segments.length, end);
        }
        free::<u16>(&mut segments);
    }
}
