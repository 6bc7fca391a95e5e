//! `lancet syscalls --strace`: messages of netlink, directories and returns from handlers as strace writes them; and strace 7's `-e namespace=new`,
//! `--color` and places in files.

use crate::as_strace::{both, both_started_by, ours};
use crate::support::{LIMIT, TempDir, installed, is_root, run, skip};

/// Whether these programs are there, and may make a network namespace: in a new one nobody else's traffic is counted.
fn can(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !installed(program));
    if missing.is_some() || !is_root() {
        skip(
            "messages of netlink",
            "no root, or no strace, unshare, ip, tc, ss, ethtool",
        );
        return false;
    }
    true
}

/// What `ip`, `tc` and `ss` ask and are answered, line by line.
#[test]
fn messages_of_netlink_are_those_of_strace() {
    if !can(&["strace", "unshare", "ip", "tc", "ss"]) {
        return;
    }
    const MESSAGES: &str = "trace=sendto,sendmsg,recvfrom,recvmsg";
    for words in [
        &["ip", "link", "show", "lo"][..],
        &["ip", "addr", "add", "10.0.0.1/8", "dev", "lo"],
        &["ip", "addr", "show"],
        &["ip", "route", "show", "table", "all"],
        &["ip", "neigh"],
        &["tc", "qdisc", "replace", "dev", "lo", "root", "pfifo"],
        &["tc", "qdisc", "show", "dev", "lo"],
        &["ss", "-tln"],
    ] {
        // strace finds out what a socket speaks only in its own namespace.
        let [theirs, ours] = both_started_by(&["unshare", "-n"], &["-f", "-e", MESSAGES], words);
        assert!(theirs.contains("nlmsg_type="), "{words:?}: {theirs}");
        assert_eq!(ours, theirs, "{words:?}");
    }
}

/// strace 7 writes generic netlink member by member, and lancet names what is ethtool's.
#[test]
fn generic_netlink_is_named_by_its_families() {
    if !can(&["unshare", "ethtool"]) {
        return;
    }
    let folder = TempDir::new("decoded-generic");
    let out = folder.join("out");
    let mut command = ours(&["-f", "-e", "trace=sendto,sendmsg,recvmsg", "-o"]);
    command
        .arg(&out)
        .args(["--", "unshare", "-n", "ethtool", "lo"]);
    let output = run(&mut command, LIMIT);
    let text = std::fs::read_to_string(&out).expect("lines");
    for known in [
        "nlmsg_type=nlctrl, nlmsg_flags=NLM_F_REQUEST|NLM_F_ACK",
        "{cmd=CTRL_CMD_GETFAMILY, version=1}, [{nla_len=12, nla_type=CTRL_ATTR_FAMILY_NAME}, \"ethtool\"]",
        "{cmd=CTRL_CMD_NEWFAMILY, version=2}, [[{nla_len=12, nla_type=CTRL_ATTR_FAMILY_NAME}, \"ethtool\"]",
        "nlmsg_type=ethtool, ",
        "{cmd=ETHTOOL_MSG_LINKSTATE_GET, version=1}, ",
        "nla_type=NLA_F_NESTED|ETHTOOL_A_LINKSTATE_HEADER}, [",
        "nla_type=ETHTOOL_A_HEADER_DEV_NAME}, \"lo\"]",
    ] {
        assert!(text.contains(known), "{known}: {text}\n{output:?}");
    }
}

/// A directory with more entries than a hook copies, and the mask that a handler returns to.
#[test]
fn entries_are_counted_and_masks_told_as_by_strace() {
    if !installed("strace") {
        return skip("entries and masks", "no strace");
    }
    let folder = TempDir::new("decoded-entries");
    for number in 0..700 {
        std::fs::write(folder.join(&format!("entry-{number}")), "").expect("written");
    }
    let script = "trap : USR1; kill -USR1 $$; exec ls \"$0\" > /dev/null";
    let path = folder.join("").display().to_string();
    let words = ["sh", "-c", script, &path];
    let [theirs, ours] = both(&["-f", "-e", "trace=getdents64,rt_sigreturn"], &words);
    assert!(theirs.contains("rt_sigreturn({mask=[]})"), "{theirs}");
    assert!(theirs.contains(" entries */"), "{theirs}");
    assert_eq!(ours, theirs);
}

#[test]
fn namespaces_that_calls_lead_into_stand_behind_their_results() {
    if !is_root() || !installed("unshare") {
        return skip("-e namespace=new", "no root, or no unshare");
    }
    let words = ["--", "unshare", "-n", "readlink", "/proc/self/ns/net"];
    let output = run(
        ours(&["--namespace", "-e", "trace=unshare"]).args(words),
        LIMIT,
    );
    let told = format!("unshare(CLONE_NEWNET) = 0 ({})", output.stdout.trim());
    let line = output.stderr.lines().next().unwrap_or_default();
    let line: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(line.join(" "), told, "{output:?}");
    assert!(told.contains("net:["), "{output:?}");
    let refused = run(
        crate::support::lancet().args(["syscalls", "-e", "namespace=new", "--", "true"]),
        LIMIT,
    );
    assert_eq!(refused.code(), 2, "{refused:?}");
    assert!(refused.stderr.contains("--no-modify"), "{refused:?}");
}

#[test]
fn lines_have_colours_where_they_are_asked_for() {
    let lines = |option: &[&str]| {
        let mut command = ours(&["-e", "trace=chdir"]);
        command
            .args(option)
            .env("STRACE_COLORS", "error=1;35")
            .args(["--", "sh", "-c", "cd /nonexistent || true"]);
        run(&mut command, LIMIT).stderr
    };
    let coloured = lines(&["--color=always"]);
    assert!(
        coloured.contains("\x1b[33mchdir\x1b[0m\x1b[0m(\x1b[0m\x1b[35m\"/nonexistent\"\x1b[0m"),
        "{coloured:?}"
    );
    assert!(
        coloured.contains("\x1b[1;35m-1 ENOENT (No such file or directory)\x1b[0m\n"),
        "{coloured:?}"
    );
    for none in [&[][..], &["--color=never"], &["--color=auto"]] {
        assert!(!lines(none).contains('\x1b'), "{none:?}");
    }
}

/// Addresses of frames are those in the file, whatever it is mapped at.
#[test]
fn frames_have_their_places_in_files() {
    let output = run(
        ours(&["-k", "-e", "trace=chdir"]).args(["--", "sh", "-c", "cd /"]),
        LIMIT,
    );
    let frames = output.stderr.lines().filter_map(|line| {
        let (path, rest) = line.strip_prefix(" > ")?.split_once('(')?;
        let at = rest.rsplit_once("[0x")?.1.strip_suffix(']')?;
        Some((path.to_owned(), u64::from_str_radix(at, 16).ok()?))
    });
    let frames: Vec<_> = frames.collect();
    assert!(frames.len() > 1, "{output:?}");
    for (path, at) in frames {
        let length = std::fs::metadata(&path).expect("a file").len();
        assert!(at < length, "{path}: {at:#x} of {length:#x}");
    }
}
