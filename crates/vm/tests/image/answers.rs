//! What a reader says of a process, as text.

use std::fmt::Write;

use vm::Memory;
use vm::ruby::{Error, Facts, Frame, Limits, Reference, Ruby};
use vm::{perl, php, python};

/// Looks up what a process exports.
pub type Symbol<'a> = &'a dyn Fn(&str) -> Option<u64>;

/// What is said of a process of which the image has this name, `ruby-3.4`; of a Ruby also of the Array `value` in it.
pub fn of(name: &str, memory: &dyn Memory, symbol: Symbol, value: u64) -> String {
    let (memory, mut out) = (&memory, String::new());
    let language = name.split('-').next();
    let read: Result<(), String> = match language {
        Some("ruby") => write_ruby(memory, symbol, value, &mut out).map_err(|it| it.to_string()),
        Some("python") => write_python(memory, symbol, &mut out).map_err(|it| it.to_string()),
        Some("perl") => write_perl(memory, symbol, &mut out).map_err(|it| it.to_string()),
        Some("php") => write_php(memory, symbol, &mut out).map_err(|it| it.to_string()),
        _ => panic!("{name}: a language without a reader"),
    };
    match read {
        Ok(()) => out,
        Err(why) => format!("cannot be read: {why}\n{out}"),
    }
}

fn write_ruby<M: Memory>(
    memory: &M,
    symbol: Symbol,
    value: u64,
    out: &mut String,
) -> Result<(), Error> {
    let facts = Facts::find(memory, symbol)?;
    let ruby = Ruby::new(memory, facts)?;
    let vm = ruby.vm()?;
    writeln!(
        out,
        "Ruby {}, Ractors: {}",
        facts.version(),
        ruby.ractor_count(vm)?
    )?;
    threads(&ruby, vm, out)?;
    functions(&ruby, out)?;
    ruby.write_value(value, &Limits::default(), out)?;
    writeln!(out)?;
    elements(&ruby, value, out)
}

fn threads<M: Memory>(ruby: &Ruby<M>, vm: u64, out: &mut String) -> Result<(), Error> {
    let main = ruby.main_thread(vm)?;
    let mut threads = Vec::new();
    ruby.threads_beside(vm, main, &mut |thread| threads.push(thread));
    for thread in threads {
        write!(out, "thread ")?;
        match ruby.thread_name(thread)? {
            Some(name) => ruby.write_text(name, 100, out)?,
            None => write!(out, "(main)")?,
        }
        writeln!(
            out,
            ": turn {:?}, holds {}, wants {}, joined by {}",
            ruby.turn(thread),
            ruby.held_mutexes(thread).count(),
            ruby.wanted_mutex(thread)?.is_some(),
            ruby.joining(thread).count()
        )?;
        let ec = ruby.running_ec(thread)?;
        for frame in ruby.frames(ec, ruby.current_cfp(ec)?)? {
            write_frame(ruby, frame?, out)?;
        }
    }
    Ok(())
}

fn write_frame<M: Memory>(ruby: &Ruby<M>, frame: Frame, out: &mut String) -> Result<(), Error> {
    write!(out, "  ")?;
    ruby.write_text(ruby.path(frame.iseq)?, 100, out)?;
    write!(out, ":{} ", ruby.line(frame.iseq, frame.pc)?)?;
    ruby.write_text(ruby.label(frame.iseq)?, 100, out)?;
    let mut method = String::new();
    if ruby.write_method(frame.cfp, &mut method)? {
        write!(out, " in {method}")?;
    }
    writeln!(out)?;
    Ok(())
}

