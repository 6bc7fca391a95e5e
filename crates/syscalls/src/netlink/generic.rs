//! Messages of generic netlink: `{cmd=CTRL_CMD_GETFAMILY, version=1}`, and attributes (`struct genlmsghdr` in
//! include/uapi/linux/genetlink.h). Used by `netlink`.
//!
//! Families have numbers that the kernel gives them; what their commands are called is said by rows of `conf/generic.conf`.

use super::attributes::{Context, attributes};
use super::parts::ATTRIBUTE;
use crate::call::Hex;
use crate::layout::{Generic, list, tables};
use crate::writer::{Writer, Written};

/// `sizeof(struct genlmsghdr)`
const OWN: u64 = 4;
/// `GENL_ID_CTRL`, the only number that does not change, and the name of that family.
const CONTROL: u16 = 16;
const CONTROL_NAME: &str = "nlctrl";
/// `CTRL_ATTR_FAMILY_NAME`: of which family `nlctrl` tells.
const FAMILY_NAME: u16 = 2;
/// Bytes of the longest name: `GENL_NAMSIZ`.
const LONGEST_NAME: u64 = 16;

/// Appends the type of a message, which is its family.
pub fn message_type(w: &mut Writer, kind: u16) {
    match family(w, kind) {
        Some(name) if kind != CONTROL => w.known(kind.into(), &name),
        _ => list("nl_generic_types").name(w, kind.into()),
    }
}

fn family(w: &Writer, kind: u16) -> Option<String> {
    match kind {
        CONTROL => Some(CONTROL_NAME.to_owned()),
        _ => (w.call.netlink?.family)(kind),
    }
}

fn row(name: &str) -> Option<&'static Generic> {
    let mut rows = tables().netlink().generic.iter();
    rows.find(|row| row.name == name)
}

/// Appends what a message of this family holds; `is_told_back`: it was sent, and stands in an answer.
pub fn message(w: &mut Writer, at: u64, length: u64, kind: u16, is_told_back: bool) -> Written {
    if length < OWN {
        return w.buffer_as(at, length as usize, Hex::Always);
    }
    let [command, version, low, high] = w.number(at)?;
    let row = family(w, kind).and_then(|name| row(&name));
    // Commands that come may have other numbers than those that are sent.
    let side = usize::from(w.call.name.starts_with("recv") && !is_told_back);
    let commands = row.map(|row| &tables().lists[row.commands[side]]);
    w.push("{cmd=");
    match commands {
        Some(commands) => commands.name(w, command.into()),
        None => w.hexadecimal(command.into()),
    }
    w.push(&format!(", version={version}"));
    let reserved = u16::from_le_bytes([low, high]);
    if reserved != 0 {
        w.push(", reserved=");
        w.hexadecimal(reserved.into());
    }
    w.push("}");
    if length <= OWN {
        return Ok(());
    }
    w.push(", ");
    let (at, length) = (at.wrapping_add(OWN), length - OWN);
    let name = commands.and_then(|commands| commands.find(command.into()));
    let own = row.zip(name).and_then(|(row, name)| row.own.get(name));
    let of = own.copied().or(row.and_then(|row| row.attributes));
    let of = of.map(|index| &tables().netlink().attributes[index]);
    let told = (kind == CONTROL).then(|| told_of(w, at, length)).flatten();
    let told = told.map(|row| row.commands[side]);
    attributes(w, at, length, of, Context::of_commands(told))
}

/// The family that a message of `nlctrl` tells of, by the attribute with its name.
fn told_of(w: &Writer, mut at: u64, mut length: u64) -> Option<&'static Generic> {
    while length > ATTRIBUTE {
        let own = u64::from(w.number(at).map(u16::from_le_bytes).ok()?);
        let kind = w.number(at.wrapping_add(2)).map(u16::from_le_bytes).ok()?;
        let holds = own.min(length).checked_sub(ATTRIBUTE)?;
        if kind == FAMILY_NAME && holds <= LONGEST_NAME {
            let bytes = w.bytes(at.wrapping_add(ATTRIBUTE), holds as usize);
            let end = bytes.iter().position(|byte| *byte == 0)?;
            return row(std::str::from_utf8(&bytes[..end]).ok()?);
        }
        let step = own.next_multiple_of(4).max(ATTRIBUTE);
        (at, length) = (at.wrapping_add(step), length.saturating_sub(step));
    }
    None
}
