//! The languages whose VMs are known: one table of what other crates must know of each. Used by `perl::script`,
//! `php::script` and others here, and by most crates above.
//!
//! A language is added by its folder, which has a [`Description`] and a reader that answers as
//! `ScriptReader` in [`reader`](crate::reader) asks, and by a line in the list below.

use core::fmt;

/// What is the same in every process of a language.
#[derive(Debug)]
pub struct Description {
    /// The name as its makers write it: `PHP`.
    pub name: &'static str,
    /// The prefix before the colon of a function's name on the command line, and before the parentheses in prototypes.
    pub prefix: &'static str,
    /// Examples of names of functions on the command line, with the prefix; for messages.
    pub examples: &'static str,
    /// Whether names of functions are the same in upper and lower case.
    pub ignores_case: bool,
    /// A symbol that each of its VMs exports and nothing else does. It shows that the VM is there.
    pub mark: &'static str,
    /// The function that `main` calls when the VM is made and the script compiled. When it returns, the script has
    /// ended.
    pub entry: &'static str,
    /// The function that ends an interpreter whose memory threads may still point to afterwards, where the VM leaves such pointers; empty = it
    /// leaves none.
    pub ends_interpreter: &'static str,
    /// The functions that give a library's C functions their names in the VM, when the library is loaded.
    pub definer: Definer,
    /// Symbols of the function that collects garbage, the likeliest first. Most are static: a stripped library has
    /// none.
    pub collectors: &'static [&'static str],
    /// Whether objects count the references to them, so that a cycle of references keeps what is in it until a collection, if there is any.
    pub counts_references: bool,
    /// What a program calls to switch the collector off; empty where there is none.
    pub switches_off: &'static str,
    /// Whether its collector looks for references on the machine stacks of threads.
    pub scans_stacks: bool,
    /// Whether its threads take turns in running the script, by a lock of the VM.
    pub takes_turns: bool,
    /// Whether it makes the sets of `select` as large as the descriptors need them.
    pub enlarges_sets: bool,
    /// Whether it gives back its memory in pieces that are much smaller than a huge page.
    pub frees_small_pieces: bool,
    /// What its allocator hands out and takes back, one and many of it: where an allocation may be a part of an object, a block.
    pub counted: [&'static str; 2],
    /// Where its libraries lie: see [`library`](crate::library).
    pub libraries: &'static [&'static str],
}

/// The functions that define the names of C functions in the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definer {
    /// One in each library, whose name begins with this.
    Prefix(&'static str),
    /// One of the VM, of this name.
    Function(&'static str),
}

/// Hands the list of languages to the macro `$make`, behind the other tokens given to it: the variant with its number,
/// the folder and the reader in it. Agent and recordings use the number, so it must not change, and 0 stands for no
/// language.
macro_rules! languages {
    ($make:ident $($given:tt)*) => {
        $make! { $($given)*
            /// Ruby, by CRuby's VM: [`ruby`](crate::ruby).
            Ruby = 1: ruby::Ruby;
            /// Python, by CPython's VM: [`python`](crate::python).
            Python = 2: python::Python;
            /// Perl 5, by its interpreter: [`perl`](crate::perl).
            Perl = 3: perl::Perl;
            /// PHP, by the Zend engine: [`php`](crate::php).
            Php = 4: php::Php;
        }
    };
}
pub(crate) use languages;

macro_rules! list {
    ($($(#[$doc:meta])+ $language:ident = $number:literal: $module:ident::$reader:ident;)+) => {
        /// A language whose VM is known.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u64)]
        pub enum Language {
            $($(#[$doc])+ $language = $number,)+
        }

        impl Language {
            /// All languages, in the order in which a process is searched for their VMs.
            pub const ALL: &[Language] = &[$(Language::$language),+];

            /// Returns what is the same in all its processes.
            #[must_use]
            pub const fn description(self) -> &'static Description {
                match self { $(Language::$language => &crate::$module::DESCRIPTION,)+ }
            }
        }
    };
}
languages!(list);

impl Language {
    /// Returns the number by which the command names it to the agent.
    #[must_use]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// Returns the language with this number.
    #[must_use]
    pub fn of_number(number: u64) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|language| language.number() == number)
    }

    /// Returns the language with this prefix: `ruby`.
    #[must_use]
    pub fn of_prefix(prefix: &str) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|language| language.description().prefix == prefix)
    }

    /// Returns the names of all languages, for a message that none is there: `Ruby, Python, Perl or PHP`.
    #[must_use]
    pub fn any() -> impl fmt::Display {
        Self::those(|_| true, " or ")
    }

    /// Returns the names of all languages, for a message that denies each: `Ruby, Python, Perl nor PHP`.
    #[must_use]
    pub fn none() -> impl fmt::Display {
        Self::those(|_| true, " nor ")
    }

    /// Returns the names of some languages, with `last` before the last one: `Ruby, Perl or PHP`.
    pub fn those(which: impl Fn(Language) -> bool, last: &'static str) -> impl fmt::Display {
        List { which, last }
    }

    /// Returns the language whose VM is loaded, by the symbol that marks it.
    pub fn loaded(symbol: &dyn Fn(&str) -> Option<u64>) -> Option<Self> {
        let mut all = Self::ALL.iter().copied();
        all.find(|language| symbol(language.description().mark).is_some())
    }
}

/// The names of some languages, with `last` before the last one.
struct List<W> {
    which: W,
    last: &'static str,
}

impl<W: Fn(Language) -> bool> fmt::Display for List<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = || {
            Language::ALL
                .iter()
                .filter(|language| (self.which)(**language))
        };
        let count = all().count();
        for (at, language) in all().enumerate() {
            let before = match at {
                0 => "",
                at if at + 1 == count => self.last,
                _ => ", ",
            };
            write!(f, "{before}{language}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.description().name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_prefixes_and_marks_tell_languages_apart() {
        for language in Language::ALL.iter().copied() {
            let description = language.description();
            assert_eq!(Language::of_number(language.number()), Some(language));
            assert_eq!(Language::of_prefix(description.prefix), Some(language));
            let only_it = |name: &str| (name == description.mark).then_some(1);
            assert_eq!(Language::loaded(&only_it), Some(language));
        }
        assert_eq!(Language::of_number(0), None);
        assert_eq!(Language::loaded(&|_| None), None);
    }
}
