//! Rules about watches, disks and the runtimes of languages: a state in which each speaks, and one in which it is silent.

use super::*;

/// The files of process 7 with this name and these mappings, environment and others.
fn of_process(rule: &str, comm: &str, files: &[(&str, &str)]) -> (Verdict, String, Vec<String>) {
    let stat = format!("7 ({comm}) S 1 7 7 {}", "0 ".repeat(48));
    let mut all = vec![
        ("proc/7/status", "Name:\tx\nState:\tS\n"),
        ("proc/7/stat", &stat),
        ("proc/7/comm", comm),
        ("proc/7/task/7/stat", &stat),
        ("proc/sys/fs/inotify/max_user_watches", "8192\n"),
        ("proc/sys/fs/inotify/max_user_instances", "128\n"),
    ];
    for (name, text) in [("proc/7/maps", ""), ("proc/7/environ", "")] {
        if !files.iter().any(|(file, _)| *file == name) {
            all.push((name, text));
        }
    }
    all.extend(files);
    let root = Root::new(&all);
    let _ = fs::create_dir_all(root.0.join("proc/7/fd"));
    let _ = std::os::unix::fs::symlink("anon_inode:inotify", root.0.join("proc/7/fd/5"));
    let outcome = root.finding(rule, Some(7), None).outcome;
    let changes = outcome.changes.iter();
    let changes = changes.map(|change| format!("{}={}", change.setting, change.value));
    (outcome.verdict, outcome.says, changes.collect())
}

#[test]
fn watches_that_run_out_are_seen() {
    let of = |count: usize| {
        let watches = "inotify wd:1 ino:2 sdev:3 mask:fce ignored_mask:0\n".repeat(count);
        of_process("T44", "ruby\n", &[("proc/7/fdinfo/5", &watches)])
    };
    let (verdict, says, changes) = of(7800);
    assert_eq!(
        (verdict, says.as_str()),
        (Verdict::Bad, "7800 of its user's 8192 watches")
    );
    assert_eq!(changes, ["/proc/sys/fs/inotify/max_user_watches=16384"]);
    assert_eq!(of(6000).0, Verdict::Consider);
    assert_eq!(of(100).0, Verdict::Good);
}

#[test]
fn writers_that_are_slowed_down_are_seen() {
    let of = |dirty: u64, bytes: &str, goal| {
        let info = format!("MemAvailable: 16777216 kB\nDirty: {dirty} kB\nWriteback: 0 kB\n");
        advice(
            "T45",
            &[
                ("proc/meminfo", &info),
                ("proc/sys/vm/dirty_ratio", "20"),
                ("proc/sys/vm/dirty_bytes", bytes),
                ("proc/sys/vm/dirty_background_ratio", "10"),
                ("proc/sys/vm/dirty_background_bytes", "0"),
            ],
            goal,
        )
        .0
    };
    // 15% of 16 GiB are 2,516,582 kB.
    assert_eq!(of(2_600_000, "0", None), Verdict::Bad);
    assert_eq!(of(2_400_000, "0", None), Verdict::Good);
    assert_eq!(of(0, "0", Some(Goal::Latency)), Verdict::Consider);
    assert_eq!(of(0, "268435456", Some(Goal::Latency)), Verdict::Good);
}

#[test]
fn disks_are_sorted_for_where_they_turn() {
    let of = |disk: &str, turns: &str, scheduler: &str| {
        let base = format!("sys/block/{disk}");
        let files = [
            (format!("{base}/queue/scheduler"), scheduler.to_owned()),
            (format!("{base}/queue/rotational"), turns.to_owned()),
            (format!("{base}/device/model"), "x".to_owned()),
        ];
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        advice("T46", &files, None)
    };
    let to = |disk: &str| vec![format!("/sys/block/{disk}/queue/scheduler=mq-deadline")];
    let offered = |chosen: &str| "none mq-deadline bfq\n".replace(chosen, &format!("[{chosen}]"));
    assert_eq!(
        of("sda", "1", &offered("none")),
        (Verdict::Consider, to("sda"))
    );
    assert_eq!(
        of("nvme0n1", "0", &offered("bfq")),
        (Verdict::Consider, to("nvme0n1"))
    );
    assert_eq!(
        of("sda", "1", &offered("mq-deadline")),
        (Verdict::Good, vec![])
    );
    assert_eq!(
        of("nvme0n1", "0", &offered("none")),
        (Verdict::Good, vec![])
    );
    assert_eq!(of("vda", "1", &offered("none")), (Verdict::Good, vec![]));
}

