//! Finds the name that a thread asks a name server for. Used by `sleepers`.
//!
//! A resolver keeps the question that it sends on its stack (glibc: `__res_context_query`, resolv/res_query.c; musl:
//! `name_from_dns`, src/network/lookup_name.c) and passes its address to the function that sends it. So it is the innermost
//! text on the stack that has the form of a question (RFC 1035, sections 4.1.1, 4.1.2 and 2.3.4) and whose address is on the
//! stack, too:
//!
//! ```text
//!   │ id │ 01 00 │ 00 01 │ 00 00 │ 00 00 │ 00 0x │ 2 "db" 7 "example" 3 "com" 0 │ 00 1c │ 00 01 │
//!          flags   questions                       labels                         type    class
//! ```

use process::snapshot::{Copies, Thread};

/// Number of bytes at the inner end of a stack that are searched.
const SEARCHED: u64 = 64 << 10;
/// Bytes of the head, and of a name with its last label of no length.
const HEAD: usize = 12;
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;
/// The only flags that a question may have: "recursion desired", and in another byte "authentic data" (RFC 6840, section 5.7).
const ASKED: u8 = 0x01;
const AUTHENTIC: u8 = 0x20;
/// The port of name servers, as the end of the description of a peer by [`process::wait`].
const PORT: &str = ":53";

/// Returns the name that a thread asks for which waits for these descriptors.
pub(super) fn asked(on: &[String], thread: &Thread, copies: &Copies) -> Option<String> {
    if !on.iter().any(|peer| peer.ends_with(PORT)) {
        return None;
    }
    let from = thread.context.sp & !7;
    let end = thread.mapping.end.min(from.saturating_add(SEARCHED));
    let parts = copies.parts(from..end)?;
    let words = |address: u64| {
        let mut words = parts.iter().flat_map(|(_, part)| part.as_chunks::<8>().0);
        words.any(|word| *word == address.to_le_bytes())
    };
    parts.iter().find_map(|(from, part)| {
        (0..part.len()).find_map(|at| {
            let name = question(part.get(at..)?)?;
            words(from.wrapping_add(at as u64)).then_some(name)
        })
    })
}

/// Returns the name that a message asks for, if it is a question.
fn question(message: &[u8]) -> Option<String> {
    let head: &[u8; HEAD] = message.first_chunk()?;
    let [_, _, asked, also, 0, 1, 0, 0, 0, 0, 0, 0 | 1] = *head else {
        return None;
    };
    if asked != ASKED || also & !AUTHENTIC != 0 {
        return None;
    }
    let mut name = String::new();
    let mut rest = &message[HEAD..];
    loop {
        let (&length, behind) = rest.split_first()?;
        if length == 0 {
            rest = behind;
            break;
        }
        let label = behind.get(..usize::from(length))?;
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let fits = label.len() <= LONGEST_LABEL && name.len() + label.len() + 2 <= LONGEST_NAME;
        if !fits || !label.iter().all(is_plain) {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.extend(label.iter().map(|byte| char::from(*byte)));
        rest = &behind[usize::from(length)..];
    }
    // A type below 256, and the class of the internet.
    let [0, kind, 0, 1] = *rest.first_chunk::<4>()? else {
        return None;
    };
    (kind != 0 && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::question;

    fn message(head: [u8; 12], name: &[u8], tail: [u8; 4]) -> Vec<u8> {
        [&head[..], name, &tail[..]].concat()
    }

    const HEAD: [u8; 12] = [7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    const NAME: &[u8] = b"\x02db\x07example\x03com\0";

    #[test]
    fn questions_are_told_from_other_bytes() {
        let asks = |head, name, tail| question(&message(head, name, tail));
        let name = Some("db.example.com".to_owned());
        assert_eq!(asks(HEAD, NAME, [0, 28, 0, 1]), name);
        // With EDNS, and with "authentic data".
        let with = [7, 9, 1, 0x20, 0, 1, 0, 0, 0, 0, 0, 1];
        assert_eq!(asks(with, NAME, [0, 1, 0, 1]), name);
        let answer = [7, 9, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0];
        assert_eq!(asks(answer, NAME, [0, 1, 0, 1]), None);
        assert_eq!(asks(HEAD, b"\0", [0, 1, 0, 1]), None);
        assert_eq!(asks(HEAD, b"\x02d\x1b\0", [0, 1, 0, 1]), None);
        assert_eq!(asks(HEAD, NAME, [0, 1, 0, 2]), None);
        assert_eq!(asks(HEAD, &[63; 64], [0, 1, 0, 1]), None);
        assert_eq!(question(&message(HEAD, NAME, [0, 1, 0, 1])[..20]), None);
        let long = [&b"\x3f"[..], &[b'a'; 63]].concat().repeat(5);
        assert_eq!(asks(HEAD, &[&long[..], b"\0"].concat(), [0, 1, 0, 1]), None);
    }
}
