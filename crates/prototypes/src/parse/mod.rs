//! The grammar of `ltrace.conf(5)`, read line by line as ltrace 0.7.3 and 0.8 read it. Used by `lines`.
//!
//! ```text
//!   file       = { line "\n" }
//!   line       = [ ";" … | "#" … | import | typedef | ["function"] prototype ]
//!   import     = "import" '"' NAME '"' ";"
//!   typedef    = "typedef" NAME "=" ( "struct" ";" | lens )
//!   prototype  = lens NAME "(" [ argument { "," argument } ] ")"
//!   argument   = ["+"] ( lens | "both" "(" lens ")" )
//!   lens       = ( "hide" | "oct" | "octal" | "bitvec" | "hex" | "bool" | "guess" ) "(" lens ")" stars
//!              | "octal" | vm stars | type stars
//!   vm         = "ruby" "(" ("value" | "id") ")" | "python" "(" "object" ")" | "perl" "(" "sv" ")"
//!              | "php" "(" ("zval" | "string") ")"
//!   type       = "void" | "char" | … | "double" | "struct" "(" [ lens [ NAME ] { "," lens [ NAME ] } ] ")"
//!              | "array" "(" lens "," expr ")"
//!              | ( "enum" | "flags" ) [ "[" type "]" ] "(" [ NAME ["=" NUMBER] { "," … } ] ")"
//!              | "string" [ "[" expr "]" | "(" lens ")" | NUMBER ] | "format" | NAME
//!   expr       = NUMBER | "argN" | "commandN" | "eltN" | "retval" | "zero" [ "(" expr ")" ]
//!   stars      = { "*" }
//! ```
//!
//! More than ltrace reads: a lens may stand inside a lens, stars may follow one, members of a struct may have names, and
//! there are `flags`, the type `pathname`, the words of the VMs, and `both` for an argument that is read and written: what
//! it leads to is copied at the call and at the return. What ltrace passes over in silence (anything after a line's end) is a warning here.

mod cursor;
mod types;

use std::sync::Arc;

use crate::error::{Error, Problem};
use crate::library::Library;
use crate::types::{Kind, Lens, Parameter, Prototype, Type};
use cursor::Result;
use types::{Location, Read, Reader};

/// Returns the library that an `import` names.
type Import<'i> = &'i mut dyn FnMut(&str) -> Option<Arc<Library>>;

impl Library {
    /// Parses a file. What is wrong with it is returned beside what is right, as ltrace does it; the caller decides
    /// ([`Problem::is_warning`]). `import` returns the library for `import "NAME";`.
    pub fn parse(
        file: &str,
        text: &str,
        import: &mut dyn FnMut(&str) -> Option<Arc<Library>>,
    ) -> (Self, Vec<Error>) {
        let mut library = Self::default();
        let errors = read(file, text, &mut library, import);
        (library, errors)
    }

    /// Parses one line of a file that has no problem and imports nothing.
    pub(crate) fn read_line(&mut self, text: &str) {
        let read = line(text, self, &mut |_| None, &mut Warnings::new());
        debug_assert!(read.is_ok(), "{text}: {read:?}");
    }
}

/// Parses a file into `library`. Lines with problems are left out, the others count.
fn read(file: &str, text: &str, library: &mut Library, import: Import) -> Vec<Error> {
    let file: Arc<str> = file.into();
    let mut errors = Vec::new();
    for (index, text) in text.lines().enumerate() {
        let mut note = |(at, problem): (usize, Problem)| {
            errors.push(Error {
                file: file.clone(),
                line: index + 1,
                column: text.get(..at).map_or(0, |before| before.chars().count()) + 1,
                text: text.into(),
                problem,
            });
        };
        let mut warnings = Vec::new();
        if let Err(error) = line(text, library, import, &mut warnings) {
            note(error);
        }
        warnings.into_iter().for_each(note);
    }
    errors
}

type Warnings = Vec<(usize, Problem)>;

