//! The bundled files: no problem in any, and every signature that the installed headers know is as the C++ compiler
//! sees it: number of arguments, and size and kind of each.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use prototypes::Library;
use prototypes::bundle::Bundle;
use prototypes::types::{Kind, Lens, Prototype, Type};

/// What is read by single names is what a whole file says, whichever is asked for first.
#[test]
fn each_name_reads_as_in_the_whole_file() {
    for (soname, bundle) in [("SYS", "syscalls"), ("libc.so.6", "libc"), ("ruby", "ruby")] {
        let whole = Bundle::for_soname(soname).expect("ours");
        assert_eq!(whole.name(), bundle);
        let whole = whole.library();
        let mut names: Vec<&str> = whole.prototypes().map(|(name, _)| name).collect();
        names.reverse();
        assert!(names.len() > 300, "{bundle}");
        for name in names {
            let one = Bundle::prototype(soname, name).expect(name);
            let same = whole.prototype(name).expect("it is there");
            let alone = |of: &Prototype| Library::of(name, of.clone()).to_string();
            assert_eq!(alone(&one), alone(same), "{bundle}");
        }
        assert!(Bundle::prototype(soname, "typedef").is_none());
    }
    let text = |ty: Option<Type>| format!("{ty:?}");
    let whole = Bundle::for_soname("SYS").expect("ours").library();
    for name in ["mode", "clock", "arguments_of_program", "addr"] {
        assert_eq!(
            text(Bundle::ty("SYS", name)),
            text(whole.ty(name)),
            "{name}"
        );
    }
    assert!(Bundle::ty("SYS", "no_such_type").is_none());
}

#[test]
fn no_file_has_a_problem_and_each_reads_as_it_is_printed() {
    for bundle in Bundle::all() {
        let file = format!("{}.conf", bundle.name());
        let (library, errors) = Library::parse(&file, bundle.text(), &mut |_| None);
        let all: String = errors.iter().map(|error| format!("{error}\n")).collect();
        assert!(errors.is_empty(), "{all}");
        let printed = library.to_string();
        let (again, errors) = Library::parse(&file, &printed, &mut |_| None);
        assert!(errors.is_empty(), "{errors:?}");
        assert_eq!(again.to_string(), printed, "{file}");
        // Each line is a prototype of its own: none replaced another.
        let lines = bundle.text().lines();
        let functions = lines.filter(|line| {
            let first = line.split([' ', '(']).next().unwrap_or_default();
            !matches!(first, "" | ";" | "typedef" | "import") && !line.starts_with(';')
        });
        assert_eq!(
            functions.count(),
            library.prototypes().count(),
            "{file}: a function twice"
        );
    }
}

/// A recording keeps each prototype as a text of its own.
#[test]
fn every_prototype_stands_alone_with_the_types_it_names() {
    let ring = "typedef ll = struct; typedef ll = struct(int, ll*);\
                typedef pair = struct(ll*, array(ll*, 2)); hex(uint) f(ll*, pair*, +string[arg2]);";
    let (ring, errors) = Library::parse("ring", &ring.replace(';', ";\n"), &mut |_| None);
    assert!(errors.is_empty(), "{errors:?}");
    let bundles = Bundle::all().iter().map(|bundle| bundle.library());
    let mut count = 0;
    for library in bundles.chain([ring]) {
        for (name, prototype) in library.prototypes() {
            let alone = Library::of(name, prototype.clone()).to_string();
            let (again, errors) = Library::parse(name, &alone, &mut |_| None);
            assert!(errors.is_empty(), "{alone}{errors:?}");
            let read = again.prototype(name).expect("it is there");
            assert_eq!(
                read.named(name).to_string(),
                prototype.named(name).to_string()
            );
            let detail = prototypes::Detail::default();
            assert_eq!(read.capture(detail), prototype.capture(detail), "{alone}");
            count += 1;
        }
    }
    assert!(count > 11_000, "{count}");
}

