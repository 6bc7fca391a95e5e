//! The records themselves, one JSON object a line (docs/json.md). Nothing stands between who writes them and where they go.
//! Used by `forms`.

use super::form::Form;

/// For programs.
pub(super) static FORM: Form = Form {
    name: "json",
    about: "One JSON object a line (see docs/json.md)",
    says_losses: true,
    is_text: true,
    is_head: None,
    over: |out| out,
};

#[cfg(test)]
mod tests {
    use super::super::form::tests::shown;
    use super::*;

    #[test]
    fn records_are_as_they_are() {
        let line = "{\"record\":\"row\",\"a\":1}";
        assert_eq!(shown(&FORM, &[line]), format!("{line}\n"));
        assert!(FORM.is_json());
    }
}
