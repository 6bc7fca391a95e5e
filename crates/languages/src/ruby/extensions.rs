//! Finds the compiled extensions of a gem. Used by `ruby`.
//!
//! RubyGems keeps a gem below `gems/NAME-VERSION` and what was compiled for one Ruby below
//! `extensions/PLATFORM/ABI/NAME-VERSION` of each of its folders (`Gem.path`, `Gem::Specification#extension_dir`).
//! Debian's packages put extensions into the vendor folder instead, and dpkg knows which file is whose.
//! Ruby is not run for this, because the Ruby in the search path need not be the one that uses the gem.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders of RubyGems; `*` stands for one name.
const FOLDERS: [&str; 9] = [
    "/var/lib/gems/*",
    "/usr/lib/ruby/gems/*",
    "/usr/local/lib/ruby/gems/*",
    "/usr/lib/x86_64-linux-gnu/rubygems-integration/*",
    "/usr/local/bundle",
    "/opt/*/embedded/lib/ruby/gems/*",
    "~/.gem/ruby/*",
    "~/.local/share/gem/ruby/*",
    "~/.rbenv/versions/*/lib/ruby/gems/*",
];

/// The deepest folder of a gem in which extensions are searched for.
const DEEPEST: usize = 12;

/// Returns the paths of all compiled extensions (`.so`) of gem `name`, of every version and Ruby, sorted and each
/// once; none if none is found.
pub fn of(name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders() {
        for holder in ["gems", "extensions/*/*"] {
            for base in expand(&folder.join(holder)) {
                for gem in entries(&base).filter(|gem| is_version_of(gem, name)) {
                    libraries(&gem, DEEPEST, &mut found);
                }
            }
        }
    }
    found.extend(packaged(name));
    found.sort();
    found.dedup();
    found
}

fn folders() -> Vec<PathBuf> {
    let home = env::var("HOME").unwrap_or_default();
    let named = ["GEM_HOME", "GEM_PATH"].into_iter().filter_map(env::var_os);
    let mut all: Vec<PathBuf> = named
        .flat_map(|value| env::split_paths(&value).collect::<Vec<_>>())
        .collect();
    for folder in FOLDERS {
        all.extend(expand(Path::new(&folder.replacen('~', &home, 1))));
    }
    all
}

/// Returns the paths that a pattern matches, by name.
fn expand(pattern: &Path) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::new()];
    for part in pattern.components() {
        paths = if part.as_os_str() == "*" {
            paths.iter().flat_map(|path| entries(path)).collect()
        } else {
            paths.into_iter().map(|path| path.join(part)).collect()
        };
    }
    paths.retain(|path| path.is_dir());
    paths
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    all.sort();
    all.into_iter()
}

/// Returns whether a path is a version of the gem: `eventmachine-1.3.0` is one of `eventmachine`,
/// `eventmachine-tail-0.6` is not.
fn is_version_of(path: &Path, name: &str) -> bool {
    let folder = path
        .file_name()
        .and_then(|folder| folder.to_str())
        .unwrap_or("");
    let version = folder
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix('-'));
    version.is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

fn libraries(folder: &Path, deeper: usize, found: &mut Vec<PathBuf>) {
    for path in entries(folder) {
        // A link could lead out of the gem, or to a circle.
        let Ok(metadata) = path.symlink_metadata() else {
            continue;
        };
        if metadata.is_dir() && deeper > 0 {
            libraries(&path, deeper - 1, found);
        } else if metadata.is_file() && path.extension().is_some_and(|ending| ending == "so") {
            found.push(path);
        }
    }
}

/// Returns the files that dpkg has installed of Debian's package for the gem.
fn packaged(name: &str) -> Vec<PathBuf> {
    let package = format!("ruby-{}", name.replace('_', "-"));
    let lists = ["", ":amd64"].map(|ending| format!("/var/lib/dpkg/info/{package}{ending}.list"));
    let text: String = lists
        .iter()
        .filter_map(|list| fs::read_to_string(list).ok())
        .collect();
    let files = text
        .lines()
        .filter(|line| line.ends_with(".so"))
        .map(PathBuf::from);
    files.filter(|file| file.is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_told_from_another_gem() {
        assert!(is_version_of(Path::new("/g/puma-6.0.2"), "puma"));
        assert!(is_version_of(
            Path::new("/g/nio4r-2.5.8-x86_64-linux"),
            "nio4r"
        ));
        assert!(!is_version_of(Path::new("/g/puma-status-1.0"), "puma"));
        assert!(!is_version_of(Path::new("/g/puma"), "puma"));
    }

    #[test]
    fn a_gem_that_is_not_there_has_no_extensions() {
        assert_eq!(of("no-such-gem"), Vec::<PathBuf>::new());
    }
}