#[test]
fn a_ruby_that_does_not_read_its_settings_is_told() {
    let of = |library: &str, more: &str, environ: &str| {
        let maps = format!("1000-2000 r-xp 00000000 fe:00 7 /usr/lib/{library}\n{more}");
        let (verdict, says, _) = of_process(
            "T47",
            "ruby\n",
            &[("proc/7/maps", &maps), ("proc/7/environ", environ)],
        );
        (verdict, says)
    };
    let old = "LANG=C\0RUBY_GC_HEAP_INIT_SLOTS=600000\0";
    let (new, before) = ("libruby.so.3.3.8", "libruby-3.1.so.3.1.7");
    assert_eq!(
        of(new, "", old),
        (
            Verdict::Obsolete,
            "RUBY_GC_HEAP_INIT_SLOTS=600000 is not read by this Ruby".to_owned()
        )
    );
    assert_eq!(of(before, "", old).0, Verdict::Good);
    assert_eq!(of(before, "", "RUBY_FREE_MIN=1\0").0, Verdict::Obsolete);
    assert_eq!(of(new, "", "").0, Verdict::Consider);
    let block = "7f0000000000-7f0000003000 r-xp 00000000 00:00 0 \n7f0000003000-7f0003000000 ---p 00000000 00:00 0 \n";
    assert_eq!(of(new, block, ""), (Verdict::Good, "YJIT is on".to_owned()));
    assert_eq!(of_process("T47", "redis\n", &[]).0, Verdict::NotApplicable);
}

#[test]
fn a_python_that_is_told_to_debug_itself_is_seen() {
    let of = |environ: &str| of_process("T48", "python3\n", &[("proc/7/environ", environ)]).0;
    assert_eq!(of("PYTHONMALLOC=debug\0"), Verdict::Bad);
    assert_eq!(of("PYTHONDEVMODE=1\0"), Verdict::Bad);
    assert_eq!(of("PYTHONMALLOC=malloc\0"), Verdict::Consider);
    assert_eq!(of("PYTHONDEVMODE=\0PYTHONMALLOC=pymalloc\0"), Verdict::Good);
    assert_eq!(of_process("T48", "ruby\n", &[]).0, Verdict::NotApplicable);
}

#[test]
fn a_php_that_serves_without_opcache_is_told() {
    let of = |comm: &str, library: &str| {
        let maps = format!("1000-2000 r-xp 00000000 fe:00 7 /usr/lib/php/20220829/{library}\n");
        of_process("T49", comm, &[("proc/7/maps", &maps)]).0
    };
    assert_eq!(of("php-fpm8.2\n", "mysqli.so"), Verdict::Bad);
    assert_eq!(of("php-fpm8.2\n", "opcache.so"), Verdict::Good);
    assert_eq!(of("apache2\n", "libphp8.2.so"), Verdict::Bad);
    assert_eq!(of("php8.2\n", "mysqli.so"), Verdict::Good);
    assert_eq!(of("ruby\n", "x.so"), Verdict::NotApplicable);
}

#[test]
fn threads_that_take_turns_need_few_arenas() {
    let with = |comm: &str, environ: &str, file: &str| {
        let library = format!(
            "1000-2000 r-xp 00000000 fe:00 7 /usr/lib/libc.so.6\n3000-4000 r-xp 00000000 fe:00 8 {file}\n"
        );
        let stat = format!("8 (x) S 1 7 7 {}", "0 ".repeat(48));
        let files = [
            ("proc/7/maps", library.as_str()),
            ("proc/7/environ", environ),
            ("proc/7/task/8/stat", &stat),
        ];
        of_process("T30", comm, &files).0
    };
    let of = |comm: &str, environ: &str| with(comm, environ, "/usr/lib/libz.so.1");
    assert_eq!(of("ruby\n", ""), Verdict::Consider);
    assert_eq!(of("python3\n", ""), Verdict::Consider);
    assert_eq!(of("python3\n", "MALLOC_ARENA_MAX=2\0"), Verdict::Good);
    assert_eq!(of("mariadbd\n", ""), Verdict::Good);
    // Without the GIL they take none.
    assert_eq!(of("python3.14t\n", ""), Verdict::Good);
    assert_eq!(of("python3.14\n", ""), Verdict::Consider);
    let build = |file: &str| with("python3\n", "", file);
    assert_eq!(build("/usr/bin/python3.14t"), Verdict::Good);
    assert_eq!(build("/usr/lib/libpython3.14t.so.1.0"), Verdict::Good);
    assert_eq!(build("/usr/lib/libpython3.14.so.1.0"), Verdict::Consider);
}
