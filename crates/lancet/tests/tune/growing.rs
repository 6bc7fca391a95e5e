//! Counters that grow: queues that run over for real while `tune` looks, in networks of the tests' own.
//!
//! T16 (rings) is not here: no device that can be made in a network namespace has a ring. Its judgement is tested beside it.

use std::process::Command;

use crate::failing::assert_named_first;
use crate::harness::{Checks, Network, checks, seen, verdict};
use crate::load::{Load, inside, may_load, watched, with_loopback};
use crate::support::tool;

/// `17` of `17 connections dropped in 1.0 s: …`.
fn how_many(checks: &Checks, id: &str, words: &str) -> u64 {
    assert_eq!(verdict(checks, id), "bad", "{}", checks[id]);
    let says = checks[id]["says"].as_str().unwrap();
    assert!(says.contains(words), "{says}");
    let number = says.split(' ').find_map(|word| word.parse().ok());
    number.unwrap_or_else(|| panic!("no number in {says}"))
}

/// A server whose queue holds one connection and that accepts none, and a client that goes on connecting.
const CONNECTING: &str = "
  require 'socket'
  server = Socket.new(:INET, :STREAM)
  server.bind(Addrinfo.tcp('127.0.0.1', 0))
  server.listen(0)
  kept = []
  puts server.local_address.ip_port
  $stdout.flush
  loop do
    kept << Socket.new(:INET, :STREAM)
    begin
      kept.last.connect_nonblock(server.local_address)
    rescue IO::WaitWritable
    end
    kept.shift.close if kept.size > 50
    sleep 0.02
  end
";

#[test]
fn an_accept_queue_that_runs_over() {
    if !may_load("an_accept_queue_that_runs_over") {
        return;
    }
    let network = with_loopback();
    let load = Load::start(network.command("ruby"), CONNECTING);
    let found = inside(&network);
    assert_named_first(&network, "T21");
    drop(load);
    // A queue takes one more than its number (sk_acceptq_is_full in include/net/sock.h).
    let says = found["T21"]["says"].as_str().unwrap();
    assert!(
        says.ends_with(": 1 waits, and the queue of 0 is full"),
        "{says}"
    );
    assert_eq!(verdict(&found, "T21"), "bad");
    let grown = seen(&found, "T21", "ListenOverflows");
    let (more, over) = grown.split_once(" in ").unwrap();
    assert!(
        more.parse::<u64>().unwrap() > 0 && over.ends_with(" s"),
        "{grown}"
    );
}

/// Sixty of a hundred ports, closed by the client.
const CLIENT: &str = "
  require 'socket'
  server = TCPServer.new('127.0.0.1', 1025)
  60.times do
    client = TCPSocket.new('127.0.0.1', 1025)
    accepted = server.accept
    client.close
    accepted.close
  end
  puts 'done'
  $stdout.flush
  sleep
";

#[test]
fn ports_that_run_out() {
    if !may_load("ports_that_run_out") {
        return;
    }
    let network = with_loopback();
    network.inside(|tree| {
        let range = "/proc/sys/net/ipv4/ip_local_port_range";
        tree.write(range, "40000 40099").unwrap();
        // On the loopback they would be used again.
        tree.write("/proc/sys/net/ipv4/tcp_tw_reuse", "0").unwrap();
    });
    let load = Load::start(network.command("ruby"), CLIENT);
    let found = checks(&network.tune(&["--json"]));
    drop(load);
    assert_eq!(verdict(&found, "T23"), "consider", "{}", found["T23"]);
    let says = found["T23"]["says"].as_str().unwrap();
    assert!(
        says.starts_with("60 of 100 ports to 127.0.0.1:1025 are in TIME_WAIT"),
        "{says}"
    );
}

