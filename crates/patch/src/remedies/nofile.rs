//! `nofile=N[,select]`: the limit of open files of a running process, raised. Used by `remedies`.
//!
//! **What it mends.** A server that has reached its soft limit (1024 under most shells and systemd) answers EMFILE to every `accept`: clients wait in the queue and are
//! turned away. The limit is read by the kernel at each `open`, so that a higher one helps at once, without a restart.
//!
//! **How.** `prlimit(2)` on the process from outside; the hard limit is raised too where it is lower and we have the right (CAP_SYS_RESOURCE). Nothing in the process is touched
//! but the journal's page.
//!
//! **What it risks.** A program that calls `select` writes beyond its `fd_set` with a descriptor of 1024 or more. Modules that import it are named, and more than 1024 is refused then, unless `,select` says
//! that they were looked at: Python's and Ruby's own use of it is safe (they check, or use `poll`). A program that sizes a table by the limit at its start does not see the new one.
//!
//! **Undo.** The old limits, where they are lower than those of now: what the process's memory says of them never raises one, because it may be root who undoes, and a hard limit
//! is raised by root only. Refused while more files are open than those allow, because the process could then open
//! none at all, not even a library that it needs to end a thread.
//!
//! **How it was measured.** `tests/patch/settings.rs`: a Python server at its limit has taken 59 of 200 connections, and all 200 with the remedy.

use super::remedy::{Remedy, SettingsWay, Way, refused};
use crate::error::Result;
use crate::guest::Guest;
use crate::setting::{Setting, SettingsPlan};

const NAME: &str = "nofile";
/// Descriptors that an `fd_set` has room for (FD_SETSIZE of glibc).
const ROOM: u64 = 1024;

pub(super) const REMEDY: Remedy = Remedy {
    name: NAME,
    arguments: "=N[,select]",
    mends: "a server at its limit of open files (EMFILE at accept) takes connections again",
    risks: "refuses more than 1024 where a module calls select, unless ,select says that this is known",
    way: Way::Settings(SettingsWay {
        plan,
        read,
        write,
        back: lowered,
    }),
};

const NOTE: &str = "no more files may be open than the old limit allows";

fn plan(guest: &Guest, arguments: &str) -> Result<SettingsPlan> {
    let (number, knows) = match arguments.split_once(',') {
        Some((number, "select")) => (number, true),
        Some(_) => ("", false),
        None => (arguments, false),
    };
    let wanted: u64 = number.parse().map_err(|_| {
        refused(
            NAME,
            "write nofile=N or nofile=N,select; N is the number of files",
        )
    })?;
    let now = limits(guest.pid(), None).map_err(|error| denied(&error))?;
    if wanted <= now.rlim_cur {
        return Err(refused(
            NAME,
            format!("its limit is {} already", now.rlim_cur),
        ));
    }
    let callers = callers_of_select(guest);
    if wanted > ROOM && !knows && !callers.is_empty() {
        return Err(refused(
            NAME,
            format!(
                "{} may call select, which has room for descriptors below {ROOM} only: nofile={wanted},select if that is no danger here",
                callers.join(", ")
            ),
        ));
    }
    let setting = Setting {
        target: u64::from(libc::RLIMIT_NOFILE),
        old: [now.rlim_cur, now.rlim_max],
        new: [wanted, now.rlim_max.max(wanted)],
        remedy: NAME.into(),
        what: "limit of open files (soft, hard)".into(),
        ..Setting::default()
    };
    Ok(SettingsPlan {
        settings: vec![setting],
        left: 0,
        note: NOTE,
    })
}

/// Modules that import `select` or `pselect`, but for the C library.
fn callers_of_select(guest: &Guest) -> Vec<String> {
    let modules = guest.functions.modules().iter();
    let callers = modules.filter(|place| {
        let imports = ["select", "pselect"].map(|name| place.symbols.imports(name));
        !place.name.starts_with("libc.so") && imports.contains(&true)
    });
    callers.map(|place| place.name.to_string()).collect()
}

fn read(guest: &Guest, setting: &Setting) -> Option<[u64; 2]> {
    let of_files = setting.target == u64::from(libc::RLIMIT_NOFILE);
    let now = limits(guest.pid(), None).ok().filter(|_| of_files)?;
    Some([now.rlim_cur, now.rlim_max])
}

fn write(guest: &Guest, _: &Setting, [soft, hard]: [u64; 2]) -> Result<()> {
    let descriptors = process::proc_file::descriptors(guest.pid());
    let open = descriptors.map_err(|error| {
        refused(
            NAME,
            format!("how many files it has open cannot be read: {error}"),
        )
    })?;
    let open = open.count() as u64;
    if open >= soft {
        return Err(refused(
            NAME,
            format!("it has {open} files open, more than the old limit of {soft} leaves room for"),
        ));
    }
    let new = libc::rlimit64 {
        rlim_cur: soft,
        rlim_max: hard,
    };
    let done = limits(guest.pid(), Some(&new));
    done.map(drop).map_err(|error| denied(&error))
}

/// The limits after an undo: never above those of now.
fn lowered(now: [u64; 2], journal: [u64; 2]) -> [u64; 2] {
    [now[0].min(journal[0]), now[1].min(journal[1])]
}

fn denied(error: &std::io::Error) -> crate::Error {
    refused(
        NAME,
        format!("prlimit: {error} (a hard limit is raised by root only)"),
    )
}

/// The limits before, and new ones if there are.
fn limits(pid: i32, new: Option<&libc::rlimit64>) -> std::io::Result<libc::rlimit64> {
    let mut old = libc::rlimit64 {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let new = new.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: both structures are alive for the call, and a null pointer means that nothing is set.
    let done = unsafe { libc::prlimit64(pid, libc::RLIMIT_NOFILE, new, &raw mut old) };
    if done == 0 {
        Ok(old)
    } else {
        Err(std::io::Error::last_os_error())
    }
}
