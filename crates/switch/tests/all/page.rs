//! The blocks of docs/switch.md, for the tests that compile them. The Rust ones are the crate's own doctests; `c.rs` builds
//! and runs the others as the page says.

fn page() -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/switch.md");
    std::fs::read_to_string(page).expect("docs/switch.md")
}

/// All blocks of this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}\n");
    let rests = page.split(&open).skip(1);
    rests
        .filter_map(|rest| Some(rest.split_once("```")?.0.to_owned()))
        .collect()
}

/// The first block of this language.
pub fn block(language: &str) -> String {
    let first = blocks(&page(), language).into_iter().next();
    first.expect("an example")
}

#[test]
fn the_rust_examples_are_the_crates_own() {
    let mut documented = String::new();
    for source in [
        include_str!("../../src/lib.rs"),
        include_str!("../../src/scope.rs"),
    ] {
        for line in source.lines().map(str::trim_start) {
            let text = ["//!", "///"]
                .iter()
                .find_map(|mark| line.strip_prefix(mark));
            let text = text.unwrap_or(line);
            documented.push_str(text.strip_prefix(' ').unwrap_or(text));
            documented.push('\n');
        }
    }
    let examples = blocks(&page(), "rust");
    assert_eq!(examples.len(), 2);
    for example in examples {
        assert!(documented.contains(&example), "{example}");
    }
}
