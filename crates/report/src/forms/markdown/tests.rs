//! What Markdown is made of records, as a whole.

use super::super::form::tests::shown;
use super::*;

const PROCESS: &str = r#"{"record":"process","schema":2,"pid":7,"command":["ruby","a|b.rb"],"languages":[{"name":"Ruby","version":"3.1.2"}]}"#;
#[test]
fn what_was_found_comes_first_and_what_was_lost_last() {
    let text = shown(
        &FORM,
        &[
            PROCESS,
            r#"{"record":"note","pid":7,"text":"a note"}"#,
            r#"{"record":"row","pid":7,"place":{"path":"a.rb","line":3,"function":"__init__"},"address":"0x7f","mean_ns":1500000,"bytes":2048,"failed":0}"#,
            r#"{"record":"total","calls":1234}"#,
            r#"{"record":"verdict","text":"leak: @cache of <main>"}"#,
            r#"{"record":"losses","losses":[{"pid":7,"what":"gap","count":null,"text":"a gap"}],"more":2}"#,
        ],
    );
    assert_eq!(
        text,
        "### `ruby a|b.rb` (process 7, Ruby 3.1.2)\n\n\
         **leak: `@cache` of `<main>`**\n\n\
         - a note\n\n\
         row\n\n\
         | place | mean | bytes |\n|---|--:|--:|\n| `a.rb:3 in __init__` | 1.5 ms | 2.0 KiB |\n\n\
         total: calls 1,234\n\n\
         **Lost:**\n\n- a gap\n- … and 2 more; `--format json` has all\n"
    );
}

const END: &str = r#"{"record":"losses","losses":[],"more":0}"#;

