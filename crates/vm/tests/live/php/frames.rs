//! Frames and lines against `debug_backtrace`.

use std::ops::ControlFlow;

use vm::php::{Frame, Kind, Php, Point, Text};

use super::guest::each_version;
use crate::process::ProcessMemory;

fn text(php: &Php<'_, ProcessMemory>, text: Text) -> String {
    let mut out = String::new();
    php.write_text(text, u64::MAX, &mut out).expect("text");
    out
}

fn position(php: &Php<'_, ProcessMemory>, point: Option<Point>) -> String {
    point.map_or("\t".to_owned(), |point| {
        let file = php.file(point).expect("a file");
        format!("{}\t{}", text(php, file), php.line(point).expect("a line"))
    })
}

fn name(php: &Php<'_, ProcessMemory>, frame: &Frame) -> String {
    match frame.kind {
        Kind::Include => "include".to_owned(),
        Kind::Eval => "eval".to_owned(),
        _ => {
            let mut out = String::new();
            php.write_function_name(frame.function, &mut out)
                .expect("a name");
            out
        }
    }
}

#[test]
fn frames_are_those_of_debug_backtrace() {
    each_version(include_str!("frames.php"), |version, guest| {
        let (mut stops, mut parked) = (0, 0);
        while guest.next() {
            let lines = guest.script.lines.clone();
            let say = |key: &str| {
                let found = lines.iter().find_map(|line| line.strip_prefix(key));
                found.unwrap_or_else(|| panic!("no {key:?} in {lines:#?}"))
            };
            let label = say("label\t");
            let told: Vec<String> = lines
                .iter()
                .filter(|line| line.starts_with("frame\t"))
                // Which of four words asked for the file is a matter of the operation.
                .map(|line| {
                    line.replace("\trequire\t", "\tinclude\t")
                        .replace("\tinclude_once\t", "\tinclude\t")
                })
                .collect();

            let php = guest.php();
            let frames: Result<Vec<Frame>, _> =
                php.frames(php.current().expect("a frame")).collect();
            let frames = frames.expect("frames");
            assert_eq!(
                (name(&php, &frames[0]).as_str(), frames[0].kind),
                ("fgets", Kind::Internal)
            );
            let here = php.here().expect("readable").expect("a point");
            assert_eq!(frames[1].point, Some(here), "{version}: {label}");
            assert_eq!(
                php.line(here).map(|line| line.to_string()),
                Ok(say("here\t").to_owned())
            );

            let mut found: Vec<String> = frames[1..]
                .iter()
                .zip(frames[2..].iter().map(Some).chain([None]))
                .filter(|(frame, _)| frame.kind != Kind::FiberBottom)
                .map(|(frame, outside)| {
                    let point = outside.and_then(|outside| outside.point);
                    format!("frame\t{}\t{}", name(&php, frame), position(&php, point))
                })
                .collect();
            if frames.last().map(|frame| frame.kind) == Some(Kind::Main) {
                found.pop();
            }
            assert_eq!(found, told, "{version}: {label}: {frames:#?}");
            stops += 1;

            if let Some(told) = lines.iter().find_map(|line| line.strip_prefix("parked\t")) {
                php.each_fiber(&mut |fiber| {
                    if fiber.data == 0 {
                        return ControlFlow::Continue(());
                    }
                    let frames: Result<Vec<Frame>, _> = php.frames(fiber.data).collect();
                    let names: Vec<String> = frames
                        .expect("frames of a fiber")
                        .iter()
                        .filter(|frame| frame.kind == Kind::Function)
                        .map(|frame| name(&php, frame))
                        .collect();
                    assert!(
                        names.join(" ").starts_with(&told[..told.len() - 1]),
                        "{version}: {names:?}"
                    );
                    parked += 1;
                    ControlFlow::Continue(())
                })
                .expect("fibers");
            }
        }
        println!("{version}: {stops} stops, {parked} parked fibers");
        let has_fibers = guest.facts.version().0 >= 20210902;
        assert!(
            stops >= 45 && parked == i32::from(has_fibers),
            "{version}: {stops}, {parked}"
        );
    });
}
