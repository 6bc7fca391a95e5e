//! The bytes that a copy writes, as what they say; [`wire::snapshot`] has their layout. Used by `ruby::snapshot`,
//! `batches`, `python::snapshot` and others.
//!
//! They are a guest's: what is not as laid out ends the reading, and nothing is taken for more than a number.

use std::io::{self, Read};
use wire::snapshot::stream::unzigzag;
use wire::snapshot::{LONGEST_CATEGORY, stream};

/// What one section says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// The following roots are in the VM's table of this name.
    Category(Vec<u8>),
    /// The object at this address is kept alive by no object.
    Root(u64),
    /// An object; its references are in [`Reader::references`].
    Object(HeapSlot),
    /// An object of a heap without pages, by its address; its references are in [`Reader::references`], and those of them that refer to
    /// nothing and are told here in [`Reader::atoms`].
    Traced(u64),
    /// An object that refers to nothing.
    Atom(u64),
    /// So many slots were left out, because a sweep would have freed them.
    Garbage(u64),
    /// The end, with the number of objects, references and roots.
    End {
        /// Number of objects that were written.
        objects: u64,
        /// Number of references of those objects.
        references: u64,
        /// Number of roots that were written.
        roots: u64,
        /// Objects and references that were written and not kept, because the process has not the memory for so many. They are not
        /// among the others.
        left_out: [u64; 2],
    },
}

/// An object of a heap with pages: one slot that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapSlot {
    /// Address of the slot.
    pub address: u64,
    /// The bytes of its slot.
    pub slot: u64,
    /// The object's word of flags (`RBasic.flags`).
    pub flags: u64,
    /// The word at which objects have their class.
    pub class: u64,
    /// Bytes that the object takes; `None` = the VM's function that knows them raised.
    pub bytes: Option<u64>,
}

/// Why a stream is no good.
#[derive(Debug, thiserror::Error)]
pub enum Bad {
    /// It could not be read, or ended too early.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// It says what cannot be.
    #[error("what it wrote makes no sense: {0}")]
    Senseless(&'static str),
}

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;
/// Bytes of the longest number.
const LONGEST_NUMBER: usize = 10;

/// Reads the stream of one copy from its first section to its end. References and atoms are those of the object that was given last; after an
/// error nothing more can be read.
pub struct Reader<R> {
    from: R,
    piece: Vec<u8>,
    next: usize,
    /// Address of the next slot of the page, or of the object given last in a heap without pages; and bytes of the page's slots.
    slot: u64,
    slot_size: u64,
    class: u64,
    references: Vec<u64>,
    atoms: Vec<u64>,
    /// References of all objects that are still kept.
    left: u64,
    left_out: [u64; 2],
}

impl<R: Read> Reader<R> {
    /// Begins to read the stream that `from` has, from its first section on. Of all objects together so many references are kept at most:
    /// what is written costs its process a byte each, and us eight and more.
    pub fn new(from: R, most: u64) -> Self {
        Reader {
            from,
            piece: Vec::new(),
            next: 0,
            slot: 0,
            slot_size: 0,
            class: 0,
            references: Vec::new(),
            atoms: Vec::new(),
            left: most,
            left_out: [0; 2],
        }
    }

    /// The addresses of what the object given last refers to.
    pub fn references(&self) -> &[u64] {
        &self.references
    }

    /// Those of [`Reader::references`] that refer to nothing themselves and are told with the object given last.
    pub fn atoms(&self) -> &[u64] {
        &self.atoms
    }

    /// The next section.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub fn next(&mut self) -> Result<Said, Bad> {
        loop {
            match self.byte()? {
                stream::CATEGORY => return self.category(),
                stream::ROOT => return Ok(Said::Root(self.number()?)),
                stream::PAGE => {
                    (self.slot, self.slot_size) = (self.number()?, self.number()?);
                    if !(40..=1 << 16).contains(&self.slot_size) || !self.slot.is_multiple_of(8) {
                        return Err(Bad::Senseless("slots of such a size are in no page"));
                    }
                }
                stream::OBJECT => return self.object(),
                stream::TRACED => return self.traced(),
                stream::ATOM => return Ok(Said::Atom(self.number()?)),
                stream::GARBAGE => return Ok(Said::Garbage(self.number()?)),
                stream::END => {
                    let [objects, references] = self.left_out;
                    return Ok(Said::End {
                        objects: self.number()?.wrapping_sub(objects),
                        references: self.number()?.wrapping_sub(references),
                        roots: self.number()?,
                        left_out: self.left_out,
                    });
                }
                _ => return Err(Bad::Senseless("no section begins so")),
            }
        }
    }

