//! A network device's settings by ioctl: what ethtool(8) reads and writes, without ethtool. Used by
//! `rules::moderation`, `setting`, `machine` and others.
//!
//! Each request is a block of 32-bit words whose first is the command; the kernel writes its answer
//! into the same block. Reading is allowed to everybody, writing takes CAP_NET_ADMIN.
//!
//! ```text
//! GCOALESCE  cmd rx_usecs rx_frames rx_usecs_irq … (23 words)
//! GRINGPARAM cmd rx_max mini_max jumbo_max tx_max rx mini jumbo tx
//! GCHANNELS  cmd max_rx max_tx max_other max_combined rx tx other combined
//! GFEATURES  cmd size { available requested active never_changed } × size
//! ```
//!
//! Source: include/uapi/linux/ethtool.h; net/ethtool/ioctl.c.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::descriptor::owned;
use crate::tree::Cannot;

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GDRVINFO: u32 = 0x03;
const GSTRINGS: u32 = 0x1b;
const GSTATS: u32 = 0x1d;
const GSSET_INFO: u32 = 0x37;
const GRXFHINDIR: u32 = 0x38;
const GFEATURES: u32 = 0x3a;
const SFEATURES: u32 = 0x3b;

const STRINGS_STATS: u32 = 1;
const STRINGS_FEATURES: u32 = 4;
/// Bytes that the kernel has for a name: `ETH_GSTRING_LEN`.
const STRING: usize = 32;
/// More strings than any driver has; a device with more is refused.
const MOST_STRINGS: usize = 65_536;
/// Strings and numbers that there is room for beyond those that the driver has said it has. Kernels before 5.18 or their stable
/// updates write as many as there are when they write them (`ethtool_get_strings` and `ethtool_get_stats`, net/ethtool/ioctl.c), and a
/// driver has more after its queues have become more.
const SPARE_STRINGS: usize = 8_192;

/// A block of numbers that is read whole and written back whole with one word changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Interrupt moderation: how long, and for how many packets, interrupts are held back.
    Coalesce,
    /// The lengths of the descriptor rings.
    Ring,
    /// How many queues the device has of each kind.
    Channels,
}

impl Block {
    fn commands(self) -> (u32, u32) {
        match self {
            Self::Coalesce => (0x0e, 0x0f),
            Self::Ring => (0x10, 0x11),
            Self::Channels => (0x3c, 0x3d),
        }
    }

    fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Coalesce => &[
                "rx-usecs",
                "rx-frames",
                "rx-usecs-irq",
                "rx-frames-irq",
                "tx-usecs",
                "tx-frames",
                "tx-usecs-irq",
                "tx-frames-irq",
                "stats-block-usecs",
                "adaptive-rx",
                "adaptive-tx",
                "pkt-rate-low",
                "rx-usecs-low",
                "rx-frames-low",
                "tx-usecs-low",
                "tx-frames-low",
                "pkt-rate-high",
                "rx-usecs-high",
                "rx-frames-high",
                "tx-usecs-high",
                "tx-frames-high",
                "sample-interval",
            ],
            Self::Ring => &[
                "rx-max",
                "rx-mini-max",
                "rx-jumbo-max",
                "tx-max",
                "rx",
                "rx-mini",
                "rx-jumbo",
                "tx",
            ],
            Self::Channels => &[
                "max-rx",
                "max-tx",
                "max-other",
                "max-combined",
                "rx",
                "tx",
                "other",
                "combined",
            ],
        }
    }

    /// Returns the letter by which ethtool(8) sets it.
    pub fn letter(self) -> char {
        match self {
            Self::Coalesce => 'C',
            Self::Ring => 'G',
            Self::Channels => 'L',
        }
    }

    fn word(self, field: &str) -> Result<usize, Cannot> {
        let at = self.fields().iter().position(|name| *name == field);
        at.map(|at| at + 1).ok_or_else(|| Cannot::Failed {
            what: field.into(),
            why: format!("is no field of {self:?}"),
        })
    }
}

/// The numbers of a [`Block`] as the driver gave them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    block: Block,
    words: Vec<u32>,
}

impl Numbers {
    /// Returns one of the numbers; 0 for a name that the block does not have.
    pub fn get(&self, field: &str) -> u32 {
        let at = self.block.word(field).unwrap_or(0);
        if at == 0 { 0 } else { self.words[at] }
    }
}

