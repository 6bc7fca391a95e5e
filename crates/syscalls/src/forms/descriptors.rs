//! Numbers that stand for files and for users. Used by `forms`.

use crate::call::IdKind;
use crate::words;
use crate::writer::{Place, Writer, Written};
use prototypes::digits::decimal;
use prototypes::types::{Lens, Type};

/// A descriptor: `3`, or `3</etc/hosts>`.
pub fn descriptor(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let number = w.word(ty, at)? as i32;
    decimal(number, w.out);
    // The number that stands for the current directory is none where a file is wanted.
    if number >= 0 {
        w.name_of(number);
    }
    Ok(())
}

/// The descriptor of a directory: `AT_FDCWD` or a number.
pub fn directory(w: &mut Writer, ty: &Type, at: Place) -> Written {
    /// `AT_FDCWD` (include/uapi/linux/fcntl.h).
    const CURRENT: i32 = -100;
    let number = w.word(ty, at)? as i32;
    if number == CURRENT {
        w.known_decimal(CURRENT.into(), "AT_FDCWD");
    } else {
        decimal(number, w.out);
    }
    w.name_of(number);
    Ok(())
}

/// A process or a thread: `4711`, or `4711<ruby>`.
pub fn process(w: &mut Writer, ty: &Type, at: Place) -> Written {
    id(w, ty, at, IdKind::Process)
}

/// The id of a thread, and the thread's name: `4711<ruby>`.
pub fn thread(w: &mut Writer, ty: &Type, at: Place) -> Written {
    id(w, ty, at, IdKind::Thread)
}

/// The id of a process group, which has no name.
pub fn group(w: &mut Writer, ty: &Type, at: Place) -> Written {
    id(w, ty, at, IdKind::Group)
}

/// The id of a session, which has no name.
pub fn session(w: &mut Writer, ty: &Type, at: Place) -> Written {
    id(w, ty, at, IdKind::Session)
}

fn id(w: &mut Writer, ty: &Type, at: Place, kind: IdKind) -> Written {
    let number = w.word(ty, at)? as i32;
    decimal(number, w.out);
    w.id(number, kind);
    Ok(())
}

/// A process, or a group by its negative id; 0 and -1 are neither.
pub fn process_or_group(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let number = w.word(ty, at)? as i32;
    decimal(number, w.out);
    match number {
        1.. => w.id(number, IdKind::Process),
        -1 | 0 => {}
        group => w.id(group.wrapping_neg(), IdKind::Group),
    }
    Ok(())
}

/// A key or a keyring: its number, or the name of one that each process has (include/uapi/linux/keyctl.h).
pub fn key(w: &mut Writer, ty: &Type, at: Place) -> Written {
    let number = w.word(ty, at)?;
    let Some(Lens::Enum(names)) = &ty.lens else {
        return w.plain(ty, at);
    };
    match words::find(number, 4, names) {
        Some(name) => w.known_decimal((number as i32).into(), name),
        None => decimal(number as i32, w.out),
    }
    Ok(())
}

/// A user or a group: all ones are -1, which asks for no change.
pub fn user(w: &mut Writer, ty: &Type, at: Place) -> Written {
    match w.word(ty, at)? as u32 {
        u32::MAX => w.push("-1"),
        number => decimal(number, w.out),
    }
    Ok(())
}