    fn category(&mut self) -> Result<Said, Bad> {
        let length = self.number()?;
        if length > LONGEST_CATEGORY as u64 {
            return Err(Bad::Senseless("no root table has so long a name"));
        }
        let mut name = Vec::new();
        for _ in 0..length {
            name.push(self.byte()?);
        }
        Ok(Said::Category(name))
    }

    fn object(&mut self) -> Result<Said, Bad> {
        let skipped = self.number()?;
        let address = skipped
            .checked_mul(self.slot_size)
            .and_then(|bytes| self.slot.checked_add(bytes))
            .filter(|_| self.slot_size != 0)
            .ok_or(Bad::Senseless("an object lies beyond all memory"))?;
        let flags = self.number()?;
        self.class = self.class.wrapping_add(unzigzag(self.number()?));
        let bytes = self.number()?.checked_sub(1);
        self.slot = address.saturating_add(self.slot_size);
        self.references.clear();
        loop {
            let target = match self.number()? {
                0 => break,
                1 => self.class,
                code => address.wrapping_add(unzigzag(code - 2).wrapping_mul(8)),
            };
            self.keep(target, false);
        }
        Ok(Said::Object(HeapSlot {
            address,
            slot: self.slot_size,
            flags,
            class: self.class,
            bytes,
        }))
    }

    fn traced(&mut self) -> Result<Said, Bad> {
        let distance = unzigzag(self.number()?).wrapping_mul(8);
        self.slot = self.slot.wrapping_add(distance);
        let address = self.slot;
        self.references.clear();
        self.atoms.clear();
        while let Some(code) = self.number()?.checked_sub(1) {
            let target = address.wrapping_add(unzigzag(code >> 1).wrapping_mul(8));
            self.keep(target, code & 1 != 0);
        }
        Ok(Said::Traced(address))
    }

    /// Keeps a reference of the object, and whether what it leads to is told with it.
    #[inline]
    fn keep(&mut self, target: u64, is_told: bool) {
        if self.left == 0 {
            self.left_out[0] += u64::from(is_told);
            self.left_out[1] += 1;
            return;
        }
        self.left -= 1;
        self.references.push(target);
        if is_told {
            self.atoms.push(target);
        }
    }

    #[inline]
    fn byte(&mut self) -> Result<u8, Bad> {
        if self.next == self.piece.len() {
            self.fill()?;
        }
        let byte = self.piece[self.next];
        self.next += 1;
        Ok(byte)
    }

    #[cold]
    fn fill(&mut self) -> Result<(), Bad> {
        self.piece.resize(PIECE, 0);
        let read = self.from.read(&mut self.piece)?;
        self.piece.truncate(read);
        self.next = 0;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }

    #[inline]
    fn number(&mut self) -> Result<u64, Bad> {
        match self.piece.get(self.next) {
            Some(byte) if byte & 0x80 == 0 => {
                self.next += 1;
                Ok(u64::from(*byte))
            }
            _ => self.long_number(),
        }
    }

    /// A number of more than one byte, or one that the next piece begins with.
    fn long_number(&mut self) -> Result<u64, Bad> {
        let whole = self.piece.get(self.next..self.next + LONGEST_NUMBER);
        if let Some(bytes) = whole.and_then(|bytes| bytes.first_chunk::<LONGEST_NUMBER>()) {
            let (number, length) = decoded(bytes)?;
            self.next += length;
            return Ok(number);
        }
        let mut bytes = [0; LONGEST_NUMBER];
        for byte in &mut bytes {
            *byte = self.byte()?;
            if *byte & 0x80 == 0 {
                break;
            }
        }
        Ok(decoded(&bytes)?.0)
    }
}

