//! Builds the agent, the program that runs inside guests, and puts it into ours.
//!
//! The agent is built by a cargo of its own, always optimised and in a folder of its own: it is the
//! same bytes whether lancet is built for debugging or for release.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"))
        .parent()
        .expect("crates/lancet has a parent")
        .to_owned();
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for of in ["agent", "capture", "routine", "vm", "wire"] {
        println!("cargo::rerun-if-changed={}", crates.join(of).display());
    }
    // Its profile.
    println!(
        "cargo::rerun-if-changed={}",
        crates.join("../Cargo.toml").display()
    );
    let target = out.join("agent");
    let status = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .args([
            "build",
            "--profile",
            "agent",
            "--package",
            "lancet-agent",
            "--quiet",
        ])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&crates)
        // Set by `cargo clippy` for this workspace; the agent is checked as a member, not here.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the agent did not build");
    let agent: &Path = &target.join("agent/lancet-agent");
    println!("cargo::rustc-env=LANCET_AGENT={}", agent.display());
}
