//! Writes the snapshot of a made-up heap of as many objects as are asked for, to measure what `lancet heap` takes for it.
//!
//! ```text
//! cargo run --release -p lancet-heap --example large -- /tmp/large.heap 20000000
//! ```

#![allow(
    dead_code,
    missing_docs,
    reason = "tests take it as a module, each a part of it"
)]

#[path = "../tests/all/generate.rs"]
pub mod generate;

use std::io::Write;

use generate::Random;
use heap::{About, Builder, EdgeName, Object, Role, RootKind, RootName, Snapshot};

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let path = arguments.next().expect("a path to write to");
    let objects = arguments
        .next()
        .and_then(|text| text.to_str()?.parse().ok());
    let objects: usize = objects.expect("a number of objects, 1,000 or more");
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("a new file"));
    make(objects, 200).write(&mut file).expect("written");
    file.flush().expect("written");
}

/// Objects one after the other in memory: each is held by one born shortly before it, refers to its class, and now and
/// then to any other. `edges` is how many references 100 objects have.
pub fn make(objects: usize, edges: usize) -> Snapshot {
    let mut builder = Builder::new(About::default());
    let kind = builder.kind(b"OBJECT", Role::Instance);
    let names = ["@a", "@b", "@c"]
        .map(|name| EdgeName::InstanceVariable(Some(builder.text(name.as_bytes()))));
    let address = |number: usize| 0x7f00_0000_0000 + 40 * number as u64;
    let (mut random, mut given) = (Random(99), 0);
    for number in 0..objects {
        builder.object(Object {
            bytes: 40 + number as u64 % 3 * 8,
            ..Object::new(address(number), kind)
        });
        while given < number * edges / 100 {
            let (target, name) = match random.below(16) {
                0 => (random.below(500), EdgeName::ClassOf),
                1 => (random.below(objects), names[0]),
                2..9 => ((number + 1).min(objects - 1), names[1]),
                _ => (
                    (number + 1 + random.below(300)).min(objects - 1),
                    names[given % 3],
                ),
            };
            builder.edge(address(target), name);
            given += 1;
        }
    }
    for number in 0..1000 {
        builder.root(
            address(number * (objects / 1000)),
            RootName::new(RootKind::Vm),
        );
    }
    builder.finish()
}