/// The number that these begin with, and how many of them it has.
#[inline]
fn decoded(bytes: &[u8; LONGEST_NUMBER]) -> Result<(u64, usize), Bad> {
    let mut number = 0;
    for (index, byte) in bytes.iter().enumerate() {
        if index == LONGEST_NUMBER - 1 && *byte > 1 {
            break;
        }
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, index + 1));
        }
    }
    Err(Bad::Senseless("a number has more than 64 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(bytes: &[u8]) -> Result<Vec<(Said, Vec<u64>)>, Bad> {
        let mut reader = Reader::new(bytes, u64::MAX);
        let mut all = Vec::new();
        loop {
            let said = reader.next()?;
            let end = matches!(said, Said::End { .. });
            all.push((said, reader.references().to_vec()));
            if end {
                return Ok(all);
            }
        }
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let page = [
            &[stream::CATEGORY, 2, b'v', b'm', stream::ROOT, 0x80, 0x20][..],
            // Slots of 40 bytes from 0x1000; the second one is an object of class 0x2000 and flags 5.
            &[stream::PAGE, 0x80, 0x20, 40],
            &[stream::OBJECT, 1, 5, 0x80, 0x80, 1, 81, 1, 2, 3, 4, 0],
            // The one behind it is of the same class; its size function raised; it refers to nothing.
            &[stream::OBJECT, 0, 5, 0, 0, 0],
            &[stream::GARBAGE, 7, stream::END, 2, 4, 1],
        ]
        .concat();
        let object = |address, bytes| {
            Said::Object(HeapSlot {
                address,
                slot: 40,
                flags: 5,
                class: 0x2000,
                bytes,
            })
        };
        let all = said(&page).expect("sound");
        assert_eq!(all[0].0, Said::Category(b"vm".to_vec()));
        assert_eq!(all[1].0, Said::Root(0x1000));
        let references = vec![0x2000, 0x1028, 0x1020, 0x1030];
        assert_eq!(all[2], (object(0x1028, Some(80)), references));
        assert_eq!(all[3], (object(0x1050, None), vec![]));
        assert_eq!(all[4].0, Said::Garbage(7));
        let counts = Said::End {
            objects: 2,
            references: 4,
            roots: 1,
            left_out: [0; 2],
        };
        assert_eq!(all[5].0, counts);
        // Cut anywhere it is an error, and not a shorter heap.
        for end in 0..page.len() {
            assert!(matches!(said(&page[..end]), Err(Bad::Read(_))), "{end}");
        }
    }

    #[test]
    fn traced_objects_are_read_as_they_were_written() {
        let bytes = [
            // At 0x1000, refers to 0x1010, which is told here, and to itself.
            &[stream::TRACED, 0x80, 8, 10, 1, 0][..],
            // 8 before, refers to nothing.
            &[stream::TRACED, 1, 0, stream::ATOM, 8, stream::END, 4, 2, 1],
        ]
        .concat();
        let mut reader = Reader::new(&*bytes, u64::MAX);
        assert_eq!(reader.next().expect("sound"), Said::Traced(0x1000));
        assert_eq!(reader.references(), [0x1010, 0x1000]);
        assert_eq!(reader.atoms(), [0x1010]);
        assert_eq!(reader.next().expect("sound"), Said::Traced(0xff8));
        assert!(reader.references().is_empty() && reader.atoms().is_empty());
        assert_eq!(reader.next().expect("sound"), Said::Atom(8));
        assert!(matches!(reader.next(), Ok(Said::End { objects: 4, .. })));
    }

    /// Each reference is a byte for who writes it. However many are written, so many are kept as the process has memory for.
    #[test]
    fn more_references_than_there_can_be_are_left_out() {
        const WRITTEN: usize = 1 << 20;
        let mut bytes = vec![stream::TRACED, 0x80, 8, 3, 4, 0, stream::TRACED, 1];
        bytes.resize(bytes.len() + WRITTEN, 4);
        bytes.extend([0, stream::END, 5, 0x82, 0x80, 0x40, 0]);
        let mut reader = Reader::new(&*bytes, 10);
        reader.next().expect("sound");
        assert_eq!((reader.references().len(), reader.atoms().len()), (2, 1));
        reader.next().expect("sound");
        assert_eq!((reader.references().len(), reader.atoms().len()), (8, 8));
        assert!(reader.references.capacity() <= 32);
        let left_out = WRITTEN as u64 - 8;
        let end = Said::End {
            objects: 5_u64.wrapping_sub(left_out),
            references: 10,
            roots: 0,
            left_out: [left_out; 2],
        };
        assert_eq!(reader.next().expect("sound"), end);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let long = [&[stream::ROOT][..], &[0xff; 10], &[1]].concat();
        for bad in [
            &[b'?'][..],
            &[stream::CATEGORY, 65],
            &[stream::PAGE, 0, 39],
            &[stream::PAGE, 1, 40],
            // An object before any page.
            &[stream::OBJECT, 0, 0, 0, 0, 0],
            &long,
        ] {
            assert!(matches!(said(bad), Err(Bad::Senseless(_))), "{bad:?}");
        }
    }

    #[test]
    fn differences_come_out_as_they_went_in() {
        for (number, difference) in [(0, 0), (1, -1i64), (2, 1), (u64::MAX, i64::MIN)] {
            assert_eq!(unzigzag(number), difference as u64);
            assert_eq!(stream::zigzag(difference as u64), number);
        }
    }
}
