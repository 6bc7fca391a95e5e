//! Engines that the user has: what they are told to make of a folder of tables, and how a question gets there. Used by `run`.

use std::io::{self, Read, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use report::fleet::Row;
use serde_json::json;

use crate::exit::Usage;

/// Who runs the engines that are modules of Python.
const DRIVER: &str = include_str!("driver.py");
/// It ends so where a module is missing.
const MISSING: i32 = 3;
/// No answer is longer: a question has 20 rows.
const LONGEST: u64 = 16 << 20;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine<'a> {
    /// DuckDB, by its command or its module.
    DuckDb,
    /// Spark at an address.
    Spark(&'a str),
    /// ClickHouse, by the module that has it whole.
    ClickHouse,
}

impl Engine<'_> {
    fn name(self) -> &'static str {
        match self {
            Engine::DuckDb => "DuckDB",
            Engine::Spark(_) => "Spark",
            Engine::ClickHouse => "ClickHouse",
        }
    }

    /// The name of the module, in Python and for pip.
    fn module(self) -> &'static str {
        match self {
            Engine::DuckDb => "duckdb",
            Engine::Spark(_) => "pyspark",
            Engine::ClickHouse => "chdb",
        }
    }

    /// The statements that make a table of the files below its folder; columns that some files lack are null. `only` chooses among the rows.
    pub fn view(self, folder: &str, table: &str, only: &str) -> Vec<String> {
        let files = format!("{folder}/{table}/**/*.parquet");
        let source = match self {
            Engine::DuckDb => format!("read_parquet('{files}', union_by_name = true)"),
            Engine::Spark(_) => format!("parquet.`{folder}/{table}`"),
            Engine::ClickHouse => format!("file('{files}', Parquet)"),
        };
        let temporary = if self == Engine::ClickHouse {
            ""
        } else {
            "temporary "
        };
        let view = format!("create {temporary}view {table} as select * from {source}{only}");
        match self {
            // What it shows of its progress would stand among the rows.
            Engine::DuckDb => vec!["set enable_progress_bar = false".to_owned(), view],
            Engine::Spark(_) => vec!["set spark.sql.parquet.mergeSchema = true".to_owned(), view],
            // What a join or an empty group lacks is null, as elsewhere.
            Engine::ClickHouse => vec![
                "set join_use_nulls = 1, cast_keep_nullable = 1, schema_inference_make_columns_nullable = 1"
                    .to_owned(),
                view,
            ],
        }
    }

    /// Runs statements, of which the last one has rows.
    pub fn ask(self, statements: &[String]) -> anyhow::Result<Vec<Row>> {
        // A command that cannot do it, as an old one, does not hide the module.
        let mut missing = self.missing();
        if self == Engine::DuckDb {
            match by_command(statements) {
                Ok(Some(rows)) => return Ok(rows),
                Ok(None) => {}
                Err(error) => missing = error,
            }
        }
        let url = match self {
            Engine::Spark(url) => url,
            _ => "",
        };
        let job = json!({ "engine": self.module(), "url": url, "statements": statements });
        let mut python = Command::new("python3");
        python.arg("-c").arg(DRIVER);
        match answered(&mut python, &job.to_string()) {
            Ok((Some(0), out, _)) => rows(self, &out),
            Ok((Some(MISSING), ..)) => Err(missing),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(missing),
            Ok((.., said)) => Err(self.failed(&said)),
            Err(error) => Err(error).context("python3 cannot be started"),
        }
    }

    fn missing(self) -> anyhow::Error {
        let (name, module) = (self.name(), self.module());
        let command = match self {
            Engine::DuckDb => " no command `duckdb` and",
            _ => "",
        };
        anyhow::anyhow!(
            "{name} is not here ({command} no module `{module}` of python3): pip install {module}, or take the SQL elsewhere (--sql)"
        )
    }

    fn failed(self, said: &str) -> anyhow::Error {
        let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let last = lines.next_back().unwrap_or("it does not say why");
        let last: String = last.chars().take(400).collect();
        let last = report::text::printable(&last).into_owned();
        anyhow::anyhow!("{} could not answer: {last}", self.name())
    }
}

