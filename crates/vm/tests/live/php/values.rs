//! Values, and functions by name.

use vm::php::{Error, Function};

use super::guest::each_version;
use crate::process::hex;

#[test]
fn functions_are_found_by_name() {
    each_version(include_str!("values.php"), |version, guest| {
        let php = guest.php();
        // What waits is what its name leads to.
        let waits = php.function_of(php.current().expect("a frame"));
        let fgets = php.internal("fgets").expect("fgets");
        assert_eq!(waits, Ok(fgets.function), "{version}");
        // php exports no handlers; but it is known which file each lies in.
        let maps =
            std::fs::read_to_string(format!("/proc/{}/maps", guest.script.pid())).expect("maps");
        for (name, file) in [
            ("fgets", "/bin/php"),
            ("strlen", "/bin/php"),
            ("Closure::bind", "/bin/php"),
            ("mysqli_query", "/mysqli.so"),
            ("mysqli_stmt::execute", "/mysqli.so"),
        ] {
            let found = php.internal(name).expect(name);
            let point = maps.lines().find(|line| {
                let (range, _) = line.split_once(' ').expect("a range");
                let (from, to) = range.split_once('-').expect("a range");
                (hex(from)..hex(to)).contains(&found.handler)
            });
            let point = point.unwrap_or_else(|| panic!("{version}: {name} is nowhere"));
            assert!(
                point.contains(file) && point.contains(" r-xp "),
                "{version}: {name}: {point}"
            );
            let mut written = String::new();
            php.write_function_name(found.function, &mut written)
                .expect(name);
            assert_eq!(written, name);
        }
        let query = php.internal("mysqli_query").expect("mysqli_query");
        assert_eq!(
            php.internal("mysqli::query").map(|found| found.handler),
            Ok(query.handler)
        );
        assert_eq!(php.internal("\\MySQLi_Query"), Ok(query));
        assert!(php.internal("ArrayObject::offsetGet").is_ok());
        assert!(matches!(php.function("values"), Ok(Function::Php { .. })));
        assert_eq!(php.internal("values"), Err(Error::WrittenInPhp));
        assert_eq!(php.internal("mysqli::nothing"), Err(Error::NoFunction));
        assert_eq!(php.internal("nothing"), Err(Error::NoFunction));
        assert_eq!(php.internal("Nothing::at_all"), Err(Error::NoClass));
        println!("{version}: mysqli_query at {:#x}", query.handler);
    });
}

/// Where the first variable of a frame lies: `ZEND_CALL_FRAME_SLOT` zvals behind its beginning.
const VARIABLES: u64 = 80;

#[test]
fn values_are_written_as_they_are() {
    each_version(include_str!("values.php"), |version, guest| {
        let php = guest.php();
        let frames: Result<Vec<_>, _> = php.frames(php.current().expect("a frame")).collect();
        let frames = frames.expect("frames");
        let object = guest.script.lines[0].replace("object\t", "Plain#");
        let long = format!("\"{}\"...", "y".repeat(100));
        let expected = [
            "null",
            "true",
            "false",
            "-7",
            "9223372036854775807",
            "2.5",
            "\"text\"",
            "\"lé\\n\\\"q\\\"\\x{0}\"",
            "array(0)",
            "array(3)",
            &object,
            "resource(1)",
            &long,
            "5",
        ];
        for (index, expected) in (0..).zip(expected) {
            let mut written = String::new();
            php.write_value(frames[1].data + VARIABLES + index * 16, 100, &mut written)
                .expect(expected);
            assert_eq!(written, expected, "{version}");
        }
        // What was given to the function of C that waits.
        let mut written = String::new();
        php.write_value(frames[0].data + VARIABLES, 100, &mut written)
            .expect("an argument");
        assert_eq!(written, "resource(1)", "{version}");
    });
}
