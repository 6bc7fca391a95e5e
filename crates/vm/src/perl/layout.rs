//! Where things lie in each Perl: the one place for what differs between versions. Used by `facts` and `version`.
//!
//! Offsets are of x86-64 Linux builds with 64-bit integers, without `-DDEBUGGING`. Every number was
//! printed by `offsetof`/`sizeof` in a program that included `perl.h` and `XSUB.h` of that release with
//! the `config.h` of the distribution's own package:
//!
//! | table | source | headers of |
//! |---|---|---|
//! | 5.32 | 5.32.1 | Debian bullseye, libperl-dev |
//! | 5.34 | 5.34.0 | Ubuntu jammy, libperl-dev |
//! | 5.36 | 5.36.0 | Debian bookworm, libperl-dev |
//! | 5.38 | 5.38.2 | Ubuntu noble, libperl5.38t64 |
//! | 5.40 | 5.40.1 | Debian trixie, libperl-dev |
//! | 5.42 | 5.42.3 | Debian sid, libperl-dev |
//! | 5.44 | 5.44.0 | Debian experimental, libperl-dev |
//!
//! What the heap takes ([`heap`](super::heap)) was printed so of 5.32, 5.36 and 5.40 alone: 5.34 has that of 5.36, with which it shares all
//! members before them, and 5.38 that of 5.40 but for `main_code`, which lies behind members that differ.
//!
//! New members of `struct interpreter` are only added at its end within a release series
//! (`intrpvar.h`), and its size is exported as `PL_interp_size`, which is held against the table.
//! What is the same in all is a constant beside the code that uses it.
//!
//! A Perl without threads has no `struct interpreter`: its members are variables of their own, exported
//! under the names `PL_…`. The rest of the tables holds for it too (checked with 5.36.0 built with
//! `-Uusethreads`), but that a statement knows its package and file by pointer
//! ([`interpreter`](super::interpreter)).

use super::version::{Unsupported, Version};
use crate::versions::{self, Outside};

/// One release series' table. Each field names the definition it comes from.
#[derive(Debug)]
pub struct Layout {
    /// The second number of the release: 36 for 5.36.
    pub version: u8,
    /// `sizeof(struct interpreter)`, as `PL_interp_size` says; `intrpvar.h`.
    pub interpreter_size: u16,
    /// `Idefstash` in `struct interpreter`.
    pub defstash: u64,
    /// `Icurcop` in `struct interpreter`.
    pub curcop: u64,
    /// `Icurstackinfo` in `struct interpreter`.
    pub curstackinfo: u64,
    /// `Imarkstack_ptr` in `struct interpreter`.
    pub markstack_ptr: u64,
    /// `Istashpad` in `struct interpreter`.
    pub stashpad: u64,
    /// `Isv_arenaroot` in `struct interpreter`.
    pub arenas: u64,
    /// `Istrtab` in `struct interpreter`.
    pub shared_keys: u64,
    /// `Imain_cv` in `struct interpreter`; 0 where it is not known.
    pub main_code: u64,
    /// `sizeof(struct xpvhv_aux)`, in bytes: `hv.h`.
    pub hash_aux: u64,
    /// `sizeof(struct regexp)`, in bytes: `regexp.h`.
    pub regexp: u64,
    /// `sizeof(PADNAME)`: `pad.h`. Its last two members are a byte of length and a byte of flags.
    pub pad_name: u64,
    /// Number of `OP_NEXTSTATE`: `opnames.h`.
    pub op_nextstate: u16,
    /// Number of `OP_SCOPE`: `opnames.h`.
    pub op_scope: u16,
    /// Number of `OP_ENTEREVAL`: `opnames.h`.
    pub op_entereval: u16,
    /// Whether `struct xpvhv_aux` lies in the body of a hash (since 5.36) or behind its array: `hv.h`.
    pub aux_in_body: bool,
    /// Whether 0x80 in the type of an eval's context (`CXp_TRY`) marks a `try` block: `cop.h`.
    pub has_try: bool,
}

const PERL_5_32: Layout = Layout {
    version: 32,
    interpreter_size: 3792,
    defstash: 208,
    curcop: 224,
    curstackinfo: 240,
    markstack_ptr: 120,
    stashpad: 2640,
    arenas: 272,
    shared_keys: 152,
    main_code: 1816,
    hash_aux: 56,
    regexp: 192,
    pad_name: 48,
    op_nextstate: 0xc3,
    op_scope: 0xc8,
    op_entereval: 0x159,
    aux_in_body: false,
    has_try: false,
};

const PERL_5_34: Layout = Layout {
    version: 34,
    interpreter_size: 3760,
    defstash: 192,
    curcop: 208,
    curstackinfo: 224,
    markstack_ptr: 112,
    stashpad: 2608,
    arenas: 256,
    shared_keys: 144,
    main_code: 1800,
    has_try: true,
    ..PERL_5_32
};

const PERL_5_36: Layout = Layout {
    version: 36,
    interpreter_size: 3768,
    aux_in_body: true,
    ..PERL_5_34
};

const PERL_5_38: Layout = Layout {
    version: 38,
    interpreter_size: 3896,
    stashpad: 2480,
    main_code: 0,
    hash_aux: 112,
    regexp: 224,
    pad_name: 56,
    op_nextstate: 0xc6,
    op_scope: 0xcb,
    op_entereval: 0x15c,
    ..PERL_5_36
};

const PERL_5_40: Layout = Layout {
    version: 40,
    interpreter_size: 3768,
    stashpad: 2352,
    main_code: 1584,
    ..PERL_5_38
};

const PERL_5_42: Layout = Layout {
    version: 42,
    op_nextstate: 0xca,
    op_scope: 0xcf,
    op_entereval: 0x160,
    ..PERL_5_40
};

const PERL_5_44: Layout = Layout {
    version: 44,
    interpreter_size: 3776,
    hash_aux: 120,
    ..PERL_5_42
};

static ALL: &[Layout] = &[
    PERL_5_32, PERL_5_34, PERL_5_36, PERL_5_38, PERL_5_40, PERL_5_42, PERL_5_44,
];

impl Layout {
    /// Returns the layout of a Perl, or why there is none.
    pub fn of(version: Version) -> Result<&'static Layout, Unsupported> {
        let [oldest, newest] = Layout::ends();
        let number = version.version;
        if version.revision == 5 && number % 2 == 1 && (oldest..newest).contains(&number) {
            return Err(Unsupported::Development(version));
        }
        let key = (version.revision, number);
        versions::find(ALL, key, |layout| (5, layout.version)).map_err(|outside| match outside {
            Outside::Before => Unsupported::Older(version),
            Outside::Behind => Unsupported::Newer(version),
        })
    }

    /// Returns the oldest and the newest series that are known: 32 for 5.32.
    pub(super) fn ends() -> [u8; 2] {
        [ALL[0].version, ALL[ALL.len() - 1].version]
    }

    /// Returns the tables, oldest first.
    pub fn all() -> &'static [Layout] {
        ALL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_by_name() {
        assert_eq!(
            Layout::of(Version::new(5, 36, 3)).map(|layout| layout.version),
            Ok(36)
        );
        for (version, why) in [
            (
                Version::new(5, 30, 0),
                Unsupported::Older as fn(Version) -> Unsupported,
            ),
            (Version::new(5, 46, 0), Unsupported::Newer),
            (Version::new(7, 0, 0), Unsupported::Newer),
            (Version::new(5, 37, 2), Unsupported::Development),
        ] {
            assert_eq!(Layout::of(version).err(), Some(why(version)));
        }
    }
}
