//! Long chains of objects: of one type, as a linked list, or of several types in turn, as a node, its dict, the next node.

use heap::answers::garbage::garbage;
use heap::answers::paths::{Paths, Via};
use heap::answers::suspects::{Suspected, suspects};
use heap::{Analysis, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

const NODES: u64 = 0x10_0000;

/// A chain of objects whose types repeat themselves with this period, below a dict that is a module's. Each holds a number besides.
fn chain(length: u64, period: u64) -> Snapshot {
    let mut builder = Builder::new(heap::About::default());
    let kind = builder.kind(b"object", Role::Instance);
    let types: Vec<_> = (0..period)
        .map(|number| match number {
            1 => builder.text(b"dict"),
            number => builder.text(format!("Type{number}").as_bytes()),
        })
        .collect();
    let (dict, number) = (builder.text(b"dict"), builder.text(b"Number"));
    let module = builder.text(b"of module app");
    let object = |at, class| Object {
        bytes: 10,
        class: Some(class),
        ..Object::new(at, kind)
    };
    builder.object(Object {
        label: Some(module),
        ..object(0x1000, dict)
    });
    builder.edge(NODES, EdgeName::Global(None));
    for at in 0..length {
        let here = NODES + at * 32;
        builder.object(object(here, types[(at % period) as usize]));
        builder.edge(here + 16, EdgeName::Attribute(None));
        if at + 1 < length {
            builder.edge(here + 32, EdgeName::Attribute(None));
        }
        builder.object(object(here + 16, number));
    }
    builder.root(0x1000, RootName::new(RootKind::Global));
    builder.finish()
}

#[test]
fn the_first_of_a_chain_is_suspected() {
    const LENGTH: u64 = 10_000;
    for period in 1..=8 {
        let snapshot = chain(LENGTH, period);
        let analysis = Analysis::of(&snapshot);
        let found = suspects(&analysis, &garbage(&analysis));
        let found: Vec<_> = found.iter().map(|one| (one.what, one.retained)).collect();
        let first = snapshot.at(NODES).expect("an object");
        let wanted = [(Suspected::Object(first), 20 * LENGTH)];
        assert_eq!(found, wanted, "period {period}");
    }
}

/// Ways as long as the chain would take memory by the square of that.
#[test]
fn what_repeats_itself_on_a_way_is_told_once() {
    const LENGTH: u64 = 20_000;
    for period in [1, 2, 3, 8] {
        let snapshot = chain(LENGTH, period);
        let all = 0..snapshot.len() as u32;
        let ways = Paths::of(&snapshot).merged(all, usize::MAX).told;
        let objects: u64 = ways.iter().map(|way| way.objects).sum();
        assert_eq!(objects, snapshot.len() as u64, "period {period}");
        let longest = ways.iter().map(|way| way.steps.len()).max();
        // The module, the first node, which a global holds, twice what repeats itself but one, and the number.
        assert!(
            longest <= Some(2 + 2 * period as usize),
            "{longest:?} of {period}"
        );
        assert!(
            ways.len() as u64 <= 2 + 4 * period,
            "{} of {period}",
            ways.len()
        );
        assert!(ways.iter().all(|way| way.left_out == 0));
    }
}

/// Types that do not repeat themselves: the middle of the way is left out, and what is beyond the number that is wanted is summed up.
#[test]
fn a_way_without_end_is_cut() {
    const LENGTH: u64 = 3000;
    let snapshot = chain(LENGTH, LENGTH);
    let all = 0..snapshot.len() as u32;
    let ways = Paths::of(&snapshot).merged(all, 2);
    assert_eq!(ways.told.len(), 2);
    assert_eq!(ways.others + 2, snapshot.len() as u64);
    assert_eq!((ways.objects, ways.bytes), (ways.others, 10 * ways.others));
    let last = snapshot.at(NODES + (LENGTH - 1) * 32).into_iter();
    let way = &Paths::of(&snapshot).merged(last, 1).told[0];
    assert_eq!(
        (way.steps.len(), way.left_out as u64),
        (1000, LENGTH + 1 - 1000)
    );
    assert!(matches!(way.steps[0].0, Via::Root(_)));
    let name = snapshot.text(way.steps[999].1);
    assert_eq!(name, format!("Type{}", LENGTH - 1).as_bytes());
}
