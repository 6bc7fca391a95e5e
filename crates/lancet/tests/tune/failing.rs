//! Counters of failures, each provoked while `tune` looks: what fails is named before what is only set.
//!
//! The table of neighbours (T52) is not here: there is one for all network namespaces, so a test that fills it would take the
//! network from everybody on the machine. Its judgement is tested on files, in crate `tune`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::harness::{Checks, Network, checks, seen, text, tune, verdict};
use crate::load::{Load, inside, may_load, watched, with_loopback};
use crate::support::{is_root, skip, tool};

/// Checks of the whole machine's counters: other tests may move them meanwhile.
const OF_THE_MACHINE: [&str; 3] = ["T19", "T52", "T53"];

/// Holds that the first row is this check's.
pub fn assert_named_first(network: &Network, id: &str) {
    let mut command = network.command(tool().to_str().unwrap());
    let output = command.args(["tune", "--sample", "1s"]).output().unwrap();
    let all = text(&output);
    let ids = all
        .lines()
        .filter_map(|line| line.strip_prefix("  T")?.get(..2));
    let mut ids = ids
        .map(|number| format!("T{number}"))
        .filter(|id| !OF_THE_MACHINE.contains(&id.as_str()));
    assert_eq!(ids.next().as_deref(), Some(id), "{all}");
}

fn assert_fails(found: &Checks, id: &str, words: &str) {
    assert_eq!(verdict(found, id), "bad", "{}", found[id]);
    assert_eq!(found[id]["fails"], true, "{}", found[id]);
    let says = found[id]["says"].as_str().unwrap();
    assert!(says.contains(words), "{says}");
}

/// A server that reads nothing, with a buffer of a few datagrams.
const UNREAD: &str = "
  require 'socket'
  server = UDPSocket.new
  server.setsockopt(:SOCKET, :RCVBUF, 2304)
  server.bind('127.0.0.1', 5353)
  client = UDPSocket.new
  puts 'sending'
  $stdout.flush
  loop do
    200.times { client.send('x' * 500, 0, '127.0.0.1', 5353) }
    sleep 0.01
  end
";

#[test]
fn datagrams_that_nobody_reads() {
    if !may_load("datagrams_that_nobody_reads") {
        return;
    }
    let network = with_loopback();
    let load = Load::start(network.command("ruby"), UNREAD);
    let found = inside(&network);
    assert_fails(&found, "T50", "the receive buffer of port 5353 is full");
    let drops = seen(&found, "T50", "/proc/net/udp port 5353");
    assert!(drops.ends_with("datagrams thrown away"), "{drops}");
    assert_named_first(&network, "T50");
    // Of the process, and of one that has no part in it.
    let of = |pid: &str| {
        let mut command = network.command(tool().to_str().unwrap());
        command.args(["tune", "--sample", "1s", "--json", "-p", pid]);
        checks(&command.output().unwrap())
    };
    let own = of(&load.pid());
    assert_fails(&own, "T50", " by ruby: the receive buffer of port 5353");
    let idle = Load::start(network.command("ruby"), "puts 'idle'; $stdout.flush; sleep");
    let other = of(&idle.pid());
    assert_eq!(verdict(&other, "T50"), "consider", "{}", other["T50"]);
    assert_eq!(other["T50"]["fails"], false);
}

/// Datagrams to a neighbour that does not answer wait for its address, and fill the send buffer.
const UNSENT: &str = "
  require 'socket'
  client = UDPSocket.new
  client.setsockopt(:SOCKET, :SNDBUF, 4608)
  puts 'sending'
  $stdout.flush
  loop do
    client.connect('10.99.0.7', 9)
    20.times { client.sendmsg_nonblock('x' * 1000) rescue nil }
    sleep 0.01
  rescue SystemCallError
    sleep 0.01
  end
";

#[test]
fn datagrams_that_cannot_be_sent() {
    if !may_load("datagrams_that_cannot_be_sent") {
        return;
    }
    let network = Network::new();
    let words = ["addr", "add", "10.99.0.1/24", "dev", "va"];
    assert!(network.run("ip", &words).status.success());
    let _load = Load::start(network.command("ruby"), UNSENT);
    let found = inside(&network);
    assert_fails(&found, "T50", "a send buffer is full");
}

/// Connections to one port until connect() finds no port, and no longer: they stay open.
const CONNECTED: &str = "
  require 'socket'
  server = TCPServer.new('127.0.0.1', 9998)
  server.listen(200)
  kept = []
  begin
    60.times { kept << TCPSocket.new('127.0.0.1', 9998) }
  rescue Errno::EADDRNOTAVAIL
    puts \"none left after #{kept.size}\"
  end
  $stdout.flush
  sleep
";

#[test]
fn ports_that_are_used_up_by_open_connections() {
    if !may_load("ports_that_are_used_up_by_open_connections") {
        return;
    }
    let network = with_loopback();
    network.inside(|tree| {
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        tree.write(range, "32768 32800").unwrap();
    });
    let _load = Load::start(network.command("ruby"), CONNECTED);
    let found = inside(&network);
    assert_fails(
        &found,
        "T23",
        // Of an odd number one may be left out.
        " of 33 ports to 127.0.0.1:9998 are in use: connect() answers EADDRNOTAVAIL",
    );
    let changes = found["T23"]["commands"].to_string();
    // They are open: nothing is there that could be used again.
    assert!(!changes.contains("tcp_tw_reuse"), "{changes}");
    assert_named_first(&network, "T23");
}