/// One offload of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Whether it works now.
    pub active: bool,
    /// Whether it was requested; it may be, and yet not work.
    pub requested: bool,
    /// Whether nobody can change it.
    pub fixed: bool,
}

impl Feature {
    /// Returns its state as ethtool(8) writes it.
    pub fn words(self) -> &'static str {
        match (self.active, self.requested, self.fixed) {
            (true, _, true) => "on [fixed]",
            (false, _, true) => "off [fixed]",
            (true, true, false) => "on",
            (true, false, false) => "on [requested off]",
            (false, true, false) => "off [requested on]",
            (false, false, false) => "off",
        }
    }
}

/// All offloads of a device, by name.
#[derive(Clone, Debug)]
pub struct Features {
    names: Vec<String>,
    /// available, requested, active, never_changed per 32 features.
    words: Vec<u32>,
}

impl Features {
    /// Returns one of them; `None` if this kernel does not know the name.
    pub fn get(&self, name: &str) -> Option<Feature> {
        let at = self.names.iter().position(|known| known == name)?;
        let bit = |which: usize| {
            let word = self.words.get(at / 32 * 4 + which);
            word.is_some_and(|word| word >> (at % 32) & 1 == 1)
        };
        Some(Feature {
            active: bit(2),
            requested: bit(1),
            fixed: !bit(0) || bit(3),
        })
    }
}

/// A socket for the requests, in the network namespace in which it was made.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
}

