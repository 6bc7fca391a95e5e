//! Which file a prototype comes from.

use std::fs;
use std::path::{Path, PathBuf};

use prototypes::Search;

/// A folder of this test's own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("search-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn said(search: &mut Search, soname: &str, function: &str) -> String {
    let found = search.prototype(soname, function);
    found.map_or("none".to_owned(), |prototype| {
        prototype.named(function).to_string()
    })
}

#[test]
fn the_nearest_file_wins() {
    let home = folder("home");
    let given = folder("given");
    let write = |path: PathBuf, text: &str| {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    };
    write(
        given.join("libx.so.conf"),
        "import \"libx-types\";\nthing f(int);\n",
    );
    write(
        given.join("libx-types.conf"),
        "import \"libx.so\";\ntypedef thing = hex(long);\n",
    );
    write(
        given.join("extra.conf"),
        "int f(long);\nint g();\nint strlen(long);\n",
    );
    write(
        home.join(".config/ltrace/libx.so.1.conf"),
        "int f(short);\n",
    );
    write(home.join(".ltrace/liby.so.conf"), "int h();\n");
    write(
        home.join(".ltrace.conf"),
        "int g(int);\nint own();\nint broken(\n",
    );
    let environment = |name: &str| (name == "HOME").then(|| home.display().to_string());
    let arguments = [given.clone(), given.join("extra.conf")];
    let mut search = Search::new(&arguments, &environment).expect("files");

    // The whole SONAME before the snipped one, wherever it lies.
    assert_eq!(said(&mut search, "libx.so.1", "f"), "int f(short)");
    assert_eq!(said(&mut search, "libx.so.2", "f"), "thing f(int)");
    assert_eq!(said(&mut search, "libx.so.2.1", "f"), "thing f(int)");
    // Files given count for every library, and before the bundle.
    assert_eq!(said(&mut search, "liby.so", "f"), "int f(long)");
    assert_eq!(said(&mut search, "liby.so", "g"), "int g()");
    assert_eq!(said(&mut search, "liby.so", "h"), "int h()");
    assert_eq!(said(&mut search, "libz.so.1", "own"), "int own()");
    assert_eq!(said(&mut search, "libc.so.6", "strlen"), "int strlen(long)");
    assert_eq!(
        said(&mut search, "libc.so.6", "write"),
        "long write(int, string[arg3], ulong)"
    );
    assert_eq!(said(&mut search, "libc.so.6", "no_such_function"), "none");
    assert_eq!(said(&mut search, "../../etc/x", "f"), "int f(long)");
    // An import that comes back finds nothing, once; the broken line is told, once.
    let errors = search.errors();
    let lines: Vec<String> = errors
        .iter()
        .map(|error| error.problem.to_string())
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(search.errors().is_empty());

    let missing = [given.join("nowhere.conf")];
    assert!(Search::new(&missing, &environment).is_err());
}
