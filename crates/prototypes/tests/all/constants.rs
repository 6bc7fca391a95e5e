//! The numbers behind the names in `syscalls.conf` are those of the machine's headers: the kernel's and the C library's.
//! A name that these headers do not have, because it is newer than they are, is not looked at; nearly all are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use prototypes::Library;
use prototypes::bundle::Bundle;

/// Two sets of headers that cannot be read together.
const HEADERS: [&[&str]; 2] = [
    &[
        "fcntl.h",
        "poll.h",
        "sched.h",
        "signal.h",
        "sys/epoll.h",
        "sys/eventfd.h",
        "sys/file.h",
        "sys/inotify.h",
        "sys/mman.h",
        "sys/mount.h",
        "sys/random.h",
        "sys/resource.h",
        "sys/signalfd.h",
        "sys/socket.h",
        "sys/stat.h",
        "sys/time.h",
        "sys/timerfd.h",
        "sys/wait.h",
        "netinet/in.h",
        "netinet/tcp.h",
        "unistd.h",
        "stdio.h",
    ],
    &[
        "asm/prctl.h",
        "asm/signal.h",
        "linux/close_range.h",
        "linux/fcntl.h",
        "linux/fs.h",
        "linux/futex.h",
        "linux/memfd.h",
        "linux/membarrier.h",
        "linux/mount.h",
        "linux/netlink.h",
        "linux/prctl.h",
        "linux/ptrace.h",
        "linux/resource.h",
        "linux/rseq.h",
        "linux/sched.h",
        "linux/seccomp.h",
        "linux/stat.h",
        "linux/time.h",
        "linux/timerfd.h",
        "linux/xattr.h",
        "linux/falloc.h",
        "asm/mman.h",
        "linux/if_addr.h",
    ],
];

/// Names with their numbers, from the lists of the file.
fn listed(library: &Library) -> BTreeMap<String, i64> {
    let text = library.to_string();
    let lists = text.lines().filter(|line| line.starts_with("typedef"));
    let mut listed = BTreeMap::new();
    for list in lists {
        for word in list.split(['(', ')', ',', ' ']) {
            if let Some((name, value)) = word.split_once('=')
                && let Ok(value) = value.parse()
            {
                listed.insert(name.to_owned(), value);
            }
        }
    }
    listed
}

#[test]
fn system_calls_numbers_are_those_of_the_headers() {
    if Command::new("gcc").arg("--version").output().is_err() {
        println!("skipped: no gcc");
        return;
    }
    let library = Bundle::for_soname("SYS").expect("ours").library();
    let listed = listed(&library);
    assert!(listed.len() > 500, "{}", listed.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("constants");
    fs::create_dir_all(&folder).expect("a folder");
    let mut known = BTreeMap::new();
    for (index, headers) in HEADERS.iter().enumerate() {
        let mut source = String::from("#define _GNU_SOURCE\n");
        for header in *headers {
            let _ = writeln!(
                source,
                "#if __has_include(<{header}>)\n#include <{header}>\n#endif"
            );
        }
        source.push_str("extern int printf(const char *, ...);\nint main(void) {\n");
        for name in listed.keys() {
            let _ = writeln!(
                source,
                "#ifdef {name}\nprintf(\"{name} %lld\\n\", (long long)({name}));\n#endif"
            );
        }
        source.push_str("return 0; }\n");
        let [path, program] = ["c", "out"].map(|end| folder.join(format!("ask{index}.{end}")));
        fs::write(&path, source).expect("a file");
        let mut gcc = Command::new("gcc");
        let done = gcc
            .arg("-w")
            .arg("-o")
            .arg(&program)
            .arg(&path)
            .output()
            .expect("gcc");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        let said = Command::new(&program).output().expect("it runs");
        for line in String::from_utf8_lossy(&said.stdout).lines() {
            let (name, value) = line.split_once(' ').expect("a name and a number");
            known.insert(name.to_owned(), value.parse::<i64>().expect("a number"));
        }
    }
    let wrong: Vec<String> = known
        .iter()
        // Of 32 bits both are the same, with a sign or without.
        .filter(|(name, value)| listed[*name] as u32 != **value as u32)
        .map(|(name, value)| format!("{name}: {} here, {value} there", listed[name]))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let share = known.len() * 100 / listed.len();
    assert!(share > 80, "only {share} % of {} were found", listed.len());
}
