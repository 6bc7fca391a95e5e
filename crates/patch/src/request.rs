//! What is asked for of a function of a library, parsed: `FUNCTION[@LIB]=FILE:NEW`. Used by `imports`, `plan` and
//! others here, and by crate `lancet`.

use std::path::PathBuf;
use std::str::FromStr;

/// One function and what is to take its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The name of the function that is to be replaced.
    pub function: String,
    /// The library that it is in, if that was said.
    pub library: Option<String>,
    /// The file with the new function.
    pub file: PathBuf,
    /// The new function's name.
    pub new: String,
}

impl Request {
    /// A request that names a function only: `FUNCTION[@LIB]`.
    pub fn of(text: &str) -> Self {
        let (function, library) = match text.rsplit_once('@') {
            Some((function, library)) => (function, Some(library.to_owned())),
            None => (text, None),
        };
        Request {
            function: function.to_owned(),
            library,
            file: PathBuf::new(),
            new: String::new(),
        }
    }

    /// The function as it was asked for.
    pub fn shown(&self) -> String {
        match &self.library {
            Some(library) => format!("{}@{library}", self.function),
            None => self.function.clone(),
        }
    }

    /// Whether no part of it is empty.
    pub fn is_whole(&self) -> bool {
        let library = self.library.as_deref();
        let has_file = !self.file.as_os_str().is_empty();
        has_file
            && ![&self.function, &self.new]
                .iter()
                .any(|name| name.is_empty())
            && library != Some("")
    }

    /// Whether a module is the one asked for: by its whole name, or by its beginning up to a dot, `libc` for `libc.so.6`.
    pub fn is_in(&self, module: &str) -> bool {
        self.library.as_deref().is_none_or(|library| {
            let rest = module.strip_prefix(library);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

impl FromStr for Request {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = || {
            let (old, new) = text.split_once('=')?;
            let (file, new) = new.rsplit_once(':')?;
            let request = Request {
                file: PathBuf::from(file),
                new: new.to_owned(),
                ..Request::of(old)
            };
            request.is_whole().then_some(request)
        };
        parts()
            .ok_or_else(|| "write FUNCTION=FILE.so:NEW, or FUNCTION@LIBRARY=FILE.so:NEW".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read() {
        let request: Request = "rb_ary_join@libruby-3.1=./a:b/fix.so:join".parse().unwrap();
        assert_eq!(request.function, "rb_ary_join");
        assert_eq!(request.file, PathBuf::from("./a:b/fix.so"));
        assert_eq!(request.new, "join");
        assert!(request.is_in("libruby-3.1.so.3.1"));
        assert!(request.is_in("libruby-3.1"));
        assert!(!request.is_in("libruby-3.10"));
        let request: Request = "total=fix.so:total".parse().unwrap();
        assert_eq!(request.library, None);
        assert!(request.is_in("anything"));
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for text in ["", "a", "a=b", "=b:c", "a=:c", "a=b:", "a@=b:c", "@l=b:c"] {
            assert!(text.parse::<Request>().is_err(), "{text}");
        }
    }
}
