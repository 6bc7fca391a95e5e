//! Programs that make work while `tune` looks, in networks of the tests' own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::harness::{Checks, Network, checks, may_make_networks, text};
use crate::support::tool;

/// A program that makes work until the test ends.
pub struct Load(Child);

impl Load {
    /// Starts a Ruby script and waits for its first line.
    pub fn start(mut command: Command, script: &str) -> Self {
        command.args(["-e", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let read = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line);
        let load = Self(child);
        assert!(read.unwrap() > 0, "the load did not start");
        load
    }
}

impl Load {
    /// The id of its process.
    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether the test may make networks and load; says why not.
pub fn may_load(test: &str) -> bool {
    if Command::new("ruby").arg("--version").output().is_err() {
        println!("SKIPPED {test}: needs ruby (package ruby)");
        return false;
    }
    may_make_networks(test)
}

/// What two looks show, a second apart.
pub fn watched(mut command: Command) -> Checks {
    checks(
        &command
            .args(["tune", "--sample", "1s", "--json"])
            .output()
            .unwrap(),
    )
}

/// A network whose loopback is up.
pub fn with_loopback() -> Network {
    let network = Network::new();
    let output = network.run("ip", &["link", "set", "lo", "up"]);
    assert!(output.status.success(), "{}", text(&output));
    network
}

/// What two looks show in a network.
pub fn inside(network: &Network) -> Checks {
    watched(network.command(tool().to_str().unwrap()))
}
