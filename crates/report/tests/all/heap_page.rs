//! The page of a heap stays of a size that a browser and a ticket bear, however large the heap is and however long its names are.

use heap::answers::Answers;
use heap::{About, Analysis, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};
use report::Style;
use report::heap::{Options, html, owner};

/// A list of objects of as many classes, each with references to those near by, all with long names that take more room when they are escaped.
fn heap(objects: u64, length: usize) -> Snapshot {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"object", Role::Instance);
    let name = |number: u64, of: &str| format!("{}{of}{number}", "<".repeat(length));
    for number in 0..objects {
        let class = builder.text(name(number, "Class").as_bytes());
        builder.object(Object {
            bytes: 100,
            class: Some(class),
            ..Object::new(0x1000 + number * 64, kind)
        });
        for next in 1..=30 {
            let attribute = builder.text(name(number * 30 + next, "name").as_bytes());
            let to = 0x1000 + (number + next) % objects * 64;
            builder.edge(to, EdgeName::Attribute(Some(attribute)));
        }
    }
    builder.root(0x1000, RootName::new(RootKind::Global));
    builder.finish()
}

fn page(snapshot: &Snapshot) -> String {
    let analysis = Analysis::of(snapshot);
    let answers = Answers::of(&analysis, owner);
    let mut out = Vec::new();
    let options = Options {
        top: 1000,
        contents: false,
        style: Style {
            color: false,
            width: None,
        },
        stacks: &report::forms::stacks::FOLDED,
    };
    html::FORMAT
        .write(&mut out, &answers, &options)
        .expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

#[test]
fn a_page_with_long_names_is_cut_and_says_so() {
    let said = "objects that would have a page here have none";
    let whole = page(&heap(200, 4));
    assert!(!whole.contains(said));
    let cut = page(&heap(3000, 180));
    assert!(cut.contains(said));
    assert!(cut.len() < 12 << 20, "{} bytes", cut.len());
}
