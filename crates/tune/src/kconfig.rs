//! The configuration the kernel was built with. Used by `machine`, `rules::dma`, `rules::events` and others.
//!
//! `CONFIG_X is not set` and no line at all are different answers: the first is a kernel that has the
//! feature and leaves it out, the second one that does not know it (any more). The crates that parse
//! this format drop the first kind of line, so this is our own reader.

use std::collections::HashMap;
use std::io::Read;

use crate::tree::{Cannot, Tree};

/// Bytes of an unpacked configuration that are read, at most.
const LONGEST: u64 = 8 << 20;

/// What a configuration says of one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Built {
    /// The feature is part of the kernel itself: `=y`.
    In,
    /// Built as a module: `=m`.
    Module,
    /// Left out: `# … is not set`.
    Off,
    /// A number or string.
    Value(String),
    /// The kernel has no such option.
    Absent,
}

impl Built {
    /// Returns whether the kernel can have the feature: built in or as a module.
    pub fn is_there(&self) -> bool {
        matches!(self, Self::In | Self::Module)
    }

    /// Returns the text that stands for it in evidence.
    pub fn words(&self) -> &str {
        match self {
            Self::In => "y",
            Self::Module => "m",
            Self::Off => "is not set",
            Self::Value(value) => value,
            Self::Absent => "no such option",
        }
    }
}

/// The configuration of one kernel, by options.
#[derive(Debug)]
pub struct Kconfig {
    /// The path that it was read from.
    pub from: String,
    options: HashMap<String, Built>,
}

impl Kconfig {
    /// Finds the configuration of the kernel `release`, wherever a distribution keeps it.
    pub fn find(tree: &Tree, release: &str) -> Result<Self, Cannot> {
        match tree.bytes("/proc/config.gz") {
            Ok(packed) => {
                let mut text = Vec::new();
                flate2::read::GzDecoder::new(packed.as_slice())
                    .take(LONGEST)
                    .read_to_end(&mut text)
                    .map_err(|error| Cannot::Failed {
                        what: "/proc/config.gz".into(),
                        why: error.to_string(),
                    })?;
                return Self::parse("/proc/config.gz", &String::from_utf8_lossy(&text));
            }
            Err(missing) if missing.is_missing() => {}
            Err(other) => return Err(other),
        }
        for path in [
            format!("/boot/config-{release}"),
            format!("/usr/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/config"),
            format!("/lib/modules/{release}/build/.config"),
        ] {
            match tree.read(&path) {
                Ok(text) => return Self::parse(&path, &text),
                Err(missing) if missing.is_missing() => {}
                Err(other) => return Err(other),
            }
        }
        Err(Cannot::Missing(format!(
            "the kernel's configuration (/proc/config.gz, /boot/config-{release})"
        )))
    }

    /// Parses a configuration. A text that holds no option at all is refused, because every option would count as
    /// absent.
    fn parse(from: &str, text: &str) -> Result<Self, Cannot> {
        let options: HashMap<String, Built> = text.lines().filter_map(option).collect();
        if options.is_empty() {
            return Err(Cannot::odd(from, text));
        }
        Ok(Self {
            from: from.into(),
            options,
        })
    }

    /// Returns what it says of `CONFIG_name`.
    pub fn get(&self, name: &str) -> Built {
        self.options.get(name).cloned().unwrap_or(Built::Absent)
    }
}

fn option(line: &str) -> Option<(String, Built)> {
    let line = line.trim();
    if let Some(rest) = line.strip_prefix("# CONFIG_") {
        let name = rest.strip_suffix(" is not set")?;
        return Some((name.into(), Built::Off));
    }
    let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
    let built = match value {
        "y" => Built::In,
        "m" => Built::Module,
        "n" => Built::Off,
        other => Built::Value(other.trim_matches('"').into()),
    };
    Some((name.into(), built))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_configuration_says_nothing() {
        for text in ["", "noise\n", "\u{1f}\u{8b}"] {
            assert!(Kconfig::parse("test", text).is_err());
        }
    }

    #[test]
    fn off_is_not_absent() {
        let config = Kconfig::parse(
            "test",
            "# CONFIG_NET_DMA is not set\nCONFIG_HZ=250\nCONFIG_EPOLL=y\nCONFIG_DCA=m\nnoise\n",
        )
        .unwrap();
        assert_eq!(config.get("NET_DMA"), Built::Off);
        assert_eq!(config.get("E1000_NAPI"), Built::Absent);
        assert_eq!(config.get("HZ"), Built::Value("250".into()));
        assert!(config.get("EPOLL").is_there() && config.get("DCA").is_there());
        assert!(!config.get("NET_DMA").is_there());
    }
}
