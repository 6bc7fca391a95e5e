//! Writing a snapshot: its parts are made by several threads, and written in their order.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{sync, thread};

use super::block::{self, Blocks, Output};
use super::number::put_distance;
use super::{LONGEST_TEXT, LastTargets, Section};
use crate::column::Column;
use crate::names::{EdgeName, Form};
use crate::snapshot::Snapshot;
use crate::text::TextId;
use varint::{put, put_bytes};

/// Rows of what resident memory was used for, and of what was allocated, so that the header stays small.
const MOST_ROWS: usize = 64;

/// Threads that make blocks: they have little to do each, and other programs want processors too.
const MOST_THREADS: usize = 4;

/// Parts of a file, in their order. Each is made by one thread.
const PARTS: [fn(&Snapshot, &mut Output); 16] = [
    Snapshot::write_words,
    |snapshot, out| snapshot.write_addresses(out),
    |snapshot, out| snapshot.write_kinds(out),
    |snapshot, out| snapshot.write_column(out, Section::Bytes, &snapshot.columns.bytes),
    |snapshot, out| snapshot.write_column(out, Section::Classes, &snapshot.columns.classes),
    |snapshot, out| snapshot.write_column(out, Section::ObjectSites, &snapshot.columns.sites),
    |snapshot, out| snapshot.write_column(out, Section::Births, &snapshot.columns.births),
    |snapshot, out| snapshot.write_column(out, Section::Lengths, &snapshot.columns.lengths),
    |snapshot, out| snapshot.write_column(out, Section::Capacities, &snapshot.columns.capacities),
    |snapshot, out| snapshot.write_column(out, Section::Labels, &snapshot.columns.labels),
    |snapshot, out| snapshot.write_column(out, Section::Contents, &snapshot.columns.contents),
    Snapshot::write_fingerprints,
    Snapshot::write_edge_counts,
    Snapshot::write_edge_names,
    Snapshot::write_edge_targets,
    Snapshot::write_roots,
];