fn line(text: &str, library: &mut Library, import: Import, warnings: &mut Warnings) -> Result<()> {
    let mut reader = Reader::new(text, library);
    reader.cursor.space();
    if matches!(reader.cursor.peek(), b';' | b'#' | 0) {
        return Ok(());
    }
    if reader.cursor.keyword("function") {
        return prototype(reader, warnings)?.add(library);
    }
    if reader.cursor.keyword("import") {
        reader.cursor.space();
        let at = reader.cursor.at();
        let name = reader.cursor.literal()?;
        reader.cursor.expect(';', "`;`")?;
        let imported = import(name).ok_or((at, Problem::NotFound(name.to_owned())))?;
        library.import(name, imported);
        return Ok(());
    }
    if reader.cursor.keyword("typedef") {
        return typedef(reader, warnings)?.add(library);
    }
    prototype(reader, warnings)?.add(library)
}

/// The definition in a line. It is added when the line's borrow of the library has ended.
enum Item<'t> {
    Prototype(&'t str, Prototype),
    Announced(usize, &'t str),
    Typedef(usize, &'t str, Type),
}

impl Item<'_> {
    fn add(self, library: &mut Library) -> Result<()> {
        match self {
            Item::Prototype(name, prototype) => library.add(name, prototype),
            Item::Announced(at, name) => library.announce(name).map_err(|problem| (at, problem))?,
            Item::Typedef(at, name, ty) => {
                library.define(name, ty).map_err(|problem| (at, problem))?
            }
        }
        Ok(())
    }
}

fn typedef<'t>(mut reader: Reader<'_, 't>, warnings: &mut Warnings) -> Result<Item<'t>> {
    reader.cursor.space();
    let at = reader.cursor.at();
    let name = reader.cursor.name()?;
    reader.cursor.expect('=', "`=`")?;
    let item = match reader.lens(Location::Typedef)? {
        Read::Announced => Item::Announced(at, name),
        Read::Format(_) | Read::Both(_) => return reader.cursor.fail(Problem::FormatElsewhere),
        Read::Type(ty) => Item::Typedef(at, name, ty),
    };
    end(&mut reader, warnings);
    Ok(item)
}

fn prototype<'t>(mut reader: Reader<'_, 't>, warnings: &mut Warnings) -> Result<Item<'t>> {
    let returns = reader.plain()?;
    reader.cursor.space();
    let name = reader.cursor.name()?;
    reader.cursor.expect('(', "`(` after the function's name")?;
    let mut prototype = Prototype {
        returns,
        parameters: Vec::new(),
        late_from: None,
    };
    let mut voids = Vec::new();
    while !reader.cursor.take(')') {
        if !prototype.parameters.is_empty() {
            reader.cursor.expect(',', "`,` or `)`")?;
            // `f(int, )` is a common mistake; ltrace accepts it.
            if reader.cursor.take(')') {
                break;
            }
        }
        if reader.cursor.take('+') {
            prototype
                .late_from
                .get_or_insert(prototype.parameters.len());
        }
        reader.cursor.space();
        let at = reader.cursor.at();
        let parameter = match reader.lens(Location::Argument)? {
            Read::Type(ty) => Parameter::new(ty),
            Read::Both(ty) => Parameter {
                both: true,
                ..Parameter::new(ty)
            },
            Read::Announced => return Err((at, Problem::Announced)),
            Read::Format(_) if prototype.parameters.iter().any(|given| given.format) => {
                return Err((at, Problem::SecondFormat));
            }
            Read::Format(ty) => Parameter {
                format: true,
                ..Parameter::new(ty)
            },
        };
        if matches!(parameter.ty.kind, Kind::Void) {
            voids.push((at, prototype.parameters.len()));
        }
        prototype.parameters.push(parameter);
    }
    if let ([_], [_]) = (&*prototype.parameters, &*voids) {
        prototype.parameters.clear();
    } else {
        for (at, index) in voids {
            warnings.push((at, Problem::VoidArgument));
            prototype.parameters[index].ty = Type::new(Kind::Int).through(Lens::Hide);
        }
    }
    end(&mut reader, warnings);
    Ok(Item::Prototype(name, prototype))
}

/// Reads the end of a line, which has `;` and a comment, or just ends.
fn end(reader: &mut Reader, warnings: &mut Warnings) {
    if reader.cursor.take(';') {
        return;
    }
    if !matches!(reader.cursor.peek(), 0 | b'#') {
        warnings.push((reader.cursor.at(), Problem::Trailing));
    }
}
