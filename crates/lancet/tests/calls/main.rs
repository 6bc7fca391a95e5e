//! `lancet calls` on real processes: hooked, heard, left, and no worse for it.
//!
//! | file | what is held |
//! |---|---|
//! | `nasty` | Rubies whose frames leave the stack in every order but the one they came in |
//! | `coroutines` | the same for Python, PHP and Perl: greenlet, gevent, fibers, dies and alarms |
//! | `sleepers` | threads asleep in system calls that end with EINTR when interrupted see none |
//! | `small` | coroutines and handlers on stacks with hardly any room |
//! | `served` | a Puma under load, opened and left again and again |
//! | `machine` | C and C++: exceptions, longjmp, contexts, signals, threads, fork, every way to pass an argument |
//! | `values` | arguments and results of every kind are shown as the program passed and got them |
//! | `exact` | every call is counted, every call is told, with its arguments and result |
//! | `guarded` | stacks of threads in one mapping, with guards that split none |
//! | `everything` | all of a program at once: 60,000 functions, functions that look for themselves, Go refused |
//! | `programs` | everything of real programs at once, while they work |
//! | `coverage` | nearly every function of the interpreters and their libraries can be hooked |
//! | `ltrace` | `--ltrace`: lines as ltrace prints them, `-e`, `-l`, `-x`, `-C`, `-w` |
//! | `ends` | a guest that ends takes nothing along |
//! | `every_place` | `lancet syscalls` on programs linked in every way: strace's counts, or a loss |
//! | `numbered` | `lancet syscalls` beside the kernel's own count: what no hook sees is a loss with its number |
//! | `system_calls` | `-S`: exact, and in every way that a probe around one could get wrong |
//! | `strace` | `lancet syscalls`: the lines are strace's, of calls of every family and of real programs |
//! | `answers` | `syscalls` where its answer is short: nothing came of what was asked for, something is in the way, a program asks |
//! | `as_strace` | `syscalls --strace -- PROGRAM`: ends, PID namespaces, what a program is given; what is wrong, in one line |
//! | `bpf` | `syscalls --by bpf` and `--no-modify -c`: counts, lines, namespaces, permissions, nothing stays |
//! | `goroutines` | `lancet syscalls` on Go: counts beside strace, opened and left |
//! | `elsewhere` | a guest in another PID namespace: ids are lancet's own |
//! | `strangers` | children of a guest that are not its own |
//! | `allocations` | `-c --preset alloc`: what is not freed, by function and line |
//! | `who` | `lancet syscalls`: exact counts by function and line, `--in`, `--at`, `--leaks`, `--blocked` |
//! | `lasting` | what outlives a guest that is killed, and a thread that is dead |
//! | `started` | programs that we start, from before their first instruction |
//! | `failed` | a panic of lancet: the guests are left, one line, exit code 1 |
//! | `family` | children, and programs that they run; several guests |
//! | `asked` | `--where` and `--min-time`: what is asked for is told |
//! | `compared` | `--where` on values of the script's language |
//! | `refused` | what cannot be opened, and what ends in the middle: one line, guest as it was |
//! | `frames_alone` | script lines of VMs of which nothing but frames is read |
//! | `few_files` | few descriptors for lancet (`ulimit -n`): said, nobody called gone, no jump stays |
//! | `capability` | `CAP_SYS_PTRACE` and no other capability: processes of others are seen and put back |
//! | `bound` | names that are bound while we watch, and two names of one function |
//! | `vanishing` | memory that another thread takes away while a hook reads it |
//! | `linked` | every way to link and load what is called |
//! | `little_memory` | a limit of address space of lancet's own: one line, and no hook stays |
//! | `recorded` | files: what was seen is seen again |
//! | `probes` | static probes in mid-function |
//! | `json` | `--json` and docs/json.md |
//! | `killed` | `kill -9` of lancet at random instants |
//! | `hostile` | guests that mean harm, a full standard error, files of others: nothing outside changes |
//! | `scribbled` | guests that write over control page, rings, hooks, their own heap and files while root looks: nothing outside changes |
//! | `outputs` | results that cannot be written: a limit for the size of files, streams that are closed or full; files below others' links |
//! | `panics` | a panic of the agent inside a hook ends the session, not the guest |
//! | `drivers` | the four examples of 2009: Ruby, Python, Perl and PHP ask a real MariaDB |
//! | `unwound` | calls that an exception or a jump leaves are counted, and shown as left |
//! | `stays` | the hook on the unwinder: what keeps it, what is said, who takes it out |
//! | `execs` | processes that run another program while they are opened |
//! | `unwinders` | libraries that bring their own unwinder throw through hooked functions |
//! | `unreturned` | calls of a preset that have not returned when a process is left |
//! | `stalled` | lancet that is stopped, readers that stop: the guest goes on, and what is missing is said |
//! | `through` | whose line is told, where libraries stand between it and the call |
//! | `now` | `--now`: calls that began before lancet came |
//! | `hangs` | `syscalls --blocked`: owners of locks, the other ends of pipes and sockets, deadlocks; owners that lie |
//! | `names` | functions by the name of the script's language, values of it |
//! | `collections` | garbage collections, as often as the VM says |
//! | `late` | libraries that scripts load after the attach, from their first call |
//! | `descriptors` | `--preset files`: what is still open, against the kernel's list |
//! | `budget` | hooks that cost too much are taken out, and the others go on |
//! | `presets` | what the presets are about is seen, told apart and counted |
//! | `lines` | what `-ttT` prints, read back |
//! | `together` | several commands on one process: each right, leaving in any order, killed |
//! | `watch` | lancet at work, and programs of `fixtures/c` |
//!
//! The environment variables are those of the tests in `mem`; `LANCET_SCRIPTS` names the other
//! interpreters, `python-system perl-system php-system` unless it is set: `python-3.9 php-8.4` are roots.

#[allow(dead_code, unused_imports, reason = "each target uses its part")]
#[path = "../support/mod.rs"]
mod support;

mod allocations;
mod answers;
mod application;
mod as_strace;
mod asked;
mod bare_children;
mod batches;
mod bound;
mod bpf;
mod budget;
mod by_kernel;
mod capability;
mod collections;
mod compared;
mod coroutines;
mod counts;
mod coverage;
mod descriptors;
mod drivers;
mod elsewhere;
mod ends;
mod every_place;
mod everything;
mod exact;
mod execs;
mod failed;
mod family;
mod few_files;
mod first_thread;
mod frames_alone;
mod given_back;
mod goroutines;
mod guarded;
mod hangs;
mod held;
mod hostile;
mod injected;
mod json;
mod killed;
mod lasting;
mod late;
mod led;
mod lines;
mod linked;
mod little_memory;
mod locked;
mod ltrace;
mod machine;
mod many_rows;
mod names;
mod nasty;
mod now;
mod numbered;
mod opcache;
mod outputs;
mod panics;
mod presets;
mod probes;
mod programs;
mod prompt;
mod recorded;
mod recorded_large;
mod recorded_parts;
mod refused;
mod room;
mod scribbled;
mod served;
mod servers;
mod sleepers;
mod small;
mod stalled;
mod started;
mod stays;
mod strace;
mod strangers;
mod system_calls;
mod through;
mod together;
mod traced;
mod unreturned;
mod unwinders;
mod unwound;
mod values;
mod vanishing;
mod watch;
mod who;
