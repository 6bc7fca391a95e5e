//! Which files may name a language.

/// The files outside `vm` that may name a language. Everything else asks `vm::Language` and `vm::Reader`. A crate that
/// must has one file, or one for each language beside the list of them.
pub const NAMING: &[&str] = &[
    // Script frames beside native ones.
    "frames/src/live/scripts.rs",
    "frames/src/live/scripts/perl.rs",
    "frames/src/live/scripts/php.rs",
    "frames/src/live/scripts/python.rs",
    "frames/src/live/scripts/ruby.rs",
    // Functions of C by the names that scripts have for them.
    "hooks/src/scripted.rs",
    "hooks/src/scripted/perl.rs",
    "hooks/src/scripted/php.rs",
    "hooks/src/scripted/python.rs",
    "hooks/src/scripted/ruby.rs",
    // `mem` is about Ruby: the addresses that its agent is given, its reader in the guest, its engine outside, and what
    // is written of its answers.
    "wire/src/control_page.rs",
    "wire/src/lib.rs",
    "wire/src/ruby.rs",
    "agent/src/births/names.rs",
    "agent/src/births/vmcalls.rs",
    "births/src/analysis/census.rs",
    "births/src/analysis/merge.rs",
    "births/src/analysis/owner.rs",
    "births/src/attached.rs",
    "births/src/census.rs",
    "births/src/lib.rs",
    "births/src/objects.rs",
    "births/src/postmortem.rs",
    "births/src/ruby.rs",
    "births/src/session.rs",
    "births/src/session/epochs.rs",
    "births/src/session/vm_entry.rs",
    "births/src/session/watched.rs",
    "process/src/error.rs",
    "report/src/mem/json.rs",
    "report/src/mem/table.rs",
    "lancet/src/commands/mem/args.rs",
    "lancet/src/guests.rs",
    "lancet/src/started.rs",
    "lancet/src/ui/advice.rs",
    // Text that a VM evaluates for us: how each is entered, and what `patch` has it do.
    "wire/src/script.rs",
    "agent/src/scripts.rs",
    "eval/src/lib.rs",
    "eval/src/python.rs",
    "patch/src/scripts/mod.rs",
    "patch/src/scripts/request.rs",
    "lancet/src/commands/patch/args.rs",
    // A heap and what its objects are called: what walks it in the guest, and what makes a snapshot of it outside.
    "agent/src/snapshot/walk.rs",
    "births/src/session/snapshot.rs",
    "dump/src/lib.rs",
    "dump/src/ruby.rs",
    "dump/src/ruby/globals.rs",
    "dump/src/ruby/kinds.rs",
    "dump/src/ruby/names.rs",
    "lancet/src/commands/heap/args.rs",
    // Whose bytes in a heap are an object's.
    "rss/src/heaps/mod.rs",
    "rss/src/heaps/python.rs",
    "rss/src/heaps/ruby.rs",
    // Prototypes of the VMs' own functions: which file serves which library.
    "prototypes/src/bundle.rs",
    "prototypes/src/condition/compile.rs",
    // Gems, and advice that holds for one language.
    "frames/src/gem.rs",
    "lancet/src/commands/stack/live.rs",
    "lancet/src/commands/tune/run.rs",
    "tune/src/guest.rs",
    "tune/src/rules/memory.rs",
    "tune/src/rules/process.rs",
    "tune/src/rules/runtime.rs",
];
