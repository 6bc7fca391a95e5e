//! What the files in `conf/` say, parsed: names, structs, commands, attributes. Used by `copies`, `parse::structs`,
//! `later` and others.

use crate::writer::{Unknown, Writer, Written};
use foldhash::HashMap;
use std::sync::OnceLock;

/// Writes what lies in memory at an address, or a number that was passed; the last argument is the list behind the form's name, as
/// its place in [`Tables::lists`].
pub type Show = fn(&mut Writer, u64, Option<usize>) -> Written;

/// Returns the number in a member of a struct.
pub type Numbers<'a> = &'a dyn Fn(&Writer, &str) -> Result<u64, Unknown>;

/// Returns a length that follows from several members.
pub type Lengths = fn(&Writer, &str, Numbers) -> Result<u64, Unknown>;

/// A value with a text of its own.
#[derive(Debug)]
pub struct Custom {
    pub name: &'static str,
    pub size: u32,
    pub align: u32,
    pub show: Show,
    /// How many bytes are copied of it, if that is more than its size.
    pub copied: u32,
    /// No more of those bytes are copied than the call's result says.
    pub by_result: bool,
    /// It is one number, which stands in brackets where an argument points to it.
    pub scalar: bool,
    /// Writes such a value where it is not in memory but the argument itself; `None` if it never is.
    pub passed: Option<Show>,
}

/// Names of numbers or bits.
#[derive(Debug, Default)]
pub struct List {
    /// What is said of a number without a name: `FS_XFLAG_???`.
    pub unknown: &'static str,
    /// What the file says of the names.
    pub text: Vec<&'static str>,
    /// The names, once they were asked for: of all lists a program's calls need only few.
    pub read: OnceLock<Vec<(Box<str>, i64)>>,
}

/// How a number is written. The numbers in variants are places of lists in [`Tables::lists`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In decimals, without a sign: `7`.
    Unsigned,
    /// In decimals, with a sign: `-7`.
    Signed,
    /// In hexadecimal, zero without a prefix: `0x7`, `0`.
    Hex,
    /// In octal, with a zero before it and three digits at least: `007`.
    Octal,
    /// A number in the order of the network: `htons(7)`.
    Network,
    /// In hexadecimal, and zero as `NULL`.
    Address,
    /// Ticks of the clock, with the seconds that they are.
    Ticks,
    /// By its name, or in hexadecimal.
    Name(usize),
    /// By its name, or in decimals with a sign.
    SignedName(usize),
    /// By its name, or in decimals without a sign.
    CountedName(usize),
    /// By the names of its bits.
    Flags(usize),
    /// As a number, with its name in a comment.
    ToldName(usize),
    /// As a number, with the names of its bits in a comment.
    ToldFlags(usize),
    /// A number of 32 bits in the order of the network, in hexadecimal: `htonl(0x7)`.
    NetworkHex,
    /// In hexadecimal, with all its digits: `0x0007`.
    Padded,
}

/// How text is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// Up to its NUL: `"eth0"`.
    String,
    /// The same; it is written whole, however long it is.
    Label,
    /// The same as `String`, of which no more is written than is asked for, wherever it lies.
    Brief,
    /// So many bytes: `"\x01\x02"`.
    Hex,
    /// So many bytes, in hexadecimal only where it is asked for.
    Bytes,
}

/// How many elements an array has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Length {
    /// How many elements its struct has room for; 0 = they follow the struct.
    pub places: u32,
    /// The member that says how many of them are in use.
    pub used: Option<Box<str>>,
    /// The list of the names of the elements, as its place in [`Tables::lists`].
    pub names: Option<usize>,
    /// Dots stand for more elements than there are places.
    pub open: bool,
}

impl Length {
    /// So many places, all of them in use.
    pub fn of(places: u32) -> Self {
        Length {
            places,
            used: None,
            names: None,
            open: false,
        }
    }
}

