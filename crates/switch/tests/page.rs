//! The examples of docs/switch.md are those that are compiled: the Rust one is the crate's own
//! doctest; the C one is built and run in `c.rs`.

#[test]
fn the_rust_example_is_the_crates_own() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switch.md");
    let page = std::fs::read_to_string(root).expect("docs/switch.md");
    let example = page
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .expect("an example");
    let library = include_str!("../src/lib.rs");
    let documented: String = library
        .lines()
        .map(|line| line.strip_prefix("//!").unwrap_or(line))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    assert!(documented.contains(example), "{example}");
}
