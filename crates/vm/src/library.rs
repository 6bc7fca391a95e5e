//! Which files are a library's, by their path: where package managers and distributions put them.
//!
//! A mark is a piece of a path that begins where a name in it begins; `#` stands for a digit, and what follows of that
//! name does not matter: `lib/python#` finds `/usr/lib/python3.11/json/decoder.py`, not `/srv/mylib/python3/app.py`.
//! The marks of a VM stand in its folder.

use crate::Language;

/// Returns how many bytes of `path` a mark matches at its beginning.
fn taken(path: &[u8], mark: &str) -> Option<usize> {
    let fits = |(byte, mark): (&u8, u8)| match mark {
        b'#' => byte.is_ascii_digit(),
        _ => *byte == mark,
    };
    (path.len() >= mark.len() && path.iter().zip(mark.bytes()).all(fits)).then_some(mark.len())
}

/// Returns where each name of a path begins.
fn names(path: &[u8]) -> impl Iterator<Item = usize> {
    let slashes = (0..path.len()).filter(|at| path[*at] == b'/');
    core::iter::once(0).chain(slashes.map(|at| at + 1))
}

/// Returns whether a path contains one of a VM's marks.
pub fn is_library(path: &[u8], marks: &[&str]) -> bool {
    names(path).any(|at| marks.iter().any(|mark| taken(&path[at..], mark).is_some()))
}

/// Returns a library's path without the folder that libraries are in, `json/decoder.py`; the whole path where no mark
/// of any VM is in it.
pub fn within(path: &str) -> &str {
    let bytes = path.as_bytes();
    let marks = || {
        let all = Language::ALL.iter();
        all.flat_map(|language| language.description().libraries)
    };
    let behind = |at: usize| {
        let ends = marks().filter_map(|mark| Some((taken(&bytes[at..], mark)?, mark)));
        let (length, mark) = ends.max_by_key(|(length, _)| *length)?;
        let end = at + length;
        match mark.as_bytes().last() {
            Some(b'/') => Some(end),
            // The mark extends to the end of the name that it ends in.
            Some(b'#') => Some(end + bytes[end..].iter().position(|byte| *byte == b'/')? + 1),
            _ => None,
        }
    };
    let end = names(bytes).filter_map(behind).max();
    path.get(end.unwrap_or(0)..).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{perl, php, python, ruby};

    #[test]
    fn libraries_are_known_by_where_they_are() {
        let of = |marks, path: &str| is_library(path.as_bytes(), marks);
        for (marks, path) in [
            (
                ruby::LIBRARIES,
                "/var/lib/gems/3.1.0/gems/sequel-5.63.0/lib/sequel.rb",
            ),
            (
                ruby::LIBRARIES,
                "vendor/bundle/ruby/3.1.0/bundler/gems/x-0123abc/lib/x.rb",
            ),
            (
                ruby::LIBRARIES,
                "/usr/lib/ruby/vendor_ruby/mysql2/client.rb",
            ),
            (
                ruby::LIBRARIES,
                "/home/u/.rbenv/versions/3.3.1/lib/ruby/3.3.0/csv.rb",
            ),
            (ruby::LIBRARIES, "<internal:kernel>"),
            (ruby::LIBRARIES, "(eval)"),
            (perl::LIBRARIES, "(eval 12)"),
            (ruby::LIBRARIES, "(eval at /srv/gems/x-1/lib/x.rb:3)"),
            (
                python::LIBRARIES,
                "/usr/lib/python3/dist-packages/MySQLdb/cursors.py",
            ),
            (
                python::LIBRARIES,
                "/srv/app/.venv/lib/python3.11/site-packages/six.py",
            ),
            (python::LIBRARIES, "/usr/lib/python3.11/threading.py"),
            (python::LIBRARIES, "<frozen importlib._bootstrap>"),
            (perl::LIBRARIES, "/usr/share/perl5/DBI.pm"),
            (
                perl::LIBRARIES,
                "/usr/lib/x86_64-linux-gnu/perl5/5.36/DBI.pm",
            ),
            (
                perl::LIBRARIES,
                "/usr/lib/x86_64-linux-gnu/perl-base/IO/Handle.pm",
            ),
            (perl::LIBRARIES, "/usr/local/share/perl/5.36.0/DBI.pm"),
            (perl::LIBRARIES, "/home/u/perl5/lib/perl5/Moo.pm"),
            (
                php::LIBRARIES,
                "/srv/app/vendor/doctrine/dbal/src/Connection.php",
            ),
            (php::LIBRARIES, "/usr/share/php/PEAR.php"),
            (php::LIBRARIES, "/srv/vendor/x.php(12) : eval()'d code"),
        ] {
            assert!(of(marks, path), "{path}");
        }
        for (marks, path) in [
            (ruby::LIBRARIES, "/srv/app/lib/ruby/report.rb"),
            (ruby::LIBRARIES, "/srv/mygems/app.rb"),
            (ruby::LIBRARIES, "-e"),
            (ruby::LIBRARIES, "(eval at /srv/app/x.rb:3)"),
            (ruby::LIBRARIES, ""),
            (python::LIBRARIES, "<string>"),
            (python::LIBRARIES, "/srv/my-site-packages/app.py"),
            (python::LIBRARIES, "/srv/mylib/python3/app.py"),
            (perl::LIBRARIES, "/srv/app/lib/Shop.pm"),
            (php::LIBRARIES, "/srv/vendors/index.php"),
        ] {
            assert!(!of(marks, path), "{path}");
        }
    }

    #[test]
    fn the_folder_of_libraries_is_left_out() {
        for (path, rest) in [
            (
                "/var/lib/gems/3.1.0/gems/sequel-5.63.0/lib/sequel.rb",
                "sequel-5.63.0/lib/sequel.rb",
            ),
            (
                "/usr/lib/ruby/vendor_ruby/mysql2/client.rb",
                "mysql2/client.rb",
            ),
            ("/usr/lib/ruby/3.1.0/csv.rb", "csv.rb"),
            ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py"),
            (
                "/usr/lib/python3/dist-packages/MySQLdb/cursors.py",
                "MySQLdb/cursors.py",
            ),
            ("/usr/lib/x86_64-linux-gnu/perl5/5.36/DBI.pm", "DBI.pm"),
            (
                "/srv/app/vendor/doctrine/dbal/src/Connection.php",
                "doctrine/dbal/src/Connection.php",
            ),
            ("<internal:kernel>", "<internal:kernel>"),
            ("/srv/app/app.rb", "/srv/app/app.rb"),
        ] {
            assert_eq!(within(path), rest);
        }
    }
}
