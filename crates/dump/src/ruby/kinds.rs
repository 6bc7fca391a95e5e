//! What kind of object each is: the VM's name of its type, as `ObjectSpace.dump_all` writes it, for an object of the VM's own with
//! what it is for (`IMEMO:env`), for one of a C type with the name of that (`DATA:VM/thread`).

use crate::stream::Object;
use foldhash::HashMap;
use heap::{Builder, EdgeName, KindId, Role};
use vm::Memory;
use vm::ruby::{Imemo, Ruby, Type};

/// C types that are told apart; all others are `DATA`.
const MOST_TYPES: usize = 4096;
/// Bytes of the name of a C type.
const LONGEST_NAME: usize = 64;
/// How many types and subtypes of an imemo the word of flags can tell: `RUBY_T_MASK` (`ruby/internal/value_type.h`), and four bits
/// from `FL_USHIFT` on (`internal/imemo.h`).
const TYPES: usize = 32;
const SUBTYPES: usize = 16;

/// The kinds seen so far.
pub struct Kinds {
    /// Kinds of objects that are of no C type: by subtype of an imemo (0 for others), and by type.
    plain: [[Option<KindId>; TYPES]; SUBTYPES],
    /// C types by address.
    native: HashMap<u64, (KindId, Role)>,
    /// What the last object of a C type is to us.
    role: Option<Role>,
}

impl Default for Kinds {
    fn default() -> Self {
        Kinds {
            plain: [[None; TYPES]; SUBTYPES],
            native: HashMap::default(),
            role: None,
        }
    }
}

impl Kinds {
    /// The kind of this object.
    pub fn of<M: Memory>(
        &mut self,
        builder: &mut Builder,
        ruby: &Ruby<M>,
        object: &Object,
    ) -> KindId {
        let of = Type::of(object.flags);
        self.role = None;
        if of == Type::Data
            && let Some(kind) = self.native(builder, ruby, object.address)
        {
            return kind;
        }
        let subtype = match of {
            Type::Imemo => (object.flags >> 12) as usize % SUBTYPES,
            _ => 0,
        };
        let known = &mut self.plain[subtype][object.flags as usize % TYPES];
        *known.get_or_insert_with(|| plain(builder, of, object.flags))
    }

    /// What the references of the object of a C type that was asked for last are called: all that is in a Proc is its block, and what
    /// a thread or fiber refers to is on its stacks, but for a few words.
    pub fn unnamed(&self) -> EdgeName {
        match self.role {
            Some(Role::Function) => EdgeName::Closure,
            Some(Role::Thread | Role::Fiber) => EdgeName::Stack,
            _ => EdgeName::Internal,
        }
    }

    /// What the object that was asked for last is to us, if it is of a C type that has a name.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Whether the object that was asked for last is a thread or a fiber.
    pub fn has_stack(&self) -> bool {
        matches!(self.role, Some(Role::Thread | Role::Fiber))
    }

    /// Whether the object that was asked for last is a thread.
    pub fn is_thread(&self) -> bool {
        self.role == Some(Role::Thread)
    }

    fn native<M: Memory>(
        &mut self,
        builder: &mut Builder,
        ruby: &Ruby<M>,
        object: u64,
    ) -> Option<KindId> {
        let (address, name) = ruby.data_type(object).ok()??;
        if let Some(known) = self.native.get(&address) {
            self.role = Some(known.1);
            return Some(known.0);
        }
        if self.native.len() == MOST_TYPES {
            return None;
        }
        let mut bytes = [0; LONGEST_NAME];
        let length = ruby.copy_c_text(name, &mut bytes).ok()?;
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        let role = match text.as_str() {
            "proc" | "method" | "binding" => Role::Function,
            "VM/thread" => Role::Thread,
            "fiber" => Role::Fiber,
            _ => Role::Native,
        };
        let kind = builder.kind(format!("DATA:{text}").as_bytes(), role);
        self.native.insert(address, (kind, role));
        self.role = Some(role);
        Some(kind)
    }
}

/// A new kind, of objects of this type that have these flags.
fn plain(builder: &mut Builder, of: Type, flags: u64) -> KindId {
    let imemo = Imemo::of(flags);
    let hidden = match of {
        Type::Imemo => imemo.name(),
        _ => of.hidden_name(),
    };
    let name = hidden.trim_matches('_');
    let name = match name.split_once(':') {
        Some((kind, purpose)) => format!("{}:{purpose}", kind.to_uppercase()),
        None => name.to_uppercase(),
    };
    builder.kind(name.as_bytes(), role(of, imemo))
}

fn role(of: Type, imemo: Imemo) -> Role {
    match of {
        Type::String => Role::Text,
        Type::Symbol => Role::Symbol,
        Type::Array => Role::List,
        Type::Hash => Role::Map,
        Type::Object | Type::Struct => Role::Instance,
        Type::Class | Type::Module => Role::Class,
        Type::Float | Type::Bignum | Type::Complex | Type::Rational => Role::Number,
        Type::Data | Type::File => Role::Native,
        Type::Iclass => Role::Internal,
        Type::Imemo => match imemo {
            Imemo::Iseq => Role::Code,
            Imemo::Ment => Role::Function,
            _ => Role::Internal,
        },
        _ => Role::Other,
    }
}