fn functions<M: Memory>(ruby: &Ruby<M>, out: &mut String) -> Result<(), Error> {
    for name in ["String#upcase", "Process.clock_gettime", "sleep"] {
        let function = ruby.function(name)?;
        write!(out, "{name}: {:?} of ", function.convention)?;
        ruby.write_class_name(function.owner, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// What the elements of the Array refer to, by name.
fn elements<M: Memory>(ruby: &Ruby<M>, value: u64, out: &mut String) -> Result<(), Error> {
    let mut all = Vec::new();
    ruby.references(value, 100, &mut |target, _| all.push(target))?;
    for element in all {
        ruby.write_type(element, out)?;
        writeln!(
            out,
            ", {} bytes",
            ruby.size(element, ruby.page_of(element)?.slot_size)?
        )?;
        if let Ok(Some((_, name))) = ruby.data_type(element) {
            let mut text = [0; 40];
            let length = ruby.copy_c_text(name, &mut text)?;
            writeln!(out, "  a {}", String::from_utf8_lossy(&text[..length]))?;
        }
        let mut found = Vec::new();
        ruby.references(element, 100, &mut |target, name| found.push((target, name)))?;
        for (target, name) in found {
            let id = match name {
                Reference::Variable(id) | Reference::Local(id) => Some(id),
                _ => None,
            };
            let text = match id {
                Some(id) => ruby.id_text(id)?,
                None => None,
            };
            let Some(text) = text else { continue };
            write!(out, "  ")?;
            ruby.write_text(text, 100, out)?;
            write!(out, " = ")?;
            ruby.write_value(target, &Limits::default(), out)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn write_python<M: Memory>(
    memory: &M,
    symbol: Symbol,
    out: &mut String,
) -> Result<(), python::Error> {
    let facts = python::Facts::for_frames(memory, symbol)?;
    let python = python::Python::new(memory, facts)?;
    let is_free_threaded = facts.is_free_threaded();
    writeln!(
        out,
        "Python {}, free-threaded: {is_free_threaded}",
        facts.version()
    )?;
    let mut names = Vec::new();
    python.each_thread_name(&mut |id, name| names.push((id, name)))?;
    for thread in python.all_threads() {
        let thread = thread?;
        let is_own = python.thread_state(thread.id)? == Some(thread.address);
        write!(out, "thread ")?;
        if let Some((_, name)) = names.iter().find(|(id, _)| *id == thread.id) {
            python.write_text(*name, 100, out)?;
        }
        let mut held = 0;
        python.each_held(thread.address, &mut |_| held += 1)?;
        writeln!(
            out,
            ": holds {held}{}",
            if is_own {
                ""
            } else {
                ", not by its own pointer"
            }
        )?;
        for frame in python.frames(thread.address) {
            let point = frame?.point;
            write!(out, "  ")?;
            python.write_text(python.file(point.code)?, 100, out)?;
            write!(out, ":{} ", python.line(point)?.unwrap_or(0))?;
            python.write_text(python.function_name(point.code)?, 100, out)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn write_perl<M: Memory>(memory: &M, symbol: Symbol, out: &mut String) -> Result<(), perl::Error> {
    let facts = perl::Facts::find(memory, symbol)?;
    let perl = perl::Perl::new(memory, facts)?;
    writeln!(out, "Perl {}", facts.version())?;
    for frame in perl.frames(&perl.main_interpreter())? {
        let frame = frame?;
        write!(out, "  ")?;
        if let Some(point) = frame.point {
            let (file, line) = perl.position(point)?;
            perl.write_text(file, 100, out)?;
            write!(out, ":{line}")?;
        }
        match frame.kind {
            perl::Kind::Sub { code } => {
                write!(out, " ")?;
                perl.write_code_name(code, out)?;
            }
            kind => write!(
                out,
                " {}",
                format!("{kind:?}").split(' ').next().unwrap_or("")
            )?,
        }
        writeln!(out, "{}", if frame.enters { ", begins" } else { "" })?;
    }
    Ok(())
}

fn write_php<M: Memory>(memory: &M, symbol: Symbol, out: &mut String) -> Result<(), php::Error> {
    let facts = php::Facts::find(memory, symbol)?;
    let php = php::Php::new(memory, facts)?;
    writeln!(out, "PHP {}", facts.version())?;
    for frame in php.frames(php.current()?) {
        let frame = frame?;
        write!(out, "  ")?;
        if let Some(point) = frame.point {
            php.write_text(php.file(point)?, 100, out)?;
            write!(out, ":{}", php.line(point)?)?;
        }
        write!(out, " {:?} ", frame.kind)?;
        php.write_function_name(frame.function, out)?;
        writeln!(out, "{}", if frame.enters { ", begins" } else { "" })?;
    }
    Ok(())
}