#[test]
fn a_library_is_found_by_its_soname() {
    let name = |soname| Bundle::for_soname(soname).map(Bundle::name);
    for (soname, expected) in [
        ("libc.so.6", Some("libc")),
        ("libc.so", Some("libc")),
        ("libm.so.6", Some("libm")),
        ("libmariadb.so.3", Some("libmariadb")),
        ("libmysqlclient.so.21", Some("libmariadb")),
        ("libz.so.1", Some("zlib")),
        ("libssl.so.3", Some("libssl")),
        ("libcrypto.so.3", Some("libcrypto")),
        ("libcurl-gnutls.so.4", Some("libcurl")),
        ("libruby-3.1.so.3.1", Some("ruby")),
        ("libruby.so.2.7", Some("ruby")),
        ("libpython3.11.so.1.0", Some("python")),
        ("python3.11", Some("python")),
        ("perl", Some("perl")),
        ("libperl.so.5.36", Some("perl")),
        ("php8.2", Some("php")),
        ("libcups.so.2", None),
        ("libcryptsetup.so.12", None),
        ("pythonista", None),
        ("", None),
    ] {
        assert_eq!(name(soname), expected, "{soname}");
    }
    let query = Bundle::prototype("libmariadb.so.3", "mysql_send_query").expect("mysql2's edge");
    assert_eq!(
        query.named("f").to_string(),
        "int f(addr, string[arg3], ulong)"
    );
}

/// One letter for the kind, and the size.
fn shape(ty: &Type) -> String {
    let kind = match &ty.kind {
        Kind::Void => return "v".to_owned(),
        Kind::Pointer(_) | Kind::Array(_) => return "p8".to_owned(),
        Kind::Struct(_) | Kind::ComplexLongDouble => 'm',
        Kind::Float | Kind::Double | Kind::LongDouble => 'f',
        Kind::Char => 'c',
        _ if matches!(ty.lens, Some(Lens::Enum(_))) => 'e',
        _ if ty.is_signed() => 's',
        _ => 'u',
    };
    format!("{kind}{}", ty.size())
}

/// Whether what we say can be what the compiler says.
fn agrees(ours: &str, theirs: &str) -> bool {
    let integer = |shape: &str| shape.starts_with(['s', 'u', 'e', 'c']);
    match (ours, theirs) {
        _ if ours == theirs => true,
        // A name for numbers that C knows as int.
        _ if ours.starts_with('e') || theirs.starts_with('e') => {
            ours[1..] == theirs[1..] && integer(theirs)
        }
        // A character that C passes as int.
        ("c1", "s4") => true,
        // A word whose meaning only the VM knows, an address to C or a number.
        ("p8", "u8") | ("u8", "p8") => true,
        // Signs in names like ssize_t are the compiler's; ours differ nowhere else.
        _ => false,
    }
}

fn shapes(prototype: &Prototype) -> Vec<String> {
    let parameters = prototype.parameters.iter().map(|parameter| &parameter.ty);
    [&prototype.returns]
        .into_iter()
        .chain(parameters)
        .map(shape)
        .collect()
}

const TRAITS: &str = r#"
extern "C" int printf(const char *, ...);
template <class T, bool E = __is_enum(T)> struct K { static char kind() { return E ? 'e' : 'm'; } };
#define KIND(T, C) template <> struct K<T, false> { static char kind() { return C; } };
KIND(bool, 'c') KIND(char, 'c') KIND(signed char, 'c') KIND(unsigned char, 'c')
KIND(short, 's') KIND(unsigned short, 'u') KIND(int, 's') KIND(unsigned, 'u') KIND(wchar_t, 's')
KIND(char16_t, 'u') KIND(char32_t, 'u')
KIND(long, 's') KIND(unsigned long, 'u') KIND(long long, 's') KIND(unsigned long long, 'u')
KIND(float, 'f') KIND(double, 'f') KIND(long double, 'f')
template <class T> struct K<T *, false> { static char kind() { return 'p'; } };
template <class T> struct K<T &, false> { static char kind() { return 'p'; } };
template <class T> struct Say { static void say() { printf(" %c%d", K<T>::kind(), (int)sizeof(T)); } };
template <class T> struct Say<const T> : Say<T> {};
template <> struct Say<void> { static void say() { printf(" v"); } };
template <class R, class... A> void ask(const char *name, R (*)(A...)) {
    printf("%s", name); Say<R>::say(); (Say<A>::say(), ...); printf("\n");
}
template <class R, class... A> void ask(const char *name, R (*)(A..., ...)) {
    printf("%s", name); Say<R>::say(); (Say<A>::say(), ...); printf(" ...\n");
}
"#;