/// The type of a value.
#[derive(Clone, Debug)]
pub enum Ty {
    /// A number of 1, 2, 4 or 8 bytes.
    Number(u32, Form),
    /// Characters of this kind, so many of them.
    Text(Text, Length),
    /// Values of one type.
    Array(Box<Ty>, Length),
    /// A struct; of its members, those that are named here.
    Struct(usize, Option<Box<[Box<str>]>>),
    /// The address of a value.
    Pointer(Box<Ty>),
    /// A value that may be another one when the call returns: `1 => 2`.
    Changing(Box<Ty>),
    /// What has a text of its own.
    Custom(&'static Custom, Option<usize>),
}

/// When a member is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// If it is not zero.
    Filled,
    /// If the call failed.
    Failed,
    /// If the call did not fail.
    Done,
    /// If `-v` is not given.
    Brief,
    /// If the call has changed it.
    Altered,
    /// If the struct is longer than so many bytes, by the argument that says how long it is.
    Longer(usize, u32),
    /// If so many bytes of an address are there, and more.
    There(u64),
    /// If fewer bytes of it are there.
    Fewer(u64),
    /// With `-v`, or if this member is not zero.
    Verbose(Option<Box<str>>),
    /// If another member has one of these numbers.
    Is(Box<str>, Vec<u64>),
    /// If another member has none of these numbers.
    IsNot(Box<str>, Vec<u64>),
    /// If another member has one of these bits.
    Has(Box<str>, u64),
    /// If another member has none of these bits.
    Lacks(Box<str>, u64),
}

/// One member of a struct.
#[derive(Debug)]
pub struct Member {
    /// Its name; `-` is not written, `.` has no label.
    pub name: Box<str>,
    /// How many bytes of its struct precede it.
    pub offset: u32,
    /// The type of what lies there.
    pub ty: Ty,
    /// It is written only if all these conditions hold.
    pub when: Vec<When>,
    /// It and what follows is written with `-v` alone.
    pub verbose: bool,
}

/// A struct as the files describe it; size and alignment are in bytes.
#[derive(Debug, Default)]
pub struct Struct {
    pub members: Vec<Member>,
    pub size: u32,
    pub align: u32,
    /// Which argument says how many bytes of it there are, and how many there are at least: members behind them are not
    /// there, and what is behind the last member is written where it is not zero.
    pub sized: Option<(usize, u32)>,
    /// Which argument says how many bytes of it there are, for members that are told `since` there is room for them.
    pub room: Option<usize>,
    /// Zeros stand for what that argument has no room for; what is there behind the last member is told if it is not zero.
    pub zeros: bool,
    /// Members are read one after the other: of one that memory ends in, nothing is known.
    pub parts: bool,
}

impl Struct {
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| &*member.name == name)
    }
}

/// What the argument of a command of `ioctl` is, and when it is known.
#[derive(Clone, Debug)]
pub enum How {
    /// The call takes no argument there: neither this nor any that follows is written.
    Nothing,
    /// An address, and no more of it.
    Address,
    /// The number that was passed is the value itself.
    Value(Ty),
    /// What is read, then a number that is written there: `{a=1} => [2]`.
    Answered(Ty, Ty),
    /// As it is when the call returns, whatever came of it.
    After(Ty),
    /// It is read by the kernel.
    In(Ty),
    /// It is written by the kernel.
    Out(Ty),
    /// Members that are read, then members that are written: `{index=0, name="a"}`.
    More(Ty, Ty, After),
    /// What is read, then what is written: `{a=1} => {a=2}`.
    Both(Ty, Ty, After),
    /// What is written; what was there before, too, if it was not zero.
    Filled(Ty),
    /// What is read, of which the last member, which lies there, may be another one afterwards: `{a=1, b=2 => 3}`.
    Changed(Ty, Ty, u32),
}

