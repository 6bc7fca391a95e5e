//! `lancet syscalls`: what it prints is what strace prints of the same work, beside it in the same run.

use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

use crate::machine::{built, program};
use crate::support::{LIMIT, TempDir, fixtures, installed, lancet, run, skip};

/// What no two runs have in common, and what strace adds to times: addresses, ports, ids, random bytes, times, dates.
fn masked(line: &str) -> String {
    static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
        let all = MASKED.iter();
        all.map(|(mask, with)| (Regex::new(mask).expect("a literal"), *with))
            .collect()
    });
    const MASKED: &[(&str, &str)] = &[
        (r"^\d+ +", ""),
        (r" +=", " ="),
        (r" ?/\*.*?\*/", ""),
        (r"0x[0-9a-f]{6,}", "ADDRESS"),
        (r"htons\(\d{5}\)", "htons(PORT)"),
        (r"(tv_\w?sec)=\d+", "$1=N"),
        (r#"getrandom\(".*?""#, r#"getrandom("…""#),
        (
            r#"sa_family=AF_INET, sa_data=".*?""#,
            r#"sa_family=AF_INET, sa_data="…""#,
        ),
        (r"^sysinfo\(\{.*\}\)", "sysinfo({…})"),
        (r"^(set_tid_address\(.*= )\d+", "${1}ID"),
        // A name of memory that this kernel does not take; how it is written is another test's.
        (r"^prctl\(PR_SET_VMA, .*\)", "prctl(PR_SET_VMA, …)"),
        // A pointer to a struct that is not decoded yet.
        (r"^timer_create\(CLOCK_MONOTONIC, .*, ", "timer_create(…, "),
        // Perl's seed, from /dev/urandom.
        (r#"read\(3, ".*", 4\) = 4"#, r#"read(3, "…", 4) = 4"#),
        (
            r"^((get(p|t|pg|s)id|kill|getppid|sched_getaffinity)\(.*?)\d{3,}",
            "${1}ID",
        ),
    ];
    let mut line = line.to_owned();
    for (pattern, with) in MASKS.iter() {
        line = pattern.replace_all(&line, *with).into_owned();
    }
    line
}

/// The lines that a tracer writes of a program, masked; it runs in a folder of its own.
fn lines(mut tracer: Command, out: &Path, words: &[&str]) -> Vec<String> {
    // Named alike for both, because the program asks for its name.
    let folder = out.with_file_name("cwd");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a new folder");
    tracer.arg("-o").arg(out).arg("--").args(words);
    tracer.current_dir(&folder).env("LC_ALL", "C");
    let output = run(&mut tracer, LIMIT);
    assert!(
        output
            .status
            .code()
            .is_some_and(|code| code == 0 || code == 4),
        "{output:?}"
    );
    let text = std::fs::read(out).expect("it was written");
    String::from_utf8_lossy(&text).lines().map(masked).collect()
}

/// The lines of both; `name` is that of a folder, one for each run.
fn both(name: &str, words: &[&str]) -> [Vec<String>; 2] {
    both_with(name, &[], words)
}

/// The same with options for both.
pub fn both_with(name: &str, options: &[&str], words: &[&str]) -> [Vec<String>; 2] {
    let folder = TempDir::new(name);
    let mut strace = Command::new("strace");
    strace.args(options);
    let mut ours = lancet();
    ours.args(["syscalls", "--strace", "--hooks", "--max-wait", "30s"]);
    ours.args(options);
    [(strace, "strace"), (ours, "lancet")]
        .map(|(tracer, name)| lines(tracer, &folder.join(name), words))
}

/// The lines from the first that has one text to the last that has another.
fn part(lines: &[String], from: &str, to: &str) -> Vec<String> {
    let first = lines.iter().position(|line| line.contains(from));
    let last = lines.iter().rposition(|line| line.contains(to));
    let (first, last) = (first.expect("the first mark"), last.expect("the last mark"));
    lines[first..=last].to_vec()
}

/// `-yy`: paths, devices, protocols and both ends of sockets, whatever happened to the number before.
#[test]
fn descriptors_are_called_what_strace_calls_them() {
    if !installed("strace") {
        return skip("syscalls -yy beside strace", "no strace");
    }
    let script = fixtures().join("python/calls/named.py");
    let words = ["/usr/bin/python3", "-S", script.to_str().expect("plain")];
    // What lancet reads too late to ask the kernel for it has no number: `socket:[?]`.
    let numbers = Regex::new(r"\d{3,}|\?").expect("a literal");
    // Nor have the peer of a pair, and the address of its own end, which the kernel has chosen.
    let peers = Regex::new(r"UNIX-STREAM:\[[^]]*\]").expect("a literal");
    let own_end = Regex::new(r"(TCP|UDP):\[(\?|127\.0\.0\.1:\d+)->").expect("a literal");
    // A socket that listens has an address that the kernel has chosen, which lancet asks for when it reads of it: before or after that, or too
    // late on a busy machine.
    let listens = Regex::new(r"<TCP:\[(\?|\d+|127\.0\.0\.1:\d+)\]>").expect("a literal");
    for option in ["-y", "-yy", "--decode-fds=socket,dev"] {
        let all = both_with("strace-names", &[option, "-s", "4"], &words);
        let [strace, ours] = all.map(|lines| {
            let lines = part(&lines, "chdir(\"/usr\")", "\"end\"");
            let lines = lines.iter().map(|line| {
                let line = own_end.replace_all(line, "$1:[OWN->");
                let line = peers.replace_all(&line, "UNIX-STREAM:[PAIR]");
                let line = listens.replace_all(&line, "<TCP:[ITS]>");
                numbers.replace_all(&line, "N").into_owned()
            });
            lines.collect::<Vec<_>>()
        });
        assert!(strace.len() > 50, "{}", strace.len());
        assert_same(&strace, &ours);
    }
}

/// The same of those that no result of a call told: a message brings them, the kernel writes them into memory, a command returns them.
#[test]
fn descriptors_that_no_result_tells_are_called_what_strace_calls_them() {
    if !installed("strace") {
        return skip("syscalls -y beside strace", "no strace");
    }
    let Some(path) = program("received.c") else {
        return;
    };
    let numbers = Regex::new(r"\d{3,}|pts/\d+|makedev\(0x88, \w+\)").expect("a literal");
    // strace writes these results without a name.
    let unnamed = Regex::new(r"^((ioctl\(.*TIOCGPTPEER|seccomp\().*\) = \d+)<.*>$");
    let unnamed = unnamed.expect("a literal");
    // It says what the number is called in the process of the first argument.
    let elsewhere = Regex::new(r"^(pidfd_getfd\(.*, \d+)<.*>, 0").expect("a literal");
    let mut named = 0;
    let all = both_with("strace-received", &["-y"], &[path.to_str().expect("plain")]);
    let [strace, ours] = all.map(|lines| {
        let lines = part(&lines, "/etc/hostname", "exit_group");
        let lines = lines.iter().filter(|line| !line.starts_with("---"));
        let lines = lines.map(|line| {
            named += usize::from(unnamed.is_match(line));
            let line = unnamed.replace(line, "$1");
            let line = elsewhere.replace(&line, "$1, 0");
            numbers.replace_all(&line, "N").into_owned()
        });
        lines.collect::<Vec<_>>()
    });
    assert_eq!(named, 2, "{ours:#?}");
    assert_same(&strace, &ours);
}

/// What the kernel says of each signal, and the end that one brings.
#[test]
fn signals_are_told_as_strace_tells_them() {
    if !installed("strace") {
        return skip("signals beside strace", "no strace");
    }
    let Some(path) = program("signalled.c") else {
        return;
    };
    let ids = Regex::new(r"\d{3,}|si_[us]time=\d+").expect("a literal");
    for option in ["signal=all", "signal=!SIGUSR1,chld"] {
        let options = ["-e", option, "-e", "trace=kill,wait4,tgkill"];
        let all = both_with("strace-signals", &options, &[path.to_str().expect("plain")]);
        let [strace, ours] = all.map(|lines| {
            let lines = lines.iter().map(|line| ids.replace_all(line, "N"));
            lines.map(String::from).collect::<Vec<_>>()
        });
        let signals = strace.iter().filter(|line| line.starts_with("---")).count();
        assert_eq!(
            signals,
            if option == "signal=all" { 8 } else { 5 },
            "{strace:#?}"
        );
        assert_same(&strace, &ours);
    }
}

/// Bytes whole, numbers alone, structs not at all, calls on one path.
#[test]
fn calls_are_shown_as_asked() {
    if !installed("strace") {
        return skip("syscalls beside strace", "no strace");
    }
    let folder = TempDir::new("strace-asked");
    let file = folder.join("file");
    std::fs::write(&file, "forty-two bytes, of which strace shows 32.\n").expect("written");
    let path = file.to_str().expect("plain");
    let words = ["/bin/cat", path];
    for options in [
        &["-e", "read=3", "-e", "write=1", "-e", "trace=read,write"][..],
        &["-e", "raw=close,openat", "-e", "trace=openat,close"],
        &["-e", "verbose=none", "-e", "trace=newfstatat"],
        &["-e", "quiet=exit", "-e", "trace=close"],
        &["-P", path],
    ] {
        let [strace, ours] = both_with("strace-shown", options, &words);
        let ours = ours.as_slice();
        // The loader's own calls come before any hook can be set.
        let strace = &strace[strace.len().saturating_sub(ours.len())..];
        assert!(ours.len() > 2, "{options:?}: {ours:#?}");
        let last = 6.min(ours.len());
        assert_same(&strace[strace.len() - last..], &ours[ours.len() - last..]);
    }
}

/// Says where two lists of lines part.
pub fn assert_same(strace: &[String], ours: &[String]) {
    for (index, (theirs, line)) in strace.iter().zip(ours).enumerate() {
        assert_eq!(line, theirs, "line {index}");
    }
    assert_eq!(ours.len(), strace.len());
}

/// Two hundred calls of every family, with arguments that succeed and that fail.
#[test]
fn calls_of_every_family_are_written_as_strace_writes_them() {
    if !installed("strace") {
        return skip("syscalls beside strace", "no strace");
    }
    let Some(path) = program("syscalls.c") else {
        return;
    };
    let [strace, ours] = both("strace-families", &[path.to_str().expect("plain")]);
    let between = |lines: Vec<String>| -> Vec<String> {
        let mark = |text: &str| lines.iter().position(|line| line.starts_with(text));
        let (from, to) = (mark("close(-1)"), mark("close(-2)"));
        lines[from.expect("the first mark")..to.expect("the last mark")].to_vec()
    };
    let strace = between(strace);
    assert!(strace.len() > 190, "{}", strace.len());
    assert_same(&strace, &between(ours));
}

/// `-v`: whole structs, with the dates that strace writes behind times.
#[test]
fn times_of_files_have_their_dates() {
    if !installed("strace") {
        return skip("syscalls -v beside strace", "no strace");
    }
    let folder = TempDir::new("strace-dates");
    let file = folder.join("file");
    std::fs::write(&file, "text").expect("written");
    let path = file.to_str().expect("plain");
    let options = ["-v", "-e", "trace=utimensat,statx,newfstatat", "-P", path];
    for words in [
        &["/usr/bin/touch", "-m", "-d", "2020-02-03 04:05:06.7", path][..],
        &["/usr/bin/stat", path],
        &["/usr/bin/find", path, "-newer", path],
    ] {
        let out = folder.join("out");
        let mut strace = Command::new("strace");
        let mut ours = lancet();
        ours.args(["syscalls", "--strace", "--hooks", "--max-wait", "30s"]);
        let [strace, ours] = [&mut strace, &mut ours].map(|tracer| {
            tracer
                .args(options)
                .arg("-o")
                .arg(&out)
                .arg("--")
                .args(words);
            let output = run(tracer.env("TZ", "Asia/Kolkata"), LIMIT);
            assert!(output.status.success(), "{output:?}");
            let text = std::fs::read_to_string(&out).expect("written");
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        });
        assert!(strace.len() > 1, "{words:?}: {strace:#?}");
        assert_same(&strace, &ours);
    }
}

/// Programs of one thread: every line from their `execve` on, of the loader too.
#[test]
fn real_programs_make_the_calls_that_strace_sees() {
    if !installed("strace") {
        return skip("syscalls beside strace", "no strace");
    }
    let (Some(hello), Some(alone)) = (program("hello.c"), built("hello.c", &["-static"])) else {
        return;
    };
    let repository = TempDir::new("strace-repository");
    std::fs::write(repository.join("Makefile"), "all:\n").expect("written");
    let inside = |name: &str| repository.join(name).display().to_string();
    let made = Command::new("git")
        .args(["init", "-q", &inside("")])
        .status();
    let programs: [(&str, Vec<String>); 9] = [
        ("hello", words(&[&hello.display().to_string()])),
        ("static", words(&[&alone.display().to_string()])),
        ("perl", words(&["/usr/bin/perl", "-e", "print 1"])),
        (
            "python",
            words(&["/usr/bin/python3", "-S", "-c", "print(1)"]),
        ),
        ("php", words(&["/usr/bin/php", "-n", "-r", "echo 1;"])),
        (
            "tar",
            words(&["/usr/bin/tar", "cf", "/dev/null", "/etc/apt"]),
        ),
        ("git", words(&["/usr/bin/git", "-C", &inside(""), "status"])),
        ("make", words(&["/usr/bin/make", "-C", &inside(""), "all"])),
        // By the search path, where other folders come first.
        ("path", words(&["true", "1"])),
    ];
    for (name, words) in &programs {
        let is_git = *name == "git" && !made.as_ref().is_ok_and(|status| status.success());
        if is_git || words[0].starts_with('/') && !Path::new(&words[0]).exists() {
            skip("syscalls beside strace", format!("no {name}"));
            continue;
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let [strace, ours] = both(&format!("strace-{name}"), &words);
        assert!(ours.len() > 15, "{words:?}: {ours:#?}");
        assert!(ours[0].starts_with("execve("), "{words:?}: {ours:#?}");
        assert_same(&strace, &ours);
    }
}

/// Lines in which a call stands whole that was cut in two because another thread's came in between.
pub fn whole(text: &str) -> Vec<(&str, String)> {
    let mut cut: Vec<(&str, &str)> = Vec::new();
    let mut whole = Vec::new();
    for line in text.lines() {
        let (tid, line) = line.split_once(' ').expect("a thread");
        let line = line.trim_start();
        if let Some(begin) = line.strip_suffix("<unfinished ...>") {
            cut.push((tid, begin.trim_end()));
        } else if let Some((_, rest)) = line
            .split_once(" resumed>")
            .filter(|_| line.starts_with("<... "))
        {
            let at = cut
                .iter()
                .position(|(of, _)| *of == tid)
                .expect("its begin");
            let between = if rest.starts_with(')') { "" } else { " " };
            whole.push((
                tid,
                format!("{}{between}{}", cut.remove(at).1, rest.trim_start()),
            ));
        } else {
            whole.push((tid, line.to_owned()));
        }
    }
    whole
}

/// Ruby's lines by thread, in the order in which its threads come, but for what depends on where the kernel maps memory (which pages of
/// the heap are unmapped again, the text of `/proc/self/maps`) and on how long collections take.
fn of_ruby(lines: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read(lines).expect("written");
    let text = String::from_utf8_lossy(&text);
    let mut threads: Vec<(&str, Vec<String>)> = Vec::new();
    let mut reads_maps = false;
    for (tid, line) in whole(&text) {
        let line = masked(&line);
        let varies = [
            "mmap(",
            "munmap(",
            "brk(",
            "clock_gettime(CLOCK_PROCESS_CPUTIME_ID",
        ];
        reads_maps |= line.contains("/proc/self/maps");
        reads_maps &= !line.starts_with("close(");
        let of_maps = reads_maps && line.starts_with("read(");
        // Hooks tell the ends of processes, not those of threads.
        let is_first = threads.first().is_none_or(|(first, _)| *first == tid);
        let ends = !is_first && line.starts_with("+++ exited");
        if of_maps || ends || varies.iter().any(|begin| line.starts_with(begin)) {
            continue;
        }
        match threads.iter_mut().find(|(known, _)| *known == tid) {
            Some((_, lines)) => lines.push(line),
            None => threads.push((tid, vec![line])),
        }
    }
    threads.into_iter().map(|(_, lines)| lines).collect()
}

/// Thousands of lines of one thread, each of them; and of two threads what each asks for of files.
#[test]
fn ruby_makes_the_calls_that_strace_sees() {
    const THREADS: &str = "Thread.new { 9.times { |n| File.stat(\"/etc/passwd\"); File.exist?(\"/#{n}\") } }.join; puts 1";
    if !installed("strace") || !Path::new("/usr/bin/ruby").exists() {
        return skip("syscalls of Ruby beside strace", "no strace, or no Ruby");
    }
    let folder = TempDir::new("strace-ruby");
    for (script, calls, threads, least) in [
        ("puts 1", "trace=all", 1, 2000),
        (THREADS, "trace=newfstatat", 2, 18),
    ] {
        let mut tracers = [Command::new("strace"), lancet()];
        tracers[1].args(["syscalls", "--strace", "--hooks", "--max-wait", "30s"]);
        let [strace, ours] = tracers.map(|mut tracer| {
            let out = folder.join("lines");
            tracer.args(["-f", "-e", calls]);
            lines(tracer, &out, &["/usr/bin/ruby", "-e", script]);
            of_ruby(&out)
        });
        let least = strace.iter().all(|lines| lines.len() >= least);
        assert!(strace.len() == threads && least, "{strace:#?}");
        assert_eq!(ours.len(), strace.len());
        for (theirs, ours) in strace.iter().zip(&ours) {
            assert_same(theirs, ours);
        }
    }
}

/// What a program runs in its own place, and what that asks of its loader.
#[test]
fn the_next_program_is_seen_from_its_exec_too() {
    if !installed("strace") {
        return skip("syscalls beside strace", "no strace");
    }
    let [strace, ours] = both_with(
        "strace-exec",
        &["-f"],
        &["/bin/sh", "-c", "exec /bin/echo 1"],
    );
    let execs = |lines: &[String]| {
        lines
            .iter()
            .filter(|line| line.starts_with("execve("))
            .count()
    };
    assert_eq!(execs(&strace), 2);
    assert_same(&strace, &ours);
}

/// What is recorded is what is shown.
#[test]
fn a_recording_holds_the_calls_of_the_loader() {
    let Some(hello) = program("hello.c") else {
        return;
    };
    let folder = TempDir::new("strace-recorded");
    let recording = folder.join("recording");
    let mut recorder = lancet();
    recorder.args(["syscalls", "--record"]).arg(&recording);
    recorder.arg("--").arg(&hello);
    assert_eq!(run(&mut recorder, LIMIT).status.code(), Some(0));
    let shown = lancet()
        .args(["syscalls", "--strace"])
        .arg(&recording)
        .output();
    let shown = String::from_utf8(shown.expect("lancet").stdout).expect("text");
    let names: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.split('(').next())
        .collect();
    assert_eq!(names[..2], ["execve", "brk"], "{shown}");
    assert!(names.contains(&"exit_group"), "{shown}");
    let told = |name: &str| names.iter().filter(|one| **one == name).count();
    assert_eq!((told("arch_prctl"), told("write")), (1, 1), "{shown}");
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).into()).collect()
}
