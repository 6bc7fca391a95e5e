//! `lancet man [COMMAND]`: the man page, made from the declaration of the command line. For
//! packagers, hence not in the help.

use std::io::Write;

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::Cli;

/// Options of `lancet man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The command; without it the page of lancet itself
    command: Option<String>,
}

/// Prints one page.
pub fn run(args: ManArgs) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    page(args.command.as_deref(), &mut out)?;
    out.flush()?;
    Ok(0)
}

fn page(name: Option<&str>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut lancet = Cli::command();
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
    use super::page;

    #[test]
    fn pages() {
        let mut all = Vec::new();
        page(None, &mut all).unwrap();
        let all = String::from_utf8(all).unwrap();
        assert!(
            all.contains(".TH lancet 1") && all.contains("lancet\\-mem(1)"),
            "{all}"
        );
        assert!(!all.contains("completions"), "hidden commands stay hidden");

        let mut mem = Vec::new();
        page(Some("mem"), &mut mem).unwrap();
        let mem = String::from_utf8(mem).unwrap();
        assert!(
            mem.contains(".TH lancet-mem 1") && mem.contains("\\-\\-every"),
            "{mem}"
        );

        let error = page(Some("nothing"), &mut Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no command `nothing`: see lancet --help"
        );
    }
}
