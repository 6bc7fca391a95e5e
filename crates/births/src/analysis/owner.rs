//! Decides from its path whose code a file is: a gem's, Ruby's standard library's, Ruby's own, or the
//! application's.
//!
//! The path is all there is to go by; the guest is not asked. The layouts are those of RubyGems
//! (`GEM_HOME/gems/NAME-VERSION/`, compiled parts under `extensions/PLATFORM/ABI/`), Bundler
//! (`bundler/gems/NAME-REVISION/`), Debian (`vendor_ruby/`) and Ruby's own install
//! (`lib/ruby/ABI/`); of Python pip's `site-packages/`, Debian's `dist-packages/` and Python's own library
//! (`lib/pythonVERSION/`).

/// The owner of a file that belongs to no library.
pub(crate) const APP: &str = "app";

/// Returns the gem a file belongs to as `NAME-VERSION` (only the name for Debian's `vendor_ruby` and for packages of Python), or
/// `ruby stdlib`, `ruby core`, `python stdlib`, `app`.
///
/// ```
/// assert_eq!(births::analysis::owner("/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb"), "rack-2.2.4");
/// assert_eq!(births::analysis::owner("/srv/shop/app/models/order.rb"), "app");
/// ```
pub fn owner(path: &str) -> &str {
    if let Some(inner) = path.strip_prefix("<internal:") {
        // RubyGems marks its own files this way too, with their whole path.
        return if inner.starts_with('/') {
            owner(inner.trim_end_matches('>'))
        } else {
            "ruby core"
        };
    }
    // Code from a string is named after the place that evaluated it (Ruby 3.3 and later).
    if let Some(inner) = path.strip_prefix("(eval at ") {
        return owner(inner);
    }
    gem(path)
        .or_else(|| vendored(path))
        .or_else(|| stdlib(path))
        .or_else(|| package(path))
        .or_else(|| python_stdlib(path))
        .unwrap_or(APP)
}

/// Returns the package of Python that pip or Debian has installed a file of, or the module that is one file.
fn package(path: &str) -> Option<&str> {
    let (_, rest) = path
        .rsplit_once("/site-packages/")
        .or_else(|| path.rsplit_once("/dist-packages/"))?;
    let first = rest.split('/').next()?;
    Some(first.split('.').next().unwrap_or(first))
}

/// Whether a file is of Python's own library, or frozen into the VM.
fn python_stdlib(path: &str) -> Option<&'static str> {
    let of_version = |(at, _): (usize, &str)| {
        let root = &path[..at];
        let version = &path[at + "/python".len()..];
        let installed = root.split('/').any(|part| part == "lib" || part == "lib64");
        installed && version.starts_with(|c: char| c.is_ascii_digit())
    };
    let frozen = path.starts_with("<frozen ");
    (frozen || path.match_indices("/python").any(of_version)).then_some("python stdlib")
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

#[cfg(test)]
mod tests {
    use super::owner;

    #[test]
    fn layouts() {
        for (path, expected) in [
            (
                "/srv/env/lib/python3.11/site-packages/django/db/models.py",
                "django",
            ),
            ("/usr/lib/python3/dist-packages/six.py", "six"),
            ("/usr/lib/python3.11/json/decoder.py", "python stdlib"),
            ("/srv/python3/lib/shop.py", "app"),
            ("<frozen importlib._bootstrap>", "python stdlib"),
            (
                "/usr/local/bundle/gems/rack-2.2.4/lib/rack/utils.rb",
                "rack-2.2.4",
            ),
            (
                "/var/lib/gems/3.1.0/gems/nokogiri-1.15.4-x86_64-linux/lib/nokogiri.rb",
                "nokogiri-1.15.4-x86_64-linux",
            ),
            (
                "/var/lib/gems/3.1.0/extensions/x86_64-linux/3.1.0/bcrypt-3.1.20/bcrypt_ext.so",
                "bcrypt-3.1.20",
            ),
            (
                "/srv/a/vendor/bundle/ruby/3.1.0/bundler/gems/shop-core-deadbeef1234/lib/a.rb",
                "shop-core-deadbeef1234",
            ),
            (
                "/usr/share/rubygems-integration/all/gems/rake-13.0.6/lib/rake.rb",
                "rake-13.0.6",
            ),
            (
                "/gems/outer-1.0/vendor/gems/inner-2.0/lib/a.rb",
                "inner-2.0",
            ),
            ("/usr/lib/ruby/vendor_ruby/rack/utils.rb", "rack"),
            ("/usr/lib/ruby/vendor_ruby/rack.rb", "rack"),
            (
                "/usr/lib/x86_64-linux-gnu/ruby/vendor_ruby/3.1.0/puma/puma_http11.so",
                "puma",
            ),
            (
                "/usr/local/lib/ruby/site_ruby/3.1.0/x86_64-linux/ox.so",
                "ox",
            ),
            ("/usr/lib/ruby/3.1.0/json/common.rb", "ruby stdlib"),
            (
                "/usr/lib/x86_64-linux-gnu/ruby/3.1.0/stringio.so",
                "ruby stdlib",
            ),
            (
                "/home/me/.rbenv/versions/3.4.1/lib/ruby/3.4.0/set.rb",
                "ruby stdlib",
            ),
            ("<internal:kernel>", "ruby core"),
            (
                "<internal:/usr/lib/ruby/vendor_ruby/rubygems/core_ext/kernel_require.rb>",
                "rubygems",
            ),
            (
                "(eval at /usr/local/bundle/gems/erubi-1.12.0/lib/erubi.rb:12)",
                "erubi-1.12.0",
            ),
            ("/home/me/gems/shop/lib/a.rb", "app"),
            ("/home/me/gems/web-app/lib/a.rb", "app"),
            ("/srv/ruby/3.1.0/a.rb", "app"),
            ("app.rb", "app"),
            ("-e", "app"),
            ("(eval)", "app"),
            ("", "app"),
        ] {
            assert_eq!(owner(path), expected, "{path}");
        }
    }
}
