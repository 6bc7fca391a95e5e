//! Prototypes that are part of lancet: `conf/*.conf`, in the binary. Used by `search`, and by the crates `syscalls`,
//! `calls` and `report`.
//!
//! Each file serves the SONAMEs that its library has had. A user's own file for the same library goes first.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::library::Library;
use crate::lines::Lines;
use crate::types::{Prototype, Type};

/// A file with the SONAMEs that it serves: each by its beginning, because a version follows.
#[derive(Debug)]
pub struct Bundle {
    name: &'static str,
    sonames: &'static [&'static str],
    text: &'static str,
    /// What was read of it.
    lines: OnceLock<Mutex<Lines>>,
}

macro_rules! bundle {
    ($($name:literal serves $($soname:literal)+;)+) => {
        [$(Bundle {
            name: $name,
            sonames: &[$($soname),+],
            text: include_str!(concat!("../conf/", $name, ".conf")),
            lines: OnceLock::new(),
        }),+]
    };
}

/// The files of `conf/`, each with the beginnings of the SONAMEs that it serves; `SYS` stands for the
/// kernel.
static BUNDLES: [Bundle; 15] = bundle! {
    "libc" serves "libc.so" "libpthread.so" "libdl.so" "librt.so" "libcrypt.so";
    "libm" serves "libm.so";
    "libmariadb" serves "libmariadb.so" "libmysqlclient.so" "libmysqlclient_r.so" "libperconaserverclient.so";
    "libpq" serves "libpq.so";
    "sqlite3" serves "libsqlite3.so";
    "libssl" serves "libssl.so";
    "libcrypto" serves "libcrypto.so";
    "libhiredis" serves "libhiredis.so";
    "libcurl" serves "libcurl.so" "libcurl-gnutls.so" "libcurl-nss.so";
    "zlib" serves "libz.so" "libz-ng.so";
    "ruby" serves "libruby.so" "libruby-" "ruby";
    "python" serves "libpython" "python";
    "perl" serves "libperl.so" "perl";
    "php" serves "libphp" "php" "mod_php";
    "syscalls" serves "SYS";
};

/// Numbers and names of system calls.
static SYSTEM_CALLS: &str = include_str!("../conf/syscalls.tbl");
static SYSTEM_CALLS_OF_32_BITS: &str = include_str!("../conf/syscalls32.tbl");

/// Returns the numbers of Linux's system calls on x86-64, each with its name.
pub fn system_calls() -> impl Iterator<Item = (u32, &'static str)> {
    numbered(SYSTEM_CALLS)
}

/// Returns the numbers of the system calls of programs of 32 bits, each with its name.
pub fn system_calls_of_32_bits() -> impl Iterator<Item = (u32, &'static str)> {
    numbered(SYSTEM_CALLS_OF_32_BITS)
}

/// Returns the name of one of Linux's system calls on x86-64.
#[must_use]
pub fn system_call(number: u32) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<u32, &str>> = LazyLock::new(|| system_calls().collect());
    NAMES.get(&number).copied()
}

/// Returns the name of a system call of programs of 32 bits.
#[must_use]
pub fn system_call_of_32_bits(number: u32) -> Option<&'static str> {
    static NAMES: LazyLock<HashMap<u32, &str>> =
        LazyLock::new(|| system_calls_of_32_bits().collect());
    NAMES.get(&number).copied()
}

fn numbered(table: &'static str) -> impl Iterator<Item = (u32, &'static str)> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    // A test makes sure that each line has both.
    lines.filter_map(|line| {
        let (number, name) = line.split_once(' ')?;
        Some((number.parse().ok()?, name))
    })
}

impl Bundle {
    /// Returns every bundled file.
    #[must_use]
    pub fn all() -> &'static [Self] {
        &BUNDLES
    }

    /// Returns the file for a library, by its SONAME; for a program, by its name.
    #[must_use]
    pub fn for_soname(soname: &str) -> Option<&'static Self> {
        let serves = |wanted: &str| match soname.strip_prefix(wanted) {
            // `libc.so`, `libc.so.6`; `python`, `python3.11`, but not `pythonista`.
            Some(rest) => !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'),
            None => false,
        };
        BUNDLES
            .iter()
            .find(|bundle| bundle.sonames.iter().any(|wanted| serves(wanted)))
    }

    /// Returns the name of the file without its ending: `libc`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the text of the file, in the grammar of `ltrace.conf(5)`.
    #[must_use]
    pub fn text(&self) -> &'static str {
        self.text
    }

    /// Parses all of the file. Whoever asks for single names uses [`Bundle::prototype`] and [`Bundle::ty`], which parse no more than
    /// they need.
    #[must_use]
    pub fn library(&self) -> Library {
        // A test makes sure that no file has a problem.
        let (library, _) = Library::parse(&format!("{}.conf", self.name), self.text, &mut |_| None);
        library
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        let lines = self.lines.get_or_init(|| Lines::of(self.text).into());
        lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Cuts the file for a library into lines, if that was not done yet: what is read of it first waits less then.
    pub fn prepare(soname: &str) {
        if let Some(bundle) = Self::for_soname(soname) {
            drop(bundle.lines());
        }
    }

    /// Returns a type that the file for a library names.
    #[must_use]
    pub fn ty(soname: &str, name: &str) -> Option<Type> {
        Self::for_soname(soname)?.lines().ty(name)
    }

    /// Returns the prototype of a function in a library.
    #[must_use]
    pub fn prototype(soname: &str, function: &str) -> Option<Prototype> {
        Self::for_soname(soname)?.lines().prototype(function)
    }
}
