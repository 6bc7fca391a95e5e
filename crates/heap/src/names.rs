//! What kinds of objects and roots are to the answers ([`Role`]), and what references are called. Used by `build`,
//! `file::read` and others here, and by the crates `languages`, `report` and `lancet`.

use crate::text::TextId;

/// The number of a kind of objects in its snapshot, from [`Builder::kind`](crate::Builder::kind).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(pub(crate) u16);

/// Makes an enum of numbers that files hold, with the conversion from the number.
macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $number:literal $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$each])* $variant = $number,)+ }

        impl $name {
            /// All variants, in the order in which they are declared.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The one that files have by this number.
            pub(crate) fn of(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// In one or two words.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
        }
    };
}

numbered! {
    /// What objects of a kind are, whatever their language calls them. It decides which questions are asked of them:
    /// only texts have duplicates, only lists and maps are sparse, a class is no suspect of its own.
    Role {
        /// None of the others.
        Other = 0 "other",
        /// A string or bytes; equal ones are found by their fingerprints.
        Text = 1 "text",
        /// An interned name: it lives as long as the VM wants it.
        Symbol = 2 "symbol",
        /// An array, list or tuple: length and capacity are elements.
        List = 3 "list",
        /// A hash, dict or set: length and capacity are entries.
        Map = 4 "map",
        /// An instance of a class of the program or of a library.
        Instance = 5 "instance",
        /// A class, module or type; its label is its name. The name of its instances' class, and of those of other
        /// classes of that name.
        Class = 6 "class",
        /// A number, of whatever type its language has.
        Number = 7 "number",
        /// A function, method, block or closure.
        Function = 8 "function",
        /// Compiled code, such as a Python code object.
        Code = 9 "code",
        /// A thread of the program.
        Thread = 10 "thread",
        /// A fiber, coroutine, generator or greenlet: something with a stack of its own that is no thread.
        Fiber = 11 "fiber",
        /// An object whose contents only a C library knows.
        Native = 12 "native",
        /// What the VM keeps for itself: method entries, environments, frames, shapes.
        Internal = 13 "internal",
        /// A module of the script: a file's globals.
        Module = 14 "module",
    }
}

numbered! {
    /// Where a reference comes from that is no object's.
    RootKind {
        /// A table or variable of the VM's own; the text says which (`vm`, `global_tbl`, `symbols`, `end_proc`).
        Vm = 0 "the VM",
        /// A global variable of the program; the text is its name with what precedes it: `$cache`.
        Global = 1 "global",
        /// A local variable or a temporary value of a frame; the text says which.
        Frame = 2 "frame",
        /// A word of a native stack or of saved registers that looks like a reference.
        MachineStack = 3 "machine stack",
        /// A value that belongs to a thread; the text is its key.
        ThreadLocal = 4 "thread local",
        /// What is to be called when an object dies.
        Finalizer = 5 "finalizer",
        /// A reference that a C library has registered.
        Native = 6 "C library",
        /// A constant or module at the top level; the text is its name.
        Constant = 7 "constant",
        /// A thread itself, while it runs.
        Thread = 8 "thread",
    }
}

/// What a root is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RootName {
    /// Where the reference comes from.
    pub kind: RootKind,
    /// The number of the thread it belongs to, counted from 1; 0 = none. The kernel's thread id will do.
    pub thread: u32,
    /// Its name; for a local variable with the frame: `orders in Order.load app/models/order.rb:31`.
    pub text: Option<TextId>,
}

impl RootName {
    /// A root without a name.
    #[must_use]
    pub fn new(kind: RootKind) -> Self {
        Self {
            kind,
            thread: 0,
            text: None,
        }
    }

    /// A root that has a name.
    #[must_use]
    pub fn named(kind: RootKind, text: TextId) -> Self {
        Self {
            text: Some(text),
            ..Self::new(kind)
        }
    }

    /// Returns this name for a root that belongs to the thread of this number.
    #[must_use]
    pub fn of_thread(self, thread: u32) -> Self {
        Self { thread, ..self }
    }
}

