//! What is parked: fibers with their native and script frames, of every version there is a root for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::core::same;
use super::languages::{Language, PHP, PYTHON, RUBY};
use super::output::{records, stack};
use crate::output::address;
use crate::support::{Guest, Interpreter};

/// Three fibers parked 0, 1 and 2 calls deep, one that has not begun, one that has ended, one that has resumed the one that
/// waits. Each call goes through C.
const RUBY_FIBERS: &str = "
def wait_in(n)
  n == 0 ? Fiber.yield : [1].each { wait_in(n - 1) }
end
parked = (0..2).map { |n| Fiber.new { wait_in(n) } }
parked.each(&:resume)
created = Fiber.new { 1 }
ended = Fiber.new { 1 }
ended.resume
inner = Fiber.new { puts 'ready'; STDOUT.flush; STDIN.read }
Fiber.new { inner.resume }.resume";
const PHP_FIBERS: &str = "
function wait_in($n) { $n == 0 ? Fiber::suspend() : array_map('wait_in', [$n - 1]); }
$parked = array_map(fn($n) => new Fiber(fn() => wait_in($n)), [0, 1, 2]);
foreach ($parked as $fiber) $fiber->start();
$created = new Fiber(fn() => 1);
$ended = new Fiber(fn() => 1); $ended->start();
$outer = new Fiber(function () { $inner = new Fiber(function () { echo \"ready\\n\"; fgets(STDIN); }); $inner->start(); });
$outer->start();";

/// Greenlets parked at several depths, each call through C; what greenlet says they have copied, and what their frames are.
const GREENLETS: &str = "
import json, sys
sys.path.append('/usr/lib/python3/dist-packages')
try:
    import greenlet
except ImportError:
    print('none')
    print('ready', flush=True), sys.stdin.readline(), sys.exit()
def deep(n):
    return list(map(deep, [n - 1])) if n else main.switch()
main = greenlet.getcurrent()
parked = [greenlet.greenlet(deep) for _ in range(3)]
for one, depth in zip(parked, (0, 10, 100)):
    one.switch(depth)
fresh = greenlet.greenlet(deep)
for one in parked:
    names, frame = [], one.gr_frame
    while frame:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    print(id(one), one._stack_saved, json.dumps(names), sep='\t')
print('ready', flush=True), sys.stdin.readline()";

fn start(language: &Language, interpreter: &Interpreter, script: &str) -> Guest {
    Guest::asleep(interpreter.chrooted().args(language.options).arg(script))
}

/// Of everything that is parked the script frames, innermost first, by the names of its functions; how often each.
fn parked(guest: &Guest, what: &str) -> BTreeMap<String, u32> {
    let output = stack(&["--fibers", "--json", "-p", &guest.pid.to_string()]);
    let frames = records(&output, "frame");
    let mut found = BTreeMap::new();
    for one in records(&output, "stack") {
        assert_eq!(one["whole"], true, "{what}: {one}");
        if one["parked"].is_null() {
            continue;
        }
        let object = &one["parked"]["object"];
        let frames: Vec<&Value> = frames
            .iter()
            .filter(|frame| frame["parked"] == *object)
            .collect();
        let bytes: u64 = frames
            .iter()
            .filter_map(|frame| frame["bytes"].as_u64())
            .sum();
        let used = one["used"].as_u64().expect("bytes");
        let small = one["mapped"].as_u64() < Some(4 << 20);
        // Above the first frame a fiber has a few words, a thread its arguments.
        assert!(
            bytes <= used && (used - bytes <= 128 || !small || one["guard"] == 0),
            "{what}: {bytes} of {one}"
        );
        let names = frames
            .iter()
            .flat_map(|frame| frame["scripts"].as_array().cloned().unwrap_or_default());
        let names: Vec<String> = names
            .map(|script| script["function"].as_str().expect("a name").to_owned())
            .collect();
        *found.entry(names.join(" ")).or_default() += 1;
    }
    found
}

fn expected(list: &[&str]) -> BTreeMap<String, u32> {
    list.iter().map(|names| ((*names).to_owned(), 1)).collect()
}

#[test]
fn rubys_fibers() {
    for interpreter in RUBY.interpreters() {
        let guest = start(&RUBY, &interpreter, RUBY_FIBERS);
        let mut found = BTreeMap::new();
        for (names, count) in parked(&guest, &interpreter.to_string()) {
            // 3.4 has `each` in Ruby.
            found.insert(names.replace(" each", ""), count);
        }
        let again = "block in wait_in wait_in";
        let begin = "block (2 levels) in <main>";
        let wanted = [
            "<main>".to_owned(),
            "block in <main>".to_owned(),
            format!("wait_in {begin}"),
            format!("wait_in {again} {begin}"),
            format!("wait_in {again} {again} {begin}"),
        ];
        assert_eq!(
            found,
            expected(&wanted.each_ref().map(String::as_str)),
            "{}",
            interpreter
        );
        assert!(guest.ends_well());
    }
}

#[test]
fn phps_fibers() {
    for interpreter in PHP.interpreters().iter().filter(|one| one.version != "7.4") {
        let guest = start(&PHP, interpreter, PHP_FIBERS);
        let mut found = BTreeMap::new();
        for (names, count) in parked(&guest, &interpreter.to_string()) {
            // 8.4 says where a closure was made.
            let names = names.split(' ').map(|name| {
                if name.starts_with("{closure") {
                    "{closure}"
                } else {
                    name
                }
            });
            let names: Vec<&str> = names
                .filter(|name| *name != "line" && !name.starts_with("code:"))
                .collect();
            *found.entry(names.join(" ")).or_default() += count;
        }
        let again = "array_map wait_in";
        let wanted = [
            "Fiber::start {main}".to_owned(),
            "Fiber::start {closure}".to_owned(),
            "Fiber::suspend wait_in {closure}".to_owned(),
            format!("Fiber::suspend wait_in {again} {{closure}}"),
            format!("Fiber::suspend wait_in {again} {again} {{closure}}"),
        ];
        assert_eq!(
            found,
            expected(&wanted.each_ref().map(String::as_str)),
            "{}",
            interpreter
        );
        assert!(guest.ends_well());
    }
}

#[test]
fn what_a_switch_of_greenlets_copies() {
    for interpreter in PYTHON.interpreters() {
        let guest = start(&PYTHON, &interpreter, GREENLETS);
        let what = &interpreter.to_string();
        if guest.preface == ["none"] {
            println!("SKIPPED: {what} has no greenlet (python3-greenlet)");
            continue;
        }
        let output = stack(&["--fibers", "--json", "-p", &guest.pid.to_string()]);
        let frames = records(&output, "frame");
        let mut stacks = records(&output, "stack");
        stacks.retain(|one| !one["parked"].is_null());
        assert_eq!(stacks.len(), 3, "{what}: {stacks:?}");
        let mut all = 0;
        for told in &guest.preface {
            let told: Vec<&str> = told.split('\t').collect();
            let one = stacks
                .iter()
                .find(|one| address(&one["parked"]["object"]) == told[0].parse().ok());
            let one = one.unwrap_or_else(|| panic!("{what}: {told:?}"));
            assert_eq!(one["copied"].to_string(), told[1], "{what}");
            all += one["copied"].as_u64().expect("bytes");
            let names: Vec<Value> = serde_json::from_str(told[2]).expect("JSON");
            assert_eq!(one["whole"], true, "{what}: {one}");
            let frames = frames
                .iter()
                .filter(|frame| frame["parked"] == one["parked"]["object"]);
            let (mut seen, mut bytes) = (Vec::new(), 0);
            for frame in frames {
                bytes += frame["bytes"].as_u64().expect("bytes");
                // Each call goes through C, so each has a native frame of its own.
                let scripts = frame["scripts"].as_array().expect("a list");
                assert!(scripts.len() <= 1, "{what}: {frame}");
                seen.extend(scripts.iter().map(|script| script["function"].clone()));
            }
            assert_eq!(seen, names, "{what}");
            assert_eq!(one["used"], bytes, "{what}: {one}");
            assert!(
                one["used"].as_u64() >= one["copied"].as_u64(),
                "{what}: {one}"
            );
        }
        let said = super::output::text(&stack(&["--fibers", "-p", &guest.pid.to_string()]));
        let line = said.lines().nth(1).expect("a second line");
        assert!(
            line.starts_with("3 greenlets are parked, ") && all > 10_000,
            "{said}"
        );
        println!("{what}: {line}");
        assert!(guest.ends_well());
    }
}

/// The main greenlet is parked three calls deep while another one sleeps: part of its stack is copied, the rest is where
/// it always was.
const MAIN_GREENLET: &str = "
import sys
sys.path.append('/usr/lib/python3/dist-packages')
try:
    import greenlet
except ImportError:
    print('none')
    print('ready', flush=True), sys.stdin.readline(), sys.exit()
def wait():
    print('ready', flush=True), sys.stdin.readline()
def resumes(n):
    return list(map(resumes, [n - 1])) if n else other.switch()
other = greenlet.greenlet(wait)
resumes(3)";

#[test]
fn the_main_greenlet() {
    for interpreter in PYTHON.interpreters() {
        let guest = start(&PYTHON, &interpreter, MAIN_GREENLET);
        let what = &interpreter.to_string();
        if guest.preface == ["none"] {
            println!("SKIPPED: {what} has no greenlet (python3-greenlet)");
            continue;
        }
        let output = stack(&["--fibers", "--json", "-p", &guest.pid.to_string()]);
        let mut stacks = records(&output, "stack");
        stacks.retain(|one| !one["parked"].is_null());
        let [main] = &stacks[..] else {
            panic!("{what}: {stacks:?}");
        };
        assert_eq!(main["whole"], true, "{what}: {main}");
        let used = main["used"].as_u64().expect("bytes");
        assert!((1000..1 << 20).contains(&used), "{what}: {main}");
        let mut frames = records(&output, "frame");
        frames.retain(|frame| !frame["parked"].is_null());
        let scripts = frames
            .iter()
            .filter_map(|frame| frame["scripts"].as_array());
        let names: Vec<&Value> = scripts
            .flatten()
            .map(|script| &script["function"])
            .collect();
        let wanted = ["resumes", "resumes", "resumes", "resumes", "<module>"];
        assert_eq!(names, wanted, "{what}");
        assert_eq!(frames.last().expect("some")["function"], "_start", "{what}");
        if interpreter.is_system() {
            same("core-greenlets", guest);
        } else {
            assert!(guest.ends_well());
        }
    }
}

/// Coroutines and generators suspended in every way; of each head of a chain the names and lines, innermost first.
const COROUTINES: &str = "
import asyncio, sys, types
class Gate:
    def __await__(self):
        yield self
async def waits(n):
    if n: await waits(n - 1)
    else: await Gate()
@types.coroutine
def old():
    yield
async def of_old():
    await old()
async def numbers():
    yield 1
    await waits(1)
async def reads():
    async for n in numbers():
        pass
def simple():
    yield 1
    yield 2
def over():
    for n in simple():
        yield n
def through(n):
    yield from (through(n - 1) if n else simple())
async def sleeps():
    await asyncio.sleep(1000)
kept = [waits(0), waits(3), of_old(), reads()]
for one in kept:
    one.send(None)
ended, fresh = simple(), simple()
list(ended)
plain = [over(), through(2)]
for one in plain:
    next(one)
unawaited = numbers()
unawaited.asend(None)
loop = asyncio.new_event_loop()
task = loop.create_task(sleeps())
loop.run_until_complete(asyncio.sleep(0, loop=loop) if sys.version_info < (3, 10) else asyncio.sleep(0))
print('ready', flush=True), sys.stdin.readline()
loop.close()";

#[test]
fn coroutines_that_wait() {
    for interpreter in PYTHON.interpreters() {
        let guest = start(&PYTHON, &interpreter, COROUTINES);
        let what = &interpreter.to_string();
        let output = stack(&["--fibers", "--json", "-p", &guest.pid.to_string()]);
        let mut seen: Vec<String> = records(&output, "stack")
            .iter()
            .filter(|one| !one["parked"].is_null())
            .map(|one| {
                let scripts = one["scripts"].as_array().expect("frames");
                let scripts = scripts.iter().filter(|script| script["path"] == "<string>");
                let names: Vec<String> = scripts
                    .map(|script| {
                        format!(
                            "{}:{}",
                            script["function"].as_str().expect("a name"),
                            script["line"]
                        )
                    })
                    .collect();
                format!(
                    "{} {}",
                    one["parked"]["kind"].as_str().expect("a kind"),
                    names.join(" ")
                )
            })
            .collect();
        seen.sort_unstable();
        // Before 3.11 code has no name but its own.
        for one in &mut seen {
            *one = one.replace("Gate.__await__", "__await__");
        }
        let waits = |n: usize| format!("__await__:5 waits:8{}", " waits:7".repeat(n));
        let mut wanted = vec![
            format!("coroutine {}", waits(0)),
            format!("coroutine {}", waits(3)),
            "coroutine old:11 of_old:13".to_owned(),
            format!("coroutine {} numbers:16 reads:18", waits(1)),
            "coroutine sleeps:29".to_owned(),
            "generator over:25".to_owned(),
            "generator simple:21".to_owned(),
            "generator simple:21 through:27 through:27 through:27".to_owned(),
        ];
        wanted.sort_unstable();
        assert_eq!(seen, wanted, "{what}");
        println!("{what}: {} heads", seen.len());
        assert!(guest.ends_well());
    }
}
