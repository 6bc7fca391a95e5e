//! The queueing discipline at a device's root, by rtnetlink. Used by `setting` and `rules::queues`.
//!
//! Written down as `kind handle options-in-hex`, so that what is put back is what was there, the
//! options to the byte. Handle 0 is the discipline the kernel chose itself; it is put back by
//! deleting ours. Disciplines with classes below them (htb, mq …) hold more than this line and are
//! refused.
//!
//! Source: include/uapi/linux/rtnetlink.h, struct tcmsg; net/sched/sch_api.c.

use super::netlink::{Netlink, attribute, attributes, word};
use crate::tree::Cannot;

const NEW: u16 = 36;
const DELETE: u16 = 37;
const GET: u16 = 38;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const ROOT: u32 = 0xffff_ffff;
/// The disciplines whose whole state is their options.
const CLASSLESS: [&str; 9] = [
    "bfifo",
    "cake",
    "codel",
    "fq",
    "fq_codel",
    "pfifo",
    "pfifo_fast",
    "pfifo_head_drop",
    "sfq",
];

/// Stands for the discipline that the kernel chooses, in the place of a kind.
pub const DEFAULT: &str = "default";

/// The queueing discipline at the root of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The name of its kind: `fq_codel`, `noqueue` …
    pub kind: String,
    handle: u32,
    options: Vec<u8>,
}

impl Qdisc {
    /// Returns whether the kernel chose it itself.
    pub fn is_default(&self) -> bool {
        self.handle == 0
    }
}

impl std::fmt::Display for Qdisc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:x} ", self.kind, self.handle)?;
        self.options
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Qdisc {
    type Err = Cannot;

    /// Parses what `Display` writes; a bare kind is one with default options.
    fn from_str(text: &str) -> Result<Self, Cannot> {
        let odd = || Cannot::odd("a queueing discipline", text);
        let mut words = text.split_whitespace();
        let kind = words.next().ok_or_else(odd)?.to_owned();
        let handle = words
            .next()
            .map_or(Ok(0), |hex| u32::from_str_radix(hex, 16));
        let hex = words.next().unwrap_or_default();
        let pair = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        let options: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(pair).collect();
        Ok(Self {
            kind,
            handle: handle.map_err(|_| odd())?,
            options: options.ok_or_else(odd)?,
        })
    }
}

/// Returns the discipline at the device's root.
pub fn read(ifindex: u32) -> Result<Qdisc, Cannot> {
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE, "rtnetlink")?;
    let answers = netlink.dump(GET, &head(ifindex, 0))?;
    answers
        .iter()
        .filter(|answer| word(answer, 4) == Some(ifindex) && word(answer, 12) == Some(ROOT))
        .find_map(|answer| {
            let mut qdisc = Qdisc {
                kind: String::new(),
                handle: word(answer, 8)?,
                options: Vec::new(),
            };
            for (kind, payload) in attributes(answer.get(20..)?) {
                match kind {
                    KIND => {
                        let name = payload.strip_suffix(b"\0").unwrap_or(payload);
                        qdisc.kind = String::from_utf8_lossy(name).into_owned();
                    }
                    OPTIONS => qdisc.options = payload.to_vec(),
                    _ => {}
                }
            }
            Some(qdisc)
        })
        .ok_or_else(|| Cannot::Missing("a root queueing discipline".into()))
}

/// Replaces the discipline at the device's root.
pub fn write(ifindex: u32, to: &Qdisc) -> Result<(), Cannot> {
    let now = read(ifindex)?;
    for kind in [&now.kind, &to.kind] {
        let chosen_by_kernel = kind == "noqueue" || kind == DEFAULT;
        if !chosen_by_kernel && !CLASSLESS.contains(&kind.as_str()) {
            return Err(Cannot::Unsupported {
                what: format!("replacing `{kind}`"),
                why: "it may have classes and filters that would be lost".into(),
            });
        }
    }
    let mut netlink = Netlink::open(libc::NETLINK_ROUTE, "rtnetlink")?;
    if now.handle != 0 {
        netlink.request(DELETE, 0, &head(ifindex, 0))?;
    }
    if to.kind == DEFAULT {
        return Ok(());
    }
    let fresh = read(ifindex)?;
    if fresh == *to || (to.handle == 0 && to.options.is_empty() && fresh.kind == to.kind) {
        return Ok(());
    }
    let mut payload = head(ifindex, to.handle);
    attribute(&mut payload, KIND, format!("{}\0", to.kind).as_bytes());
    // pfifo_fast takes no options, though it reports some.
    if !to.options.is_empty() && to.kind != "pfifo_fast" {
        attribute(&mut payload, OPTIONS, &to.options);
    }
    netlink.request(NEW, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, &payload)?;
    Ok(())
}

/// Returns a struct tcmsg: family and padding, ifindex, handle, parent, info.
fn head(ifindex: u32, handle: u32) -> Vec<u8> {
    let words = [0, ifindex, handle, ROOT, 0];
    words
        .iter()
        .flat_map(|word: &u32| word.to_ne_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_down_is_read_back() {
        for text in ["pfifo 8001 e8030000", "fq_codel 0 ", "noqueue 0 "] {
            let qdisc: Qdisc = text.parse().unwrap();
            assert_eq!(qdisc.to_string(), text);
        }
        assert_eq!("fq".parse::<Qdisc>().unwrap().kind, "fq");
        for text in ["", "fq zz", "fq 0 abc", "fq 0 ä1"] {
            assert!(text.parse::<Qdisc>().is_err(), "{text}");
        }
    }
}
