//! `lancet heap`, the program, on running processes and on files.
//!
//! | file | what |
//! |---|---|
//! | `allocator` | what jemalloc and tcmalloc have in use and free, held against what the program's own one says |
//! | `clean` | programs that keep nothing: nobody is suspected |
//! | `collector` | a collector that is switched off is said first, and memory that is no object's |
//! | `compact` | what GC.compact would give back, held against what it does |
//! | `copy` | the copy itself while it lives: limits, descriptors |
//! | `core` | core files: the same holders, held against a snapshot of the living; what is wrong with one |
//! | `healthy` | frameworks under requests: nobody is suspected |
//! | `holders` | whoever keeps most alive is the first suspect, with its path |
//! | `killed` | `kill -9` of lancet at any instant |
//! | `ledger` | what resident memory is used for, held against the allocator's and the VM's own figures |
//! | `limited` | memory limits, limits of processes and of the size of a file |
//! | `many` | many objects: memory and time are said before, and held |
//! | `named` | what the VM keeps for itself, callbacks, functions, coroutines and cycles have names in the first row |
//! | `native` | what objects made in C have beside themselves, arrays of numpy and their views among them |
//! | `django` | an application on gunicorn, under load; its arbiter, which forks meanwhile |
//! | `file` | what is asked of a file: answers, formats, what was wrong |
//! | `perl` | what Devel::MAT and Devel::Size say of the same program; a server under load |
//! | `php` | what `memory_get_usage` says of the same program; a php-fpm under load |
//! | `python_truth` | the same objects, references and sizes as `gc` and `sys.getsizeof` say |
//! | `redmine` | an application on puma, under load |
//! | `screen` | `--live` on a terminal |
//! | `surroundings` | first in a namespace, below a parent that takes in orphans, under a filter |
//! | `taken` | a snapshot taken and read |
//! | `unseen` | what the program notices |
//! | `when` | waiting until there is so much in memory |
//! | `truth` | the same objects and references as `ObjectSpace.dump_all` writes |

mod allocator;
mod clean;
mod collector;
mod compact;
mod copy;
mod core;
mod django;
mod file;
mod fragmented;
mod healthy;
mod holders;
mod killed;
mod ledger;
mod limited;
mod many;
mod named;
mod native;
mod own;
mod perl;
mod php;
mod python_truth;
mod redmine;
mod screen;
#[allow(dead_code, unused_imports, reason = "each test target uses its part")]
#[path = "../support/mod.rs"]
mod support;
mod surroundings;
mod taken;
mod truth;
mod unseen;
mod when;
