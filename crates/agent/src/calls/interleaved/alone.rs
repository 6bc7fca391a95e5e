//! Tests that change what all threads of the agent share run in a process of their own.

use std::process::Command;

/// Runs this test in a child; whether this is that child.
pub fn alone(test: &str) -> bool {
    if std::env::var_os("LANCET_ALONE_IN").is_some_and(|of| of == test) {
        return true;
    }
    let name = std::format!("calls::interleaved::{test}");
    let output = Command::new("/proc/self/exe")
        .args([&name, "--exact", "--nocapture", "--test-threads=1"])
        .env("LANCET_ALONE_IN", test)
        .output()
        .expect("a child");
    let text = std::string::String::from_utf8_lossy(&output.stdout);
    let error = std::string::String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{error}"
    );
    false
}
