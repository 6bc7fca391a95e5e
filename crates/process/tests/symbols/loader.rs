//! What comes and goes, by the loader's own list.

use std::process::Command;

use process::linkmap;
use process::symbols::Symbols;

use crate::guests::{Guest, TempDir, compile};

const LOADER: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    (void)argc;
    char line[8];
    puts("ready"); fflush(stdout); fgets(line, 8, stdin);
    void *handle = dlopen(argv[1], RTLD_NOW);
    void *other = dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW);
    puts(handle && other ? "ready" : dlerror()); fflush(stdout); fgets(line, 8, stdin);
    dlclose(handle);
    puts("ready"); fflush(stdout); fgets(line, 8, stdin);
}
"#;

#[test]
fn the_loaders_list_shows_what_comes_and_goes() {
    let folder = TempDir::new();
    let (program, library) = (
        folder.path().join("program"),
        folder.path().join("plugin.so"),
    );
    compile(LOADER, &["-ldl"], &program);
    compile("int plugged = 5;", &["-shared", "-fPIC"], &library);
    let mut command = Command::new(&program);
    command.arg(&library);
    let mut guest = Guest::start_ready(command);
    let memory = guest.memory();
    let all = guest.modules();
    let main = all.iter().find(|module| module.main).unwrap();
    let at = linkmap::find(main, &memory)
        .unwrap()
        .expect("DT_DEBUG is filled");
    let loader = all
        .iter()
        .find(|module| module.name().starts_with("ld-"))
        .unwrap();
    let symbols = Symbols::open(&guest.files, loader, &memory).unwrap();
    assert_eq!(linkmap::find_by_symbol(&symbols, &memory), Some(at));

    let before = linkmap::read(&memory, at).unwrap();
    assert!(before.consistent && before.loader == loader.bias);
    assert!(loader.contains(before.brk));
    assert_eq!(linkmap::changes(&before, &before).loaded.len(), 0);
    for entry in &before.entries {
        let listed = all
            .iter()
            .any(|module| module.bias == entry.bias && module.contains(entry.dynamic));
        assert!(
            listed || entry.path.as_os_str() == "linux-vdso.so.1",
            "{entry:?}"
        );
    }

    guest.go_on();
    let open = linkmap::read(&memory, at).unwrap();
    let loaded = linkmap::changes(&before, &open);
    assert!(loaded.unloaded.is_empty());
    let plugins: Vec<_> = loaded
        .loaded
        .iter()
        .filter(|entry| entry.path == library)
        .collect();
    let namespaces: Vec<usize> = plugins.iter().map(|entry| entry.namespace).collect();
    // The second one needs glibc 2.35 to be seen.
    assert_eq!(
        namespaces,
        if open.version >= 2 {
            vec![0, 1]
        } else {
            vec![0]
        }
    );
    let twice = guest
        .modules()
        .into_iter()
        .filter(|module| module.path == library);
    assert_eq!(twice.count(), 2, "loaded twice, two modules");

    guest.go_on();
    let closed = linkmap::read(&memory, at).unwrap();
    let gone = linkmap::changes(&open, &closed);
    assert!(gone.loaded.is_empty());
    assert_eq!(gone.unloaded, [*plugins[0]]);
}
