//! Which files may name a language.

/// The files that may name a language besides those of `vm`, the table `languages::ALL`, and the files and folders of `languages`, `enter`
/// and `agent` that have a language's name. Everything else asks `vm::Language`, `vm::Reader` and `languages::ALL`.
pub const NAMING: &[&str] = &[
    // `mem` is about Ruby and Python: the addresses that its agent is given, its reader in the guest, its engine outside, and what
    // is written of its answers.
    "wire/src/control_page.rs",
    "wire/src/lib.rs",
    "wire/src/ruby.rs",
    "agent/src/births/names.rs",
    "agent/src/births/vmcalls.rs",
    "births/src/analysis/owner.rs",
    "births/src/census.rs",
    "births/src/objects.rs",
    "births/src/postmortem.rs",
    "births/src/session.rs",
    "births/src/session/epochs.rs",
    "births/src/session/watched.rs",
    "births/src/guest.rs",
    "agent/src/births.rs",
    "process/src/error.rs",
    "lancet/src/commands/mem/args.rs",
    "lancet/src/commands/mem/started.rs",
    "lancet/src/ui/advice.rs",
    // Text that a VM evaluates for us: how each is entered, and what `patch` has it do.
    "wire/src/script.rs",
    "agent/src/scripts.rs",
    "agent/src/scripts/functions.rs",
    "enter/src/entries.rs",
    "enter/src/lib.rs",
    "patch/src/scripts/mod.rs",
    "patch/src/scripts/request.rs",
    "lancet/src/commands/patch/args.rs",
    // A heap and what its objects are called: what walks it in the guest, and what makes a snapshot of it outside.
    "agent/src/jobs.rs",
    "agent/src/snapshot.rs",
    "agent/src/snapshot/child.rs",
    "agent/src/snapshot/compact.rs",
    "agent/src/snapshot/walk.rs",
    "dump/src/compaction.rs",
    "dump/src/guest.rs",
    // Prototypes of the VMs' own functions: which file serves which library.
    "prototypes/src/bundle.rs",
    "prototypes/src/condition/compile.rs",
    // Gems, and advice that holds for one language.
    "frames/src/gem.rs",
    "lancet/src/commands/stack/live.rs",
    "lancet/src/commands/stack/measure.rs",
    "tune/src/guest.rs",
    "tune/src/rules/memory.rs",
    "tune/src/rules/process.rs",
    "tune/src/rules/runtime.rs",
];
