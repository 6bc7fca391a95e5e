//! `lancet completions SHELL`: made from the declaration of the command line. For packagers and
//! shell start files.
//!
//! What clap makes completes a process as if it were a file. For bash and zsh that is replaced by the processes there are: by
//! their number, or by their name (`-p rub` and the tabulator key).

use clap_complete::Shell;

use crate::ui::sink::print;

/// Options of `lancet completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// The processes whose number begins as `$1`, or whose name holds it.
const BASH: &str = r#"
_lancet_pids() {
    local folder name
    COMPREPLY=()
    for folder in /proc/[0-9]*; do
        if [[ $1 == *[!0-9]* ]]; then
            read -r name 2>/dev/null <"$folder/comm" || continue
            [[ $name == *"$1"* ]] || continue
        else
            [[ ${folder#/proc/} == "$1"* ]] || continue
        fi
        COMPREPLY+=("${folder#/proc/}")
    done
}
"#;

/// The same, each with its command line; those that the word is a part of.
const ZSH: &str = r#"
_lancet_pids() {
    local -a all pids shown
    local one
    all=(${(f)"$(ps -e -o pid= -o args= 2>/dev/null)"})
    for one in $all; do
        one=${one#"${one%%[! ]*}"}
        [[ -z $PREFIX || $one == ${PREFIX}* || ${one#* } == *${PREFIX}* ]] || continue
        pids+=(${one%%[[:space:]]*})
        shown+=("$one")
    done
    compadd -U -V processes -l -d shown -a pids
}
"#;

/// Options of which the value is a process.
const OF_A_PROCESS: [&str; 4] = ["-p)", "--pid)", "--attach)", "--process)"];

/// Prints the script for `lancet`, the whole command line.
pub fn run(args: CompletionsArgs, mut lancet: clap::Command) -> anyhow::Result<u8> {
    // The generator panics when it cannot write, and a closed pipe is no reason for that.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut lancet, "lancet", &mut script);
    let script = String::from_utf8(script)?;
    let script = match args.shell {
        Shell::Bash => in_bash(&script),
        Shell::Zsh => in_zsh(&script),
        _ => script,
    };
    print(script.as_bytes())?;
    Ok(0)
}

fn in_bash(script: &str) -> String {
    let mut of_a_process = false;
    let lines = script.lines().map(|line| {
        let words = line.trim();
        if words.ends_with(')') && words.starts_with('-') {
            of_a_process = OF_A_PROCESS.contains(&words);
        }
        if of_a_process && words.starts_with("COMPREPLY=($(compgen -f") {
            line.replace(words, "_lancet_pids \"${cur}\"")
        } else {
            line.to_owned()
        }
    });
    let lines: Vec<String> = lines.collect();
    format!("{}\n{BASH}", lines.join("\n"))
}

/// The functions stand behind the first line, which says whose completion it is.
fn in_zsh(script: &str) -> String {
    let script = script.replace(":PID:_default", ":PID:_lancet_pids");
    match script.split_once('\n') {
        Some((head, rest)) => format!("{head}\n{ZSH}{rest}"),
        None => script,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn script(shell: Shell) -> String {
        let pid = clap::Arg::new("pid").short('p').value_name("PID");
        let file = clap::Arg::new("file").short('o').value_name("FILE");
        let mem = clap::Command::new("mem").args([pid, file]);
        let mut lancet = clap::Command::new("lancet").subcommand(mem);
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut lancet, "lancet", &mut script);
        String::from_utf8(script).expect("text")
    }

    /// A process by a name that no other has, and its file.
    fn named(name: &str) -> (Child, std::path::PathBuf) {
        let file = std::env::temp_dir().join(format!("{name}{}", std::process::id()));
        std::fs::copy("/bin/sleep", &file).expect("sleep");
        let child = Command::new(&file).arg("60").spawn();
        (child.expect("it runs"), file)
    }

    fn said(shell: &str, script: &str) -> Option<String> {
        let mut command = Command::new(shell);
        // Not in the command line, where it would be found too.
        command.args(["-c", script]).env("WORD", "lctz");
        let output = command.output().ok()?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    #[test]
    fn bash_completes_a_process_by_its_number_and_by_its_name() {
        let (mut child, file) = named("lctb");
        let (script, pid) = (in_bash(&script(Shell::Bash)), child.id().to_string());
        let complete = |option: &str, word: &str| {
            let all = format!(
                "{script}\nCOMP_WORDS=(lancet mem {option} '{word}'); COMP_CWORD=3\n_lancet lancet '{word}' {option}\necho ${{COMPREPLY[*]}}"
            );
            said("bash", &all).expect("bash")
        };
        assert_eq!(complete("-p", "lctb"), pid);
        assert_eq!(complete("-p", &pid), pid);
        assert_eq!(complete("-o", "/bin/sle"), "/bin/sleep");
        let _ = (child.kill(), child.wait(), std::fs::remove_file(file));
    }

    #[test]
    fn zsh_completes_a_process_by_its_name() {
        let (mut child, file) = named("lctz");
        let script = in_zsh(&script(Shell::Zsh));
        assert!(script.starts_with("#compdef lancet\n") && script.contains(":PID:_lancet_pids"));
        let ask = format!("compadd() {{ echo $pids }}\n{ZSH}\nPREFIX=$WORD\n_lancet_pids");
        match said("zsh", &ask) {
            Some(said) => assert_eq!(said, child.id().to_string()),
            None => println!("SKIPPED zsh: there is none"),
        }
        let _ = (child.kill(), child.wait(), std::fs::remove_file(file));
    }
}