/// By the command `duckdb`, if there is one.
fn by_command(statements: &[String]) -> anyhow::Result<Option<Vec<Row>>> {
    let mut command = Command::new("duckdb");
    // Nothing of the user's own begins it; `-no-init` is not an option of every version.
    command.args(["-init", "/dev/null", "-json", ":memory:"]);
    match answered(&mut command, &script(statements)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context("duckdb cannot be started"),
        Ok((Some(0), out, _)) => rows(Engine::DuckDb, &out).map(Some),
        Ok((.., said)) => Err(Engine::DuckDb.failed(&said)),
    }
}

/// Statements as one text.
pub fn script(statements: &[String]) -> String {
    let all = statements
        .iter()
        .map(|one| format!("{};\n", one.trim_end()));
    all.collect()
}

fn rows(engine: Engine, out: &str) -> anyhow::Result<Vec<Row>> {
    match out.trim() {
        // As duckdb writes none.
        "" => Ok(Vec::new()),
        text => serde_json::from_str(text)
            .with_context(|| format!("{} has answered something else than rows", engine.name())),
    }
}

/// Runs a program with this input; its exit code, and what it wrote to both streams.
fn answered(command: &mut Command, input: &str) -> io::Result<(Option<i32>, String, String)> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut to), Some(from), Some(said)) = streams else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    let said = std::thread::spawn(move || text(said));
    // One that ends without reading says why.
    let _ = to.write_all(input.as_bytes());
    drop(to);
    let out = text(from);
    let status = child.wait()?;
    Ok((status.code(), out, said.join().unwrap_or_default()))
}

/// The beginning of a stream; the rest is read and left.
fn text(mut stream: impl Read) -> String {
    let mut bytes = Vec::new();
    let _ = (&mut stream).take(LONGEST).read_to_end(&mut bytes);
    let _ = io::copy(&mut stream, &mut io::sink());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A text that stands between quotation marks of SQL in all engines as it is.
///
/// # Errors
/// It has signs that would end it, or that some engine reads as something else.
pub fn plain<'a>(what: &str, text: &'a str) -> anyhow::Result<&'a str> {
    let wrong =
        |c: char| c.is_control() || matches!(c, '\'' | '"' | '`' | '\\' | '*' | '?' | '[' | '{');
    if text.contains(wrong) {
        bail!(Usage(format!(
            "{what} has a quotation mark, a backslash or a sign of patterns in it, which engines read differently: name another"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_its_quotation() {
        for text in ["a'b", "a\\", "a\nb", "x*", "`", "{a,b}"] {
            assert!(plain("--host", text).is_err(), "{text}");
        }
        assert_eq!(
            plain("--host", "web-3.example é").ok(),
            Some("web-3.example é")
        );
    }

    /// It may be anybody's, and `lancet fleet` root's.
    #[test]
    fn no_module_is_taken_from_the_current_folder() {
        let name = format!("lancet-driver-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        for module in ["json.py", "nosuch.py"] {
            let text = "open('ran', 'w')\n";
            std::fs::write(folder.join(module), text).expect("a file");
        }
        let mut python = Command::new("python3");
        python.args(["-c", DRIVER]).current_dir(&folder);
        let job = json!({ "engine": "nosuch", "url": "", "statements": [] });
        let done = answered(&mut python, &job.to_string());
        let has_run = folder.join("ran").exists();
        std::fs::remove_dir_all(&folder).expect("our folder");
        let (code, _, said) = done.expect("python3");
        assert_eq!(code, Some(MISSING), "{said}");
        assert!(!has_run);
    }

    #[test]
    fn a_script_has_all_statements() {
        let view = Engine::DuckDb.view("/srv/fleet", "sample", " where host = 'a'");
        assert_eq!(
            script(&view),
            "set enable_progress_bar = false;\ncreate temporary view sample as select * from read_parquet('/srv/fleet/sample/**/*.parquet', union_by_name = true) where host = 'a';\n"
        );
    }
}
