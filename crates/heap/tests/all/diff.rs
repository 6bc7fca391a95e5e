//! What is new between two snapshots, by birth and without.

use heap::answers::diff::Diff;
use heap::answers::tree::{Limits, nodes};
use heap::{About, Analysis, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

/// A list, taken at that time, that holds objects at these addresses, each with its birth, type and bytes.
fn list(taken_at: u64, objects: &[(u64, u64, &str, u64)]) -> Snapshot {
    let mut builder = Builder::new(About {
        taken_at,
        ..About::default()
    });
    // Texts have other numbers in each snapshot.
    for number in 0..objects.len() {
        builder.text(format!("text {number}").as_bytes());
    }
    let kind = builder.kind(b"OBJECT", Role::Instance);
    let name = builder.text(b"List");
    builder.object(Object {
        bytes: 40,
        class: Some(name),
        birth: objects[0].1.min(1),
        ..Object::new(8, kind)
    });
    for (address, ..) in objects {
        builder.edge(*address, EdgeName::Internal);
    }
    for (address, birth, class, bytes) in objects {
        let class = Some(builder.text(class.as_bytes()));
        builder.object(Object {
            bytes: *bytes,
            class,
            birth: *birth,
            ..Object::new(*address, kind)
        });
    }
    builder.root(8, RootName::new(RootKind::Global));
    builder.finish()
}

/// A type, with its objects before, now, and those that are new.
type Row = (String, u64, u64, u64);

/// New objects, gone objects, and for each type before, now and new.
fn compared(earlier: &Snapshot, later: &Snapshot) -> (u64, u64, Vec<Row>, bool) {
    let (earlier, now) = (Analysis::of(earlier), Analysis::of(later));
    let diff = Diff::of(&earlier, &now);
    let types = diff.types.iter().map(|one| {
        let name = String::from_utf8_lossy(later.text(one.name)).into_owned();
        (name, one.before.objects, one.now.objects, one.new.objects)
    });
    let list = later.at(8);
    assert!(diff.holders.iter().all(|holder| holder.object == list));
    let held: u64 = diff.holders.iter().map(|holder| holder.objects).sum();
    assert_eq!(held, diff.new.objects);
    (
        diff.new.objects,
        diff.gone.objects,
        types.collect(),
        diff.by_birth,
    )
}

#[test]
fn a_slot_that_was_used_again_holds_a_new_object() {
    let earlier = list(
        8,
        &[
            (16, 5, "Order", 10),
            (24, 6, "Order", 10),
            (32, 7, "Log", 30),
        ],
    );
    let later = list(
        12,
        &[
            (16, 5, "Order", 10),
            (24, 9, "Order", 10),
            (40, 10, "Order", 10),
            (48, 11, "User", 50),
        ],
    );
    let expected = vec![("User".into(), 0, 1, 1), ("Order".into(), 2, 3, 2)];
    assert_eq!(compared(&earlier, &later), (3, 2, expected, true));
    assert_eq!(compared(&earlier, &earlier), (0, 0, vec![], true));
}

/// The later snapshot is of another watch, which saw none of the births before the earlier one.
#[test]
fn an_object_that_was_made_since_is_new_whatever_was_there() {
    let earlier = list(8, &[(16, 5, "Order", 10), (24, 0, "Order", 10)]);
    let later = list(
        12,
        &[
            (16, 0, "Order", 10),
            (24, 9, "Order", 10),
            (32, 9, "User", 5),
        ],
    );
    let expected = vec![("Order".into(), 2, 2, 1), ("User".into(), 0, 1, 1)];
    assert_eq!(compared(&earlier, &later), (2, 1, expected, false));
    let analysis = Analysis::of(&later);
    let answers = heap::answers::Answers::of(&analysis, |_| String::new());
    let born = answers.born.unwrap();
    assert_eq!((born.since, born.all.objects, born.all.bytes), (9, 2, 15));
    assert_eq!(born.holders.len(), 1);
    assert_eq!(
        (born.holders[0].object, born.holders[0].objects),
        (later.at(8), 2)
    );
}

#[test]
fn without_births_the_type_decides() {
    let earlier = list(8, &[(16, 0, "Order", 10), (24, 0, "Order", 10)]);
    let later = list(12, &[(16, 0, "Order", 10), (24, 0, "User", 10)]);
    let expected = vec![("User".into(), 0, 1, 1), ("Order".into(), 2, 1, 0)];
    assert_eq!(compared(&earlier, &later), (1, 1, expected, false));
}

#[test]
fn the_tree_puts_types_together_and_its_parts_add_up() {
    let snapshot = list(
        8,
        &[
            (16, 5, "Order", 1000),
            (24, 6, "Order", 500),
            (32, 7, "Log", 30),
        ],
    );
    let analysis = Analysis::of(&snapshot);
    let tree = nodes(
        &analysis,
        Limits {
            least: 100,
            levels: 9,
        },
    );
    assert_eq!((tree.len(), tree[0].retained, tree[0].own), (1, 1570, 70));
    let orders = &tree[0].below[0];
    assert_eq!(
        (orders.objects, orders.retained, orders.own),
        (2, 1500, 1500)
    );
    assert_eq!((orders.largest, tree[0].below.len()), (1, 1));
}
