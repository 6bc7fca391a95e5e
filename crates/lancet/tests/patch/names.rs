//! The names that a file of `patch` uses and defines: in Python the globals of the function itself, in Ruby none of the methods by which
//! the program's own objects answer.

use crate::programs::{done, tried};
use crate::support::{Guest, TempDir, chosen, rubies};

/// A module with a function, one that imports it, and the program.
const LIBRARY: &str = "rate = 1
def scale(): return 10
def total(): return rate * scale()
class Cart:
    def total(self): return rate
";
const PROGRAM: &str = "import sys
import shop
from shop import total
shop.started = sorted(vars(shop))
print('ready', flush=True)
for line in sys.stdin:
    shop.rate += 1
    added = sorted(set(vars(shop)) - set(shop.started) - {'started'})
    print(shop.total(), total(), shop.Cart().total(), *added, flush=True)
";

/// What the file defines is defined where the function finds it, sees what the program changes later, and is taken out again.
#[test]
fn a_file_of_python_has_the_functions_own_globals() {
    for python in chosen("python", "globals") {
        let folder = TempDir::new(&format!("globals-{}", python.version));
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file");
            path.display().to_string()
        };
        write("shop.py", LIBRARY);
        let main = write("app.py", PROGRAM);
        let function = write(
            "function.py",
            "calls = 0\ndef helper():\n    global calls\n    calls += 1\n    return rate * 100 + calls\ndef total(): return helper()\n",
        );
        let method = write(
            "method.py",
            "class Other:\n    def get(self): return rate\ndef total(self): return Other().get() * 1000\n",
        );
        let replaces = write(
            "replaces.py",
            "'What it is.'\nimport math\ndef scale(): return 2.5\ndef total(): return math.floor(rate * scale())\n",
        );
        let sets = write("sets.py", "rate = 500\ndef total(): return rate\n");
        let fails = write(
            "fails.py",
            "def scale(): return 9\nhelper = 1\ndef total(): return 9\nraise SystemExit(7)\n",
        );
        let mut guest = Guest::ready(python.command().arg(&main));
        let mut says =
            |wanted: &str| assert_eq!(guest.answer_to("total"), wanted, "{python}: {wanted}");
        says("20 20 2");
        let pid = guest.pid;
        let of = |target: &str, file: &str| format!("python:{target}={file}");
        done(pid, &[&of("shop.total", &function)]);
        let mut says =
            |wanted: &str| assert_eq!(guest.answer_to("total"), wanted, "{python}: {wanted}");
        says("301 302 3 calls helper");
        says("403 404 4 calls helper");
        done(pid, &[&of("shop.Cart.total", &method)]);
        says("505 506 5000 Other calls helper");
        done(pid, &["--undo", "s2"]);
        done(pid, &["--undo", "s1"]);
        says("60 60 6");
        done(pid, &[&of("shop.total", &replaces)]);
        says("17 17 7 math");
        done(pid, &["--undo"]);
        says("80 80 8");
        let output = tried(pid, &[&of("shop.total", &fails)]);
        let (code, why) = (output.code(), "fails.py:4: 7 (SystemExit)");
        assert!(
            code == 1 && output.stderr.contains(why),
            "{python}: {output:?}"
        );
        says("90 90 9");
        let output = tried(pid, &[&of("shop.total", &sets)]);
        let (code, why) = (output.code(), "it sets rate, which the program has");
        assert!(
            code == 1 && output.stderr.contains(why),
            "{python}: {output:?}"
        );
        says("100 100 10");
        // Through another module than its own.
        let output = tried(pid, &[&of("app.total", &function)]);
        let (code, why) = (output.code(), "it is imported: name shop.total");
        assert!(
            code == 1 && output.stderr.contains(why),
            "{python}: {output:?}"
        );
        says("110 110 11");
        assert!(guest.ends_well(), "{python}");
    }
}

/// Whatever lancet might ask of a class is here a method of the program's own, which says so.
const OVERRIDDEN: &str = r#"
def eval(*) ; hurt(:eval); end
def lambda(*) ; hurt(:lambda); end
def raise(*) ; hurt(:raise); end
def hurt(name); puts "called #{name}"; $stdout.flush; :hurt; end
class Sms
  %i[send __send__ public_send instance_method instance_methods public_instance_methods protected_instance_methods
     private_instance_methods define_method remove_method alias_method public private protected singleton_class ancestors inspect to_s
     name frozen? equal? == eql? hash const_get const_defined? autoload? class public_method_defined? private_method_defined?
     method_defined? instance_of? is_a? kind_of? respond_to? nil? dup].each do |name|
    define_singleton_method(name) { |*| hurt(name) }
  end
  def total; 1; end
end
puts "ready"
$stdout.flush
while STDIN.gets
  puts "total #{Sms.new.total}"
  $stdout.flush
end
"#;

#[test]
fn no_method_of_the_programs_own_is_called_in_ruby() {
    for ruby in rubies("overridden") {
        let folder = TempDir::new(&format!("overridden-{}", ruby.version));
        let [main, fix, none] = ["sms.rb", "fix.rb", "none.rb"].map(|name| folder.join(name));
        std::fs::write(&main, OVERRIDDEN).expect("a file");
        std::fs::write(&fix, "def total; helper; end\ndef helper; 2; end\n").expect("a file");
        std::fs::write(&none, "def other; 3; end\n").expect("a file");
        let mut guest = Guest::ready(ruby.command().args(["-W0"]).arg(&main));
        let pid = guest.pid;
        let request = format!("ruby:Sms#total={}", fix.display());
        assert_eq!(guest.answer_to("total"), "total 1", "{ruby}");
        done(pid, &["--dry-run", &request]);
        done(pid, &[&request]);
        assert_eq!(guest.answer_to("total"), "total 2", "{ruby}");
        done(pid, &[&request]);
        let output = tried(pid, &["--undo", "s1"]);
        assert!(output.stderr.contains("by patch s2"), "{ruby}: {output:?}");
        for (target, file, why) in [
            ("Sms#total", &none, "does not define it"),
            ("Sms#nothing", &fix, "it has no method nothing"),
            ("Sms::X#total", &fix, "there is no constant Sms::X"),
        ] {
            let output = tried(pid, &[&format!("ruby:{target}={}", file.display())]);
            assert!(output.stderr.contains(why), "{ruby}: {output:?}");
        }
        done(pid, &["--list"]);
        done(pid, &["--undo"]);
        assert_eq!(guest.answer_to("total"), "total 1", "{ruby}");
        let (lines, status) = guest.end();
        assert_eq!(lines, [""; 0], "{ruby}");
        assert!(status.success(), "{ruby}: {status}");
    }
}
