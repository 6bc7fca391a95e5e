//! Which process a snapshot is of, what it may hold, and what was lost when it was made. Used by `file::read`,
//! `snapshot` and others here, and by the crates `report`, `dump`, `languages` and `lancet`.

/// Which process, when, and what is known of it as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The language, as `vm::Language` has it for its prefix.
    pub language: String,
    /// The version of the VM as it calls itself.
    pub version: String,
    /// The process, in the PID namespace of lancet.
    pub pid: i32,
    /// When the copy of the heap was made: nanoseconds since 1970.
    pub taken_at: u64,
    /// Resident memory of the process at that time, in bytes; 0 = unknown.
    pub rss: u64,
    /// The words of the command line.
    pub command_line: Vec<String>,
    /// The name of the machine.
    pub host: String,
    /// The id of the machine's start, `/proc/sys/kernel/random/boot_id`; empty = unknown, as of a core file.
    pub boot: String,
    /// Start of the process in clock ticks since that; 0 = unknown. Processes of one id follow each other, and in each container there is a first
    /// one.
    pub started: u64,
    /// Whether the VM's collector frees garbage.
    pub collector: Collector,
    /// Contents of objects are in it, because the user asked for them (`--contents`). Otherwise [`Object::contents`] is
    /// dropped by the builder, whatever it is given.
    ///
    /// [`Object::contents`]: crate::Object::contents
    pub contents: bool,
    /// What the maker has to say about the snapshot, a sentence each: what could not be read, and why.
    pub notes: Vec<String>,
    /// What all of its resident memory was used for, where that was looked at; empty otherwise.
    pub memory: Memory,
    /// What the VM has allocated beside slots, the largest first, garbage too; empty where it does not say so.
    pub allocated: Vec<Allocated>,
}

/// Whether the program has switched its collector off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Collector {
    /// It is not known.
    #[default]
    Unknown = 0,
    /// It is on.
    On = 1,
    /// The program has switched it off, so it frees nothing.
    Off = 2,
    /// The VM has none: what its counts of references do not free stays for good.
    None = 3,
}

impl Collector {
    /// Whether the program has switched it off; `None` = not known.
    #[must_use]
    pub fn is_off(self) -> Option<bool> {
        match self {
            Collector::Unknown | Collector::None => None,
            Collector::On => Some(false),
            Collector::Off => Some(true),
        }
    }

    /// Whether nothing frees what is garbage, as far as is known.
    #[must_use]
    pub fn frees_nothing(self) -> bool {
        matches!(self, Collector::Off | Collector::None)
    }

    /// What an answer of the VM's means; `None` = it was not asked, or has not answered.
    #[must_use]
    pub fn of(on: Option<bool>) -> Self {
        match on {
            None => Collector::Unknown,
            Some(true) => Collector::On,
            Some(false) => Collector::Off,
        }
    }
}

impl About {
    /// Why another snapshot cannot be a later one of the same process; `None` = as far as is known it is.
    #[must_use]
    pub fn why_not_before(&self, later: &Self) -> Option<String> {
        let differ = |one: &str, other: &str| !one.is_empty() && !other.is_empty() && one != other;
        if self.pid != later.pid {
            let (one, other) = (self.pid, later.pid);
            return Some(format!(
                "the snapshots are of two processes, {one} and {other}"
            ));
        }
        let pid = self.pid;
        if differ(&self.host, &later.host) {
            let (one, other) = (&self.host, &later.host);
            return Some(format!(
                "the snapshots are of processes {pid} of two machines, {one} and {other}"
            ));
        }
        let (one, other) = (self.started, later.started);
        if differ(&self.boot, &later.boot) || one != other && one != 0 && other != 0 {
            return Some(format!(
                "the snapshots are of two processes, which had the id {pid} one after the other"
            ));
        }
        (later.taken_at < self.taken_at).then(|| {
            "the snapshot named first was made after the other: name them in the order in which they were made".into()
        })
    }
}

/// What the resident memory of the process was used for, as `lancet heap --rss` says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What follows from the figures, a sentence each.
    pub findings: Vec<String>,
    /// What for, and how much.
    pub rows: Vec<MemoryRow>,
    /// What of it the program had from glibc's malloc; `None` = unknown.
    pub malloc: Option<u64>,
}

