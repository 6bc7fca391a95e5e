//! Whose code a file of Python is, by its path: the layouts are those of pip (`site-packages/`), Debian (`dist-packages/`) and Python's own
//! library (`lib/pythonVERSION/`). Used by `python`.

/// Returns the package that a file belongs to, or `python stdlib`; `None` for all other files.
pub fn of(path: &str) -> Option<&str> {
    package(path).or_else(|| stdlib(path))
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
fn stdlib(path: &str) -> Option<&'static str> {
    let of_version = |(at, _): (usize, &str)| {
        let root = &path[..at];
        let version = &path[at + "/python".len()..];
        let installed = root.split('/').any(|part| part == "lib" || part == "lib64");
        installed && version.starts_with(|c: char| c.is_ascii_digit())
    };
    let frozen = path.starts_with("<frozen ");
    (frozen || path.match_indices("/python").any(of_version)).then_some("python stdlib")
}
