//! The paragraphs of a page in lines that are not too long to read. Used by `page`.

/// Columns of a line of text.
const COLUMNS: usize = 120;

/// The page with its paragraphs in lines of [`COLUMNS`] at most; rows of tables, titles and lists are left as they are.
pub fn wrapped(page: &str) -> String {
    let mut out = String::new();
    for block in page.split_inclusive("\n\n") {
        if block.starts_with(['|', '#', '-']) {
            out.push_str(block);
            continue;
        }
        let mut column = 0;
        for word in block.split_whitespace() {
            let length = word.chars().count();
            if column > 0 && column + 1 + length > COLUMNS {
                out.push('\n');
                column = 0;
            } else if column > 0 {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += length;
        }
        out.push_str(&block[block.trim_end().len()..]);
    }
    out
}
