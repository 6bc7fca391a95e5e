//! Journals, owners and pairs, on trees of files and on this machine's own files.

use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{Scratch, text, tune};
use crate::support::tool;

#[test]
fn what_belongs_to_others_is_refused() {
    for (file, content, owner) in [
        (
            "proc/77/comm",
            "tuned\n",
            "tuned (PID 77, profile `virtual-guest`)",
        ),
        ("proc/77/comm", "kubelet\n", "Kubernetes (kubelet, PID 77)"),
        (
            "etc/sysctl.d/50-own.conf",
            "net.core.somaxconn = 1024\n",
            "systemd-sysctl (/etc/sysctl.d/50-own.conf:1 sets it to 1024)",
        ),
    ] {
        let machine = Scratch::of("rhel6");
        machine.put("etc/tuned/active_profile", "virtual-guest\n");
        machine.put(file, content);
        let before = machine.files("proc");
        let refused = tune(&["--root", machine.arg(), "--apply", "T21"]);
        assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
        assert!(
            text(&refused).contains(owner) && text(&refused).contains("--force"),
            "{}",
            text(&refused)
        );
        assert_eq!(machine.files("proc"), before);
        assert!(
            !machine.0.join("var").exists(),
            "no journal for what was refused"
        );

        let rehearsed = tune(&["--root", machine.arg(), "--apply", "T21", "--dry-run"]);
        assert!(
            text(&rehearsed).contains("would be refused"),
            "{}",
            text(&rehearsed)
        );
        assert_eq!(machine.files("proc"), before);

        let forced = tune(&["--root", machine.arg(), "--apply", "T21", "--force"]);
        assert_eq!(forced.status.code(), Some(0), "{}", text(&forced));
        assert_ne!(machine.files("proc"), before);
        let undone = tune(&["--root", machine.arg(), "--undo"]);
        assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
        assert_eq!(machine.files("proc"), before);
    }
}

