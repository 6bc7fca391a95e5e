//! Names of functions in the form in which people write them. Used by `hints`, `live::loaded` and others here, and by
//! the crates `report` and `calls`.

/// Returns the name of a symbol, demangled if it is one of C++ or Rust.
pub fn readable(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        // Without the hash that distinguishes versions of a crate.
        return format!("{rust:#}");
    }
    // The name of a part is that of its function with an ending that the compiler has added.
    let (symbol, ending) = match name.find('.') {
        Some(at) if name.starts_with("_Z") => name.split_at(at),
        _ => (name, ""),
    };
    let options = cpp_demangle::DemangleOptions::default().recursion_limit(64);
    cpp_demangle::Symbol::new(symbol)
        .ok()
        .filter(|_| symbol.starts_with("_Z"))
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .map_or_else(|| name.to_owned(), |readable| format!("{readable}{ending}"))
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn names_are_demangled() {
        assert_eq!(readable("main"), "main");
        assert_eq!(readable("_ZN2EM4PipeC1Ei"), "EM::Pipe::Pipe(int)");
        assert_eq!(
            readable("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(readable("_Z3fooi.cold"), "foo(int).cold");
        assert_eq!(readable("_Znonsense"), "_Znonsense");
    }
}
