//! `lancet man [COMMAND]`: the man page, made from the declaration of the command line. Used by `commands`.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::ui::file::public_file;
use crate::ui::sink::print;

/// Options of `lancet man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The command; without it the page of lancet itself
    command: Option<String>,
    /// Write the page of lancet and those of all its commands as files into DIR
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    into: Option<PathBuf>,
}

/// Prints one page of `lancet`, the whole command line.
pub fn run(args: ManArgs, lancet: clap::Command) -> anyhow::Result<u8> {
    if let Some(folder) = args.into {
        write_all(&lancet, &folder)?;
        return Ok(0);
    }
    let mut text = Vec::new();
    page(lancet, args.command.as_deref(), &mut text)?;
    print(&text)?;
    Ok(0)
}

/// Writes `lancet.1`, and `lancet-NAME.1` for each command that the help shows.
fn write_all(lancet: &clap::Command, folder: &Path) -> anyhow::Result<()> {
    let shown = lancet.get_subcommands().filter(|one| !one.is_hide_set());
    let pages = shown.map(|one| Some(one.get_name())).chain([None]);
    for name in pages {
        let file = name.map_or("lancet.1".to_owned(), |name| format!("lancet-{name}.1"));
        let path = folder.join(file);
        let mut text = Vec::new();
        page(lancet.clone(), name, &mut text)?;
        public_file(&path)?
            .write_all(&text)
            .with_context(|| format!("cannot write to {}", path.display()))?;
    }
    Ok(())
}

fn page(mut lancet: clap::Command, name: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
    lancet.build();
    let command = match name {
        None => lancet,
        Some(name) => lancet
            .find_subcommand(name)
            .with_context(|| format!("there is no command `{name}`: see lancet --help"))?
            .clone(),
    };
    clap_mangen::Man::new(command).render(out)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{page, write_all};
    use crate::cli::Cli;

    #[test]
    fn all_pages_are_files() {
        let folder = std::env::temp_dir().join(format!("lancet-man-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        write_all(&Cli::command(), &folder).unwrap();
        let files = std::fs::read_dir(&folder).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        std::fs::remove_dir_all(&folder).unwrap();
        for page in ["lancet.1", "lancet-calls.1", "lancet-mem.1"] {
            assert!(names.iter().any(|name| name == page), "{page}: {names:?}");
        }
        assert!(
            !names.iter().any(|name| name == "lancet-help.1"),
            "{names:?}"
        );
    }

    #[test]
    fn pages() {
        let mut all = Vec::new();
        page(Cli::command(), None, &mut all).unwrap();
        let all = String::from_utf8(all).unwrap();
        assert!(
            all.contains(".TH lancet 1") && all.contains("lancet\\-mem(1)"),
            "{all}"
        );
        assert!(all.contains("lancet\\-completions(1)"), "{all}");

        let mut mem = Vec::new();
        page(Cli::command(), Some("mem"), &mut mem).unwrap();
        let mem = String::from_utf8(mem).unwrap();
        assert!(
            mem.contains(".TH lancet-mem 1") && mem.contains("\\-\\-every"),
            "{mem}"
        );

        let error = page(Cli::command(), Some("nothing"), &mut Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no command `nothing`: see lancet --help"
        );
    }
}
