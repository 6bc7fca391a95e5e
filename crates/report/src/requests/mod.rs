//! The page of a program's own requests and jobs, which the gem and the wheel show at `/lancet`. Used by
//! `lancet::commands::companion::run`.
//!
//! It is the page of `profile` and `heap` with a script of its own. The library that has traced the requests puts its data into it, because
//! it alone has them; [docs/inside.md](../../../../docs/inside.md) has their names.

use crate::page;

/// Returns the page without its data: `/*DATA*/` stands in the place of JSON in which `<` is escaped.
pub fn page() -> String {
    page::template(include_str!("page/requests.js"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_data_has_one_place() {
        let page = super::page();
        assert_eq!(page.matches(crate::page::DATA).count(), 1);
        assert!(page.contains("const titled = 'lancet'"));
        assert!(!page.contains("/*START*/"));
    }
}
