//! `--plan fix.toml`: what is to be replaced, in a file. Used by `run`.
//!
//! ```toml
//! wait = "10s"            # both as the options of these names, which come first
//! for = "10m"
//!
//! [[replace]]
//! function = "total@libshop"
//! build-id = "8f3a"       # the module's build id begins so; another one is refused
//! file = "fix.so"         # beside the plan
//! new = "total"           # the function's own name if nothing is said
//! ```

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use patch::Request;
use serde::Deserialize;

use crate::cli::duration::parse;
use crate::cli::written;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    wait: Option<String>,
    #[serde(rename = "for")]
    lasts: Option<String>,
    replace: Vec<Replace>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Replace {
    function: String,
    build_id: Option<String>,
    file: String,
    new: Option<String>,
}

/// A plan that was read.
#[derive(Debug, Default)]
pub struct PlanFile {
    /// The functions to be replaced, and by what.
    pub requests: Vec<Request>,
    /// What the build id of each function's module begins with, if that is said.
    pub build_ids: Vec<Option<String>>,
    /// How long to try again while a thread is inside of a function, as with `--wait`.
    pub wait: Option<Duration>,
    /// After how long the patches are taken back, as with `--for`.
    pub lasts: Option<Duration>,
}

/// Reads a plan from a regular file.
pub fn read(path: &Path) -> anyhow::Result<PlanFile> {
    let text = written::text(path, "plan")?;
    let folder = path.parent().unwrap_or(Path::new(""));
    parsed(&text, folder).with_context(|| format!("{} is no plan", path.display()))
}

fn parsed(text: &str, folder: &Path) -> anyhow::Result<PlanFile> {
    let written: Written = written::parsed(text)?;
    let time = |text: &Option<String>| {
        let text = text.as_deref();
        text.map(|text| parse(text).map_err(anyhow::Error::msg))
            .transpose()
    };
    let mut plan = PlanFile {
        wait: time(&written.wait)?,
        lasts: time(&written.lasts)?,
        ..PlanFile::default()
    };
    for one in written.replace {
        let asked = Request::of(&one.function);
        let request = Request {
            file: folder.join(&one.file),
            new: one.new.unwrap_or_else(|| asked.function.clone()),
            ..asked
        };
        if !request.is_whole() || one.file.is_empty() {
            bail!("a [[replace]] names no function or no file");
        }
        plan.requests.push(request);
        plan.build_ids.push(one.build_id);
    }
    if plan.requests.is_empty() {
        bail!("it has no [[replace]]");
    }
    Ok(plan)
}

/// Refuses a module of another build than the plan was made for.
pub fn check(file: &PlanFile, plan: &patch::Plan) -> anyhow::Result<()> {
    for (wanted, one) in file.build_ids.iter().zip(&plan.functions) {
        let Some(wanted) = wanted else { continue };
        let found = one.build_id.as_deref().unwrap_or("none");
        if wanted.is_empty() || !found.starts_with(&wanted.to_ascii_lowercase()) {
            let shown = one.request.shown();
            let module = &one.function.module;
            bail!(
                "{shown} cannot be replaced: the build id of {module} is {found}, and the plan is for {wanted}"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read() {
        let text = "wait = \"10s\"\nfor = \"10m\"\n[[replace]]\nfunction = \"total@libshop\"\nbuild-id = \"8f\"\n\
            file = \"fix.so\"\nnew = \"other\"\n[[replace]]\nfunction = \"sum\"\nfile = \"/x.so\"\n";
        let plan = parsed(text, Path::new("/there")).expect("a plan");
        assert_eq!(plan.wait, Some(Duration::from_secs(10)));
        assert_eq!(plan.lasts, Some(Duration::from_secs(600)));
        assert_eq!(
            plan.requests[0],
            "total@libshop=/there/fix.so:other".parse().unwrap()
        );
        assert_eq!(plan.requests[1], "sum=/x.so:sum".parse().unwrap());
        assert_eq!(plan.build_ids, [Some("8f".to_owned()), None]);
    }

    #[test]
    fn what_is_no_plan_is_said_with_its_line() {
        for (text, why) in [
            ("", "replace"),
            ("replace = []", "no [[replace]]"),
            ("[[replace]]\nfunction = \"a\"\nfile = \"\"", "no file"),
            ("[[replace]]\nfunction = \"\"\nfile = \"f\"", "no function"),
            (
                "[[replace]]\nfunction = \"a\"\nfiel = \"f\"",
                "line 3: unknown field `fiel`",
            ),
            (
                "wait = \"soon\"\n[[replace]]\nfunction = \"a\"\nfile = \"f\"",
                "soon",
            ),
        ] {
            let error = parsed(text, Path::new("")).expect_err(text);
            assert!(format!("{error:#}").contains(why), "{text}: {error:#}");
        }
    }
}
