//! What is asked for: a function of the script and the file with what is to take its place, `LANGUAGE:FUNCTION=FILE`.
//! Used by `lancet::commands::patch::script` and `lancet::commands::patch::args`.

use super::patching;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use vm::Language;

/// A function of the script, and the file with what is to take its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptRequest {
    /// The language of the script, which must be the process's.
    pub language: Language,
    /// The function as its language names it: `Shop::Order#total`, `shop.cart.Cart.total`.
    pub target: String,
    /// The file with the new function, relative to where lancet runs.
    pub file: PathBuf,
}

impl ScriptRequest {
    /// Whether a text asks for a function of a script: it begins with a language and a colon.
    pub fn is_meant(text: &str) -> bool {
        text.split_once(':')
            .is_some_and(|(prefix, _)| Language::of_prefix(prefix).is_some())
    }
}

impl fmt::Display for ScriptRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.language.description().prefix, self.target)
    }
}

impl FromStr for ScriptRequest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            let all = languages::ALL.iter().filter_map(|entry| entry.patch);
            let examples: Vec<&str> = all.map(|patching| patching.example).collect();
            format!("write {}", examples.join(" or "))
        };
        let (prefix, rest) = text.split_once(':').ok_or_else(wrong)?;
        let language = Language::of_prefix(prefix).ok_or_else(wrong)?;
        let is_patched = |one| patching(one).is_some();
        if !is_patched(language) {
            let those = Language::those(is_patched, " and ");
            return Err(format!(
                "functions of {language} are not replaced, only those of {those}"
            ));
        }
        // Names of methods end in `=`, or are `==`; names of files hardly begin with it.
        let at = rest
            .char_indices()
            .filter(|(at, character)| {
                *character == '=' && !rest[at + 1..].starts_with(['=', '~']) && *at != 0
            })
            .map(|(at, _)| at)
            .find(|at| !rest[..*at].ends_with(['#', '.', '=', '<', '>', '!', '[']))
            .or_else(|| rest.rfind('='))
            .ok_or_else(wrong)?;
        let (target, file) = (&rest[..at], &rest[at + 1..]);
        if target.is_empty() || file.is_empty() {
            return Err(wrong());
        }
        Ok(ScriptRequest {
            language,
            target: target.to_owned(),
            file: file.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_are_told_apart() {
        for (text, target, file) in [
            ("ruby:Order#total=fix.rb", "Order#total", "fix.rb"),
            (
                "ruby:Shop::Order.total=./a=b.rb",
                "Shop::Order.total",
                "./a=b.rb",
            ),
            ("ruby:Order#===fix.rb", "Order#==", "fix.rb"),
            ("ruby:Order#total==fix.rb", "Order#total=", "fix.rb"),
            ("ruby:Order#[]==fix.rb", "Order#[]=", "fix.rb"),
            ("ruby:Order#<==fix.rb", "Order#<=", "fix.rb"),
            ("ruby:Order#=~=fix.rb", "Order#=~", "fix.rb"),
            ("ruby:Order#!==fix.rb", "Order#!=", "fix.rb"),
            ("ruby:Order#====fix.rb", "Order#===", "fix.rb"),
            (
                "python:shop.cart.Cart.total=fix.py",
                "shop.cart.Cart.total",
                "fix.py",
            ),
        ] {
            let request: ScriptRequest = text.parse().expect(text);
            assert_eq!(
                (request.target.as_str(), request.file),
                (target, file.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        for text in [
            "ruby:", "ruby:a", "ruby:=b", "ruby:a=", "perl:a=b", "lua:a=b", "a=b",
        ] {
            assert!(text.parse::<ScriptRequest>().is_err(), "{text}");
        }
        assert!(ScriptRequest::is_meant("ruby:a=b"));
        assert!(!ScriptRequest::is_meant(
            "rb_ary_join@libruby=./ruby:fix.so:join"
        ));
    }
}
