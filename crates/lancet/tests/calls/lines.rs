//! Lines of `-ttT`, read back.

/// A call that was told whole: `14:10:54.994915 write(1, "hello 40\n", 9) = 9 <0.000005104> ← /srv/p.py:3 in 'show'`.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// The time of day, in seconds.
    pub time: f64,
    pub function: String,
    pub arguments: String,
    pub result: String,
    /// In seconds.
    pub took: f64,
    /// The script's line; empty where there is none.
    pub line: String,
}

/// The calls of an output that stand on one line each; prefixes like `[pid 12]` are left out.
pub fn shown(output: &str) -> Vec<Shown> {
    output.lines().filter_map(read).collect()
}

/// Those of one function.
pub fn of<'a>(shown: &'a [Shown], function: &str) -> Vec<&'a Shown> {
    let calls = shown.iter().filter(|shown| shown.function == function);
    calls.collect()
}

fn read(line: &str) -> Option<Shown> {
    let line = match line.strip_prefix('[') {
        Some(rest) => rest.split_once("] ")?.1,
        None => line,
    };
    let (time, rest) = line.split_once(' ')?;
    let (call, line) = match rest.split_once(" ← ") {
        Some((call, line)) => (call, line),
        None => (rest, ""),
    };
    let (call, took) = call.rsplit_once(" <")?;
    let (call, result) = call.rsplit_once(" = ")?;
    let (function, arguments) = call.trim_end().strip_suffix(')')?.split_once('(')?;
    Some(Shown {
        time: of_day(time)?,
        function: function.into(),
        arguments: arguments.into(),
        result: result.into(),
        took: took.strip_suffix('>')?.parse().ok()?,
        line: line.into(),
    })
}

/// `14:10:54.994915`: microseconds, all six digits.
fn of_day(text: &str) -> Option<f64> {
    let (_, fraction) = text.split_once('.')?;
    if fraction.len() != 6 {
        return None;
    }
    let parts = text.split(':').map(|part| part.parse::<f64>().ok());
    match parts.collect::<Option<Vec<f64>>>()?[..] {
        [hours, minutes, seconds] => Some((hours * 60.0 + minutes) * 60.0 + seconds),
        _ => None,
    }
}
