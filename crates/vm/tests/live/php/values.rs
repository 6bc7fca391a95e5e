//! Values, and functions by name.

use vm::php::{Error, Function};

use super::guest::each_version;

#[test]
fn functions_are_found_by_name() {
    each_version(include_str!("values.php"), |version, guest| {
        let php = guest.php();
        // The oracle: a function of C that php exports, and one that lies beside.
        for (name, symbol) in [
            ("zend_version", "zif_zend_version"),
            ("strlen", "zif_strlen"),
        ] {
            let found = php.internal(name).expect(name);
            if let Some(address) = guest.symbols.address(symbol) {
                assert_eq!(found.handler, address, "{version}: {name}");
            }
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
