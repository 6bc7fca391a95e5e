//! Static probes: `DTRACE_PROBE` and friends, from `<sys/sdt.h>` of SystemTap. Used by the crates `hooks` and
//! `languages`.
//!
//! A probe is a `nop` in the code, and a note in `.note.stapsdt` that says where it is and where its arguments are at that place
//! (sys/sdt.h, version 3: `_SDT_ASM_BODY`; SystemTap wiki, "UserSpaceProbeImplementation"):
//!
//! ```text
//!   Elf64_Nhdr { namesz 8, descsz, type 3 }  "stapsdt\0"
//!   address of the nop │ address of .stapsdt.base │ address of the semaphore or 0      8 bytes each, as linked
//!   provider\0 name\0 arguments\0                                                      padded to 4
//! ```
//!
//! If a tool has moved sections (prelink), all three addresses are off by the difference between where `.stapsdt.base` is now and
//! where the note says. A user of a probe adds 1 to the 16-bit word at the semaphore and subtracts it afterwards: while the word is
//! 0 the program skips the probe.
//!
//! `probe.rs` hooks these probes.

mod arguments;

pub use arguments::{Argument, Found, Place, arguments};

/// A static probe, as its note describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe<'a> {
    /// Who has defined the probe, such as `ruby`, `python` or `libc`.
    pub provider: &'a str,
    /// Name of the probe within the provider, such as `gc__mark__begin`.
    pub name: &'a str,
    /// Address of the nop, as linked.
    pub pc: u64,
    /// Address of the 16-bit counter of users, as linked; 0 = there is none.
    pub semaphore: u64,
    /// Where its arguments are, as text that [`arguments()`] reads; empty = it has none.
    pub arguments: &'a str,
}

/// Type of the notes.
const STAPSDT: u32 = 3;

/// Reads the probes of a section `.note.stapsdt`; `base` is the address of `.stapsdt.base`, if there is one. Malformed notes are
/// skipped.
pub fn probes(notes: &[u8], base: Option<u64>) -> impl Iterator<Item = Probe<'_>> {
    let mut rest = notes;
    core::iter::from_fn(move || {
        while let Some((probe, next)) = note(rest, base) {
            rest = next;
            if probe.is_some() {
                return probe;
            }
        }
        None
    })
}

type Note<'a> = (Option<Probe<'a>>, &'a [u8]);

fn note(bytes: &[u8], base: Option<u64>) -> Option<Note<'_>> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (name_size, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let aligned = |size: usize| size.checked_next_multiple_of(4);
    let body = aligned(name_size)?.checked_add(12)?;
    let next = body.checked_add(aligned(size)?)?;
    let (name, description) = (
        bytes.get(12..12usize.checked_add(name_size)?)?,
        bytes.get(body..body.checked_add(size)?)?,
    );
    // The last note may lack its padding.
    let rest = bytes.get(next..).unwrap_or_default();
    let ours = kind == STAPSDT && name == b"stapsdt\0";
    Some((if ours { probe(description, base) } else { None }, rest))
}

fn probe(description: &[u8], base: Option<u64>) -> Option<Probe<'_>> {
    let address = |index: usize| {
        Some(u64::from_le_bytes(
            *description.get(index * 8..)?.first_chunk()?,
        ))
    };
    let (pc, linked, semaphore) = (address(0)?, address(1)?, address(2)?);
    let moved = base.map_or(0, |base| base.wrapping_sub(linked));
    let mut texts = description.get(24..)?.split(|byte| *byte == 0);
    let mut text = || core::str::from_utf8(texts.next()?).ok();
    Some(Probe {
        provider: text()?,
        name: text()?,
        arguments: text()?,
        pc: pc.wrapping_add(moved),
        semaphore: if semaphore == 0 {
            0
        } else {
            semaphore.wrapping_add(moved)
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn made(provider: &str, name: &str, arguments: &str, addresses: [u64; 3]) -> Vec<u8> {
        let mut body: Vec<u8> = addresses
            .iter()
            .flat_map(|address| address.to_le_bytes())
            .collect();
        for text in [provider, name, arguments] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let mut note: Vec<u8> = [8, body.len() as u32, 3]
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect();
        note.extend_from_slice(b"stapsdt\0");
        note.extend_from_slice(&body);
        note.resize(note.len().next_multiple_of(4), 0);
        note
    }

    #[test]
    fn notes_are_read_one_after_the_other_and_others_are_passed_over() {
        let mut notes = made("ruby", "raise", "8@%rdi", [0x1000, 0x500, 0]);
        let other: Vec<u8> = [4, 4, 1]
            .iter()
            .flat_map(|word: &u32| word.to_le_bytes())
            .collect();
        notes.extend_from_slice(&other);
        notes.extend_from_slice(b"GNU\0abcd");
        notes.extend(made("python", "line", "", [0x2000, 0x500, 0x3000]));
        let found: Vec<_> = probes(&notes, Some(0x600)).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[0].provider, found[0].name, found[0].arguments),
            ("ruby", "raise", "8@%rdi")
        );
        assert_eq!((found[0].pc, found[0].semaphore), (0x1100, 0));
        assert_eq!((found[1].pc, found[1].semaphore), (0x2100, 0x3100));
    }

    proptest! {
        #[test]
        fn hostile_notes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), base: u64) {
            prop_assert!(probes(&bytes, Some(base)).count() <= bytes.len() / 12);
        }

        #[test]
        fn a_note_cut_anywhere_does_not_panic(cut in 0..60usize) {
            let whole = made("provider", "name", "8@%rdi -4@$5", [1, 2, 3]);
            prop_assert!(probes(&whole[..cut.min(whole.len())], None).count() <= 1);
        }
    }
}
