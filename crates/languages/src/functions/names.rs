//! What each language's file provides: which C functions the VM has names for, and how they are called. Used by
//! `perl::functions`, `php::functions` and others here, and by the crates `hooks` and `calls`.

use process::functions::Functions;
use process::memory::GuestMemory;
use process::pages::Pages;
use vm::Word;

/// The C functions that a language has names for, in one process.
pub trait Names {
    /// Returns the functions of a name or pattern.
    fn look(&self, memory: &Pages, name: &str) -> Look;

    /// Returns names of C functions that resemble a name: in the class or module that it names, or the same name in
    /// other classes and modules.
    fn near(&self, memory: &Pages, name: &str) -> Vec<String>;

    /// Returns the address of the function that collects the VM's garbage and how it is called, or why it is not
    /// found.
    fn collector(
        &self,
        memory: &GuestMemory,
        functions: &Functions,
    ) -> Result<(u64, Calling), String>;
}

/// How a C function that a VM has a name for is called, as far as its calls are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calling {
    /// How its result is shown.
    pub returns: Shown,
    /// How its arguments are shown, from the first integer register on.
    pub parameters: Vec<Shown>,
    /// Whether it is the VM's garbage collection, which C code calls and not the script.
    pub is_collection: bool,
    /// Offset of the number of collections in what the first argument points to.
    pub collections_at: Option<u32>,
}

impl Calling {
    /// A function that the script calls.
    pub fn by_script(returns: Shown, parameters: Vec<Shown>) -> Self {
        Calling {
            returns,
            parameters,
            is_collection: false,
            collections_at: None,
        }
    }

    /// The function that collects garbage.
    pub fn collection(returns: Shown, parameters: Vec<Shown>) -> Self {
        Calling {
            is_collection: true,
            ..Calling::by_script(returns, parameters)
        }
    }
}

/// How an argument or a result is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// As text that the hook takes from the VM.
    Word(Word),
    /// As a signed number of 32 bits.
    Int,
    /// As a signed number of 64 bits.
    Long,
    /// As a `long` that may also be an address.
    Guess,
    /// It is not shown.
    Hidden,
}

/// A function as it is in a VM's tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name in the script's language.
    pub name: String,
    /// Where its code begins.
    pub address: u64,
    /// Distinguishes it from others with the same code; 0 = it shares its code with none.
    pub identity: u64,
    /// How it is called.
    pub calling: Calling,
}

/// What a VM's tables contain for a name.
pub enum Look {
    /// Functions; a pattern may match none yet.
    Found(Vec<Named>),
    /// It does not exist, but may be defined later.
    NotYet(String),
    /// There is no C function of this name; the text is the reason.
    Never(String),
}
