//! Writes a recording: its head, its definitions and segments, and the index at its end. Used by
//! `calls::recorder::store`.

use crate::codec::encode::Encoder;
use crate::codec::{CallRecord, Place, ReturnRecord, ShortRecord};
use crate::define::put_definition;
use crate::event::EventKind;
use crate::index::{Holds, Trailer, put_entry};
use crate::item::{Definition, Head};
use crate::segment::{Kind, Segment};
use crate::{MAGIC, SEGMENT, VERSION};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Limit of the bytes that all streams together hold back; beyond it, segments are written before they are full.
const MOST_WAITING: usize = 16 << 20;

/// From this many bytes per event on, a segment is packed: it contains texts then. Numbers alone hardly shrink, and
/// trying takes longer than writing them.
const WORTH_PACKING: usize = 12;

/// The events of one ring.
struct Stream {
    guest: u32,
    ring: u32,
    /// `None` = nothing waits, and no call is open: the streams of ended threads stay.
    encoder: Option<Box<Encoder>>,
}

/// Writes a recording, segment by segment. What was written before the last [`Writer::flush`] can be read, whatever
/// happens to the writer later.
pub struct Writer<W> {
    out: W,
    /// Bytes that were written.
    at: u64,
    definitions: Vec<u8>,
    /// The numbers of guests, modules, functions, call edges, lines and callers.
    counts: [u32; 6],
    streams: Vec<Stream>,
    /// The last segment of each chain.
    last: Trailer,
    /// Entries of the index that are not written yet.
    index: Vec<u8>,
    /// The head for these entries; `None` = there are none.
    listed: Option<Segment>,
    /// The latest time of all segments that were written.
    latest: u64,
    packed: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Writes the beginning of a file, up to its head, so that it can be read from then on.
    pub fn new(mut out: W, head: Head) -> io::Result<Self> {
        out.write_all(&MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut writer = Writer {
            out,
            at: MAGIC.len() as u64 + 4,
            definitions: Vec::new(),
            counts: [0; 6],
            streams: Vec::new(),
            last: Trailer::default(),
            index: Vec::new(),
            listed: None,
            latest: 0,
            packed: Vec::new(),
        };
        writer.define(Definition::Head(head))?;
        writer.flush()?;
        Ok(writer)
    }

    /// Where it writes to.
    pub fn out_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Takes a definition and returns its number. It is written before the next segment of events.
    pub fn define(&mut self, definition: Definition) -> io::Result<u32> {
        put_definition(&mut self.definitions, &definition);
        let which = match definition {
            Definition::Guest(_) => 0,
            Definition::Module(_) => 1,
            Definition::Function(_) => 2,
            Definition::CallEdge(_) => 3,
            Definition::Line(_) => 4,
            Definition::Caller(_) => 5,
            Definition::Head(_) | Definition::Losses(_) => return Ok(0),
        };
        self.counts[which] += 1;
        if self.definitions.len() >= SEGMENT {
            self.put_definitions()?;
        }
        Ok(self.counts[which] - 1)
    }

    /// Begins the stream of a guest's ring and returns its number.
    pub fn stream(&mut self, guest: u32, ring: u32) -> u32 {
        self.streams.push(Stream {
            guest,
            ring,
            encoder: None,
        });
        self.streams.len() as u32 - 1
    }

    #[inline]
    fn encoder(&mut self, stream: u32) -> &mut Encoder {
        let encoder = &mut self.streams[stream as usize].encoder;
        encoder.get_or_insert_default()
    }

    /// Writes a call into the segment of its stream; a full segment is closed.
    #[inline]
    pub fn call(&mut self, stream: u32, call: &CallRecord) -> io::Result<()> {
        let encoder = self.encoder(stream);
        encoder.call(call);
        if encoder.is_full() {
            self.close(stream)?;
        }
        Ok(())
    }

    /// As [`call`](Self::call), for a return.
    #[inline]
    pub fn back(&mut self, stream: u32, back: &ReturnRecord) -> io::Result<()> {
        let encoder = self.encoder(stream);
        encoder.back(back);
        if encoder.is_full() {
            self.close(stream)?;
        }
        Ok(())
    }

    /// As [`call`](Self::call) and [`back`](Self::back), for a call with its return.
    #[inline]
    pub fn short(&mut self, stream: u32, call: &ShortRecord) -> io::Result<()> {
        let encoder = self.encoder(stream);
        encoder.short(call);
        if encoder.is_full() {
            self.close(stream)?;
        }
        Ok(())
    }

    /// Writes a fork, a signal or an end. Events of other kinds are ignored.
    pub fn other<C>(
        &mut self,
        stream: u32,
        place: Place,
        time: u64,
        kind: &EventKind<C>,
    ) -> io::Result<()> {
        if let EventKind::Signal(_) | EventKind::Forked(_) | EventKind::Ended(_) = kind {
            let encoder = self.encoder(stream);
            encoder.other(place, time, kind);
            if encoder.is_full() {
                self.close(stream)?;
            }
        }
        Ok(())
    }

    /// The latest time of all events so far, in nanoseconds since 1970.
    pub fn latest(&self) -> u64 {
        let encoders = self.streams.iter().filter_map(|of| of.encoder.as_ref());
        let latest = encoders.map(|encoder| encoder.latest());
        latest.max().unwrap_or(0).max(self.latest)
    }

    /// Closes the segment of a stream that is full or has waited for long, and writes it.
    fn close(&mut self, stream: u32) -> io::Result<()> {
        self.put_definitions()?;
        let Stream {
            guest,
            ring,
            encoder,
        } = &mut self.streams[stream as usize];
        let Some(encoder) = encoder else {
            return Ok(());
        };
        let Some(closed) = encoder.close() else {
            return Ok(());
        };
        let head = Segment {
            stream,
            guest: *guest,
            ring: *ring,
            ..closed.head
        };
        let holds = Holds::new(closed.edges, closed.lines);
        let pack = closed.bytes.len() > WORTH_PACKING * head.events as usize;
        let segment = put_segment(
            &mut self.out,
            (head, self.at),
            closed.bytes,
            pack.then_some(&mut self.packed),
        )?;
        self.at = segment.end();
        encoder.clear();
        self.latest = self.latest.max(segment.latest);
        self.enter(&segment, &holds)
    }

    /// Enters a segment of events into the index.
    fn enter(&mut self, segment: &Segment, holds: &Holds) -> io::Result<()> {
        put_entry(&mut self.index, segment, holds);
        let listed = self.listed.get_or_insert(Segment {
            kind: Kind::Index,
            earliest: u64::MAX,
            ..Segment::default()
        });
        listed.events += 1;
        listed.forks |= segment.forks;
        listed.earliest = listed.earliest.min(segment.earliest);
        listed.latest = listed.latest.max(segment.latest);
        if self.index.len() >= SEGMENT {
            self.put_index()?;
        }
        Ok(())
    }

    fn put_definitions(&mut self) -> io::Result<()> {
        if self.definitions.is_empty() {
            return Ok(());
        }
        let head = Segment {
            kind: Kind::Definitions,
            whole: self.definitions.len() as u32,
            first: self.last.definitions,
            ..Segment::default()
        };
        let segment = put_segment(&mut self.out, (head, self.at), &self.definitions, None)?;
        self.definitions.clear();
        (self.last.definitions, self.at) = (segment.offset, segment.end());
        Ok(())
    }

    /// Writes the index of the segments since the one before.
    fn put_index(&mut self) -> io::Result<()> {
        let Some(listed) = self.listed.take() else {
            return Ok(());
        };
        let head = Segment {
            whole: self.index.len() as u32,
            first: self.last.index,
            ..listed
        };
        let segment = put_segment(&mut self.out, (head, self.at), &self.index, None)?;
        self.index.clear();
        (self.last.index, self.at) = (segment.offset, segment.end());
        Ok(())
    }

    /// Writes the streams whose oldest event has waited for `age`.
    pub fn flush_old(&mut self, age: Duration) -> io::Result<()> {
        let now = Instant::now();
        let encoders = self.streams.iter().filter_map(|of| of.encoder.as_ref());
        let waiting: usize = encoders.map(|encoder| encoder.waiting()).sum();
        let age = if waiting > MOST_WAITING {
            Duration::ZERO
        } else {
            age
        };
        for stream in 0..self.streams.len() {
            let encoder = &self.streams[stream].encoder;
            let since = encoder.as_ref().and_then(|encoder| encoder.since());
            if since.is_some_and(|since| now.saturating_duration_since(since) >= age) {
                self.close(stream as u32)?;
                self.rest(stream);
            }
        }
        self.put_definitions()?;
        self.out.flush()
    }

    /// Frees the buffers of a stream that has nothing to write.
    fn rest(&mut self, stream: usize) {
        let encoder = &mut self.streams[stream].encoder;
        if !encoder.as_mut().is_some_and(|encoder| encoder.rest()) {
            *encoder = None;
        }
    }

    /// Writes everything that waits, and flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_old(Duration::ZERO)
    }

    /// Writes the rest and the index, and returns the output.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        self.put_index()?;
        self.out.write_all(&self.last.encode())?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Writes a segment with this head at this offset, packed if it becomes shorter.
fn put_segment(
    out: &mut impl Write,
    (head, offset): (Segment, u64),
    bytes: &[u8],
    packed: Option<&mut Vec<u8>>,
) -> io::Result<Segment> {
    let mut here = bytes;
    if let Some(packed) = packed {
        packed.resize(lz4_flex::block::get_maximum_output_size(bytes.len()), 0);
        let length = lz4_flex::block::compress_into(bytes, packed).map_err(io::Error::other)?;
        if length < bytes.len() {
            here = &packed[..length];
        }
    }
    let segment = Segment {
        offset,
        sum: crc32fast::hash(here),
        here: here.len() as u32,
        packed: here.len() < bytes.len(),
        ..head
    };
    out.write_all(&segment.encode())?;
    out.write_all(here)?;
    out.flush()?;
    Ok(segment)
}
