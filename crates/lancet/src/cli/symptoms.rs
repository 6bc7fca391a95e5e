//! What people see, and what they type then: shown by `lancet` and `lancet --help`. README has the whole table.

/// At most 80 columns, so that no line is broken on a small terminal.
pub const SYMPTOMS: &str = "\
What you see, and what to type (PID: `pgrep -af NAME` shows it):
  memory grows, at which line   lancet mem -p PID --for 20s
  … who keeps objects alive     lancet heap -p PID
  … not explained by objects    lancet heap -p PID --rss
  it hangs                      lancet stack -p PID
  … each thread in one row      lancet calls --now -p PID
  it is slow                    lancet stack -p PID --for 10s
  it takes all CPU              lancet profile -p PID
  slow SQL, or too much of it   lancet calls -c --preset sql -p PID --for 10s
  collections take long         lancet calls -c --preset gc -p PID --for 10s
  too many open files           lancet calls -c --preset files -p PID --for 20s
  too many system calls         lancet syscalls -c -p PID --for 10s
  who calls a C function        lancet calls -x mysql_real_query -p PID
  a function is wrong           lancet patch -p PID total@libshop=fix.so:total
  is the machine set up for it  lancet tune -p PID
";

#[cfg(test)]
mod tests {
    use super::SYMPTOMS;

    #[test]
    fn each_line_is_one_of_the_readme_and_fits() {
        let readme = include_str!("../../../../README.md");
        let lines: Vec<&str> = SYMPTOMS.lines().skip(1).collect();
        assert!(lines.len() > 10);
        for line in lines {
            let at = line.find("  lancet ").expect("a command");
            let command = line[at..].trim();
            assert!(readme.contains(&format!("`{command}`")), "{command}");
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
