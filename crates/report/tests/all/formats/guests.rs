//! Made-up guests to write down.

use std::sync::Arc;
use std::time::Duration;

use births::analysis::{Census, Counts, Frame, SiteCount, TypeCount};

/// A place in Ruby code.
pub fn frame(path: &str, line: u32, method: &str) -> Arc<Frame> {
    Arc::new(Frame {
        path: path.into(),
        line,
        method: method.into(),
    })
}

fn site(frames: &[Arc<Frame>], kind: &str, born: u64, live: u64, bytes: u64) -> SiteCount {
    SiteCount {
        frames: frames.to_vec(),
        kind: kind.into(),
        internal: kind.starts_with("IMEMO"),
        counts: Counts {
            allocated: born * 64,
            ..Counts::of_births(born, live, bytes)
        },
    }
}

fn before(kind: &str, live: u64, bytes: u64) -> TypeCount {
    TypeCount {
        kind: kind.into(),
        internal: kind.starts_with("IMEMO"),
        counts: Counts {
            live,
            bytes,
            ..Counts::default()
        },
    }
}

/// A small web shop after half a minute.
pub fn shop() -> Census {
    let fill = [frame("app.rb", 12, "fill")];
    let rack = [frame(
        "/var/lib/gems/3.1.0/gems/rack-2.2.4/lib/rack/utils.rb",
        88,
        "parse",
    )];
    Census {
        pid: 4242,
        command: vec!["ruby".into(), "app.rb".into()],
        language: "Ruby",
        version: "3.1.2".into(),
        seconds: 30.04,
        taken_at: None,
        sites: vec![
            site(&fill, "String", 300_001, 150_001, 6_000_040),
            site(&fill, "Array", 12, 12, 9_437_184),
            site(&rack, "Hash", 900, 12, 2_880),
            site(&[frame("app.rb", 7, "<main>")], "Shop::Order", 1, 1, 40),
            site(&[frame("app.rb", 30, "show")], "String", 40_000, 0, 0),
            site(&[], "String", 5, 5, 200),
            site(&fill, "IMEMO:env", 70, 60, 2_400),
        ],
        before: vec![
            before("String", 21_500, 1_204_224),
            before("Class", 1_024, 890_000),
            before("IMEMO:iseq", 9_000, 4_000_000),
        ],
        gc_pause: Some(Duration::from_micros(15_520)),
        walk_pause: Duration::from_micros(1_130),
        losses: vec![births::analysis::Loss {
            what: births::analysis::Lost::Births,
            count: Some(40),
            text: "40 births had no room in their table and are not counted".into(),
        }],
        followed: true,
        uncollected: births::analysis::Uncollected::Ran,
        ..Census::default()
    }
}

/// The same shop ten seconds before.
pub fn earlier() -> Census {
    let mut guest = shop();
    guest.seconds = 20.0;
    let made = |site: &mut SiteCount, born, live, bytes| {
        site.counts = Counts {
            allocated: site.counts.allocated,
            ..Counts::of_births(born, live, bytes)
        };
    };
    made(&mut guest.sites[0], 200_001, 100_001, 4_000_040);
    made(&mut guest.sites[1], 12, 12, 4_718_592);
    made(&mut guest.sites[2], 600, 14, 3_360);
    made(&mut guest.sites[4], 30_000, 0, 0);
    made(&mut guest.sites[6], 50, 40, 1_600);
    let before = &mut guest.before[0].counts;
    (before.live, before.bytes) = (21_600, 1_210_000);
    guest
}

/// A guest whose call paths were kept, nothing lost, no GC run.
pub fn shop_with_stacks() -> Census {
    let main = frame("app.rb", 40, "<main>");
    let serve = frame("app.rb", 30, "block in serve");
    let fill = frame("app.rb", 12, "fill");
    Census {
        sites: vec![
            site(
                &[fill.clone(), serve.clone(), main.clone()],
                "String",
                20,
                7,
                280,
            ),
            site(&[fill, main.clone()], "String", 4, 2, 80),
            site(&[serve, main], "Array", 9, 0, 0),
            site(&[], "Class", 1, 1, 600),
        ],
        before: vec![before("String", 2_000, 80_000)],
        gc_pause: None,
        losses: Vec::new(),
        uncollected: births::analysis::Uncollected::Unasked,
        ..shop()
    }
}

/// A shop with a leak, after four intervals of five seconds: a cache that has filled, requests in flight, and the leak.
pub fn leaking() -> Census {
    let alive = |site: SiteCount, alive: [u64; 4]| {
        let mut all = births::analysis::Alive::default();
        all.0[..4].copy_from_slice(&alive);
        let counts = Counts {
            alive: all,
            ..site.counts
        };
        SiteCount { counts, ..site }
    };
    let at = |line| [frame("app.rb", line, "call")];
    Census {
        seconds: 20.0,
        sites: vec![
            alive(
                site(&at(9), "String", 9_000, 9_000, 360_000),
                [8_900, 100, 0, 0],
            ),
            alive(site(&at(25), "Hash", 140, 140, 23_520), [35, 35, 35, 35]),
            alive(site(&at(40), "Array", 88_000, 400, 16_000), [0, 0, 0, 400]),
        ],
        intervals: vec![5.0; 4],
        losses: Vec::new(),
        ..shop()
    }
}