/// What an argument of a system call is.
#[derive(Clone, Debug)]
pub struct Row {
    /// Which argument, counted from 0.
    pub index: usize,
    /// Only where each of these arguments, shifted to the right by so many bits, is one of these numbers.
    pub when: Vec<(usize, u32, Vec<u32>)>,
    /// What it is; `None` = it is not shown.
    pub how: Option<How>,
}

/// When what the kernel writes is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// If the call succeeded.
    Success,
    /// Whether the call succeeded or failed.
    Always,
    /// If the call succeeded; otherwise its address is.
    Address,
}

/// Attributes of netlink: what each holds.
#[derive(Debug, Default)]
pub struct Attributes {
    /// The list of their names, as its place in [`Tables::lists`].
    pub list: usize,
    /// By number; what is not here is shown as bytes.
    pub types: HashMap<u64, Attribute>,
    /// All that have no type of their own hold this.
    pub rest: Option<Attribute>,
    /// Other attributes that stand for these where the message is of a family; those without one for all others.
    pub families: Vec<(Option<u8>, usize)>,
}

/// What an attribute holds.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A value of this type; bytes behind it are not written.
    Value(Ty),
    /// A number of so many bytes as there are, at least as many as its type has.
    Wide(Ty),
    /// A value in an attribute of eight bytes at most.
    Short(Ty),
    /// Text that ends with NUL.
    String,
    /// Text as far as its NUL.
    Text,
    /// The same as the member `type` of a struct.
    Typed,
    /// As many values as there is room for, and the list of their names.
    Many(Ty, Option<usize>),
    /// A value, and bytes behind it.
    Rest(Ty),
    /// A value; where there is no room for it, text.
    Legible(Ty),
    /// A struct, or as many of its members as the attribute has room for: at least so many bytes.
    Cut(Ty, u32),
    /// The value whose size is that of the attribute.
    Exact(Vec<Ty>),
    /// What the text in another attribute before it says.
    Said(Box<str>, Vec<(Box<str>, Attribute)>),
    /// Structs that begin with their length, and attributes in each.
    Hops(Ty, usize),
    /// A family, and an address of it (`struct rtvia` in include/uapi/linux/rtnetlink.h).
    Via,
    /// Options of a socket as bits (`struct inet_diag_sockopt` in include/uapi/linux/inet_diag.h).
    Options,
    /// An operation by which sockets are chosen, and what it compares (`struct inet_diag_bc_op` in include/uapi/linux/inet_diag.h).
    Conditions,
    /// Attributes, as their place in [`Netlink::attributes`].
    Nest(usize),
    /// A value, and attributes behind it.
    With(Ty, usize),
    /// An address of the message's family.
    Address,
    /// An address of hardware.
    Hardware,
    /// The number of a command of the family of generic netlink that the message is about.
    Command,
}

/// A family of generic netlink (include/uapi/linux/genetlink.h).
#[derive(Debug)]
pub struct Generic {
    pub name: &'static str,
    /// The lists of its commands, as their places in [`Tables::lists`]: of those that are sent, and of those that come.
    pub commands: [usize; 2],
    /// The attributes of each of its commands.
    pub attributes: Option<usize>,
    /// Those of single commands, by their names.
    pub own: HashMap<&'static str, usize>,
}

/// What a message of a diagnosis of sockets is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Diagnosis {
    Request,
    /// One of the types that there were before `SOCK_DIAG_BY_FAMILY`.
    OlderRequest,
    Answer,
}

/// Lines of a file, and what they say, once somebody has asked.
#[derive(Debug)]
pub struct Later<T> {
    lines: Vec<&'static str>,
    read: OnceLock<T>,
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Later {
            lines: Vec::new(),
            read: OnceLock::new(),
        }
    }
}

impl<T> Later<T> {
    /// What begins with this line.
    pub fn of(line: &'static str) -> Self {
        Later {
            lines: vec![line],
            ..Later::default()
        }
    }

    /// Adds a line.
    pub fn add(&mut self, line: &'static str) {
        self.lines.push(line);
    }

