//! Methods of a Puma, functions of a gunicorn's workers, and functions in C of the interpreters that run a gunicorn and a php-fpm, replaced and put
//! back under load: no request fails, every answer is the old one or the new one, and after a change it is what the change says.

use std::fs;
use std::process::Command;

use crate::programs::{PLAIN, done, library, patch, request};
use crate::support::fastcgi::{asked, fpm};
use crate::support::{
    Guest, LIMIT, Load, TempDir, ask, children, installed, run, say, skip, soak, until,
};

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
    state = "old" if pow(number + 2, 2) == (number + 2) * (number + 2) else "new"
    return f"{state} {number}\n"

def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [total(int(environ["QUERY_STRING"])).encode()]
"#;

fn is_right(number: u64, answer: &str) -> bool {
    answer == format!("old {number}\n") || answer == format!("new {number}\n")
}

/// Replaces and puts back again and again in all of these processes, while two clients ask without a pause; the arguments are what is applied.
fn changed_under_load(
    pids: &[i32],
    applied: &[&str],
    ask: impl Fn(u64) -> String + Clone + Send + 'static,
    what: &str,
) {
    let load = Load::asking(2, is_right, ask.clone());
    let turns = if soak() { 500 } else { 8 };
    for turn in 0..turns {
        for (arguments, state) in [(applied, "new"), (&["--undo"], "old")] {
            for pid in pids {
                done(*pid, arguments);
            }
            for number in 0..4 {
                let wanted = format!("{state} {number}\n");
                assert_eq!(ask(number), wanted, "{what} {turn}");
            }
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
    let asked = move |number| ask(port, number);
    changed_under_load(&[guest.pid], &[&request], asked, "puma");
}

/// A function of the interpreter, in C: `pow` gives the third power, whatever it is asked for.
const POWER: &str = "
    void *PyLong_FromLong(long number);
    void Py_DecRef(void *object);
    void *lancet_original(void *base, void *exponent, void *modulus);
    void *cube(void *base, void *exponent, void *modulus) {
        void *three = PyLong_FromLong(3);
        void *power = lancet_original(base, three, modulus);
        Py_DecRef(three);
        return power;
    }
";

/// A gunicorn with two workers that have imported the application: its port, and the workers.
fn gunicorn(folder: &TempDir, class: &str) -> (Guest, u16, Vec<i32>) {
    fs::write(folder.join("shop.py"), PYTHON).expect("a file");
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "exec gunicorn -w 2 --threads 2 -k \"$0\" -b 127.0.0.1:0 shop:application 2>&1",
            class,
        ])
        .current_dir(folder.join(""));
    let guest = Guest::start("gunicorn", command);
    let port = port(&guest.find_within("Listening at: http://127.0.0.1:"));
    let workers = until(LIMIT, "two workers", || {
        let pids = children(guest.pid);
        (pids.len() == 2).then_some(pids)
    });
    (guest, port, workers)
}

#[test]
fn a_function_of_a_gunicorn() {
    if !installed("gunicorn") {
        return skip("patch gunicorn", "no gunicorn");
    }
    for class in ["sync", "gthread"] {
        let folder = TempDir::new(&format!("patch-gunicorn-{class}"));
        let file = folder.join("fix.py");
        fs::write(
            &file,
            "def total(number):\n    return f\"new {number}\\n\"\n",
        )
        .expect("a file");
        let (_guest, port, workers) = gunicorn(&folder, class);
        // A worker has imported the application when it can be patched.
        let request = format!("python:shop.total={}", file.display());
        for pid in &workers {
            until(LIMIT, "the application is there", || {
                let checked = run(&mut patch(*pid, &["--dry-run", &request]), LIMIT);
                checked.status.success().then_some(())
            });
        }
        let asked = move |number| ask(port, number);
        changed_under_load(&workers, &[&request], asked, &format!("gunicorn, {class}"));
    }
}

#[test]
fn a_function_in_c_of_the_python_of_a_gunicorn() {
    if !installed("gunicorn") {
        return skip("patch gunicorn, PyNumber_Power", "no gunicorn");
    }
    let folder = TempDir::new("patch-gunicorn-c");
    let (_guest, port, workers) = gunicorn(&folder, "gthread");
    let file = library("power", POWER, PLAIN);
    let request = request("PyNumber_Power", &file, "cube");
    let asked = move |number| ask(port, number);
    let what = "gunicorn, PyNumber_Power";
    changed_under_load(&workers, &["--wait", "1m", &request], asked, what);
}

#[test]
fn a_function_in_c_of_the_php_of_a_php_fpm() {
    const SCRIPT: &str = r#"<?php
        $number = $_SERVER["QUERY_STRING"];
        echo basename("/order/$number.php", ".php") === $number ? "old" : "new", " $number\n";
    "#;
    // A suffix is left where it is.
    const SOURCE: &str = "
        #include <stddef.h>
        void *lancet_original(const char *path, size_t length, const char *suffix, size_t of_suffix);
        void *whole(const char *path, size_t length, const char *suffix, size_t of_suffix) {
            return lancet_original(path, length, NULL, 0);
        }
    ";
    let folder = TempDir::new("patch-php-fpm");
    let Some((_guest, socket, workers)) = fpm(&folder, 2) else {
        return skip("patch php-fpm", "no php-fpm");
    };
    let script = folder.join("shop.php");
    fs::write(&script, SCRIPT).expect("a file");
    let file = library("basename", SOURCE, PLAIN);
    let request = request("php_basename", &file, "whole");
    let asked = move |number| asked(&socket, &script, number);
    changed_under_load(
        &workers,
        &["--wait", "1m", &request],
        asked,
        "php-fpm, php_basename",
    );
}