/// Makes [`EdgeName`] with its packed form. A name without payload is written `Name = 3`, one with an optional text
/// `Name(text) = 3`, and one with a number `Name(index) = 3`.
macro_rules! edges {
    ($($(#[$doc:meta])* $name:ident $(($payload:ident))? = $number:literal,)+) => {
        /// What a reference from one object to another is called. Names are the program's; those that show contents
        /// (the text of a key that is a string) are given only with [`About::contents`](crate::About::contents).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EdgeName {
            $($(#[$doc])* $name $((edges!(@type $payload)))?,)+
        }

        impl EdgeName {
            /// Number and payload in 32 bits, as memory and files hold them.
            pub(crate) fn pack(self) -> u32 {
                match self {
                    $(Self::$name $(($payload))? =>
                        $number << PAYLOAD_BITS $(| edges!(@pack $payload $payload))?,)+
                }
            }

            /// The name that was packed so; `None` = these bits are no name.
            pub(crate) fn unpack(bits: u32) -> Option<Self> {
                let payload = bits & PAYLOAD;
                match bits >> PAYLOAD_BITS {
                    $($number => edges!(@unpack $name payload $($payload)?),)+
                    _ => None,
                }
            }
        }
    };
    (@type text) => { Option<TextId> };
    (@type index) => { u32 };
    (@pack $given:ident text) => { pack_text($given) };
    (@pack $given:ident index) => { $given.min(PAYLOAD) };
    (@unpack $name:ident $payload:ident) => { ($payload == 0).then_some(Self::$name) };
    (@unpack $name:ident $payload:ident text) => {
        Some(Self::$name($payload.checked_sub(1).map(TextId)))
    };
    (@unpack $name:ident $payload:ident index) => { Some(Self::$name($payload)) };
}

/// Bits of a packed name below its number.
const PAYLOAD_BITS: u32 = 27;
const PAYLOAD: u32 = (1 << PAYLOAD_BITS) - 1;
/// Texts have numbers below this, so that each fits into a packed name.
pub(crate) const MOST_TEXTS: u32 = PAYLOAD;

fn pack_text(text: Option<TextId>) -> u32 {
    text.map_or(0, |text| text.0 + 1)
}

edges! {
    /// The VM or a C library holds it, and nobody has a name for it.
    Internal = 0,
    /// An instance variable, with the `@`.
    InstanceVariable(text) = 1,
    /// A constant of a class or module.
    Constant(text) = 2,
    /// A class variable, with the `@@`.
    ClassVariable(text) = 3,
    /// The key of an entry of a hash or dict, or an element of a set.
    Key = 4,
    /// The value of an entry; the text is that of its key, if it is short and may be shown.
    Value(text) = 5,
    /// An element of an array, list or tuple, counted from 0; 134,217,727 stands for every one from there on.
    Index(index) = 6,
    /// A local variable in an environment that outlives its frame.
    Local(text) = 7,
    /// A global variable of a module of the script.
    Global(text) = 8,
    /// The environment, block or self of a function object.
    Closure = 9,
    /// The superclass of a class.
    Superclass = 10,
    /// The class of an object.
    ClassOf = 11,
    /// An attribute of an object: an entry of its own dict, or a descriptor's.
    Attribute(text) = 12,
    /// A variable that a closure has captured.
    Cell(text) = 13,
    /// A local variable of a frame that still runs.
    FrameLocal(text) = 14,
    /// A member of a struct, or a slot.
    Member(text) = 15,
    /// What is to be called when the object dies.
    Finalizer = 16,
    /// A value that belongs to a thread or fiber.
    ThreadLocal(text) = 17,
    /// A method of a class or module.
    Method(text) = 18,
    /// A module that is included in a class, or its class in between.
    Included = 19,
    /// A stack word of a thread or fiber that is no named variable: an argument or a temporary value.
    Stack = 20,
    /// The compiled code of a function or class body.
    Code = 21,
    /// What a reference that is an object itself refers to.
    Referent = 22,
}

/// What the payload of a packed name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// The index of an element, at most `PAYLOAD`.
    Index,
    /// The number of a text plus one; 0 = none.
    Text,
    /// The name has no payload, and these bits are 0.
    Plain,
}

impl EdgeName {
    /// The largest index that has a number of its own.
    pub(crate) const MOST_INDEX: u32 = PAYLOAD;

    /// Packed names have numbers below this.
    pub(crate) const NUMBERS: usize = 1 << (u32::BITS - PAYLOAD_BITS);

    /// The number and the payload of a packed name.
    #[inline]
    pub(crate) fn parts(packed: u32) -> (u8, u32) {
        ((packed >> PAYLOAD_BITS) as u8, packed & PAYLOAD)
    }

    /// What the payloads of names are, by the numbers of these.
    pub(crate) fn forms() -> [Form; Self::NUMBERS] {
        std::array::from_fn(|number| {
            let packed = Self::packed(number as u8, 1);
            if Self::is_index(number as u8) {
                Form::Index
            } else if Self::has_text(packed) {
                Form::Text
            } else {
                Form::Plain
            }
        })
    }

    /// The number of a packed name.
    pub(crate) fn number(packed: u32) -> u8 {
        Self::parts(packed).0
    }

    /// Packs a number below 32 and a payload.
    pub(crate) fn packed(number: u8, payload: u32) -> u32 {
        u32::from(number) << PAYLOAD_BITS | payload & PAYLOAD
    }

    /// Whether names of this number are indices.
    pub(crate) fn is_index(number: u8) -> bool {
        matches!(Self::unpack(Self::packed(number, 0)), Some(Self::Index(_)))
    }

    /// Whether names of this packed name's number may have a text.
    pub(crate) fn has_text(packed: u32) -> bool {
        let with_text = Self::unpack(Self::packed(Self::number(packed), 1));
        with_text.is_some_and(|name| name.text().is_some())
    }

    /// The text in it.
    #[must_use]
    pub fn text(self) -> Option<TextId> {
        match self {
            Self::InstanceVariable(text)
            | Self::Constant(text)
            | Self::ClassVariable(text)
            | Self::Value(text)
            | Self::Local(text)
            | Self::Global(text)
            | Self::Attribute(text)
            | Self::Cell(text)
            | Self::FrameLocal(text)
            | Self::Member(text)
            | Self::ThreadLocal(text)
            | Self::Method(text) => text,
            _ => None,
        }
    }
}

/// Facts of one object in one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// It cannot be changed.
    pub frozen: bool,
    /// Other ractors or interpreters may see it.
    pub shareable: bool,
    /// It has survived so many collections that minor ones leave it out.
    pub old: bool,
    /// Its contents belong to another object (a string that shares its bytes), so it holds none of its own.
    pub shared: bool,
    /// Code of the program runs when it dies: a finalizer, a `__del__`.
    pub finalizer: bool,
    /// A C library has memory for it and does not say how much, so that is not in its bytes.
    pub unsized_by_c: bool,
}

impl Flags {
    pub(crate) fn pack(self) -> u8 {
        u8::from(self.frozen)
            | u8::from(self.shareable) << 1
            | u8::from(self.old) << 2
            | u8::from(self.shared) << 3
            | u8::from(self.finalizer) << 4
            | u8::from(self.unsized_by_c) << 5
    }

    /// The flags that were packed so; `None` = these bits are none.
    pub(crate) fn unpack(bits: u8) -> Option<Self> {
        (bits < 64).then_some(Self {
            frozen: bits & 1 != 0,
            shareable: bits & 2 != 0,
            old: bits & 4 != 0,
            shared: bits & 8 != 0,
            finalizer: bits & 16 != 0,
            unsized_by_c: bits & 32 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_out_as_they_went_in() {
        let text = Some(TextId(MOST_TEXTS - 1));
        for name in [
            EdgeName::Internal,
            EdgeName::Value(None),
            EdgeName::Value(Some(TextId(0))),
            EdgeName::Method(text),
            EdgeName::Index(0),
            EdgeName::Index(PAYLOAD),
            EdgeName::Code,
        ] {
            assert_eq!(EdgeName::unpack(name.pack()), Some(name));
        }
        let beyond = EdgeName::Index(u32::MAX).pack();
        assert_eq!(EdgeName::unpack(beyond), Some(EdgeName::Index(PAYLOAD)));
        // A number that no name has, and a payload where none belongs.
        assert_eq!(EdgeName::unpack(31 << PAYLOAD_BITS), None);
        assert_eq!(EdgeName::unpack(EdgeName::Code.pack() | 1), None);
        for bits in 0..=u8::MAX {
            assert!(Flags::unpack(bits).is_none_or(|flags| flags.pack() == bits));
        }
    }
}