/// Handshakes from addresses that never answer, to a queue of one: frames put on the other end of the veth.
const FLOOD: &str = "
  require 'socket'
  server = Socket.new(:INET, :STREAM)
  server.bind(Addrinfo.tcp('10.99.0.1', 7777))
  server.listen(1)
  mac = ->(device) { [File.read(\"/sys/class/net/#{device}/address\").delete(':').strip].pack('H*') }
  sum = ->(bytes) {
    all = bytes.unpack('n*').sum
    all = (all & 0xffff) + (all >> 16) while all > 0xffff
    ~all & 0xffff
  }
  ethernet = mac['va'] + mac['vb'] + [0x0800].pack('n')
  wire = Socket.new(:PACKET, :RAW, 0)
  wire.bind([17, 0x0800, Socket.getifaddrs.find { _1.name == 'vb' }.ifindex, 1, 0, 6, ''].pack('S n l S C C a8'))
  syn = ->(number) {
    from, to = [10, 99, 0, 2 + number % 200].pack('C4'), [10, 99, 0, 1].pack('C4')
    tcp = [1024 + number % 60_000, 7777, number, 0, 0x5002, 1024, 0, 0].pack('n n N N n n n n')
    tcp[16, 2] = [sum[from + to + [6, tcp.size].pack('n n') + tcp]].pack('n')
    ip = [0x4500, 40, 0, 0, 64, 6, 0].pack('n n n n C C n') + from + to
    ip[10, 2] = [sum[ip]].pack('n')
    ethernet + ip + tcp
  }
  puts 'flooding'
  $stdout.flush
  (1..).each do |number|
    wire.send(syn[number], 0)
    sleep 0.005
  rescue Errno::ENOBUFS
    # The other test fills the same CPU's backlog.
  end
";

#[test]
fn a_syn_queue_that_runs_over() {
    if !may_load("a_syn_queue_that_runs_over") {
        return;
    }
    let network = Network::new();
    let words = ["addr", "add", "10.99.0.1/24", "dev", "va"];
    assert!(network.run("ip", &words).status.success());
    let load = Load::start(network.command("ruby"), FLOOD);
    let found = inside(&network);
    // The kernel's log is the machine's: what it says of this network is no evidence for another one.
    let other = checks(&Network::new().tune(&["--json"]));
    drop(load);
    let tells_of_it = |checks: &Checks| {
        let evidence = checks["T22"]["evidence"].to_string();
        evidence.contains("SYN flooding")
    };
    assert!(!tells_of_it(&other), "{}", other["T22"]);
    let log = seen(&found, "T22", "the kernel's log");
    assert!(
        tells_of_it(&found) || log.contains("CAP_SYSLOG"),
        "{}",
        found["T22"]
    );
    assert!(how_many(&found, "T22", " times in ") > 0);
    // With cookies the queue is the listener's backlog: tcp_max_syn_backlog would change nothing.
    let found = &found["T22"];
    let changes = found["commands"].as_array().unwrap();
    let backlog =
        |change: &serde_json::Value| change.as_str().unwrap().contains("tcp_max_syn_backlog");
    assert!(!changes.iter().any(backlog), "{found}");
    assert!(
        found["then"].as_str().unwrap().contains("listen()"),
        "{found}"
    );
}

/// Packets for one CPU from another, faster than the first can look at them: a filter of 4,000 divisions sits on the device.
/// A thousand wait at most (netdev_max_backlog), so of each burst some are dropped.
const BURSTS: &str = "
  require 'socket'
  bind = ->(socket, device, kind) {
    index = Socket.getifaddrs.find { _1.name == device }.ifindex
    socket.bind([17, kind, index, 1, 0, 6, ''].pack('S n l S C C a8'))
  }
  slow = Socket.new(:PACKET, :RAW, 0)
  divisions = [0x34, 0, 0, 1].pack('S C C L') * 4000 + [0x06, 0, 0, 0].pack('S C C L')
  slow.setsockopt(1, 26, [4001, divisions].pack('S x6 P'))
  bind[slow, 'va', 0x0003]
  wire = Socket.new(:PACKET, :RAW, 0)
  bind[wire, 'vb', 0x0800]
  # What waits belongs to the sender, which would otherwise wait too.
  wire.setsockopt(1, 32, 64 << 20)
  mac = ->(device) { [File.read(\"/sys/class/net/#{device}/address\").delete(':').strip].pack('H*') }
  udp = [9, 9, 8, 0].pack('n4')
  ip = [0x4500, 28, 0, 0, 64, 17, 0].pack('n n n n C C n') + [10, 99, 0, 2, 10, 99, 0, 1].pack('C8')
  frame = mac['va'] + mac['vb'] + [0x0800].pack('n') + ip + udp
  puts 'sending'
  $stdout.flush
  loop do
    2500.times do
      wire.send(frame, 0)
    rescue Errno::ENOBUFS
      # That one was dropped.
    end
    sleep 0.15
  end
";

#[test]
fn a_backlog_that_runs_over() {
    const TEST: &str = "a_backlog_that_runs_over";
    if !may_load(TEST) {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("SKIPPED {TEST}: needs two CPUs");
        return;
    }
    let network = Network::new();
    // CPU 1 takes what CPU 0 sends.
    network.inside(|tree| {
        for queue in 0..4 {
            let file = format!("/sys/class/net/va/queues/rx-{queue}/rps_cpus");
            tree.write(&file, "2").unwrap();
        }
    });
    let mut command = network.command("taskset");
    command.args(["-c", "0", "ruby"]);
    let load = Load::start(command, BURSTS);
    // The counters are the machine's, whichever network one looks from.
    let found = watched(Command::new(tool()));
    drop(load);
    assert!(how_many(&found, "T19", "the backlog is full") > 0);
    let change = found["T19"]["commands"][0].as_str().unwrap();
    assert!(
        change.starts_with("sysctl -w net.core.netdev_max_backlog="),
        "{change}"
    );
}
