//! `ioctl`: its command says what its argument is. Used by `special` and `arguments`.
//!
//! Commands and their arguments are rows of the files in `conf/` (`layout`). What a row cannot say has a function here: commands that
//! carry a number or a length (`evdev`).

mod evdev;

use crate::call::Constants;
use crate::layout::{self, After, How, Ty};
use crate::words;
use crate::writer::{Unknown, Writer, Written};

/// A command as include/uapi/asm-generic/ioctl.h takes it apart.
#[derive(Clone, Copy, Debug)]
struct Command {
    /// `_IOC_WRITE` = 1: the kernel reads; `_IOC_READ` = 2: it writes.
    direction: u64,
    kind: u8,
    number: u64,
    size: u64,
}

impl Command {
    fn of(word: u64) -> Self {
        Command {
            direction: word >> 30 & 3,
            kind: (word >> 8) as u8,
            number: word & 0xff,
            size: word >> 16 & 0x3fff,
        }
    }
}

/// `TCGETS`, or `_IOC(_IOC_READ, 0x66, 0x1, 0x8)` of one without a name.
pub fn command(w: &mut Writer, word: u64) -> Written {
    let word = word & 0xffff_ffff;
    if w.style.constants == Constants::Numbers {
        w.hexadecimal(word);
        return Ok(());
    }
    let names = layout::tables().ioctls().commands.get(&(word as u32));
    let text = match (
        carrying(Command::of(word), w.style.constants == Constants::Both),
        names,
    ) {
        (Some(text), Some(names)) => format!("{text} or {}", names.join(" or ")),
        (Some(text), None) => text,
        (None, Some(names)) => names.join(" or "),
        (None, None) => without_name(Command::of(word)),
    };
    w.known(word, &text);
    Ok(())
}

fn without_name(command: Command) -> String {
    const DIRECTIONS: [&str; 4] = [
        "_IOC_NONE",
        "_IOC_WRITE",
        "_IOC_READ",
        "_IOC_READ|_IOC_WRITE",
    ];
    let direction = DIRECTIONS[command.direction as usize];
    let parts = [command.kind.into(), command.number, command.size];
    let [kind, number, size] = parts.map(words::plain);
    format!("_IOC({direction}, {kind}, {number}, {size})")
}

/// Commands whose number or size is the caller's: `EVIOCGNAME(8)` (include/uapi/linux/input.h, hidraw.h, hiddev.h, soundcard.h,
/// uinput.h, joystick.h, spi/spidev.h).
fn carrying(command: Command, bare: bool) -> Option<String> {
    let of_size = match (command.kind, command.direction, command.number) {
        (b'E', ..) => return evdev::name(command, bare),
        (b'H', 2, 4) => "HIDIOCGRAWNAME",
        (b'H', 2, 5) => "HIDIOCGRAWPHYS",
        (b'H', 2 | 3, 6) => "HIDIOCSFEATURE",
        (b'H', 3, 7) => "HIDIOCGFEATURE",
        (b'H', 2, 8) => "HIDIOCGRAWUNIQ",
        (b'H', 2, 0x12) => "HIDIOCGPHYS",
        (b'M', 1, number) => return Some(format!("MIXER_WRITE({number})")),
        (b'M', 2, number) => return Some(format!("MIXER_READ({number})")),
        (b'U', 2, 0x2c) => "UI_GET_SYSNAME",
        (b'j', 2, 0x13) => "JSIOCGNAME",
        (b'k', 1, 0) => "SPI_IOC_MESSAGE",
        _ => return None,
    };
    Some(format!("{of_size}({})", command.size))
}

/// Returns how many arguments are shown, if that follows from the command.
pub fn arguments(word: u64) -> Option<usize> {
    let how = layout::tables().ioctls().arguments.get(&(word as u32));
    matches!(how, Some(How::Nothing)).then_some(2)
}

