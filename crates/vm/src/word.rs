//! Words of a call that only a language's VM can put into text: values, names, the arguments that a VM hands to its C
//! functions. One table says what there is, how prototypes name it (`ruby(value)`), and by which number the command
//! asks the agent for it. Used by `perl::script`, `php::script` and others here, and by the crates `prototypes` and
//! `languages`.

use core::fmt;

use crate::Language;

/// What conditions (`--where`) can compare of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The word is one value.
    Value,
    /// The word leads to all arguments of the call.
    Arguments,
    /// The word is the object that a method is called on, which the language does not count among the arguments.
    Receiver,
    /// Nothing: the word is only shown.
    Shown,
}

macro_rules! words {
    ($($(#[$doc:meta])+ $word:ident = $language:ident $name:literal $number:literal $role:ident;)+) => {
        /// A word of a call that the guest's VM explains.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Word {
            $($(#[$doc])+ $word,)+
        }

        impl Word {
            /// All words of all languages.
            pub const ALL: &[Word] = &[$(Word::$word),+];

            /// Returns the language of the VM that explains it.
            #[must_use]
            pub const fn language(self) -> Language {
                match self { $(Word::$word => Language::$language,)+ }
            }

            /// Returns its name in prototypes, where it stands in parentheses behind the language's prefix: `value`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Word::$word => $name,)+ }
            }

            /// Returns its number among the words of its language. Programs for hooks and recordings hold it, so it
            /// must not change.
            #[must_use]
            pub const fn number(self) -> u8 {
                match self { $(Word::$word => $number,)+ }
            }

            /// Returns what conditions can compare of it.
            #[must_use]
            pub const fn role(self) -> Role {
                match self { $(Word::$word => Role::$role,)+ }
            }

            /// Returns the word of a language that has this number.
            #[must_use]
            pub const fn of(language: Language, number: u8) -> Option<Word> {
                match (language, number) {
                    $((Language::$language, $number) => Some(Word::$word),)+
                    _ => None,
                }
            }
        }
    };
}

// 1 is a value, 2 a name, 3 a receiver, 4 a result that is not in rax; from 16 on are the ways in which a VM passes
// arguments.
words! {
    /// A `VALUE`: the address of an object, or an immediate value.
    RubyValue = Ruby "value" 1 Value;
    /// An `ID`, the number of a Symbol.
    RubyId = Ruby "id" 2 Shown;
    /// The `VALUE` that a method is called on. It has no text where it has none of its own, because its class is in the
    /// method's name.
    RubySelf = Ruby "self" 3 Receiver;
    /// Number of arguments, address of the arguments, receiver (`argc` is -1): the receiver and the arguments.
    RubyMethod = Ruby "method" 16 Arguments;
    /// As [`RubyMethod`](Self::RubyMethod), without the receiver.
    RubyFunction = Ruby "function" 17 Arguments;
    /// An Array of the arguments (`argc` is -2).
    RubySplat = Ruby "splat" 18 Arguments;
    /// The reason for a collection.
    RubyReason = Ruby "reason" 19 Shown;
    /// The number of collections. It is read when the function returns, from the structure that the first argument
    /// points to, at the offset that is given as the limit of text.
    RubyCollections = Ruby "collections" 4 Shown;
    /// A `PyObject *`: the address of an object of any class.
    PythonObject = Python "object" 1 Value;
    /// The `PyObject *` that a method is called on; the module of a function has no text.
    PythonSelf = Python "self" 3 Receiver;
    /// A tuple of the arguments (`METH_VARARGS`).
    PythonTuple = Python "tuple" 16 Arguments;
    /// A tuple and a dict (`METH_KEYWORDS`).
    PythonKeywords = Python "keywords" 17 Arguments;
    /// Address and number (`METH_FASTCALL`).
    PythonFast = Python "fast" 18 Arguments;
    /// Address, number and names (`METH_FASTCALL | METH_KEYWORDS`).
    PythonFastKeywords = Python "fast_keywords" 19 Arguments;
    /// As [`PythonFastKeywords`](Self::PythonFastKeywords), one register later, behind the class (`METH_METHOD`).
    PythonMethod = Python "method" 20 Arguments;
    /// An `SV *`, or a pointer to a longer structure that begins with one.
    PerlSv = Perl "sv" 1 Value;
    /// The arguments on Perl's stack for an XSUB. They can be read at the call only.
    PerlArguments = Perl "arguments" 16 Arguments;
    /// The results that an XSUB leaves on that stack.
    PerlResult = Perl "result" 4 Value;
    /// A `zval *`: the address of a value and its type.
    PhpZval = Php "zval" 1 Value;
    /// A `zend_string *`: the address of a string.
    PhpString = Php "string" 2 Value;
    /// The arguments in a `zend_execute_data`.
    PhpArguments = Php "arguments" 16 Arguments;
    /// The `zval` into which a function writes its result.
    PhpResult = Php "result" 4 Value;
}

/// The first number of those that stand for arguments.
const ARGUMENTS: u8 = 16;

impl Word {
    /// Returns whether the register that holds the word says nothing by itself, so that `…` is shown where there is no
    /// text.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        self.number() >= ARGUMENTS
    }

    /// Returns whether it is a number rather than the address of something.
    #[must_use]
    pub const fn is_number(self) -> bool {
        matches!(self, Word::RubyValue | Word::RubyId | Word::RubySelf)
    }

    /// Returns why what this word stands for can be read at the call only; `None` if it can be read at the return, too.
    #[must_use]
    pub const fn at_call_only(self) -> Option<&'static str> {
        match self {
            Word::PerlArguments => Some(
                "Perl's are on its stack, and can be asked at the call only; join the test to those of `ret` and `time` with &&",
            ),
            _ => None,
        }
    }
}

/// The word as prototypes name it: `ruby(value)`.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}({})",
            self.language().description().prefix,
            self.name()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_tell_the_words_of_a_language_apart() {
        for (at, word) in Word::ALL.iter().enumerate() {
            assert_eq!(Word::of(word.language(), word.number()), Some(*word));
            let same =
                |other: &&Word| other.language() == word.language() && other.name() == word.name();
            assert_eq!(Word::ALL.iter().position(|other| same(&other)), Some(at));
        }
        assert_eq!(Word::of(Language::Php, 20), None);
    }
}