/// A window that was offered, and a buffer that is then made smaller: what arrives is thrown away.
const PRUNED: &str = "
  require 'socket'
  server = TCPServer.new('127.0.0.1', 9997)
  puts 'sending'
  $stdout.flush
  loop do
    client = TCPSocket.new('127.0.0.1', 9997)
    accepted = server.accept
    accepted.setsockopt(:SOCKET, :RCVBUF, 2304)
    50.times { client.write_nonblock('x' * 1000) rescue nil; sleep 0.001 }
    client.close
    accepted.close
  end
";

#[test]
fn segments_that_arrive_and_are_thrown_away() {
    if !may_load("segments_that_arrive_and_are_thrown_away") {
        return;
    }
    let network = with_loopback();
    let _load = Load::start(network.command("ruby"), PRUNED);
    let found = inside(&network);
    assert_fails(&found, "T51", "a socket's buffer is full");
    assert_named_first(&network, "T51");
}

/// A control group of 16 MiB, gone when dropped.
struct Small(PathBuf);

impl Small {
    /// Makes it, in the version of control groups that this machine has for memory.
    fn new() -> Option<Self> {
        let name = format!("lancet-small-{}", std::process::id());
        let places = [
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", "memory.max"),
        ];
        places.iter().find_map(|(folder, limit)| {
            let group = Self(PathBuf::from(folder).join(&name));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(limit), "16777216").ok()?;
            Some(group)
        })
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn processes_that_are_killed_for_want_of_memory() {
    const TEST: &str = "processes_that_are_killed_for_want_of_memory";
    if !is_root() {
        skip(TEST, "needs root to make a control group");
        return;
    }
    let Some(group) = Small::new() else {
        skip(
            TEST,
            "no control group with a limit of memory can be made here",
        );
        return;
    };
    let procs = group.0.join("cgroup.procs");
    // Each child reads zeros without end into its memory; a line is written when the first was killed.
    let script = format!(
        "
          loop do
            pid = spawn('sh', '-c', 'echo $$ > {} && exec tail /dev/zero', err: '/dev/null')
            Process.wait(pid)
            puts $?.termsig
            $stdout.flush
          end
        ",
        procs.display()
    );
    let load = Load::start(Command::new("ruby"), &script);
    let found = watched(Command::new(tool()));
    drop(load);
    assert_fails(&found, "T53", " killed in ");
    let remains = || {
        fs::read_to_string(&procs).is_ok_and(|pids| {
            for pid in pids.lines() {
                let _ = Command::new("kill").args(["-9", pid]).status();
            }
            !pids.is_empty()
        })
    };
    // The last child goes before the group does.
    while remains() {
        std::thread::yield_now();
    }
}

/// What no network namespace of a test can show is said so there, and not called good.
#[test]
fn what_is_not_seen_from_a_namespace_is_not_called_good() {
    if !may_load("what_is_not_seen_from_a_namespace_is_not_called_good") {
        return;
    }
    let network = Network::new();
    let found = checks(&network.tune(&["--json"]));
    let says = |found: &Checks, id: &str| found[id]["says"].as_str().unwrap().to_owned();
    assert_eq!(verdict(&found, "T52"), "cannot_tell", "{}", found["T52"]);
    assert!(says(&found, "T52").contains("first network namespace only"));
    // The kernel of this machine has schedulers from BPF, or has none: in whatever namespace.
    let state = fs::read_to_string("/sys/kernel/sched_ext/state");
    match state {
        Ok(state) => assert_eq!(
            seen(&found, "T57", "/sys/kernel/sched_ext/state"),
            state.trim()
        ),
        Err(_) => assert_eq!(verdict(&found, "T57"), "not_applicable"),
    }
    // The namespace's own /sys has no control groups, so nothing was looked at.
    let pid = std::process::id().to_string();
    let found = checks(&network.tune(&["--json", "-p", &pid]));
    assert_eq!(verdict(&found, "T56"), "cannot_tell", "{}", found["T56"]);
}

/// In groups of version 1 memory.low, io.max and cpu.max.burst are no files, also where an empty hierarchy of version 2 lies beside.
#[test]
fn groups_without_the_files_are_not_called_good() {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap();
    let is_old = |name: &str| {
        let lists = groups.lines().filter_map(|line| line.split(':').nth(1));
        let mut names = lists.flat_map(|list| list.split(','));
        names.any(|one| one == name)
    };
    if !["memory", "blkio", "cpu"].into_iter().all(is_old) {
        return skip(
            "groups_without_the_files_are_not_called_good",
            "the control groups are not all of version 1",
        );
    }
    let pid = std::process::id().to_string();
    let found = checks(&tune(&["--json", "-p", &pid]));
    assert_eq!(verdict(&found, "T56"), "not_applicable", "{}", found["T56"]);
    let says = found["T56"]["says"].as_str().unwrap();
    assert!(says.contains("version 1"), "{says}");
}

#[test]
fn wrong_usage_ends_with_2() {
    for args in [
        &["--explain", "T99"][..],
        &["--apply", "T99"],
        &["--apply", "nonsense"],
        &["--apply", "nonsense=1=", "T99"],
        &["--apply", "no.such.thing="],
        &["-p", "1", "-p", "2"],
        &["--events", "--root", "/"],
        &["--sample", "long"],
        &["--goal", "beauty"],
    ] {
        let output = tune(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}
