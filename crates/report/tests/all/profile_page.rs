//! The page of a profile in a real browser: what is seen of many stacks, what a search finds, what keys and clicks do. Where no Chromium is
//! installed this is skipped.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use frames::profile::saved::{About, Missed};
use frames::profile::{Frame, Function, Kind, Profile};
use report::forms::Chosen;
use report::forms::stacks::FOLDED;
use report::profile::{FORMATS, Head};

fn frame(name: String, line: u32) -> Frame {
    Frame {
        function: Function {
            name,
            file: "/srv/app/cart.rb".to_owned(),
            kind: Kind::Script,
        },
        line,
        library: false,
    }
}

/// A hundred functions that each call two thousand, and one that a sixth of all samples are in.
fn large() -> Profile {
    let mut profile = Profile::default();
    profile.rounds = 240_000;
    for outer in 0..100 {
        for inner in 0..2000 {
            let stack = [
                "<main>".to_owned(),
                format!("outer {outer}"),
                format!("inner {inner}"),
            ];
            profile.add(stack.map(|name| frame(name, 1)).to_vec());
        }
    }
    for _ in 0..40_000 {
        profile.add(vec![
            frame("<main>".to_owned(), 1),
            frame("dear <b>".to_owned(), 7),
        ]);
    }
    profile
}

fn page(profile: &Profile) -> String {
    let format = Chosen::all(FORMATS)
        .find(|chosen| chosen.name() == "html")
        .expect("html")
        .format;
    let mut out = Vec::new();
    let about = About {
        who: "process 4242 (ruby app.rb)".to_owned(),
        processes: Vec::new(),
        looks: "240,000 looks in 2,400.0 s".to_owned(),
        cost: "stood still for 1 ms in all".to_owned(),
        missed: vec![Missed {
            pid: None,
            what: "looks".to_owned(),
            count: None,
            text: "a look was missed".to_owned(),
        }],
        began: 0,
        took: Duration::from_secs(2400),
    };
    let head = Head {
        about: &about,
        title: &about.looks,
        rows: 20,
        by_total: false,
        function: None,
        stacks: &FOLDED,
    };
    format.write(profile, &mut out, &head).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

/// What each reader needs: it does something, and says what there is to see then, a line each.
const READER: &str = r"
const rest = () => new Promise((done) => setTimeout(done, 100));
const key = (name) => document.querySelector('canvas').dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
const where = () => document.querySelector('.where').textContent;
async function reads(does) {
  const seen = [];
  try { await rest(); await does(seen); } catch (error) { seen.push('error: ' + error); }
  document.body.replaceChildren(...seen.map((line) => { const p = document.createElement('p'); p.textContent = line; return p; }));
}
";

const TURNS: &str = r"
reads(async (seen) => {
  for (const name of ['function/' + data.functions.findIndex((one) => one[0] === 'ping'), 'function/length', 'constructor']) {
    location.hash = '#' + name; await rest(); seen.push(document.querySelector('main').textContent);
  }
});
";

const LARGE: &str = r"
reads(async (seen) => {
  seen.push('verdict: ' + document.querySelector('.suspect').textContent, 'note: ' + [...document.querySelectorAll('.note')].map((note) => note.textContent).join(' | '));
  const search = document.querySelector('input[type=search]');
  search.value = 'DEAR'; search.dispatchEvent(new Event('input'));
  seen.push('search: ' + document.querySelector('[role=status]').textContent);
  key('ArrowDown'); seen.push('down: ' + where());
  key('ArrowDown'); seen.push('again: ' + where());
  key('Enter'); key('Escape'); key('Escape'); seen.push('back: ' + where());
  document.querySelector('input[type=checkbox]').click(); key('ArrowDown'); seen.push('turned: ' + where());
  location.hash = '#functions'; await rest();
  seen.push('rows: ' + document.querySelectorAll('tbody tr').length);
  const filter = document.querySelector('input[type=search]');
  filter.value = 'dear'; filter.dispatchEvent(new Event('input'));
  seen.push('filtered: ' + document.querySelector('tbody').textContent);
  document.querySelector('tbody a').click(); await rest();
  seen.push('function: ' + document.querySelector('main').textContent);
  location.hash = '#calls'; await rest();
  seen.push('calls: ' + document.querySelector('summary').textContent);
});
";

/// What a browser shows of a profile when a reader does this; `None` where there is no browser.
fn seen(name: &str, profile: &Profile, reader: &str) -> Option<String> {
    let Some(browser) = ["/usr/bin/chromium"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.exists())
    else {
        eprintln!("SKIPPED the page of a profile in a browser: no chromium");
        return None;
    };
    let folder = std::env::temp_dir().join(format!("lancet-test-{name}-{}-0", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let page = page(profile);
    assert!(page.len() < 10 << 20, "{} bytes", page.len());
    let mut read = page.replace("</body>", "");
    write!(
        read,
        "<script>{READER}</script><script>{reader}</script></body>"
    )
    .expect("memory");
    let file = folder.join("page.html");
    std::fs::write(&file, read).expect("written");
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=20000",
            "--dump-dom",
        ])
        .arg(format!(
            "--user-data-dir={}",
            folder.join("profile").display()
        ))
        .arg(format!("file://{}", file.display()))
        .stderr(Stdio::null())
        .output()
        .expect("chromium");
    std::fs::remove_dir_all(&folder).expect("ours");
    let seen = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!seen.contains("error: "), "{seen}");
    Some(seen)
}

#[test]
fn a_browser_shows_it() {
    let Some(seen) = seen("profile-page", &large(), LARGE) else {
        return;
    };
    for expected in [
        "verdict: 17 % of the time in which threads ran is at dear &lt;b&gt; (/srv/app/cart.rb:7), called by &lt;main&gt; (/srv/app/cart.rb:1)",
        "note: a look was missed | 100,102 calls, in 100,102 samples, have no room in the graph and the tree of this page",
        "search: at least 16.7 % of samples match",
        "down: &lt;main&gt; /srv/app/cart.rb:1 — 240,000 of 240,000 samples, 100.0 %, itself 0.0 %, the program",
        "again: dear &lt;b&gt; /srv/app/cart.rb:7 — 40,000 of 240,000 samples, 16.7 %, itself 16.7 %, the program",
        "back: all samples — 240,000 of 240,000 samples",
        "turned: (calls that have no room in this page)",
        "rows: 2001",
        "filtered: 16.7 %16.7 %dear &lt;b&gt; (/srv/app/cart.rb:7)",
        "calls: 100.0 % &lt;main&gt; (/srv/app/cart.rb:1)",
    ] {
        assert!(seen.contains(expected), "{expected}\n{seen}");
    }
}

/// Functions that call one another in turn are counted once in a sample.
#[test]
fn of_calls_within_one_another_the_outermost_counts() {
    let mut profile = Profile::default();
    let names = ["<main>", "ping", "pong", "ping", "pong"];
    for _ in 0..10 {
        profile.add(names.map(|name| frame(name.to_owned(), 1)).to_vec());
    }
    let Some(seen) = seen("profile-turns", &profile, TURNS) else {
        return;
    };
    let expected = "It is called bysamplescaller100.0 %&lt;main&gt; (/srv/app/cart.rb)It callssamplesfunction100.0 %pong (/srv/app/cart.rb)";
    assert!(seen.contains(expected), "{seen}");
    assert!(seen.contains("There is no such function"), "{seen}");
}
