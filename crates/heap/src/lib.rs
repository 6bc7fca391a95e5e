//! Heap snapshots: the objects of one process at one moment, with every reference between them, and what follows from
//! that: what the collector would keep, who keeps what alive, and how many bytes each holder retains.
//!
//! A snapshot comes from a [`Builder`], which whoever walks a heap fills. This crate knows no language, no process and no
//! other crate of ours: kinds of objects are the maker's own words with a [`Role`] that says what they are to us.
//!
//! ```
//! use heap::{About, Builder, EdgeName, Object, Role, RootKind, RootName};
//!
//! let mut builder = Builder::new(About { pid: 4242, ..About::default() });
//! let array = builder.kind(b"ARRAY", Role::List);
//! let string = builder.kind(b"STRING", Role::Text);
//! let class = builder.text(b"Array");
//! builder.object(Object { class: Some(class), bytes: 40, ..Object::new(0x1000, array) });
//! builder.edge(0x2000, EdgeName::Index(0));
//! builder.object(Object { bytes: 64, ..Object::new(0x2000, string) });
//! let name = builder.text(b"$cache");
//! builder.root(0x1000, RootName::named(RootKind::Global, name));
//! let snapshot = builder.finish();
//! assert_eq!((snapshot.len(), snapshot.edge_count()), (2, 1));
//! ```

#![forbid(unsafe_code)]

mod about;
mod analysis;
pub mod answers;
mod build;
mod by_address;
mod column;
mod dominators;
mod edge_names;
mod file;
mod names;
mod rising;
mod sizes;
mod snapshot;
mod text;

pub use about::{About, Allocated, Budget, Collector, Losses, Memory, MemoryRow};
pub use analysis::{Analysis, Dominator, Total};
pub use build::{Builder, Object};
pub use file::{Error, OLDEST, VERSION};
pub use names::{EdgeName, Flags, KindId, Role, RootKind, RootName};
pub use snapshot::{Edge, Root, Site, Snapshot};
pub use text::TextId;
