//! The name of a function from an address in it, without a lock and without an allocation.
//!
//! `dladdr` takes the loader's lock and knows exported symbols only. So the file is found in
//! `/proc/self/maps`, mapped, and its `.symtab` (else `.dynsym`) searched: open, read, mmap, nothing
//! else. Layouts: ELF-64, gABI chapters 4 and 5.

use core::ffi::CStr;
use core::fmt::Write;
use core::ptr;

use super::text::Text;

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const PT_LOAD: u32 = 1;
const STT_FUNC: u8 = 2;

/// Longest path looked at; a longer one leaves the function nameless.
const PATH: usize = 512;

/// Where an address comes from.
struct Place {
    path: [u8; PATH],
    /// Offset in the file.
    offset: u64,
}

/// Writes `name+0x1b in file`, or as much of that as can be found out.
pub fn describe(address: usize, text: &mut Text) {
    let Some(place) = place(address) else {
        let _ = write!(text, "{address:#x}");
        return;
    };
    let path = CStr::from_bytes_until_nul(&place.path).unwrap_or(c"?");
    let named =
        Mapped::open(path).is_some_and(|file| name(file.bytes(), place.offset, text).is_some());
    if !named {
        let _ = write!(text, "{address:#x}");
    }
    let file = path.to_bytes().rsplit(|&byte| byte == b'/').next();
    let _ = write!(text, " in ");
    text.push_foreign(file.unwrap_or(b"?"));
}

