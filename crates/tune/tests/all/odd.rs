//! Every setting of the kernel that has an odd value is found, or is listed as not looked at: silence never means good.
//!
//! The settings are those of this machine's kernel, copied below a root, so that a key which a newer kernel has is asked for,
//! too. One after the other gets odd values.

use std::fs;
use std::path::{Path, PathBuf};

use tune::machine::{Machine, Options};
use tune::rules::{RULES, audit};
use tune::verdict::Outcome;

/// Copies what can be read of a folder, without following links.
fn copy(from: &Path, root: &Path, keys: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    let to = root.join(from.strip_prefix("/").unwrap());
    fs::create_dir_all(&to).unwrap();
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_dir() {
            // One network device is as good as another.
            if path
                .parent()
                .is_some_and(|p| p.ends_with("conf") || p.ends_with("neigh"))
                && !path.ends_with("default")
                && !path.ends_with("all")
            {
                continue;
            }
            copy(&path, root, keys);
        } else if kind.is_file()
            && let Ok(text) = fs::read_to_string(&path)
        {
            fs::write(root.join(path.strip_prefix("/").unwrap()), &text).unwrap();
            if !text.trim().is_empty() {
                keys.push(path);
            }
        }
    }
}

/// Values that nobody has: each number of the text another, all at once.
fn odd(text: &str) -> Vec<String> {
    let numbers: Option<Vec<i64>> = text.split_whitespace().map(|w| w.parse().ok()).collect();
    let Some(numbers) = numbers else {
        return vec!["odd".to_owned(), "|/bin/false".to_owned()];
    };
    let with = |change: &dyn Fn(i64) -> i64| -> String {
        let words: Vec<String> = numbers.iter().map(|n| change(*n).to_string()).collect();
        words.join("\t")
    };
    let all = [
        with(&|_| 0),
        with(&|_| 1),
        with(&|_| 3),
        with(&|number| number.saturating_mul(1000).saturating_add(7777)),
        with(&|number| number / 1000),
        with(&|_| -1),
    ];
    all.into_iter()
        .filter(|odd| odd.trim() != text.trim())
        .collect()
}

fn outcomes(root: &Path) -> Vec<Outcome> {
    let options = Options {
        root: Some(root.to_owned()),
        ..Options::default()
    };
    let machine = Machine::open(&options).unwrap();
    audit(&machine, RULES)
        .into_iter()
        .map(|finding| finding.outcome)
        .collect()
}

/// Whether the audit names the key as one that no check has read.
fn is_listed(outcomes: &[Outcome], key: &Path) -> bool {
    let folder = format!("not looked at in {}", key.parent().unwrap().display());
    let name = key.file_name().unwrap().to_str().unwrap();
    outcomes
        .iter()
        .flat_map(|outcome| &outcome.evidence)
        .any(|evidence| {
            evidence.from == folder && evidence.value.split_whitespace().any(|word| word == name)
        })
}

#[test]
fn every_key_is_found_or_listed() {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("odd");
    let _ = fs::remove_dir_all(&root);
    let root = root.as_path();
    let mut keys = Vec::new();
    copy(Path::new("/proc/sys"), root, &mut keys);
    let of_sys = [
        "/sys/kernel/mm/transparent_hugepage",
        "/sys/kernel/mm/lru_gen",
    ];
    for folder in of_sys {
        let mut more = Vec::new();
        copy(Path::new(folder), root, &mut more);
    }
    for file in [
        "/proc/meminfo",
        "/proc/cpuinfo",
        "/proc/version",
        "/proc/cmdline",
    ] {
        let text = fs::read_to_string(file).unwrap_or_default();
        fs::write(root.join(&file[1..]), text).unwrap();
    }
    assert!(keys.len() >= 200, "{}", keys.len());

    let usual = outcomes(root);
    let (mut found, mut listed, mut silent) = (0, 0, Vec::new());
    for key in &keys {
        if is_listed(&usual, key) {
            listed += 1;
            continue;
        }
        let file = root.join(key.strip_prefix("/").unwrap());
        let text = fs::read_to_string(&file).unwrap();
        let says = odd(&text).iter().any(|odd| {
            fs::write(&file, odd).unwrap();
            let now = outcomes(root);
            now.iter()
                .zip(&usual)
                .any(|(now, usual)| (now.verdict, &now.says) != (usual.verdict, &usual.says))
        });
        fs::write(&file, text).unwrap();
        match says {
            true => found += 1,
            false => silent.push(key.clone()),
        }
    }
    println!("{found} found, {listed} listed as not looked at");
    assert!(silent.is_empty(), "read, and nothing is said: {silent:#?}");
    assert!(found >= 150, "{found}");
}