/// What the compiler says of each function, return first, `...` last if it takes more.
fn compiled(
    name: &str,
    headers: &[&str],
    flags: &[&str],
    library: &Library,
) -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("shapes-{name}"));
    fs::create_dir_all(&folder).expect("a folder");
    let (source, program) = (folder.join("ask.cc"), folder.join("ask"));
    let mut functions: Vec<&str> = library.prototypes().map(|(function, _)| function).collect();
    loop {
        // C's headers read as C++'s own would overload what we ask for; these two VMs want C++'s.
        let wants_own = matches!(name, "ruby" | "php");
        let (open, close) = if wants_own {
            ("", "")
        } else {
            ("extern \"C\" {\n", "}\n")
        };
        let mut text = String::from("#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n");
        text += open;
        for header in headers {
            writeln!(text, "#include <{header}>").expect("text");
        }
        text += close;
        functions
            .iter()
            .for_each(|function| writeln!(text, "#undef {function}").expect("text"));
        // stdio.h itself may be among the headers, as may be macros named like ours.
        text += TRAITS;
        text += "int main() {\n";
        let before = text.lines().count() + 1;
        for function in &functions {
            writeln!(text, "ask(\"{function}\", (decltype(&::{function}))0);").expect("text");
        }
        text += "}\n";
        fs::write(&source, text).expect("written");
        let output = Command::new("g++")
            .args([
                "-std=c++17",
                if wants_own { "-w" } else { "-nostdinc++" },
                "-w",
                "-O0",
                "-fmax-errors=0",
                "-fpermissive",
            ])
            .args(flags)
            .arg("-o")
            .args([&program, &source])
            .output()
            .expect("g++ of the package g++");
        if output.status.success() {
            break;
        }
        // A function that these headers do not declare, or that C++ overloads.
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<usize> = said
            .lines()
            .filter(|line| line.contains("error:"))
            .filter_map(|line| {
                line.split("ask.cc:")
                    .nth(1)?
                    .split(':')
                    .next()?
                    .parse()
                    .ok()
            })
            .collect();
        let all = functions.len();
        let mut index = before;
        functions.retain(|_| {
            index += 1;
            !lines.contains(&(index - 1))
        });
        assert!(functions.len() < all, "{name}: {said}");
    }
    let output = Command::new(&program).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    let said = text.lines().map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        (words.next().expect("a name"), words.collect())
    });
    said.collect()
}

fn hold(name: &str, headers: &[&str], flags: &[&str], least: usize) {
    let first = headers[0];
    let below = |folder: &str| Path::new(folder).join(first).exists();
    let given = flags.iter().filter_map(|flag| flag.strip_prefix("-I"));
    if !given
        .chain(["/usr/include", "/usr/include/x86_64-linux-gnu"])
        .any(below)
    {
        println!("SKIPPED: {name}: <{first}> is not installed");
        return;
    }
    let bundle = Bundle::all()
        .iter()
        .find(|bundle| bundle.name() == name)
        .expect("a bundle");
    let library = bundle.library();
    let theirs = compiled(name, headers, flags, &library);
    let mut wrong = String::new();
    for (function, theirs) in &theirs {
        let prototype = library.prototype(function).expect("it was asked for");
        let ours = shapes(prototype);
        let variadic = theirs.last().is_some_and(|last| last == "...");
        let fixed = &theirs[..theirs.len() - usize::from(variadic)];
        let same = ours
            .iter()
            .zip(fixed)
            .all(|(ours, theirs)| agrees(ours, theirs))
            && if variadic {
                ours.len() >= fixed.len()
                    && (prototype.format().is_none() || ours.len() == fixed.len())
            } else {
                ours.len() == fixed.len() && prototype.format().is_none()
            };
        if !same {
            writeln!(
                wrong,
                "{}: {ours:?}, compiled {theirs:?}",
                prototype.named(function)
            )
            .expect("text");
        }
    }
    assert!(wrong.is_empty(), "{name}:\n{wrong}");
    assert!(
        theirs.len() >= least,
        "{name}: only {} compared",
        theirs.len()
    );
    println!("{name}: {} signatures are as compiled", theirs.len());
}