#[test]
fn irqbalance_owns_interrupts_only() {
    let machine = Scratch::of("rhel6");
    machine.put("proc/77/comm", "irqbalance\n");
    let output = tune(&["--root", machine.arg(), "--apply", "T21"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn a_drop_in_that_wants_the_same_is_no_owner() {
    let machine = Scratch::of("rhel6");
    machine.put("etc/sysctl.d/50-own.conf", "net.core.somaxconn = 4096\n");
    let output = tune(&["--root", machine.arg(), "--apply", "T21"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn what_somebody_else_changed_since_is_left_alone() {
    let machine = Scratch::of("rhel6");
    let applied = tune(&["--root", machine.arg(), "--apply", "T21", "T23"]);
    assert!(applied.status.success(), "{}", text(&applied));
    machine.put("proc/sys/net/core/somaxconn", "777\n");
    let undone = tune(&["--root", machine.arg(), "--undo"]);
    assert_eq!(undone.status.code(), Some(4), "{}", text(&undone));
    assert!(
        text(&undone).contains("somebody else made it 777"),
        "{}",
        text(&undone)
    );
    let read = |path: &str| fs::read_to_string(machine.0.join(path)).unwrap();
    assert_eq!(read("proc/sys/net/core/somaxconn"), "777\n");
    assert_eq!(
        read("proc/sys/net/ipv4/tcp_tw_recycle"),
        "1\n",
        "the other one is back"
    );

    // The journal is still there, and --force means it.
    let undone = tune(&["--root", machine.arg(), "--undo", "--force"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert_eq!(read("proc/sys/net/core/somaxconn"), "128\n");
    assert!(text(&tune(&["--root", machine.arg(), "--undo"])).contains("nothing to take back"));
}

#[test]
fn journals_are_taken_back_one_by_one() {
    let machine = Scratch::of("rhel6");
    let read = || fs::read_to_string(machine.0.join("proc/sys/net/core/somaxconn")).unwrap();
    for value in ["1000", "2000"] {
        let output = tune(&[
            "--root",
            machine.arg(),
            "--apply",
            &format!("net.core.somaxconn={value}"),
        ]);
        assert!(output.status.success(), "{}", text(&output));
    }
    for expected in ["1000", "128\n"] {
        assert!(
            tune(&["--root", machine.arg(), "--undo", "last"])
                .status
                .success()
        );
        assert_eq!(read(), expected);
    }
}

/// The same setting several times in one apply, and back and forth: what counts is what it was before the first.
#[test]
fn what_was_changed_twice_comes_back_once() {
    let machine = Scratch::of("rhel6");
    let before = machine.files("proc");
    let values = [
        "net.core.somaxconn=1",
        "net.core.somaxconn=2",
        "net.core.somaxconn=1",
    ];
    let args = [&["--root", machine.arg(), "--apply", "T21"][..], &values].concat();
    let applied = tune(&args);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied));
    let undone = tune(&["--root", machine.arg(), "--undo"]);
    assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    assert!(
        text(&undone).ends_with("all 1 as before\n"),
        "{}",
        text(&undone)
    );
    assert_eq!(machine.files("proc"), before);
}

#[test]
fn a_journal_of_another_boot_or_a_damaged_one_is_refused() {
    let machine = Scratch::of("rhel6");
    machine.put("proc/sys/kernel/random/boot_id", "first\n");
    assert!(
        tune(&["--root", machine.arg(), "--apply", "T21"])
            .status
            .success()
    );
    machine.put("proc/sys/kernel/random/boot_id", "second\n");
    let output = tune(&["--root", machine.arg(), "--undo"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("earlier boot"), "{}", text(&output));

    let noise = machine.0.join("noise.journal");
    fs::write(&noise, "not a journal\n").unwrap();
    let output = tune(&["--root", machine.arg(), "--undo", noise.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output).contains("noise.journal:1: not a line of a lancet journal"),
        "{}",
        text(&output)
    );
}

#[test]
fn what_cannot_be_done_leaves_nothing_behind() {
    let machine = Scratch::of("rhel6");
    let before = machine.files("proc");
    for wish in [
        "no.such.key=1",
        "net.core.somaxconn=",
        "=5",
        "nonsense=",
        "net/../../../etc/x=5",
    ] {
        // The first could be done, and is not: all or nothing.
        let output = tune(&["--root", machine.arg(), "--apply", "T21", wish]);
        // What is no KEY=VALUE is wrong usage; a key that is not there cannot be written.
        let code = if wish == "no.such.key=1" { 1 } else { 2 };
        assert_eq!(
            output.status.code(),
            Some(code),
            "{wish}: {}",
            text(&output)
        );
        assert_eq!(machine.files("proc"), before, "{wish}");
        assert!(
            machine.files("var").is_empty(),
            "{wish}: {:?}",
            machine.files("var")
        );
    }
    assert!(text(&tune(&["--root", machine.arg(), "--undo"])).contains("nothing to take back"));
}

#[test]
fn what_the_kernel_refuses_is_said_and_needs_no_undo() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED what_the_kernel_refuses_is_said_and_needs_no_undo: needs root");
        return;
    }
    let journals = Scratch::new();
    let output = tune(&[
        "--journals",
        journals.arg(),
        "--apply",
        "vm.swappiness=banana",
    ]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(
        text(&output).contains("nothing was changed"),
        "{}",
        text(&output)
    );
    let output = tune(&["--journals", journals.arg(), "--undo"]);
    assert!(
        text(&output).contains("nothing to take back"),
        "{}",
        text(&output)
    );
}

/// An apply that finds no room for its journal does nothing, and does not stand in the way of the one before.
#[test]
fn a_full_disk_and_a_read_only_one() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED a_full_disk_and_a_read_only_one: needs root to mount one");
        return;
    }
    let (machine, disk) = (Scratch::of("rhel6"), Scratch::new());
    let before = machine.files("proc");
    let script = "
      mount -t tmpfs -o size=8k none \"$2\" || exit 9
      lancet=$1 disk=$2 root=$3
      tune() { \"$lancet\" tune --root \"$root\" --journals \"$disk/j\" $1 2>&1; echo \"code $?\"; }
      tune '--apply net.core.somaxconn=1000'
      cat /dev/zero > \"$disk/fill\" 2>/dev/null
      tune '--apply net.core.somaxconn=2000'
      cat \"$root/proc/sys/net/core/somaxconn\"; echo
      tune --undo
      mount -o remount,ro \"$disk\"
      tune '--apply net.core.somaxconn=3000'
    ";
    let output = Command::new("unshare")
        .args(["-m", "sh", "-c", script, "sh"])
        .arg(tool())
        .args([disk.arg(), machine.arg()])
        .output()
        .unwrap();
    let said = text(&output);
    let codes: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("code "))
        .collect();
    assert_eq!(codes, ["0", "1", "0", "1"], "{said}");
    for words in [
        "No space left on device",
        "\n1000\n",
        "all 1 as before",
        "Read-only file system",
        "--journals DIR",
    ] {
        assert!(said.contains(words), "`{words}` is missing: {said}");
    }
    assert_eq!(machine.files("proc"), before);
}

#[test]
fn one_at_a_time() {
    let machine = Scratch::of("rhel6");
    let before = machine.files("proc");
    let tunes: Vec<_> = (0..8)
        .map(|number| {
            let value = format!("net.core.somaxconn={}", 1000 + number);
            let mut command = Command::new(tool());
            command.args(["tune", "--root", machine.arg(), "--apply", &value]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        })
        .collect();
    let mut done = 0;
    for tune in tunes {
        let output = tune.wait_with_output().unwrap();
        match output.status.code() {
            Some(0) => done += 1,
            _ => assert!(
                text(&output).contains("another lancet tune"),
                "{}",
                text(&output)
            ),
        }
    }
    assert!(done > 0);
    for _ in 0..done {
        let undone = tune(&["--root", machine.arg(), "--undo"]);
        assert_eq!(undone.status.code(), Some(0), "{}", text(&undone));
    }
    assert_eq!(machine.files("proc"), before);
    assert!(text(&tune(&["--root", machine.arg(), "--undo"])).contains("nothing to take back"));
}

/// A journal is only a file. Below a root it cannot lead out of it, and never to what is no setting.
#[test]
fn a_journal_of_a_stranger() {
    let machine = Scratch::of("rhel6");
    machine.put("etc/passwd", "root\n");
    machine.put("proc/sys/kernel/random/boot_id", "first\n");
    for path in ["/etc/passwd", "/proc/sys/../../etc/passwd"] {
        let journal = machine.0.join("stranger.journal");
        let lines = format!(
            "{{\"journal\":1,\"boot\":\"first\",\"network\":\"{}\"}}\n\
             {{\"intent\":0,\"rule\":\"T21\",\"setting\":{{\"interface\":\"file\",\"path\":\"{path}\"}},\
             \"identity\":null,\"before\":\"owned\",\"wanted\":\"1\"}}\n",
            machine.arg()
        );
        fs::write(&journal, lines).unwrap();
        let output = tune(&["--root", machine.arg(), "--undo", journal.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(4), "{}", text(&output));
        assert!(
            text(&output).contains("it is no setting"),
            "{}",
            text(&output)
        );
        let kept = fs::read_to_string(machine.0.join("etc/passwd")).unwrap();
        assert_eq!(kept, "root\n");
    }
}

/// A bond, a VRRP router and whoever hides its address change it: the device is the same, and what was set there is not as
/// before. Nothing is written without --force, and the journal stays.
#[test]
fn a_device_with_another_address_is_not_gone() {
    let machine = Scratch::of("rhel6");
    let device = "sys/class/net/vrrp0";
    machine.put("proc/sys/kernel/random/boot_id", "first\n");
    machine.put(&format!("{device}/ifindex"), "7\n");
    machine.put(&format!("{device}/address"), "00:00:5e:00:01:01\n");
    machine.put(&format!("{device}/threaded"), "1\n");
    let journal = machine.0.join("address.journal");
    let lines = format!(
        "{{\"journal\":1,\"boot\":\"first\",\"network\":\"{}\"}}\n\
         {{\"intent\":0,\"rule\":\"T15\",\"setting\":{{\"interface\":\"file\",\"path\":\"/{device}/threaded\"}},\
         \"identity\":\"7 02:00:00:00:00:01\",\"before\":\"0\",\"wanted\":\"1\"}}\n",
        machine.arg()
    );
    fs::write(&journal, lines).unwrap();
    let threaded = || fs::read_to_string(machine.0.join(format!("{device}/threaded"))).unwrap();
    let path = journal.to_str().unwrap();
    let output = tune(&["--root", machine.arg(), "--undo", path]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output));
    assert!(
        text(&output).contains("its device has another address than then"),
        "{}",
        text(&output)
    );
    assert_eq!(threaded(), "1\n");
    assert!(journal.exists());
    let output = tune(&["--root", machine.arg(), "--undo", path, "--force"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(threaded(), "0");
}

/// The kernel zeroes one half of the pair when the other is written, and takes no 0. Real files, put back at once: the
/// value is of the same size as the one before, and nothing is under load here that would feel it for these milliseconds.
#[test]
fn dirty_bytes_comes_back_from_zero() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED dirty_bytes_comes_back_from_zero: needs root to write vm.dirty_bytes");
        return;
    }
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap();
    let names = [
        "dirty_bytes",
        "dirty_ratio",
        "dirty_background_bytes",
        "dirty_background_ratio",
    ];
    let before = names.map(read);
    let (wish, other) = match before[0].trim() {
        "0" => ("vm.dirty_bytes=1073741824", 1),
        _ => ("vm.dirty_ratio=20", 0),
    };
    let journals = Scratch::new();
    // And the other half behind it, and the first again.
    let back = ["vm.dirty_ratio=20", "vm.dirty_bytes=1073741824"][1 - other];
    let applied = tune(&["--journals", journals.arg(), "--apply", wish, back, wish]);
    let during = names.map(read);
    let undone = tune(&["--journals", journals.arg(), "--undo"]);
    let after = names.map(read);
    if after != before {
        // Whatever failed, the machine gets its values back.
        let value = before[other].trim();
        fs::write(format!("/proc/sys/vm/{}", names[other]), value).unwrap();
    }
    assert!(applied.status.success(), "{}", text(&applied));
    assert_eq!(during[other], "0\n", "writing one half zeroes the other");
    assert!(undone.status.success(), "{}", text(&undone));
    assert_eq!(after, before);
}

#[test]
fn wrong_words_are_said_so() {
    let output = tune(&["--explain", "T99"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("there is no check `T99`"),
        "{}",
        text(&output)
    );
    assert_eq!(tune(&["--dry-run"]).status.code(), Some(2));
    assert_eq!(tune(&["--apply", "T21", "--undo"]).status.code(), Some(2));
    let output = tune(&["--root", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let output = tune(&["-p", "2147483646"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("pgrep"), "{}", text(&output));
    // A zombie: nobody waits for it here.
    let mut ended = Command::new("true").spawn().unwrap();
    let pid = ended.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    let begin = std::time::Instant::now();
    while !fs::read_to_string(&stat).unwrap().contains(") Z") {
        assert!(begin.elapsed().as_secs() < 10, "true does not end");
        std::thread::yield_now();
    }
    let output = tune(&["--no-sample", "-p", &pid]);
    ended.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("a zombie"), "{}", text(&output));
}
