//! `-p` on a process with files and a network of its own, as in a container: what it reads, what its sockets do.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use tune::setting::Setting;

use crate::harness::{Network, Scratch, checks, may_make_networks, seen, text, tune, verdict};

/// A server with one connection that arrives over a veth with GRO (so through a NAPI instance), and one that it made itself, with
/// a congestion control and a busy poll of its own.
const SERVER: &str = "
  require 'socket'
  server = TCPServer.new('10.99.0.1', 7777)
  puts 'listening'
  $stdout.flush
  arrived = server.accept
  arrived.read(3)
  own = TCPSocket.new('10.99.0.2', 7778)
  own.setsockopt(6, 13, 'reno')
  own.setsockopt(1, 46, 20)
  puts 'served'
  $stdout.flush
  sleep
";
const CLIENT: &str = "
  require 'socket'
  server = TCPServer.new('10.99.0.2', 7778)
  client = TCPSocket.new('10.99.0.1', 7777)
  client.write('abc')
  sleep
";

struct Running(Child);

impl Running {
    fn line(&mut self) -> String {
        let mut line = String::new();
        let out = self.0.stdout.as_mut().unwrap();
        // One line at a time is all there is to read.
        BufReader::with_capacity(1, out)
            .read_line(&mut line)
            .unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn feature(network: &Network, device: &str, name: &str, value: &str) {
    let setting = Setting::Feature {
        device: device.into(),
        name: name.into(),
    };
    network.inside(|tree| setting.write(tree, value).unwrap());
}

#[test]
fn a_server_in_a_container() {
    const TEST: &str = "a_server_in_a_container";
    if Command::new("ruby").arg("--version").output().is_err() {
        println!("SKIPPED {TEST}: needs ruby (package ruby)");
        return;
    }
    if !may_make_networks(TEST) {
        return;
    }
    let (ours, theirs) = (Network::new(), Network::new());
    let ip = |network: &Network, words: &str| {
        let words: Vec<&str> = words.split(' ').collect();
        let output = network.run("ip", &words);
        assert!(output.status.success(), "ip {words:?}: {}", text(&output));
    };
    // The other end of our veth goes to the other network.
    ip(&theirs, "link del va");
    ip(&ours, &format!("link set vb netns {}", theirs.name()));
    ip(&theirs, "addr add 10.99.0.2/24 dev vb");
    ip(&theirs, "link set vb up");
    ip(&ours, "addr add 10.99.0.1/24 dev va");
    // A veth polls for TCP only if it merges, and its peer does not (veth_skb_is_eligible_for_gro).
    feature(&ours, "va", "rx-gro", "on");
    feature(&theirs, "vb", "tx-scatter-gather", "off");

    let etc = Scratch::new();
    etc.put(
        "sysctl.d/10-image.conf",
        "net.core.somaxconn = 77\nnet.core.rmem_max = 1\nnet.ipv4.tcp_tw_recycle = 1\nkernel.nonsense = 3\n",
    );
    let mut command = ours.command("unshare");
    let script = "mount --bind \"$1\" /etc && exec ruby -e \"$2\"";
    command.args(["-m", "sh", "-c", script, "sh", etc.arg(), SERVER]);
    let mut server = Running(command.stdout(Stdio::piped()).spawn().unwrap());
    assert_eq!(server.line(), "listening");
    let mut command = theirs.command("ruby");
    let _client = Running(command.args(["-e", CLIENT]).spawn().unwrap());
    assert_eq!(server.line(), "served");

    let pid = server.0.id().to_string();
    let audit = tune(&["--no-sample", "--json", "-p", &pid]);
    let found = checks(&audit);

    // Its /etc, not this machine's. What only the first network namespace has is not called dead, what is known to be is.
    let root = format!("/proc/{pid}/root");
    seen(&found, "T35", &format!("sysctl.conf below {root}"));
    assert_eq!(
        seen(&found, "T35", "10-image.conf:3"),
        "net.ipv4.tcp_tw_recycle = 1: gone since 4.12"
    );
    assert!(seen(&found, "T35", "10-image.conf:4").contains("kernel.nonsense"));
    let evidence = found["T35"]["evidence"].to_string();
    assert!(
        !evidence.contains("somaxconn") && !evidence.contains("rmem_max"),
        "{evidence}"
    );
    // Who sets its network at its start is written there too.
    let args = [
        "--no-sample",
        "-p",
        &pid,
        "--dry-run",
        "--apply",
        "net.core.somaxconn=500",
    ];
    let said = text(&tune(&args));
    assert!(
        said.contains("/etc/sysctl.d/10-image.conf:1 sets it to 77"),
        "{said}"
    );

    // What a person would type, and what is to be called next, is about that network too.
    let inside = format!("nsenter -t {pid} -n sysctl -w net.core.somaxconn='500'");
    assert!(said.contains(&inside), "{said}");
    let latency = text(&tune(&["--no-sample", "-p", &pid, "--goal", "latency"]));
    let next = format!("lancet tune -p {pid} --goal latency --apply ");
    assert!(latency.contains(&next), "{latency}");

    // Its sockets: the listener, the one that came through the poller of `va`, its own.
    assert!(seen(&found, "T20", "TCP sockets of ruby").contains("1 reno"));
    assert_eq!(seen(&found, "T08", "SO_BUSY_POLL"), "20 µs, 1 of 3 of them");
    let arrivals: Vec<&str> = found["T10"]["evidence"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|seen| seen["from"] == "sockets of ruby")
        .map(|seen| seen["value"].as_str().unwrap())
        .collect();
    let polled = arrivals.iter().filter(|text| text.contains(" of va"));
    assert!(polled.count() > 0, "{arrivals:?}");
    assert_eq!(verdict(&found, "T10"), "not_applicable", "{}", found["T10"]);
}
