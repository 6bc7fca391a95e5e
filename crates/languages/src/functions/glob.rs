//! Patterns in which `*` matches any characters and every other character itself, because method names may
//! contain them (`empty?`, `[]=`). Used by `perl::functions`, `ruby::functions`, `php::functions` and others.

/// Whether `name` matches `pattern`; with `fold`, upper and lower case are the same.
pub fn matches(pattern: &str, name: &str, fold: bool) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let same = |a: u8, b: u8| a == b || fold && a.eq_ignore_ascii_case(&b);
    let (mut p, mut n) = (0, 0);
    // Where the last `*` was, and how much of the name it matches so far.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if same(*byte, name[n]) => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, taken)) = star else {
                    return false;
                };
                star = Some((at, taken + 1));
                (p, n) = (at + 1, taken + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// Whether names that begin with `path` may match the pattern.
pub fn may_begin(pattern: &str, path: &str) -> bool {
    let fixed = pattern.split('*').next().unwrap_or("");
    let shorter = fixed.len().min(path.len());
    fixed.as_bytes()[..shorter] == path.as_bytes()[..shorter]
}

#[cfg(test)]
mod tests {
    use super::{matches, may_begin};

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name, is) in [
            ("Mysql2::*#*", "Mysql2::Client#query", true),
            ("Mysql2::*#*", "Mysql2::A::B#[]=", true),
            ("Mysql2::*#*", "Mysql#query", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("empty?", "empty?", true),
            ("empty?", "emptyX", false),
        ] {
            assert_eq!(matches(pattern, name, false), is, "{pattern} {name}");
        }
        assert!(matches("pdo::*", "PDO::Query", true));
        assert!(!matches("pdo::*", "PDO::Query", false));
    }

    #[test]
    fn paths_are_cut_early() {
        assert!(may_begin("Mysql2::*#*", "Mysql2::"));
        assert!(may_begin("Mysql2::*#*", "My"));
        assert!(may_begin("*#a", "Any::"));
        assert!(!may_begin("Mysql2::*#*", "Net::"));
    }
}
