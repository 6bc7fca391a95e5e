//! Methods of a Puma and functions of a gunicorn's worker, replaced and put back under load: no request fails, every answer is the
//! old one or the new one, and after a change it is what the change says.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::programs::{done, patch};
use crate::support::{Guest, LIMIT, Load, TempDir, ask, installed, run, say, skip, soak, until};

const RUBY: &str = r#"
class Order
  def total(number)
    "old #{number}\n"
  end
end
run lambda { |env| [200, {}, [Order.new.total(Integer(env["QUERY_STRING"]))]] }
"#;

const PYTHON: &str = r#"
def total(number):
    return f"old {number}\n"

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [total(int(environ["QUERY_STRING"])).encode()]
"#;

fn is_right(number: u64, answer: &str) -> bool {
    answer == format!("old {number}\n") || answer == format!("new {number}\n")
}

/// Replaces and puts back again and again in all of these processes.
fn changed_under_load(pids: &[i32], port: u16, request: &str, what: &str) {
    let load = Load::start(port, 2, is_right);
    let turns = if soak() { 500 } else { 8 };
    for turn in 0..turns {
        for pid in pids {
            done(*pid, &[request]);
        }
        for number in 0..4 {
            assert_eq!(
                ask(port, number),
                format!("new {number}\n"),
                "{what} {turn}"
            );
        }
        for pid in pids {
            done(*pid, &["--undo"]);
        }
        for number in 0..4 {
            assert_eq!(
                ask(port, number),
                format!("old {number}\n"),
                "{what} {turn}"
            );
        }
    }
    let answers = load.end();
    say(format_args!(
        "{what}: {turns} times, {answers} answers, all right"
    ));
}

/// Where it listens.
fn port(said: &str) -> u16 {
    let digits: String = said.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|_| panic!("{said}"))
}

#[test]
fn a_method_of_a_puma() {
    if !installed("puma") {
        return skip("patch puma", "no puma");
    }
    let folder = TempDir::new("patch-puma");
    let application = folder.join("config.ru");
    fs::write(&application, RUBY).expect("a file");
    let file = folder.join("fix.rb");
    fs::write(&file, "def total(number)\n  \"new #{number}\\n\"\nend\n").expect("a file");
    let mut command = Command::new("puma");
    command
        .args(["-b", "tcp://127.0.0.1:0", "-t", "4:4", "-e", "production"])
        .arg(&application)
        .current_dir("/tmp");
    let guest = Guest::start("puma", command);
    let port = port(&guest.find("* Listening on http://127.0.0.1:"));
    let request = format!("ruby:Order#total={}", file.display());
    changed_under_load(&[guest.pid], port, &request, "puma");
}

#[test]
fn a_function_of_a_gunicorn() {
    if !installed("gunicorn") {
        return skip("patch gunicorn", "no gunicorn");
    }
    for class in ["sync", "gthread"] {
        let folder = TempDir::new(&format!("patch-gunicorn-{class}"));
        fs::write(folder.join("shop.py"), PYTHON).expect("a file");
        let file = folder.join("fix.py");
        fs::write(
            &file,
            "def total(number):\n    return f\"new {number}\\n\"\n",
        )
        .expect("a file");
        let mut command = Command::new("sh");
        command
            .args([
                "-c",
                "exec gunicorn -w 2 --threads 2 -k \"$0\" -b 127.0.0.1:0 shop:application 2>&1",
                class,
            ])
            .current_dir(folder.join(""));
        let guest = Guest::start("gunicorn", command);
        let said = guest.find_within("Listening at: http://127.0.0.1:");
        let workers = until(LIMIT, "two workers", || {
            let path = format!("/proc/{0}/task/{0}/children", guest.pid);
            let children = fs::read_to_string(Path::new(&path)).ok()?;
            let pids: Vec<i32> = children
                .split(' ')
                .filter_map(|pid| pid.parse().ok())
                .collect();
            (pids.len() == 2).then_some(pids)
        });
        let port = port(&said);
        // A worker has imported the application when it can be patched.
        let request = format!("python:shop.total={}", file.display());
        for pid in &workers {
            until(LIMIT, "the application is there", || {
                let checked = run(&mut patch(*pid, &["--dry-run", &request]), LIMIT);
                checked.status.success().then_some(())
            });
        }
        changed_under_load(&workers, port, &request, &format!("gunicorn, {class}"));
    }
}
