//! Writing a snapshot.

use std::io::{self, Write};

use super::block::Output;
use super::number::put_distance;
use super::{LONGEST_TEXT, LastTargets, Section};
use crate::column::Column;
use crate::names::EdgeName;
use crate::snapshot::Snapshot;
use crate::text::TextId;
use varint::{put, put_bytes};

/// Rows of what resident memory was used for, so that the header stays small.
const MOST_ROWS: usize = 64;

impl Snapshot {
    /// Writes the snapshot as a file. The file should be one that only its owner can read: names and paths of the program
    /// are in it, and contents where [`About::contents`](crate::About::contents) is set.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = Output::begin(out)?;
        out.item(Section::Header, |raw, _| self.header(raw))?;
        for number in 0..self.texts.len() {
            let text = self.text(TextId(number as u32));
            out.item(Section::Texts, |raw, _| put_bytes(raw, text))?;
        }
        for kind in &self.kinds {
            out.item(Section::Kinds, |raw, _| {
                put(raw, kind.name.0.into());
                raw.push(kind.role as u8);
            })?;
        }
        for site in &self.sites {
            out.item(Section::Sites, |raw, _| {
                put(raw, site.file.0.into());
                put(raw, site.line.into());
            })?;
        }
        self.write_objects(&mut out)?;
        self.write_edges(&mut out)?;
        let mut last = 0;
        for root in &self.roots {
            out.item(Section::Roots, |raw, first| {
                raw.push(root.name.kind as u8);
                put(raw, root.name.thread.into());
                put(raw, root.name.text.map_or(0, |text| u64::from(text.0) + 1));
                put_distance(raw, if first { 0 } else { last }, root.target);
                last = root.target;
            })?;
        }
        out.end()
    }

    pub(super) fn header(&self, raw: &mut Vec<u8>) {
        let about = &self.about;
        let most_notes = LONGEST_TEXT / 256;
        put_bytes(raw, cut(&about.language, LONGEST_TEXT));
        put_bytes(raw, cut(&about.version, LONGEST_TEXT));
        put(raw, u64::from(about.pid as u32));
        put(raw, about.taken_at);
        put(raw, about.rss);
        put_bytes(raw, cut(&about.command_line, LONGEST_TEXT));
        put_bytes(raw, cut(&about.host, LONGEST_TEXT));
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

    fn write_objects(&self, out: &mut Output) -> io::Result<()> {
        let columns = &self.columns;
        let mut before = 0;
        for address in &columns.addresses {
            out.item(Section::Addresses, |raw, first| {
                put(raw, if first { *address } else { address - before });
                before = *address;
            })?;
        }
        for kind in &columns.kinds {
            out.item(Section::ObjectKinds, |raw, _| put(raw, (*kind).into()))?;
        }
        for flags in &columns.flags {
            out.item(Section::Flags, |raw, _| raw.push(*flags))?;
        }
        for (section, column) in [
            (Section::Bytes, &columns.bytes),
            (Section::Classes, &columns.classes),
            (Section::ObjectSites, &columns.sites),
            (Section::Births, &columns.births),
            (Section::Lengths, &columns.lengths),
            (Section::Capacities, &columns.capacities),
            (Section::Labels, &columns.labels),
            (Section::Contents, &columns.contents),
        ] {
            self.write_column(out, section, column)?;
        }
        let mut before = 0;
        for (object, fingerprint) in &columns.fingerprints {
            out.item(Section::Fingerprints, |raw, first| {
                put_distance(raw, if first { 0 } else { before }, *object);
                raw.extend_from_slice(&fingerprint.to_le_bytes());
                before = *object;
            })?;
        }
        Ok(())
    }

    fn write_column(&self, out: &mut Output, section: Section, column: &Column) -> io::Result<()> {
        let objects = if column.is_empty() { 0 } else { self.len() };
        for object in 0..objects {
            let number = column.get(object as u32);
            out.item(section, |raw, _| {
                put(raw, number.map_or(0, |number| number + 1));
            })?;
        }
        Ok(())
    }

    fn write_edges(&self, out: &mut Output) -> io::Result<()> {
        let mut begin = 0;
        for end in &self.ends {
            out.item(Section::EdgeCounts, |raw, _| {
                put(raw, u64::from(end - begin));
            })?;
            begin = *end;
        }
        let mut next_index = 0;
        for packed in &self.names {
            out.item(Section::EdgeNames, |raw, first| {
                raw.push(EdgeName::number(*packed));
                match EdgeName::unpack(*packed) {
                    Some(EdgeName::Index(index)) => {
                        put_distance(raw, if first { 0 } else { next_index }, index);
                        next_index = index + 1;
                        return;
                    }
                    Some(name) if EdgeName::has_text(*packed) => {
                        put(raw, name.text().map_or(0, |text| u64::from(text.0) + 1));
                    }
                    _ => {}
                }
                if first {
                    next_index = 0;
                }
            })?;
        }
        let mut last = LastTargets::new();
        for (target, name) in self.targets.iter().zip(&self.names) {
            out.item(Section::EdgeTargets, |raw, first| {
                if first {
                    last = LastTargets::new();
                }
                let before = last.of(*name);
                put_distance(raw, *before, *target);
                *before = *target;
            })?;
        }
        Ok(())
    }
}

/// The beginning of a text, as long as it may be.
fn cut(text: &str, most: usize) -> &[u8] {
    &text.as_bytes()[..text.floor_char_boundary(most)]
}
