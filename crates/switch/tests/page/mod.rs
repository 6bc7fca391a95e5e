//! The blocks of docs/switch.md, for the tests that compile them. The Rust one is the crate's own doctest; `c.rs` builds and
//! runs them all as the page says.

/// The first block of this language.
pub fn block(language: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switch.md");
    let page = std::fs::read_to_string(page).expect("docs/switch.md");
    let block = page.split(&format!("```{language}\n")).nth(1);
    let block = block.and_then(|rest| rest.split("```").next());
    block.expect("an example").to_owned()
}

#[test]
fn the_rust_example_is_the_crates_own() {
    let example = block("rust");
    let library = include_str!("../../src/lib.rs");
    let documented: String = library
        .lines()
        .map(|line| line.strip_prefix("//!").unwrap_or(line))
        .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
        .collect();
    assert!(documented.contains(&example), "{example}");
}