#[test]
fn the_c_library_is_as_compiled() {
    let headers = "aio.h argp.h argz.h arpa/inet.h ctype.h dirent.h dlfcn.h envz.h err.h error.h execinfo.h fcntl.h fmtmsg.h \
        fnmatch.h fstab.h ftw.h getopt.h glob.h grp.h iconv.h ifaddrs.h inttypes.h langinfo.h libgen.h libintl.h \
        locale.h malloc.h mntent.h monetary.h mqueue.h net/if.h netdb.h nl_types.h poll.h printf.h pthread.h pty.h pwd.h \
        regex.h resolv.h sched.h search.h semaphore.h setjmp.h shadow.h signal.h spawn.h stdio.h stdio_ext.h stdlib.h \
        string.h strings.h sys/auxv.h sys/epoll.h sys/eventfd.h sys/file.h sys/inotify.h sys/ioctl.h sys/ipc.h \
        sys/mman.h sys/mount.h sys/msg.h sys/prctl.h sys/ptrace.h sys/random.h sys/resource.h sys/select.h sys/sem.h \
        sys/sendfile.h sys/shm.h sys/signalfd.h sys/socket.h sys/stat.h sys/statfs.h sys/statvfs.h sys/sysinfo.h \
        sys/time.h sys/timerfd.h sys/times.h sys/timex.h sys/uio.h sys/utsname.h sys/wait.h sys/xattr.h syslog.h \
        termios.h time.h ucontext.h unistd.h utime.h utmpx.h wchar.h wctype.h wordexp.h";
    let headers: Vec<&str> = headers.split_whitespace().collect();
    hold("libc", &headers, &[], 1200);
}

#[test]
fn the_mathematical_library_is_as_compiled() {
    hold("libm", &["math.h", "complex.h", "fenv.h"], &[], 800);
}

#[test]
fn libraries_are_as_compiled() {
    let old = "-DOPENSSL_SUPPRESS_DEPRECATED";
    hold("zlib", &["zlib.h"], &[], 70);
    hold("sqlite3", &["sqlite3.h"], &[], 250);
    hold(
        "libcurl",
        &["curl/curl.h"],
        &["-DCURL_DISABLE_TYPECHECK"],
        75,
    );
    hold(
        "libpq",
        &["libpq-fe.h"],
        &["-I/usr/include/postgresql"],
        150,
    );
    hold("libmariadb", &["mysql.h"], &["-I/usr/include/mariadb"], 150);
    hold("libssl", &["openssl/ssl.h"], &[old], 400);
    let crypto = "openssl/evp.h openssl/bio.h openssl/err.h openssl/rand.h openssl/x509.h openssl/pem.h openssl/hmac.h \
        openssl/sha.h openssl/aes.h openssl/rsa.h openssl/ec.h openssl/bn.h openssl/pkcs12.h openssl/md5.h";
    let headers: Vec<&str> = crypto.split_whitespace().collect();
    hold("libcrypto", &headers, &[old], 1500);
}

/// The folder that Debian has a VM's headers in, if they are installed; their versions come and go.
fn headers(place: &str) -> Option<String> {
    let found = Path::new(place).exists();
    if !found {
        println!("SKIPPED: {place} is not installed");
    }
    found.then(|| format!("-I{place}"))
}

#[test]
fn the_python_api_is_as_compiled() {
    if let Some(flag) = headers("/usr/include/python3.11") {
        hold("python", &["Python.h", "datetime.h"], &[&flag], 1000);
    }
}

#[test]
fn the_perl_api_is_as_compiled() {
    if let Some(flag) = headers("/usr/lib/x86_64-linux-gnu/perl/5.36/CORE") {
        hold(
            "perl",
            &["EXTERN.h", "perl.h"],
            &[&flag, "-D_REENTRANT", "-D_LARGEFILE_SOURCE"],
            1000,
        );
    }
}

#[test]
fn the_php_api_is_as_compiled() {
    if let Some(flag) = headers("/usr/include/php/20220829") {
        let below: Vec<String> = ["", "/main", "/Zend", "/TSRM"]
            .iter()
            .map(|of| format!("{flag}{of}"))
            .collect();
        let flags: Vec<&str> = below.iter().map(String::as_str).collect();
        let headers = [
            "main/php.h",
            "Zend/zend_API.h",
            "Zend/zend_exceptions.h",
            "main/php_streams.h",
            "main/SAPI.h",
        ];
        hold("php", &headers, &flags, 900);
    }
}

#[test]
fn the_ruby_api_is_as_compiled() {
    let machine = headers("/usr/include/x86_64-linux-gnu/ruby-3.1.0");
    if let (Some(flag), Some(machine)) = (headers("/usr/include/ruby-3.1.0"), machine) {
        let headers = [
            "ruby.h",
            "ruby/encoding.h",
            "ruby/thread.h",
            "ruby/io.h",
            "ruby/st.h",
            "ruby/debug.h",
        ];
        hold("ruby", &headers, &[&flag, &machine], 800);
    }
}
