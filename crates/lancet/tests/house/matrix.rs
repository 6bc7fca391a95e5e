//! `make matrix` runs those tests of `heap` and `stack` that ask other versions, and no others: their modules are listed in the Makefile.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The modules of a test executable whose tests ask the versions that a run is for.
fn asking(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder of tests");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let asks = |text: &str| {
        let ways = ["rubies(", "chosen(", ".interpreters()"];
        text.contains("#[test]") && ways.iter().any(|way| text.contains(way))
    };
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| asks(&fs::read_to_string(path).expect("a readable file")))
        .filter_map(|path| Some(format!("{}::", path.file_stem()?.to_str()?)))
        .collect()
}

/// The words of a variable of the Makefile, over lines that a backslash joins.
fn words(makefile: &str, variable: &str) -> BTreeSet<String> {
    let joined = makefile.replace("\\\n", " ");
    let prefix = format!("{variable} := ");
    let line = joined.lines().find_map(|line| line.strip_prefix(&prefix));
    let line = line.unwrap_or_else(|| panic!("the Makefile sets {variable}"));
    line.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_tests_of_other_versions_are_listed() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let makefile = tests.join("../../../Makefile");
    let makefile = fs::read_to_string(makefile).expect("the Makefile");
    for (executable, variable) in [("heap", "HEAP_OF_VERSIONS"), ("stack", "STACK_OF_VERSIONS")] {
        let asking = asking(&tests.join(executable));
        assert!(asking.len() > 3, "{executable}: {asking:?}");
        assert_eq!(words(&makefile, variable), asking, "{variable}");
    }
}