#[test]
fn tables_and_processes_are_bounded_and_what_is_left_out_is_numbered() {
    let mut lines = Vec::new();
    for pid in 0..MOST_SECTIONS + 2 {
        lines.push(PROCESS.replace('7', &pid.to_string()));
        lines.extend(vec![
            r#"{"record":"row","live":5}"#.to_owned();
            MOST_ROWS + 3
        ]);
        lines.push(format!(
            "{{\"record\":\"verdict\",\"text\":\"leak {pid}\"}}"
        ));
    }
    lines.push(END.to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let text = shown(&FORM, &lines);
    let count = |of: &str| text.matches(of).count();
    assert_eq!(
        (count("### "), count("| 5 |")),
        (MOST_SECTIONS, MOST_SECTIONS * MOST_ROWS)
    );
    assert_eq!(count("… and 3 more; "), MOST_SECTIONS);
    assert!(
        text.ends_with(
            "… and 2 more processes; `--format json` has all\n\n\
             - `ruby a|b.rb` (process 16, Ruby 3.1.2): leak 16\n\
             - `ruby a|b.rb` (process 17, Ruby 3.1.2): leak 17\n\n\
             Nothing was lost.\n"
        ),
        "{text}"
    );
}

#[test]
fn the_last_look_at_a_process_stays() {
    let mut lines = Vec::new();
    for number in 0..MOST_SECTIONS + 5 {
        for pid in [7, 8] {
            lines.push(PROCESS.replace('7', &pid.to_string()));
            lines.push(format!(
                "{{\"record\":\"look\",\"pid\":{pid},\"looks\":{number}}}"
            ));
            lines.push(format!(
                "{{\"record\":\"verdict\",\"pid\":{pid},\"text\":\"verdict {number}\"}}"
            ));
        }
    }
    lines.push(END.to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let section = |pid: usize| {
        format!(
            "### `ruby a|b.rb` (process {pid}, Ruby 3.1.2)\n\n**verdict 20**\n\n\
             The last look; `--format json` has the 20 before it.\n\nlook: looks 20\n\n"
        )
    };
    assert_eq!(
        shown(&FORM, &lines),
        format!("{}{}Nothing was lost.\n", section(7), section(8))
    );
}

#[test]
fn calls_stand_under_their_own_process_or_name_it() {
    let call =
        |pid: usize| format!("{{\"record\":\"call\",\"pid\":{pid},\"function\":\"f{pid}\"}}");
    let child = PROCESS.replace('7', "8");
    let calls = [call(7), call(8), call(7)];
    let text = shown(
        &FORM,
        &[PROCESS, &calls[0], &child, &calls[1], &calls[2], END],
    );
    let (parent, child_text) = text
        .split_once("### `ruby a|b.rb` (process 8")
        .expect("two");
    assert_eq!(parent.matches("| `f7` |").count(), 2, "{text}");
    assert_eq!(child_text.matches("| `f8` |").count(), 1, "{text}");
    assert!(!text.contains("| pid |"), "{text}");
    let unknown = call(9);
    let text = shown(&FORM, &[PROCESS, &calls[0], &unknown, END]);
    assert!(text.contains("| pid | function |"), "{text}");
    assert!(text.contains("| 9 | `f9` |"), "{text}");
    let text = shown(&FORM, &[PROCESS, &child, &calls[0], &calls[1], END]);
    assert!(text.contains("| 8 | `f8` |"), "{text}");
}

#[test]
fn each_stack_has_its_frames_and_each_thread_what_it_waits_for() {
    let mut lines = vec![PROCESS.to_owned()];
    for tid in 0..MOST_ROWS + 2 {
        lines.push(format!(
            "{{\"record\":\"stack\",\"pid\":7,\"tid\":{tid},\"state\":{{\"running\":false,\"call\":\"read\",\"on\":[\"pipe {tid}\"]}}}}"
        ));
        for number in 0..3 {
            lines.push(format!(
                "{{\"record\":\"frame\",\"tid\":{tid},\"function\":\"f{number}_{tid}\"}}"
            ));
        }
    }
    lines.push(END.to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let text = shown(&FORM, &lines);
    assert!(text.contains("| 3 | `call read, on pipe 3` |"), "{text}");
    assert!(
        text.contains(
            "frame of thread 9\n\n| function |\n|---|\n| `f0_9` |\n| `f1_9` |\n| `f2_9` |\n"
        ),
        "{text}"
    );
    assert!(text.contains("\n… and 6 frames of more stacks;"), "{text}");
}

/// A VM has more frames between two lines of a script than a table has rows.
#[test]
fn of_a_stack_the_frames_that_run_a_script_are_told() {
    let mut lines = vec![PROCESS.to_owned()];
    for number in 0..40 {
        let script = format!("{{\"path\":\"a.rb\",\"line\":{number},\"function\":null}}");
        let scripts = if number % 20 == 19 {
            script
        } else {
            String::new()
        };
        lines.push(format!(
            "{{\"record\":\"frame\",\"tid\":7,\"function\":\"f{number}\",\"scripts\":[{scripts}]}}"
        ));
    }
    lines.push(END.to_owned());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let text = shown(&FORM, &lines);
    let table = "| function | scripts |\n|---|---|\n| `f0` |  |\n| `f19` | `a.rb:19` |\n| `f39` | `a.rb:39` |\n\n… and 37 more; ";
    assert!(text.contains(table), "{text}");
}

#[test]
fn fields_that_are_left_out_are_numbered() {
    let fields: Vec<String> = (0..26).map(|at| format!("\"f{at}\":{}", at + 1)).collect();
    let line = |kind: &str| format!("{{\"record\":\"{kind}\",{}}}", fields.join(","));
    let text = shown(&FORM, &[&line("row"), &line("total"), END]);
    assert!(text.contains("… and 18 more fields; "), "{text}");
    assert!(text.contains("… and 2 more fields; "), "{text}");
}

#[test]
fn an_answer_that_is_cut_off_says_so() {
    let row = r#"{"record":"row","live":5}"#;
    assert!(shown(&FORM, &[row]).ends_with("**The answer was cut off here.**\n"));
    assert_eq!(shown(&FORM, &[]), "");
}