pub fn argument(w: &mut Writer, word: u64) -> Written {
    let number = w.call.arguments[1] as u32;
    if w.style.addresses {
        match layout::tables().ioctls().arguments.get(&number) {
            Some(How::Value(ty)) => return layout::passed(w, ty, word),
            Some(_) => w.address(word),
            None => w.hexadecimal(word),
        }
        return Ok(());
    }
    let before = w.out.len();
    let written = match layout::tables().ioctls().arguments.get(&number) {
        Some(how) => row(w, how, word),
        None => match Command::of(number.into()) {
            of if of.kind == b'E' && matches!(of.direction, 1 | 2) => evdev::argument(w, of, word),
            _ => {
                w.hexadecimal(word);
                Ok(())
            }
        },
    };
    if written.is_err() {
        w.out.truncate(before);
        w.address(word);
    }
    Ok(())
}

/// Writes an argument as a row of a file says; its address where nothing is known of what it points to.
pub fn by_row(w: &mut Writer, how: &How, word: u64) {
    let before = w.out.len();
    if w.style.addresses && !matches!(how, How::Value(_)) || row(w, how, word).is_err() {
        w.out.truncate(before);
        w.address(word);
    }
}

fn row(w: &mut Writer, how: &How, at: u64) -> Written {
    let failed = w.call.error().is_some();
    match how {
        How::Nothing => Ok(()),
        How::Address => Err(Unknown),
        How::Answered(first, then) => {
            early(w, |w| pointed(w, first, at))?;
            if !failed {
                w.push(" => ");
                pointed(w, then, at)?;
            }
            Ok(())
        }
        How::Value(ty) => layout::passed(w, ty, at),
        How::After(ty) => pointed(w, ty, at),
        How::In(ty) => early(w, |w| pointed(w, ty, at)),
        How::Out(_) if failed => Err(Unknown),
        How::Out(ty) => pointed(w, ty, at),
        How::More(first, then, after) => {
            early(w, |w| {
                w.push("{");
                layout::fields(w, first, at)
            })?;
            if !failed || *after == After::Always {
                following(w, ", ", then, at);
            }
            w.push("}");
            Ok(())
        }
        How::Both(first, then, after) => {
            w.cut = false;
            early(w, |w| pointed(w, first, at))?;
            // What could not be read whole is not told a second time.
            let is_struct = matches!(then, Ty::Struct(..));
            if !is_struct && (w.cut || w.out.ends_with(b"[]")) {
                return Ok(());
            }
            if !failed && !is_struct {
                w.push(" => ");
                pointed(w, then, at)?;
            } else if !failed || *after == After::Always && !w.cut {
                let before = w.out.len();
                following(w, " => {", then, at);
                if w.out.len() > before {
                    w.push("}");
                }
            } else if *after == After::Address {
                w.push(" => ");
                w.address(at);
            }
            Ok(())
        }
        How::Filled(ty) => {
            let size = ty.layout(layout::tables()).0 as usize;
            let filled = early(w, |w| w.bytes(at, size).iter().any(|byte| *byte != 0));
            if filled {
                early(w, |w| pointed(w, ty, at))?;
                w.push(" => ");
                if failed {
                    w.address(at);
                    return Ok(());
                }
            }
            match failed {
                true => Err(Unknown),
                false => pointed(w, ty, at),
            }
        }
        How::Changed(ty, last, offset) => {
            early(w, |w| {
                w.push("{");
                layout::fields(w, ty, at)
            })?;
            if !failed {
                w.push(" => ");
                layout::value(w, last, at.wrapping_add((*offset).into()), None)?;
            }
            w.push("}");
            Ok(())
        }
    }
}

/// Writes as it was when the call was made.
fn early<T>(w: &mut Writer, write: impl FnOnce(&mut Writer) -> T) -> T {
    let late = std::mem::replace(&mut w.late, false);
    let written = write(w);
    w.late = late;
    written
}

/// Appends members behind others; nothing where none of them is written.
fn following(w: &mut Writer, between: &str, ty: &Ty, at: u64) {
    let before = w.out.len();
    w.push(between);
    let begun = w.out.len();
    if layout::fields(w, ty, at).is_err() || w.out.len() == begun {
        w.out.truncate(before);
    }
}

/// What an argument points to; a number stands in brackets.
fn pointed(w: &mut Writer, ty: &Ty, at: u64) -> Written {
    if at == 0 {
        return Err(Unknown);
    }
    let is_number = ty.is_scalar();
    if is_number {
        w.push("[");
    }
    layout::value(w, ty, at, None)?;
    if is_number {
        w.push("]");
    }
    Ok(())
}
