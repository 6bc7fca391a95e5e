//! The members of an archive: ar(5) of System V, with the long names of GNU (`//`) and of BSD (`#1/`). Used by
//! `objects`.

use super::is_object;

/// Returns why the code of a member of an archive is not read, where its first bytes say so.
pub(super) fn unread(bytes: &[u8]) -> Option<&'static str> {
    const BIT_CODE: [&[u8]; 2] = [b"BC\xc0\xde", b"\xde\xc0\x17\x0b"];
    if BIT_CODE.iter().any(|magic| bytes.starts_with(magic)) {
        return Some("LLVM bitcode, which has no frames before it is linked");
    }
    match bytes.starts_with(b"\x7fELF") {
        true => (!is_object(bytes)).then_some("no object file for x86-64"),
        // There may be code in it of which nobody knows.
        false => (!bytes.is_empty()).then_some("no ELF file"),
    }
}

/// Returns whether a member is the archive's own: its tables of symbols and of long names.
fn is_table(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = name.trim_ascii_end();
    name == b"/" || name == b"//" || name == b"/SYM64/" || name.starts_with(b"__.SYMDEF")
}

/// Returns the members of an archive, with their names, without its own tables and what is empty; `None` if it is damaged.
pub(super) fn members(bytes: &[u8]) -> Option<Vec<(String, &[u8])>> {
    let mut rest = bytes.get(8..)?;
    let mut long_names: &[u8] = &[];
    let mut members = Vec::new();
    while !rest.is_empty() {
        let header = rest.get(..60)?;
        if header.get(58..)? != b"`\n" {
            return None;
        }
        let number = |field: &[u8]| -> Option<usize> {
            std::str::from_utf8(field).ok()?.trim().parse().ok()
        };
        let size = number(header.get(48..58)?)?;
        let mut content = rest.get(60..60usize.checked_add(size)?)?;
        let name = header.get(..16)?;
        if name.starts_with(b"// ") {
            long_names = content;
        }
        let name = if is_table(name) {
            name
        } else if let Some(length) = name.strip_prefix(b"#1/") {
            let (name, bytes) = content.split_at_checked(number(length)?)?;
            content = bytes;
            name
        } else if let Some(at) = name.strip_prefix(b"/").and_then(number) {
            let name = long_names.get(at..)?;
            name.split(|byte| *byte == b'\n').next()?
        } else {
            name
        };
        if !is_table(name) && !content.is_empty() {
            let name = String::from_utf8_lossy(name);
            let name = name.trim_end_matches(['\0', ' ']);
            members.push((name.trim_end_matches('/').to_owned(), content));
        }
        // Members begin at even offsets.
        let next = 60 + size + size % 2;
        rest = rest.get(next..).unwrap_or(&[]);
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ELF header of an object file.
    fn object() -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\x3e\0");
        bytes
    }

    #[test]
    fn names_of_members_are_short_long_or_bsds() {
        let object = object();
        let member = |name: &str, bytes: &[u8]| {
            let header = format!(
                "{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n",
                0,
                0,
                0,
                644,
                bytes.len()
            );
            let mut member = header.into_bytes();
            member.extend_from_slice(bytes);
            member.resize(member.len().next_multiple_of(2), b'\n');
            member
        };
        let archive = [
            b"!<arch>\n".to_vec(),
            member("/", b"1234"),
            member("//", b"a_long_name_of_a_member.o/\nanother.o/\n"),
            member("short.o/", &object),
            member("/27", &object),
            member("text/", b"odd"),
            member("none/", b""),
            member("__.SYMDEF SORTED", b"1234"),
            member("#1/16", b"__.SYMDEF_64\0\0\0\0abcd"),
            member("#1/8", &[b"bsd.o\0\0\0".as_slice(), &object].concat()),
        ]
        .concat();
        let names: Vec<String> = members(&archive)
            .expect("whole")
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["short.o", "another.o", "text", "bsd.o"]);
        assert_eq!(unread(b"odd"), Some("no ELF file"));
        assert!(members(&archive[..archive.len() - 1]).is_none());
    }
}
