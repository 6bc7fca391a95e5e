//! docs/tutorial.md: its server has the two faults that the page finds, at the lines that it names, and the files that it shows mend them.

use super::support::fixtures;
use super::{answer, first, row, scenario};

/// The file that the page has its reader write: what stands below `$ cat > NAME`, as far as the next command.
fn shown(page: &str, name: &str) -> String {
    let (_, rest) = page
        .split_once(&format!("    $ cat > {name}\n"))
        .expect("the page shows the file");
    let lines = rest.lines().take_while(|line| !line.starts_with("    $ "));
    let lines = lines.map(|line| line.strip_prefix("    ").unwrap_or(line));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn finds_both_lines_and_mends_the_slow_one() {
    let page = fixtures().join("../docs/tutorial.md");
    let page = std::fs::read_to_string(page).expect("the tutorial");
    let Some(guest) = scenario("../tutorial/shop.rb", &[]) else {
        return;
    };
    let leaks = answer(&guest, "lancet mem -p PID --for 20s");
    let said = first(&leaks.stdout, 3);
    let said: Vec<_> = said.iter().filter(|l| l.starts_with("leak: ")).collect();
    assert!(
        !said.is_empty() && said.iter().all(|line| line.contains("shop.rb:19:")),
        "{leaks:?}"
    );

    let count = "lancet calls -c -x ruby:JSON::Ext::Parser#parse -p PID --for 1s";
    let calls = answer(&guest, count);
    assert!(row(&calls).contains("shop.rb:14 in 'catalog'"), "{calls:?}");

    let folder = std::env::temp_dir().join(format!("lancet-tutorial-{}", guest.pid));
    std::fs::create_dir(&folder).expect("a folder");
    for name in ["remember", "catalog"] {
        let file = folder.join(format!("{name}.rb"));
        std::fs::write(&file, shown(&page, &format!("{name}.rb"))).expect("a file");
        let patch = format!("lancet patch -p PID ruby:Shop#{name}={}", file.display());
        let patched = answer(&guest, &patch);
        assert!(patched.stdout.starts_with("patch s"), "{patched:?}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder goes");
    let calls = answer(&guest, count);
    assert!(calls.stdout.starts_with("no call was counted"), "{calls:?}");
    let undone = answer(&guest, "lancet patch -p PID --undo");
    assert_eq!(
        undone.stdout.matches(" is as it was ").count(),
        2,
        "{undone:?}"
    );
    assert!(guest.ends_well());
}