/// What the VM has allocated for objects of a kind beside their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocated {
    /// The kind, as [`Builder::kind`](crate::Builder::kind) has it.
    pub kind: String,
    /// How many objects have something beside their slots.
    pub objects: u64,
    /// The bytes of that: those that were asked for.
    pub bytes: u64,
    /// What glibc's malloc takes for as many pieces as objects: a head of eight bytes each, and what fills it up to a multiple of 16.
    pub in_malloc: u64,
}

/// What a part of resident memory was used for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRow {
    /// What for, in English.
    pub text: String,
    /// Bytes that are in memory.
    pub rss: u64,
    /// Bytes that are in memory, where those that several processes have count by this process's part.
    pub pss: u64,
    /// Bytes that are in swap and not in memory.
    pub swap: u64,
}

/// How many objects there may be, and edges and roots together: of these two each has a number of 32 bits in a search, and some numbers stand for
/// none.
pub(crate) const MOST: u64 = u32::MAX as u64 - 16;

/// What a snapshot may hold at most. What comes beyond is counted in [`Losses`] and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Number of objects, living or not.
    pub objects: u64,
    /// Number of references between objects.
    pub edges: u64,
    /// Number of references from roots to objects.
    pub roots: u64,
    /// Bytes of all different texts.
    pub text: u64,
    /// Bytes of memory that all of it together may take, with what is made of it (`Budget::OBJECT` and its kin).
    pub bytes: u64,
}

impl Budget {
    /// What a process with so many bytes of memory can hold at most: an object has 16 bytes (of a Ruby 40), and a reference a word. What
    /// is shared (the references of a class, of compiled code) is a small part, for which there is room besides.
    #[must_use]
    pub fn of_memory(bytes: u64) -> Self {
        Self {
            objects: bytes / 16 + (1 << 20),
            edges: bytes / 8 + (1 << 23),
            roots: bytes / 8 + (1 << 20),
            text: bytes / 4 + (16 << 20),
            bytes: u64::MAX,
        }
    }

    /// Bytes of memory that an object takes at the most, with what is made of it: one with two references some 60 (docs/heap.md, "The file").
    pub const OBJECT: u64 = 28;
    /// The same of a reference from one object to another.
    pub const EDGE: u64 = 16;
    /// The same of a reference from a root.
    pub const ROOT: u64 = 32;
    /// The same of a number of more than 32 bits, which is in a tree.
    pub const WIDE: u64 = 48;
    /// The same of a text, besides its letters, which are there twice.
    pub const TEXT: u64 = 48;

    /// The same, where the snapshot and what is made of it may take so many bytes in all. Each kind of things is bounded by them, too, for
    /// whoever reads one kind ahead; and a quarter is the most that texts may take.
    #[must_use]
    pub fn affording(self, bytes: u64) -> Self {
        Self {
            objects: self.objects.min(bytes / Self::OBJECT),
            edges: self.edges.min(bytes / Self::EDGE),
            roots: self.roots.min(bytes / Self::ROOT),
            text: self.text.min(bytes / 4),
            bytes: self.bytes.min(bytes),
        }
    }
}

impl Default for Budget {
    /// What the 32-bit numbers of objects, edges and bytes of text bear.
    fn default() -> Self {
        let roots = 1 << 27;
        Self {
            objects: MOST,
            edges: MOST - roots,
            roots,
            text: 2 << 30,
            bytes: u64::MAX,
        }
    }
}

/// What is not in a snapshot although it was given to the builder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Objects beyond the budget.
    pub objects: u64,
    /// Edges beyond the budget, and those of objects that are not in the snapshot.
    pub edges: u64,
    /// Roots beyond the budget.
    pub roots: u64,
    /// Texts beyond the budget; each is shown as `…`.
    pub texts: u64,
    /// Edges to addresses at which there is no object.
    pub dangling_edges: u64,
    /// Roots that are addresses at which there is no object.
    pub dangling_roots: u64,
    /// Objects at an address that an earlier one has; the earlier one stays.
    pub repeated_objects: u64,
}

impl Losses {
    /// Whether nothing was lost.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