impl Ethtool {
    /// Opens a socket in the network namespace of this thread.
    pub fn open() -> Result<Self, Cannot> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is handed over; the call makes the descriptor.
        let socket = unsafe { owned(libc::socket(libc::AF_INET, kind, 0).into()) };
        let socket = socket.map_err(|error| Cannot::from_io("a socket for ethtool", &error))?;
        Ok(Self { socket })
    }

    /// Sends one request. `words` begins with the command and must be as long as that command's answer:
    /// the callers below size it from the counts the driver gave just before.
    fn ask(&self, device: &str, what: &str, words: &mut [u32]) -> Result<(), Cannot> {
        let described = || format!("{device}: {what}");
        // SAFETY: `ifreq` is plain data, for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        if device.len() >= request.ifr_name.len() {
            return Err(Cannot::Missing(device.into()));
        }
        for (to, from) in request.ifr_name.iter_mut().zip(device.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the request and the block it points to live across the call; the kernel writes at most
        // the answer of the command, for which the block was sized (see above).
        let code = unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
        if code >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        Err(match error.raw_os_error() {
            Some(libc::ENODEV) => Cannot::Missing(device.into()),
            Some(libc::EPERM) => Cannot::Denied {
                what: described(),
                right: "CAP_NET_ADMIN",
            },
            Some(libc::EOPNOTSUPP) => Cannot::Unsupported {
                what: described(),
                why: "by its driver".into(),
            },
            _ => Cannot::from_io(&described(), &error),
        })
    }

    /// Returns the name of the driver.
    pub fn driver(&self, device: &str) -> Result<String, Cannot> {
        // struct ethtool_drvinfo is 196 bytes.
        let mut words = [0u32; 49];
        words[0] = GDRVINFO;
        self.ask(device, "driver", &mut words)?;
        Ok(text(bytes(&words[1..9])))
    }

    /// Returns the numbers of a block.
    pub fn numbers(&self, device: &str, block: Block) -> Result<Numbers, Cannot> {
        let mut words = vec![0u32; block.fields().len() + 1];
        words[0] = block.commands().0;
        self.ask(device, &format!("{block:?}").to_lowercase(), &mut words)?;
        Ok(Numbers { block, words })
    }

    /// Changes one number and leaves the others as they are.
    pub fn set(&self, device: &str, block: Block, field: &str, to: u32) -> Result<(), Cannot> {
        let mut numbers = self.numbers(device, block)?;
        numbers.words[0] = block.commands().1;
        numbers.words[block.word(field)?] = to;
        self.ask(device, field, &mut numbers.words)
    }

    fn count(&self, device: &str, set: u32) -> Result<usize, Cannot> {
        // cmd, reserved, sset_mask (64 bits), data[1]
        let mut words = [GSSET_INFO, 0, 1 << set, 0, 0];
        self.ask(device, "string sets", &mut words)?;
        let count = if words[2] == 0 { 0 } else { words[4] as usize };
        if count > MOST_STRINGS {
            return Err(Cannot::Unsupported {
                what: format!("{device}: {count} strings"),
                why: "by lancet".into(),
            });
        }
        Ok(count)
    }

    fn strings(&self, device: &str, set: u32) -> Result<Vec<String>, Cannot> {
        let count = self.count(device, set)?;
        let mut words = vec![0u32; 3 + (count + SPARE_STRINGS) * STRING / 4];
        words[..3].copy_from_slice(&[GSTRINGS, set, count as u32]);
        self.ask(device, "strings", &mut words)?;
        let strings = bytes(&words[3..][..count * STRING / 4]);
        Ok(strings.chunks(STRING).map(text).collect())
    }

    /// Returns the offloads of a device.
    pub fn features(&self, device: &str) -> Result<Features, Cannot> {
        let names = self.strings(device, STRINGS_FEATURES)?;
        let blocks = names.len().div_ceil(32);
        let mut words = vec![0u32; 2 + blocks * 4];
        words[..2].copy_from_slice(&[GFEATURES, blocks as u32]);
        self.ask(device, "features", &mut words)?;
        let words = words.split_off(2);
        Ok(Features { names, words })
    }

    /// Requests an offload, or ends the request.
    pub fn set_feature(&self, device: &str, name: &str, on: bool) -> Result<(), Cannot> {
        let features = self.features(device)?;
        let Some(at) = features.names.iter().position(|known| known == name) else {
            return Err(Cannot::Unsupported {
                what: format!("{device}: {name}"),
                why: "by this kernel".into(),
            });
        };
        let blocks = features.names.len().div_ceil(32);
        // cmd size { valid requested } × size
        let mut words = vec![0u32; 2 + blocks * 2];
        words[..2].copy_from_slice(&[SFEATURES, blocks as u32]);
        words[2 + at / 32 * 2] = 1 << (at % 32);
        words[3 + at / 32 * 2] = u32::from(on) << (at % 32);
        self.ask(device, name, &mut words)
    }

    /// Returns the driver's own counters.
    pub fn counters(&self, device: &str) -> Result<Vec<(String, u64)>, Cannot> {
        let names = self.strings(device, STRINGS_STATS)?;
        let mut words = vec![0u32; 2 + (names.len() + SPARE_STRINGS) * 2];
        words[..2].copy_from_slice(&[GSTATS, names.len() as u32]);
        self.ask(device, "counters", &mut words)?;
        let values = words[2..]
            .chunks(2)
            .map(|halves| u64::from(halves[0]) | u64::from(halves[1]) << 32);
        Ok(names.into_iter().zip(values).collect())
    }

    /// Returns the table that spreads flows over queues.
    pub fn spread(&self, device: &str) -> Result<Vec<u32>, Cannot> {
        let mut size = [GRXFHINDIR, 0];
        self.ask(device, "flow spreading", &mut size)?;
        let entries = (size[1] as usize).min(MOST_STRINGS);
        let mut words = vec![0u32; 2 + entries];
        words[..2].copy_from_slice(&[GRXFHINDIR, entries as u32]);
        self.ask(device, "flow spreading", &mut words)?;
        Ok(words.split_off(2))
    }
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn text(bytes: impl AsRef<[u8]>) -> String {
    let bytes = bytes.as_ref();
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stand_where_the_header_has_them() {
        assert_eq!(Block::Coalesce.fields().len(), 22);
        assert_eq!(Block::Coalesce.word("adaptive-rx").unwrap(), 10);
        assert_eq!(Block::Ring.word("rx").unwrap(), 5);
        assert_eq!(Block::Channels.word("combined").unwrap(), 8);
        assert!(Block::Ring.word("combined").is_err());
    }

    #[test]
    fn a_feature_is_asked_for_fixed_or_on() {
        let features = Features {
            names: vec!["a".into(), "b".into(), "c".into()],
            words: vec![0b011, 0b011, 0b001, 0],
        };
        assert_eq!(features.get("a").unwrap().words(), "on");
        assert_eq!(features.get("b").unwrap().words(), "off [requested on]");
        assert_eq!(features.get("c").unwrap().words(), "off [fixed]");
        assert!(features.get("d").is_none());
    }

    #[test]
    fn the_loopback_device_answers() {
        let ethtool = Ethtool::open().unwrap();
        let features = ethtool.features("lo").unwrap();
        assert!(features.get("tx-tcp-segmentation").is_some());
        assert!(ethtool.features("no-such-device").unwrap_err().is_missing());
        assert!(ethtool.features("a name longer than any").is_err());
    }
}
