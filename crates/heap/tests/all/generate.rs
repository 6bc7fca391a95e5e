//! Heaps to test with: small arbitrary ones, and large ones that look like a program's.

#![allow(dead_code, reason = "each test uses a part")]

use heap::{
    About, Allocated, Builder, EdgeName, Flags, Memory, MemoryRow, Object, Role, RootKind,
    RootName, Snapshot,
};
use proptest::prelude::*;

/// An object to give to a builder.
#[derive(Clone, Debug)]
pub struct Given {
    pub bytes: u64,
    pub class: Option<u8>,
    pub role: usize,
    pub site: Option<(u8, u32)>,
    pub birth: u64,
    pub length: Option<u64>,
    pub fingerprint: Option<u64>,
    pub flags: u8,
    pub label: Option<u8>,
    /// Targets, and what the names are made of.
    pub edges: Vec<(usize, u32)>,
}

/// Objects and roots to give to a builder.
#[derive(Clone, Debug)]
pub struct Heap {
    pub objects: Vec<Given>,
    pub roots: Vec<(usize, u32)>,
    pub spread: u64,
}

/// Arbitrary heaps of up to so many objects.
pub fn heap(most: usize) -> impl Strategy<Value = Heap> {
    let given = (
        prop_oneof![0..200_u64, any::<u64>()],
        prop::option::of(any::<u8>()),
        0..Role::ALL.len(),
        prop::option::of((any::<u8>(), any::<u32>())),
        prop_oneof![Just(0), any::<u64>()],
        prop::option::of(0..u64::MAX),
        prop::option::of(any::<u64>()),
        any::<u8>(),
        prop::option::of(any::<u8>()),
        prop::collection::vec((0..most, any::<u32>()), 0..5),
    );
    let given = given.prop_map(
        |(bytes, class, role, site, birth, length, fingerprint, flags, label, edges)| Given {
            bytes,
            class,
            role,
            site,
            birth: birth.min(u64::MAX - 1),
            length,
            fingerprint,
            flags,
            label,
            edges,
        },
    );
    (
        prop::collection::vec(given, 0..most),
        prop::collection::vec((0..most, any::<u32>()), 0..6),
        1..1_000_000_u64,
    )
        .prop_map(|(objects, roots, spread)| Heap {
            objects,
            roots,
            spread,
        })
}

/// A simple generator of pseudo-random numbers (xorshift64*), the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }
}

impl Heap {
    /// A heap as programs have them: instances with a class, a text and a number of others, mostly near by.
    pub fn large(count: usize, seed: u64) -> Self {
        let mut random = Random(seed | 1);
        let objects = (0..count).map(|number| {
            let near = |random: &mut Random| (number + random.below(64)).min(count - 1);
            let mut edges = vec![(random.below(count.min(200)), 11)];
            for _ in 0..random.below(4) {
                let target = match random.below(20) {
                    0 => random.below(count),
                    _ => near(&mut random),
                };
                edges.push((target, 1 + 32 * random.below(40) as u32));
            }
            let role = random.below(Role::ALL.len());
            Given {
                bytes: 40 + 8 * random.below(8) as u64,
                class: Some(random.below(200) as u8),
                role,
                site: Some((random.below(30) as u8, random.below(200) as u32)),
                birth: (number / 1000) as u64,
                length: (random.below(2) == 0).then_some(random.below(100) as u64),
                fingerprint: (role == 1).then_some(random.below(1 << 30) as u64),
                flags: random.below(16) as u8,
                label: None,
                edges,
            }
        });
        let objects = objects.collect();
        let roots = (0..100)
            .map(|number| (random.below(count), number))
            .collect();
        Self {
            objects,
            roots,
            spread: 40,
        }
    }

    pub fn address(&self, number: usize) -> u64 {
        0x7f00_0000_0000 + number as u64 * self.spread
    }

    pub fn build(&self) -> Snapshot {
        let mut builder = Builder::new(About {
            language: "some".into(),
            pid: 4242,
            command_line: vec!["a".into(), "b c".into()],
            boot: "a boot".into(),
            started: 77,
            notes: vec!["One thread could not be read.".into()],
            memory: Memory {
                findings: vec!["Half of it is free.".into()],
                rows: vec![MemoryRow {
                    text: "heap".into(),
                    rss: 1 << 40,
                    pss: 3,
                    swap: u64::MAX,
                }],
                malloc: Some(5),
            },
            allocated: vec![Allocated {
                kind: "STRING".into(),
                objects: 7,
                bytes: 1 << 40,
                in_malloc: 1 << 41,
            }],
            ..About::default()
        });
        // Later objects first, so that they must be put into order.
        for number in (0..self.objects.len()).rev() {
            self.add(&mut builder, number);
        }
        for (target, what) in &self.roots {
            let text = builder.text(format!("$root{what}").as_bytes());
            let kind = RootKind::ALL[*what as usize % RootKind::ALL.len()];
            let name = RootName::named(kind, text).of_thread(*what);
            builder.root(self.address(*target), name);
        }
        builder.finish()
    }

    fn add(&self, builder: &mut Builder, number: usize) {
        let given = &self.objects[number];
        let role = Role::ALL[given.role];
        let kind = builder.kind(role.word().as_bytes(), role);
        let named = |builder: &mut Builder, what: &str, number: Option<u8>| {
            number.map(|number| builder.text(format!("{what}{number}").as_bytes()))
        };
        let class = named(builder, "Class", given.class);
        let label = named(builder, "label", given.label);
        let site = given.site.map(|(file, line)| {
            let file = named(builder, "app/file", Some(file));
            (file.expect("a text"), line)
        });
        builder.object(Object {
            class,
            bytes: given.bytes,
            site,
            birth: given.birth,
            length: given.length,
            capacity: given.length.map(|length| length / 2),
            fingerprint: given.fingerprint,
            flags: Flags {
                frozen: given.flags & 1 != 0,
                shareable: given.flags & 2 != 0,
                old: given.flags & 4 != 0,
                shared: given.flags & 8 != 0,
                finalizer: given.flags & 16 != 0,
                unsized_by_c: given.flags & 32 != 0,
            },
            label,
            contents: None,
            ..Object::new(self.address(number), kind)
        });
        for (target, what) in &given.edges {
            let text = named(builder, "@name", Some((what >> 5) as u8));
            let name = match what % 32 {
                1 => EdgeName::InstanceVariable(text),
                2 => EdgeName::Index(what >> 3),
                3 => EdgeName::Key,
                4 => EdgeName::Value(text),
                11 => EdgeName::ClassOf,
                18 => EdgeName::Method(text),
                _ => EdgeName::Internal,
            };
            builder.edge(self.address(*target), name);
        }
    }
}
