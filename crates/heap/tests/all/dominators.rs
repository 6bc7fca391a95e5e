//! Dominators and retained sizes are what an oracle says that takes an object out and reaches again.

use crate::large::made::generate::{Heap, heap};
use heap::{Analysis, Dominator, Snapshot};
use proptest::prelude::*;

/// What can be reached from the roots when an object is not there.
fn reached(snapshot: &Snapshot, without: Option<u32>) -> Vec<bool> {
    let mut seen = vec![false; snapshot.len()];
    let mut open: Vec<u32> = snapshot.roots().iter().map(|root| root.target).collect();
    while let Some(object) = open.pop() {
        if Some(object) == without || std::mem::replace(&mut seen[object as usize], true) {
            continue;
        }
        open.extend(snapshot.edges(object).map(|edge| edge.target));
    }
    seen
}

/// Compares objects with the oracle: their retained bytes, and whether they are their dominators' next.
fn compare(snapshot: &Snapshot, objects: impl Iterator<Item = u32>) {
    let analysis = Analysis::of(snapshot);
    let all = reached(snapshot, None);
    let count = all.iter().filter(|seen| **seen).count() as u64;
    assert_eq!(analysis.living().objects, count);
    let sum: u64 = (0..snapshot.len() as u32)
        .map(|one| snapshot.bytes(one))
        .sum();
    assert_eq!(analysis.living().bytes + analysis.garbage().bytes, sum);
    for object in objects {
        assert_eq!(analysis.is_living(object), all[object as usize]);
        if !all[object as usize] {
            assert_eq!(analysis.dominator(object), Dominator::Garbage);
            continue;
        }
        let rest = reached(snapshot, Some(object));
        let dies = |other: u32| all[other as usize] && !rest[other as usize];
        let bytes = (0..snapshot.len() as u32).filter(|other| dies(*other));
        let bytes: u64 = bytes.map(|other| snapshot.bytes(other)).sum();
        assert_eq!(analysis.retained(object), bytes, "object {object}");
        // What dies with it is what it dominates, directly or not.
        for other in 0..snapshot.len() as u32 {
            let mut at = other;
            let dominated = loop {
                if at == object {
                    break true;
                }
                match analysis.dominator(at) {
                    Dominator::Object(next) => at = next,
                    _ => break false,
                }
            };
            assert_eq!(dominated, dies(other), "{object} and {other}");
        }
    }
}

/// Sizes whose sum has room in 64 bits.
fn modest(mut heap: Heap) -> Heap {
    heap.objects
        .iter_mut()
        .for_each(|object| object.bytes %= 1 << 40);
    heap
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_arbitrary_graphs(given in heap(40)) {
        let snapshot = modest(given).build();
        compare(&snapshot, 0..snapshot.len() as u32);
    }
}

#[test]
fn of_a_large_graph() {
    for seed in [1, 5, 11] {
        let snapshot = Heap::large(4000, seed).build();
        compare(&snapshot, (0..snapshot.len() as u32).step_by(97));
    }
}

#[test]
fn of_a_list_that_is_longer_than_a_stack() {
    let mut heap = Heap::large(1_000_000, 1);
    for (number, object) in heap.objects.iter_mut().enumerate() {
        object.edges = vec![(number + 1, 0)];
        object.bytes = 8;
    }
    heap.roots = vec![(0, 0)];
    let snapshot = heap.build();
    assert_eq!(snapshot.losses().dangling_edges, 1);
    let analysis = Analysis::of(&snapshot);
    assert_eq!(analysis.retained(0), 8_000_000);
    assert_eq!(analysis.dominator(999_999), Dominator::Object(999_998));
}

/// A list whose values are in an index as well, which the search meets after the list or before it. Each value is held by
/// its node and by the index, so the holder of both dominates it, as many nodes away as there are before its own.
#[test]
fn of_a_list_with_an_index_of_its_values() {
    const NODES: usize = if cfg!(debug_assertions) {
        300_000
    } else {
        1_000_000
    };
    for index_is_first in [false, true] {
        let mut heap = Heap::large(2 + 2 * NODES, 1);
        let (node, value) = (|at: usize| 2 + at, |at: usize| 2 + NODES + at);
        heap.objects.iter_mut().for_each(|object| {
            object.bytes = 8;
            object.edges.clear();
        });
        heap.objects[0].edges = match index_is_first {
            true => vec![(1, 0), (node(0), 0)],
            false => vec![(node(0), 0), (1, 0)],
        };
        heap.objects[1].edges = (0..NODES).map(|at| (value(at), 0)).collect();
        for at in 0..NODES {
            let next = (at + 1 < NODES).then(|| (node(at + 1), 0));
            heap.objects[node(at)].edges = next.into_iter().chain([(value(at), 0)]).collect();
        }
        heap.roots = vec![(0, 0)];
        let snapshot = heap.build();
        let analysis = Analysis::of(&snapshot);
        assert_eq!(analysis.retained(0), 8 * snapshot.len() as u64);
        for at in [0, 1, NODES / 2, NODES - 1] {
            let dominator = analysis.dominator(value(at) as u32);
            assert_eq!(dominator, Dominator::Object(0), "value {at}");
            assert_eq!(
                analysis.retained(node(at) as u32),
                8 * (NODES - at) as u64,
                "node {at}"
            );
        }
    }
}