impl Snapshot {
    /// Writes the snapshot as a file. The file should be one that only its owner can read: names and paths of the program
    /// are in it, and contents where [`About::contents`](crate::About::contents) is set.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        block::begin(out)?;
        let mut blocks = 0;
        self.each_part(&mut |part| {
            blocks += part.count;
            out.write_all(&part.bytes)
        })?;
        block::end(out, blocks)
    }

    /// Makes the parts, as many at once as there are processors, and calls `each` with them in their order.
    fn each_part(&self, each: &mut dyn FnMut(Blocks) -> io::Result<()>) -> io::Result<()> {
        let processors = thread::available_parallelism().map_or(1, NonZero::get);
        let next = AtomicUsize::new(0);
        let (made, parts) = sync::mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..processors.min(MOST_THREADS) {
                let (made, next) = (made.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(write) = PARTS.get(number) else {
                            break;
                        };
                        let mut out = Output::new();
                        write(self, &mut out);
                        if made.send((number, out.finish())).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(made);
            let mut waiting = BTreeMap::new();
            let mut wanted = 0;
            for (number, part) in parts {
                waiting.insert(number, part);
                while let Some(part) = waiting.remove(&wanted) {
                    each(part)?;
                    wanted += 1;
                }
            }
            Ok(())
        })
    }

    /// What is named by number: the process, texts, kinds, lines.
    fn write_words(&self, out: &mut Output) {
        out.item(Section::Header, |raw| self.header(raw));
        out.items(Section::Texts, self.texts.len(), |raw, number, _| {
            put_bytes(raw, self.text(TextId(number as u32)));
        });
        out.items(Section::Kinds, self.kinds.len(), |raw, number, _| {
            let kind = &self.kinds[number];
            put(raw, kind.name.0.into());
            raw.push(kind.role as u8);
        });
        out.items(Section::Sites, self.sites.len(), |raw, number, _| {
            let site = &self.sites[number];
            put(raw, site.file.0.into());
            put(raw, site.line.into());
        });
    }

    pub(super) fn header(&self, raw: &mut Vec<u8>) {
        let about = &self.about;
        let most_notes = LONGEST_TEXT / 256;
        put_bytes(raw, cut(&about.language, LONGEST_TEXT));
        put_bytes(raw, cut(&about.version, LONGEST_TEXT));
        put(raw, u64::from(about.pid as u32));
        put(raw, about.taken_at);
        put(raw, about.rss);
        // No word holds a NUL.
        let words = about.command_line.join("\0");
        put_bytes(raw, cut(&words, LONGEST_TEXT));
        put_bytes(raw, cut(&about.host, LONGEST_TEXT));
        put_bytes(raw, cut(&about.boot, LONGEST_TEXT));
        put(raw, about.started);
        raw.push(about.collector as u8);
        raw.push(u8::from(about.contents));
        put(raw, about.notes.len().min(most_notes) as u64);
        for note in about.notes.iter().take(most_notes) {
            put_bytes(raw, cut(note, 1024));
        }
        let memory = &about.memory;
        put(raw, memory.findings.len().min(MOST_ROWS) as u64);
        for finding in memory.findings.iter().take(MOST_ROWS) {
            put_bytes(raw, cut(finding, 512));
        }
        put(raw, memory.rows.len().min(MOST_ROWS) as u64);
        for row in memory.rows.iter().take(MOST_ROWS) {
            put_bytes(raw, cut(&row.text, 512));
            [row.rss, row.pss, row.swap]
                .into_iter()
                .for_each(|bytes| put(raw, bytes));
        }
        put(
            raw,
            memory.malloc.map_or(0, |bytes| bytes.saturating_add(1)),
        );
        put(raw, about.allocated.len().min(MOST_ROWS) as u64);
        for one in about.allocated.iter().take(MOST_ROWS) {
            put_bytes(raw, cut(&one.kind, 512));
            [one.objects, one.bytes, one.in_malloc]
                .into_iter()
                .for_each(|number| put(raw, number));
        }
        let losses = &self.losses;
        for number in [
            losses.objects,
            losses.edges,
            losses.roots,
            losses.texts,
            losses.dangling_edges,
            losses.dangling_roots,
            losses.repeated_objects,
        ] {
            put(raw, number);
        }
        for count in [
            self.texts.len(),
            self.texts.bytes.len(),
            self.kinds.len(),
            self.sites.len(),
            self.len(),
            self.targets.len(),
            self.roots.len(),
        ] {
            put(raw, count as u64);
        }
    }

    fn write_addresses(&self, out: &mut Output) {
        let count = self.len();
        let mut addresses = self.columns.addresses.iter();
        let mut before = 0;
        out.items(Section::Addresses, count, |raw, _, first| {
            let address = addresses.next().unwrap_or(before);
            put(raw, if first { address } else { address - before });
            before = address;
        });
    }

    fn write_kinds(&self, out: &mut Output) {
        let (kinds, flags) = (&self.columns.kinds, &self.columns.flags);
        out.items(Section::ObjectKinds, kinds.len(), |raw, object, _| {
            put(raw, kinds[object].into());
        });
        out.items(Section::Flags, flags.len(), |raw, object, _| {
            raw.push(flags[object]);
        });
    }

    fn write_column(&self, out: &mut Output, section: Section, column: &Column) {
        let objects = if column.is_empty() { 0 } else { self.len() };
        let mut numbers = column.iter(objects as u32);
        out.items(section, objects, |raw, _, _| {
            let number = numbers.next().flatten();
            put(raw, number.map_or(0, |number| number + 1));
        });
    }

    fn write_fingerprints(&self, out: &mut Output) {
        let all = &self.columns.fingerprints;
        let (count, mut all) = (all.values.len(), all.iter());
        let mut before = 0;
        out.items(Section::Fingerprints, count, |raw, _, first| {
            let (object, fingerprint) = all.next().unwrap_or((before, 0));
            put_distance(raw, if first { 0 } else { before }, object);
            raw.extend_from_slice(&fingerprint.to_le_bytes());
            before = object;
        });
    }

    fn write_edge_counts(&self, out: &mut Output) {
        let mut ends = self.ends.iter();
        let mut begin = 0;
        out.items(Section::EdgeCounts, self.ends.len(), |raw, _, _| {
            let end = ends.next().unwrap_or(begin);
            put(raw, end - begin);
            begin = end;
        });
    }

    fn write_edge_names(&self, out: &mut Output) {
        let forms = EdgeName::forms();
        let mut names = self.names.iter(&self.ends);
        let mut next_index = 0;
        out.items(Section::EdgeNames, self.names.len(), |raw, _, first| {
            let (number, payload) = EdgeName::parts(names.next().unwrap_or(0));
            if first {
                next_index = 0;
            }
            raw.push(number);
            match forms[usize::from(number)] {
                Form::Index => {
                    put_distance(raw, next_index, payload);
                    next_index = payload + 1;
                }
                Form::Text => put(raw, payload.into()),
                Form::Plain => {}
            }
        });
    }

    fn write_edge_targets(&self, out: &mut Output) {
        let mut names = self.names.iter(&self.ends);
        let mut last = LastTargets::new();
        let count = self.targets.len();
        out.items(Section::EdgeTargets, count, |raw, edge, first| {
            if first {
                last = LastTargets::new();
            }
            let target = self.targets[edge];
            let before = last.of(names.next().unwrap_or(0));
            put_distance(raw, *before, target);
            *before = target;
        });
    }

    fn write_roots(&self, out: &mut Output) {
        let mut last = 0;
        out.items(Section::Roots, self.roots.len(), |raw, number, first| {
            let root = &self.roots[number];
            raw.push(root.name.kind as u8);
            put(raw, root.name.thread.into());
            put(raw, root.name.text.map_or(0, |text| u64::from(text.0) + 1));
            put_distance(raw, if first { 0 } else { last }, root.target);
            last = root.target;
        });
    }
}

/// The beginning of a text, as long as it may be.
fn cut(text: &str, most: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(most)]
}
