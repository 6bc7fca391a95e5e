//! Whose code a file of Ruby is, by its path: the layouts are those of RubyGems (`GEM_HOME/gems/NAME-VERSION/`, compiled parts under
//! `extensions/PLATFORM/ABI/`), Bundler (`bundler/gems/NAME-REVISION/`), Debian (`vendor_ruby/`) and Ruby's own install
//! (`lib/ruby/ABI/`). Used by `ruby`.

use crate::owner;

/// Returns the gem that a file belongs to as `NAME-VERSION` (only the name for Debian's `vendor_ruby`), `ruby stdlib` or `ruby core`; `None`
/// for all other files. Of a path within these names all layouts are asked: a Ruby may read a file that another language's library brings.
pub fn of(path: &str) -> Option<&str> {
    if let Some(inner) = path.strip_prefix("<internal:") {
        // RubyGems marks its own files this way too, with their whole path.
        return Some(match inner.starts_with('/') {
            true => owner(inner.trim_end_matches('>')),
            false => "ruby core",
        });
    }
    // Code from a string is named after the place that evaluated it (Ruby 3.3 and later).
    if let Some(inner) = path.strip_prefix("(eval at ") {
        return Some(owner(inner));
    }
    gem(path)
        .or_else(|| vendored(path))
        .or_else(|| stdlib(path))
}

/// Returns the innermost directory below a `gems` or an `extensions/PLATFORM/ABI` whose name is that of a
/// gem.
fn gem(path: &str) -> Option<&str> {
    let parts: Vec<&str> = path.split('/').collect();
    // The last part is the file.
    (1..parts.len().saturating_sub(1))
        .rev()
        .find(|&at| {
            let in_gems = parts[at - 1] == "gems";
            let in_extensions = at >= 3 && parts[at - 3] == "extensions";
            let in_bundler = in_gems && at >= 2 && parts[at - 2] == "bundler";
            (in_gems || in_extensions)
                && is_gem_directory(parts[at], if in_bundler { is_revision } else { is_version })
        })
        .map(|at| parts[at])
}

/// Whether it is `NAME-VERSION` or `NAME-VERSION-PLATFORM`. `3.1.0` in `gems/3.1.0/gems/` is not.
fn is_gem_directory(name: &str, tail: fn(&str) -> bool) -> bool {
    name.split('-').skip(1).any(tail)
}

fn is_version(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_digit())
        && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '.')
}

/// Whether it is the suffix that Bundler adds to the name of a gem from git.
fn is_revision(part: &str) -> bool {
    part.len() >= 7 && part.chars().all(|c| c.is_ascii_hexdigit())
}

/// Debian's packages and local installs share one directory, with one file or folder for each library.
fn vendored(path: &str) -> Option<&str> {
    let (_, rest) = path
        .rsplit_once("/ruby/vendor_ruby/")
        .or_else(|| path.rsplit_once("/ruby/site_ruby/"))?;
    let mut parts = rest.split('/').skip_while(|part| is_abi(part));
    let first = parts.next()?;
    // Compiled parts lie below a platform directory.
    let name = if first.contains("-linux") {
        parts.next()?
    } else {
        first
    };
    Some(
        name.strip_suffix(".rb")
            .or_else(|| name.strip_suffix(".so"))
            .unwrap_or(name),
    )
}

fn stdlib(path: &str) -> Option<&'static str> {
    let inside = |(at, _): (usize, &str)| {
        let (root, rest) = (&path[..at], &path[at + "/ruby/".len()..]);
        let installed = root.split('/').any(|part| part == "lib");
        installed && rest.split_once('/').is_some_and(|(first, _)| is_abi(first))
    };
    path.match_indices("/ruby/")
        .any(inside)
        .then_some("ruby stdlib")
}

/// Whether it is the name of the directory of a binary interface, such as `3.1.0`.
fn is_abi(part: &str) -> bool {
    let mut numbers = part.split('.');
    let all = numbers
        .by_ref()
        .take(3)
        .filter(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
        .count();
    all == 3 && numbers.next().is_none()
}