/// The line of `/proc/self/maps` that holds an address, if it is of a file.
fn place(address: usize) -> Option<Place> {
    // SAFETY: a path literal; the descriptor is closed below.
    let fd = unsafe {
        libc::open(
            c"/proc/self/maps".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    if fd < 0 {
        return None;
    }
    let mut line = [0u8; PATH + 128];
    let mut len = 0;
    let mut found = None;
    let mut chunk = [0u8; 1024];
    'lines: loop {
        // SAFETY: at most `chunk.len()` bytes are written to `chunk`.
        let read = unsafe { libc::read(fd, chunk.as_mut_ptr().cast(), chunk.len()) };
        if read <= 0 {
            break;
        }
        for &byte in &chunk[..read as usize] {
            if byte != b'\n' {
                if len < line.len() {
                    line[len] = byte;
                    len += 1;
                }
                continue;
            }
            if let Some(place) = parse_line(&line[..len], address) {
                found = place;
                break 'lines;
            }
            len = 0;
        }
    }
    // SAFETY: ours, opened above.
    unsafe { libc::close(fd) };
    found
}

/// `Some` if the line covers the address; within it, the place if the line names a file.
fn parse_line(line: &[u8], address: usize) -> Option<Option<Place>> {
    let line = core::str::from_utf8(line).ok()?;
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let end = usize::from_str_radix(end, 16).ok()?;
    if !(start..end).contains(&address) {
        return None;
    }
    let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let path = fields.nth(2).unwrap_or("").trim_start().as_bytes();
    if !path.starts_with(b"/") || path.len() >= PATH {
        return Some(None);
    }
    let mut place = Place {
        path: [0; PATH],
        offset: offset + (address - start) as u64,
    };
    place.path[..path.len()].copy_from_slice(path);
    Some(Some(place))
}

/// A file mapped for reading.
struct Mapped {
    at: *mut libc::c_void,
    len: usize,
}

impl Mapped {
    fn open(path: &CStr) -> Option<Mapped> {
        // SAFETY: plain system calls on a descriptor of our own; fstat fills the struct it is
        // given; the mapping is private and at an address of the kernel's choice.
        unsafe {
            let fd = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            if fd < 0 {
                return None;
            }
            let mut stat: libc::stat = core::mem::zeroed();
            let len = match libc::fstat(fd, &mut stat) {
                0 => stat.st_size as usize,
                _ => 0,
            };
            let at = libc::mmap(
                ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                fd,
                0,
            );
            libc::close(fd);
            (at != libc::MAP_FAILED).then_some(Mapped { at, len })
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped for `len` bytes until drop. A file cut short meanwhile would fault; so
        // would running its code.
        unsafe { core::slice::from_raw_parts(self.at.cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: our own mapping, whose slice borrows self.
        unsafe { libc::munmap(self.at, self.len) };
    }
}

fn u16_at(file: &[u8], at: u64) -> Option<u16> {
    let at = usize::try_from(at).ok()?;
    Some(u16::from_le_bytes(
        file.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}

fn u32_at(file: &[u8], at: u64) -> Option<u32> {
    let at = usize::try_from(at).ok()?;
    Some(u32::from_le_bytes(
        file.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

/// No size, offset or address of a user's file comes near 2^56; with larger ones refused, none of
/// the sums here can overflow.
fn u64_at(file: &[u8], at: u64) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let value = u64::from_le_bytes(file.get(at..at.checked_add(8)?)?.try_into().ok()?);
    (value < 1 << 56).then_some(value)
}

/// Writes the name of the function at a file offset.
fn name(file: &[u8], offset: u64, text: &mut Text) -> Option<()> {
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let address = to_address(file, offset)?;
    let sections = u64_at(file, 0x28)?;
    let entry = u64::from(u16_at(file, 0x3a)?);
    let count = u64::from(u16_at(file, 0x3c)?);
    for kind in [SHT_SYMTAB, SHT_DYNSYM] {
        for index in 0..count {
            let section = sections + index * entry;
            if u32_at(file, section + 4)? != kind {
                continue;
            }
            let strings = sections + u64::from(u32_at(file, section + 0x28)?) * entry;
            let symbols = (u64_at(file, section + 0x18)?, u64_at(file, section + 0x20)?);
            if let Some((symbol, start)) = search(file, symbols, address) {
                let at = u64_at(file, strings + 0x18)? + u64::from(symbol);
                let name = CStr::from_bytes_until_nul(file.get(usize::try_from(at).ok()?..)?);
                write_name(name.ok()?.to_bytes(), text);
                let _ = write!(text, "+{:#x}", address - start);
                return Some(());
            }
        }
    }
    None
}

/// The address a file offset is linked at.
fn to_address(file: &[u8], offset: u64) -> Option<u64> {
    let headers = u64_at(file, 0x20)?;
    let entry = u64::from(u16_at(file, 0x36)?);
    (0..u64::from(u16_at(file, 0x38)?)).find_map(|index| {
        let header = headers + index * entry;
        let start = u64_at(file, header + 8)?;
        let len = u64_at(file, header + 0x20)?;
        let inside = u32_at(file, header)? == PT_LOAD && (start..start + len).contains(&offset);
        let address = u64_at(file, header + 0x10)?;
        inside.then(|| address + (offset - start))
    })
}

/// The function whose symbol covers an address: its name's place in the strings, and its start.
fn search(file: &[u8], (at, len): (u64, u64), address: u64) -> Option<(u32, u64)> {
    // A damaged length must not keep a signal handler busy.
    (0..len.min(file.len() as u64) / 24).find_map(|index| {
        let symbol = at + index * 24;
        let start = u64_at(file, symbol + 8)?;
        let size = u64_at(file, symbol + 16)?;
        let info = *file.get(usize::try_from(symbol + 4).ok()?)?;
        let covers = info & 15 == STT_FUNC && (start..start + size).contains(&address);
        covers.then_some((u32_at(file, symbol)?, start))
    })
}

/// Rust names are made readable, without their hash; others are written as they are.
fn write_name(name: &[u8], text: &mut Text) {
    match core::str::from_utf8(name)
        .ok()
        .map(rustc_demangle::try_demangle)
    {
        Some(Ok(demangled)) => {
            let _ = write!(text, "{demangled:#}");
        }
        _ => text.push_foreign(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_the_test() -> usize {
        std::hint::black_box(a_function_of_the_test as *const () as usize)
    }

    fn described(address: usize) -> std::string::String {
        let mut text = Text::new();
        describe(address, &mut text);
        std::string::String::from_utf8_lossy(text.as_bytes()).into_owned()
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens files")]
    fn a_function_is_named_with_its_offset_and_file() {
        let line = described(a_function_of_the_test() + 1);
        assert!(
            line.contains("symbols::tests::a_function_of_the_test+0x1 in lancet_switch"),
            "{line}"
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens files")]
    fn an_address_of_nothing_is_a_number() {
        assert_eq!(described(0x10), "0x10");
    }

    #[test]
    #[cfg_attr(miri, ignore = "opens files")]
    fn a_damaged_file_names_nothing() {
        let own = std::fs::read("/proc/self/exe").expect("the test's own file");
        let mut damaged = own[..own.len().min(1 << 16)].to_vec();
        for at in 0..64usize {
            damaged[at] ^= 0xff;
            let mut text = Text::new();
            let _ = name(&damaged, 0x1000, &mut text);
            damaged[at] ^= 0xff;
        }
        assert_eq!(name(b"\x7fELF\x02", 0, &mut Text::new()), None);
        assert_eq!(name(&[], 0, &mut Text::new()), None);
    }
}
