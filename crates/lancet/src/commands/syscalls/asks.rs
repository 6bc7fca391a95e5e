//! What follows from several flags of `lancet syscalls` together: who watches, and what nothing is said of. Used by
//! `args` and `way`.

use super::args::SyscallsArgs;
use super::expressions::{self, Expression, Hidden};
use super::shown::Colours;
use crate::cli::format::{flaw_of_flags, lacks_form};
use crate::watching::flags::kept_of_strings;
use ::calls::options::BEAR_MESSAGES;
use ::calls::tamper::Inject;
use report::Writes;
use report::calls;
use report::forms::{Chosen, ChosenForm};
use report::syscalls::{FORMATS, Numbers, STRACE};
use syscalls::Trace;

/// Bytes of a buffer that are copied for `-e read=` and `-e write=`, and of messages of netlink; and where a tracer copies them.
const DUMPED: u32 = 32 << 10;
const DUMPED_BY_TRACER: u32 = 128 << 10;
const MESSAGES: u32 = 2 << 10;
/// What a program offers room for, and the kernel fills (net/netlink/af_netlink.c, `netlink_dump`).
const MESSAGES_BY_TRACER: u32 = 32 << 10;

impl SyscallsArgs {
    /// Whether messages of netlink are written member by member: it must be known what a socket speaks.
    pub(super) fn tells_messages(&self) -> bool {
        let is_table = self.is_counted() && self.way.is_asked();
        let has_any = |trace: &Trace| BEAR_MESSAGES.iter().any(|name| trace.has(name));
        self.is_strace() && !is_table && self.trace().is_none_or(has_any)
    }

    /// Characters of a string that are copied: all that are dumped.
    pub(super) fn kept(&self) -> u32 {
        let kept = kept_of_strings(self.strings, self.common.record.is_some());
        let [read, written] = expressions::dumped(self.all().collect());
        match read == Numbers::None && written == Numbers::None {
            true => kept,
            false if self.is_by_tracer() => kept.max(DUMPED_BY_TRACER),
            false => kept.max(DUMPED),
        }
    }

    /// Bytes that are copied of messages, at least.
    pub(super) fn kept_of_messages(&self) -> u32 {
        match (self.tells_messages(), self.is_by_tracer()) {
            (false, _) => 0,
            (true, false) => MESSAGES,
            (true, true) => MESSAGES_BY_TRACER,
        }
    }

    /// Whether it is asked which namespaces calls lead into.
    pub(super) fn asks_namespaces(&self) -> bool {
        self.all()
            .any(|expression| matches!(expression, Expression::Namespaces))
    }

    /// They are read of the thread, or of its child, while it stands at the end of the call.
    pub(super) fn flaw_of_namespaces(&self) -> Option<String> {
        (self.asks_namespaces() && !self.is_by_tracer()).then(|| {
            "namespaces are read while the call that leads into them returns: ask for --no-modify too, or for --strace of a PROGRAM".into()
        })
    }

    /// What is chosen to show calls.
    pub(super) fn chosen(&self) -> Chosen<Writes> {
        match self.strace {
            true => Chosen::entry(&STRACE),
            false => Chosen::or_default(self.shown.format, FORMATS, self.shown.json),
        }
    }

    /// Whether they are shown by their records.
    pub(super) fn has_records(&self) -> bool {
        self.chosen().records().is_some()
    }

    /// Whether all is as strace does it.
    pub(super) fn is_strace(&self) -> bool {
        std::ptr::eq(self.chosen().format, &STRACE)
    }

    /// How the tables of `--leaks` are written, which are those of `lancet calls`.
    pub(super) fn leaks_form(&self) -> Chosen<calls::Format> {
        let form = self.chosen().form;
        match form {
            ChosenForm::Records(_) => Chosen {
                format: &calls::JSON,
                form,
            },
            // What is open has no stacks, and is not asked for in a form of these.
            ChosenForm::Text { .. } | ChosenForm::Stacks(_) => Chosen::entry(&calls::LINES),
        }
    }

    /// Whether calls are counted, and not shown one by one.
    pub(super) fn is_counted(&self) -> bool {
        self.count || self.chosen().only_counts()
    }

    /// What cannot be asked with a form of records or stacks; `separate`: each thread's lines go into a file of its own.
    pub(super) fn flaw_of_form(&self, separate: bool) -> Option<String> {
        if !self.has_records() && !self.chosen().has_stacks() {
            return None;
        }
        if self.leaks && self.chosen().has_stacks() {
            return lacks_form(self.chosen(), FORMATS, "--leaks");
        }
        let others = [
            (separate, "-ff"),
            (self.shown.table, "-C"),
            (self.shown.argument_names, "-N"),
            (self.shown.instructions, "-i"),
            (self.shown.color == Colours::Always, "--color"),
        ];
        flaw_of_flags(self.chosen(), &others)
    }

    /// What is not shown is not injected into, as with strace.
    pub(super) fn flaw_of_injections(&self) -> Option<String> {
        let mut injections = self.injections();
        if self.is_injected_by_tracer() && injections.any(|inject| inject.line.is_some()) {
            return Some(
                "@FILE:LINE is for hooks, and what else is injected is for ptrace: ask for one of them".into(),
            );
        }
        let bound = match (self.shown.paths.is_empty(), self.common.within.is_empty()) {
            (false, _) => Some("-P"),
            (_, false) => Some("--in"),
            _ => None,
        };
        // What a call is handed and who made it is found out when it is shown, behind the injection.
        if let (Some(flag), Some(inject)) = (bound, self.injections().next()) {
            let name = inject.names.first().map_or("the call", |name| name);
            return Some(format!(
                "{flag} leaves calls out that would be injected into all the same: inject by line (--inject {name}:…@FILE:LINE), or leave {flag} away"
            ));
        }
        // strace says nothing of it.
        let trace = self.trace().filter(|_| !self.is_strace())?;
        let is_hidden = |inject: &&Inject| !inject.names.iter().any(|name| trace.has(name));
        let hidden = self.injections().find(is_hidden)?.names.first()?;
        Some(format!(
            "{hidden} is injected into and not shown: name it in -e trace= too"
        ))
    }

    /// Whether processes are traced for what is injected.
    pub(super) fn is_injected_by_tracer(&self) -> bool {
        let starts = !self.common.program.is_empty();
        let mut injections = self.injections();
        injections.any(|inject| inject.is_for_tracer() || starts && inject.from_start)
    }

    /// Whether a result is injected into the calls that end a thread or a process.
    pub(super) fn injects_ends(&self) -> bool {
        let mut injections = self.injections();
        injections.any(|inject| {
            let mut names = inject.names.iter();
            inject.result.is_some() && names.any(|name| name == "exit" || name == "exit_group")
        })
    }

    /// Whether the environment of a program is shown text by text.
    pub(super) fn shows_environments(&self) -> bool {
        let shortened = expressions::exceptions(self.all().collect()).shortened;
        shortened.map_or(self.verbose, |shortened| !shortened.has("execve"))
    }

    /// Returns what no line is written about.
    pub(super) fn hidden(&self) -> Hidden {
        let by_letters = Hidden {
            attaching: self.quiet > 0,
            ends: self.quiet > 1,
            superseded: self.quiet > 2,
        };
        let by_words = expressions::last(self.all(), |of| match of {
            Expression::Quiet(hidden) => Some(*hidden),
            _ => None,
        });
        by_words.unwrap_or_default().or(by_letters)
    }

    /// Whether more than one process is watched from the beginning.
    pub(super) fn begins_with_several(&self) -> bool {
        self.common.pids.len() + usize::from(!self.common.program.is_empty()) > 1
    }
}