    /// Returns what the lines say.
    ///
    /// # Panics
    ///
    /// If they are not understood; they are part of this crate, and a test asks for all of them.
    pub fn get(&self, read: impl FnOnce(&[&'static str]) -> Result<T, String>) -> &T {
        let read = || read(&self.lines).unwrap_or_else(|wrong| panic!("{wrong}"));
        self.read.get_or_init(read)
    }
}

/// All that the files in `conf/` say. What stands in a [`Later`] is understood when it is asked for, by the methods of `later`.
#[derive(Debug, Default)]
pub struct Tables {
    /// The values with a text of their own.
    pub customs: &'static [Custom],
    pub lengths: Option<Lengths>,
    pub lists: Vec<List>,
    pub list_names: HashMap<&'static str, usize>,
    pub structs: Vec<Later<Struct>>,
    pub struct_names: HashMap<&'static str, usize>,
    pub ioctls: Later<Ioctls>,
    /// Arguments of system calls by their names; the first row that fits counts.
    pub calls: HashMap<&'static str, Later<Vec<Row>>>,
    /// What is copied of arguments that functions of this crate write.
    pub copies: HashMap<&'static str, Later<Vec<Row>>>,
    /// What stands behind a result, in parentheses.
    pub results: HashMap<&'static str, Ty>,
    pub netlink: Later<Netlink>,
}

/// What the files say of `ioctl`.
#[derive(Debug, Default)]
pub struct Ioctls {
    /// The names of each command.
    pub commands: HashMap<u32, Vec<&'static str>>,
    /// The number of each command, by its name.
    pub numbers: HashMap<&'static str, u32>,
    pub arguments: HashMap<u32, How>,
    /// Commands that open a descriptor: `None` = it is the result; else how many bytes behind the argument's beginning it lies.
    pub opened: HashMap<u32, Option<u32>>,
}

/// What the files say of netlink, and of addresses of sockets.
#[derive(Debug, Default)]
pub struct Netlink {
    /// What messages of routing hold: a struct, and attributes.
    pub messages: HashMap<u16, (Ty, usize)>,
    /// Addresses of sockets by their family, and by their length where it decides: how long they are at least, and what they are.
    pub addresses: Vec<(u16, Vec<u64>, u64, Ty)>,
    /// What messages about sockets of a family hold: a struct, and attributes.
    pub diagnoses: HashMap<(u8, Diagnosis), (Ty, Option<usize>)>,
    /// What the types of requests ask for: new, delete, get.
    pub requests: Vec<(&'static str, &'static str)>,
    pub generic: Vec<Generic>,
    pub attributes: Vec<Attributes>,
    pub attribute_names: HashMap<&'static str, usize>,
}

impl Ty {
    /// The same number, of 64 bits.
    pub fn widened(&self) -> Ty {
        match self {
            Ty::Number(_, form) => Ty::Number(8, *form),
            other => other.clone(),
        }
    }

    /// Whether it is one number, which stands in brackets where an argument points to it.
    pub fn is_scalar(&self) -> bool {
        match self {
            Ty::Number(..) => true,
            Ty::Custom(custom, _) => custom.scalar,
            _ => false,
        }
    }

    /// Its size and alignment (System V ABI, AMD64).
    pub fn layout(&self, tables: &Tables) -> (u32, u32) {
        match self {
            Ty::Number(size, _) => (*size, *size),
            Ty::Text(_, length) => (length.places, 1),
            // It lies behind its struct.
            Ty::Array(of, length) if length.open => (0, of.layout(tables).1),
            Ty::Array(of, length) => {
                let (size, align) = of.layout(tables);
                (size.saturating_mul(length.places), align)
            }
            Ty::Struct(index, _) => {
                let of = tables.structure(*index);
                (of.size, of.align)
            }
            Ty::Pointer(_) => (8, 8),
            Ty::Changing(of) => of.layout(tables),
            Ty::Custom(custom, _) => (custom.size, custom.align),
        }
    }
}
