//! `lancet man [COMMAND]`: the man page, made from the declaration of the command line.

use std::io::Write;

use anyhow::Context;

/// Options of `lancet man`.
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// The command; without it the page of lancet itself
    command: Option<String>,
}

/// Prints one page of `lancet`, the whole command line.
pub fn run(args: ManArgs, lancet: clap::Command) -> anyhow::Result<u8> {
    let mut out = std::io::stdout().lock();
    page(lancet, args.command.as_deref(), &mut out)?;
    out.flush()?;
    Ok(0)
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

    use super::page;
    use crate::cli::Cli;

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
