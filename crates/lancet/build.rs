//! Builds the agent, the program that runs inside guests, and puts it into ours.
//!
//! The agent is built by a cargo of its own, always optimised and in a folder of its own: it is the
//! same bytes whether lancet is built for debugging or for release. That folder is the same for all
//! profiles, so that the agent is built once and not for each of clippy, tests and release again.

use std::env;
use std::fs;
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
    let target = shared(&out);
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
        // Cargo tells here what lancet itself is compiled with; with other flags the agent would be built again.
        .env("CARGO_ENCODED_RUSTFLAGS", flags(&crates))
        // Set by `cargo clippy` for this workspace; the agent is checked as a member, not here.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .expect("cargo runs");
    assert!(status.success(), "the agent did not build");
    // A copy, because a build of other sources may put another one there.
    let agent = out.join("lancet-agent");
    fs::copy(target.join("agent/lancet-agent"), &agent).expect("the agent can be copied");
    println!("cargo::rustc-env=LANCET_AGENT={}", agent.display());
}

/// The folder for the agent within Cargo's target folder. Ours is `[TARGET/]PROFILE/build/PACKAGE/out` there.
fn shared(out: &Path) -> PathBuf {
    let target = env::var_os("TARGET").expect("cargo sets it");
    let mut above = out.ancestors().skip(4);
    let mut found = above.next().unwrap_or(out);
    if found.ends_with(&target) {
        found = above.next().unwrap_or(found);
    }
    found.join("for-guests")
}

/// What the agent is compiled with: no path of this machine is in it.
fn flags(crates: &Path) -> String {
    let workspace = crates.parent().expect("crates/ has a parent");
    format!("--remap-path-prefix={}=lancet", workspace.display())
}
