//! The kind of each object: the VM's name of its type, as `ObjectSpace.dump_all` writes it; for an internal object with its purpose
//! (`IMEMO:env`), for one of a C type with the name of that type (`DATA:VM/thread`). Used by `snapshot` and `names`.

use crate::snapshot::stream::HeapSlot;
use foldhash::HashMap;
use heap::{Builder, EdgeName, KindId, Role};
use vm::Memory;
use vm::ruby::{Imemo, Ruby, Type};

/// Limit of the C types that are distinguished; all others are `DATA`.
const MOST_TYPES: usize = 4096;
/// Bytes of the name of a C type.
const LONGEST_NAME: usize = 64;
/// How many types and subtypes of an imemo the flags can have: `RUBY_T_MASK` (`ruby/internal/value_type.h`), and four bits from
/// `FL_USHIFT` on (`internal/imemo.h`).
const TYPES: usize = 32;
const SUBTYPES: usize = 16;

/// The kinds seen so far.
pub struct Kinds {
    /// Kinds of objects that have no C type: by subtype of an imemo (0 for others), and by type.
    plain: [[Option<KindId>; TYPES]; SUBTYPES],
    /// C types by address.
    native: HashMap<u64, (KindId, Role)>,
    /// The role of the last object, if it has a C type.
    role: Option<Role>,
    /// Whether the last object has memory of a C library's of unknown size.
    is_unsized: bool,
}

impl Default for Kinds {
    fn default() -> Self {
        Kinds {
            plain: [[None; TYPES]; SUBTYPES],
            native: HashMap::default(),
            role: None,
            is_unsized: false,
        }
    }
}

impl Kinds {
    /// The kind of an object.
    pub fn of<M: Memory>(
        &mut self,
        builder: &mut Builder,
        ruby: &Ruby<M>,
        object: &HeapSlot,
    ) -> KindId {
        let of = Type::of(object.flags);
        (self.role, self.is_unsized) = (None, false);
        if of == Type::Data {
            // Objects of one type differ: of some the structure lies in the slot.
            self.is_unsized = ruby.is_unsized(object.address).unwrap_or(false);
            if let Some(kind) = self.native(builder, ruby, object.address) {
                return kind;
            }
        }
        let subtype = match of {
            Type::Imemo => (object.flags >> 12) as usize % SUBTYPES,
            _ => 0,
        };
        let known = &mut self.plain[subtype][object.flags as usize % TYPES];
        *known.get_or_insert_with(|| plain(builder, of, ruby.imemo(object.flags)))
    }

    /// The name for references without one of the last object of a C type: those of a Proc are its block, and those of a thread or
    /// fiber are on its stacks, with few exceptions.
    pub fn unnamed(&self) -> EdgeName {
        match self.role {
            Some(Role::Function) => EdgeName::Closure,
            Some(Role::Thread | Role::Fiber) => EdgeName::Stack,
            _ => EdgeName::Internal,
        }
    }

    /// The role of the last object, if it has a named C type.
    pub fn role(&self) -> Option<Role> {
        self.role
    }

    /// Whether a C library has memory for the last object and does not say how much.
    pub fn is_unsized(&self) -> bool {
        self.is_unsized
    }

    /// Whether the last object is a thread or a fiber.
    pub fn has_stack(&self) -> bool {
        matches!(self.role, Some(Role::Thread | Role::Fiber))
    }

    /// Whether the last object is a thread.
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
            // All threads hang on the one, and the tables of the VM are counted as the other.
            "ractor" | "VM" => Role::Internal,
            _ => Role::Native,
        };
        let kind = builder.kind(format!("DATA:{text}").as_bytes(), role);
        self.native.insert(address, (kind, role));
        self.role = Some(role);
        Some(kind)
    }
}

/// Makes a kind for objects of this type; for imemos with this purpose.
fn plain(builder: &mut Builder, of: Type, imemo: Imemo) -> KindId {
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
