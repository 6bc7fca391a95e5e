//! What a row of `lancet mem` is called where people read it. Used by `table`, `stacks` and others here, and by crate
//! `lancet`.

use std::borrow::Cow;

use births::analysis::{Key, Row};

use crate::text::printable;

/// The mark of objects that were made before lancet came, so that nobody saw which line made them.
pub const BEFORE: &str = "(before lancet)";

/// So many characters of a path are read at a glance; of a longer one the beginning is left out, by whole names.
const LONGEST_PATH: usize = 40;

/// Returns the name of a row, safe to print. Files of the directory `root` are named from there on.
pub fn label(row: &Row, root: &str) -> String {
    label_of_key(&row.key, row.before, root)
}

/// Returns the name of a key, safe to print; `before` adds the mark.
pub(crate) fn label_of_key(key: &Key, before: bool, root: &str) -> String {
    let name = key.shown(|path| short(path, root)).to_string();
    let name = printable(&name);
    if before {
        format!("{name} {BEFORE}")
    } else {
        name.into_owned()
    }
}

/// Returns a path as people name it: that of the application from the directory on that it works in, that of a library as
/// its name and the file, `activerecord/…/statement.rb`.
pub(crate) fn short<'a>(path: &'a str, root: &str) -> Cow<'a, str> {
    let inside = path.strip_prefix(root).filter(|_| root.len() > 1);
    if let Some(inside) = inside.and_then(|rest| rest.strip_prefix('/')) {
        return last_names(inside);
    }
    let within = vm::library::within(path);
    if within == path {
        return last_names(path);
    }
    let Some((first, rest)) = within.split_once('/') else {
        return within.into();
    };
    let library = match first.rsplit_once('-') {
        Some((name, version)) if version.starts_with(|c: char| c.is_ascii_digit()) => name,
        _ => first,
    };
    match rest.rsplit_once('/') {
        Some((_, file)) => format!("{library}/…/{file}").into(),
        None => format!("{library}/{rest}").into(),
    }
}

/// Returns as many names from the end of a path as are read at a glance, at least one.
fn last_names(path: &str) -> Cow<'_, str> {
    let length = path.chars().count();
    if length <= LONGEST_PATH || path.starts_with('<') || path.starts_with('(') {
        return path.into();
    }
    let fits = |at: &usize| path[*at..].chars().count() < LONGEST_PATH;
    let mut slashes = path.match_indices('/').map(|(at, _)| at);
    match slashes.find(fits).or(path.rfind('/')) {
        Some(at) => format!("…{}", &path[at..]).into(),
        None => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn paths_are_short_and_still_say_which_file() {
        for (path, expected) in [
            ("/srv/shop/app/models/cart.rb", "app/models/cart.rb"),
            (
                "/srv/shopping/app/models/cart.rb",
                "/srv/shopping/app/models/cart.rb",
            ),
            ("app.rb", "app.rb"),
            (
                "/var/lib/gems/3.1.0/gems/activerecord-6.1.7.10/lib/active_record/scoping/statement.rb",
                "activerecord/…/statement.rb",
            ),
            (
                "/usr/share/rubygems-integration/all/gems/web-console-4.2.0/lib/web.rb",
                "web-console/…/web.rb",
            ),
            (
                "/usr/lib/ruby/vendor_ruby/sqlite3/statement.rb",
                "sqlite3/statement.rb",
            ),
            ("/usr/lib/ruby/3.1.0/csv.rb", "csv.rb"),
            ("<internal:timev>", "<internal:timev>"),
            (
                "/home/somebody/work/projects/a/lib/deep/er/file.rb",
                "…/work/projects/a/lib/deep/er/file.rb",
            ),
            (
                "/srv/a_file_of_which_the_name_alone_is_longer_than_all_of_that.rb",
                "…/a_file_of_which_the_name_alone_is_longer_than_all_of_that.rb",
            ),
        ] {
            assert_eq!(short(path, "/srv/shop"), expected);
        }
    }
}
