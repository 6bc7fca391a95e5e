//! The live screen, painted. Nothing is kept here from one painting to the next.

use births::analysis::{Counts, Delta, Rest, Unit};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use report::figures::{change, grouped, pause, plural, size, size_change, span};
use report::mem::sentences;
use report::mem::table::{share, subject, title};
use report::text::printable;

use super::state::{LiveRow, Sort, State};
use crate::ui::screen::{bold, dim, fitting, painted, right, wrapped};

/// The widths of the number columns: live, its growth, bytes, its growth, born.
const FIGURES: [u16; 5] = [13, 12, 11, 12, 15];

/// So many of them stay however narrow the screen is.
const LEAST_FIGURES: usize = 2;

/// What the keys do.
const KEYS: &str = "q quit  s sort  g group  p pause  m mark growth from here  Tab next process";

/// Paints the whole screen.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let Some(census) = state.guest() else {
        frame.render_widget(Paragraph::new("opening…"), frame.area());
        return;
    };
    let losses = u16::from(!census.losses.is_empty());
    let (said, leaks) = match &state.verdict {
        Some(verdict) => sentences(verdict, census),
        None => (Vec::new(), false),
    };
    let width = usize::from(frame.area().width);
    let said: Vec<Line<'_>> = said.iter().flat_map(|text| wrapped(text, width)).collect();
    let lines = said.len() as u16;
    let [head, judged, totals, lost, _, table, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(lines),
        Constraint::Length(1),
        Constraint::Length(losses),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(frame.area());

    let which = match state.choices() {
        0 | 1 => String::new(),
        choices => format!(" [1 of {choices}, Tab]"),
    };
    let text = format!(
        "{}, watched for {}{which}",
        subject(census),
        span(census.seconds)
    );
    frame.render_widget(Paragraph::new(text).style(bold()), head);
    let tone = if leaks {
        painted(state.color, Color::Red).add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    frame.render_widget(Paragraph::new(said).style(tone), judged);
    frame.render_widget(Paragraph::new(summary(state)), totals);
    if let Some(loss) = census.losses.first() {
        let more = match census.losses.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let text = format!("lost: {}{more}", printable(&loss.text));
        frame.render_widget(
            Paragraph::new(text).style(painted(state.color, Color::Yellow)),
            lost,
        );
    }
    rows(frame, state, table);
    frame.render_widget(Paragraph::new(KEYS).style(dim()), keys);
}

/// The line below the head: totals, how they changed, what a look costs.
fn summary(state: &State) -> Line<'static> {
    let (total, grown) = (state.total, state.grown);
    let cost = state.guest().map_or_else(String::new, |census| {
        let walk = pause(census.walk_pause);
        let looks = share(census).map_or_else(String::new, |share| format!("; {share}"));
        match census.gc_pause {
            _ if census.unit == Unit::Block => String::new(),
            Some(gc) => format!("paused {} GC, {walk} count{looks}", pause(gc)),
            None => format!("paused {walk} count, no GC{looks}"),
        }
    });
    let [one, many] = match state.guest() {
        Some(census) => census.counted(),
        None => ["object", "objects"],
    };
    let objects = plural(total.live, one, many);
    let mut spans = vec![
        Span::raw(format!("{} {objects} ", grouped(total.live))),
        Span::styled(change(grown.live), tone(state, grown.live)),
        Span::raw(format!(", {} ", size(total.bytes))),
        Span::styled(size_change(grown.bytes), tone(state, grown.bytes)),
        Span::raw(format!(" in {}; {cost}", span(state.grown_for()))),
    ];
    if state.paused() {
        spans.push(Span::styled("  PAUSED", bold()));
    }
    Line::from(spans)
}

/// As many rows as there is room for, what is below them in one line.
fn rows(frame: &mut Frame<'_>, state: &State, area: Rect) {
    // One line is the heading.
    let room = usize::from(area.height.saturating_sub(1));
    let fits = state.rows.len() <= room && state.rest.is_none();
    let count = if fits {
        state.rows.len()
    } else {
        room.saturating_sub(1).min(state.rows.len())
    };
    let (above, below) = state.rows.split_at(count);

    // The name of a row is never what is cut: figures give way to it, the last ones first.
    let longest = above.iter().map(|row| row.name.chars().count()).max();
    let columns = fitting(&FIGURES, LEAST_FIGURES, longest.unwrap_or(0), area.width);
    let mut lines: Vec<Row<'_>> = above.iter().map(|row| line(state, row, columns)).collect();
    if !fits {
        lines.push(remainder(state.rest, below, columns));
    }
    let widths = FIGURES.into_iter().take(columns).map(Constraint::Length);
    let widths = widths.chain([Constraint::Fill(1)]);
    let table = Table::new(lines, widths).header(heading(state, columns));
    frame.render_widget(table, area);
}

fn heading(state: &State, columns: usize) -> Row<'static> {
    let sorted = |name: &'static str, by: Sort| {
        let mark = if state.sort == by { "▼" } else { "" };
        format!("{mark}{name}")
    };
    let names = [
        sorted("live", Sort::Live),
        sorted("+live", Sort::Growth),
        sorted("bytes", Sort::Bytes),
        "+bytes".into(),
        "born".into(),
    ];
    let unit = state.guest().map_or(Unit::Object, |census| census.unit);
    let cells = names
        .into_iter()
        .take(columns)
        .map(right)
        .chain([Cell::from(title(state.by(), unit))]);
    Row::new(cells).style(bold())
}

fn line<'a>(state: &State, row: &'a LiveRow, columns: usize) -> Row<'a> {
    let Counts {
        live, bytes, born, ..
    } = row.counts;
    let Delta {
        live: more,
        bytes: heavier,
        ..
    } = row.delta;
    let figures = [
        right(grouped(live)),
        right(change(more)).style(tone(state, more)),
        right(size(bytes)),
        right(size_change(heavier)).style(tone(state, heavier)),
        right(if row.before {
            "-".into()
        } else {
            grouped(born)
        }),
    ];
    let cells = figures.into_iter().take(columns);
    Row::new(cells.chain([Cell::from(row.name.as_str())])).style(if row.before {
        dim()
    } else {
        Style::new()
    })
}

fn remainder(rest: Option<Rest>, below: &[LiveRow], columns: usize) -> Row<'static> {
    let mut counts: Counts = below.iter().map(|row| row.counts).sum();
    let mut hidden = below.len();
    if let Some(rest) = rest {
        counts += rest.counts;
        hidden += rest.rows;
    }
    let grown: Delta = below.iter().map(|row| row.delta).sum();
    let text = format!(
        "… and {} more {}",
        grouped(hidden as u64),
        plural(hidden as u64, "row", "rows")
    );
    let figures = [
        right(grouped(counts.live)),
        right(change(grown.live)),
        right(size(counts.bytes)),
        right(size_change(grown.bytes)),
        right(grouped(counts.born)),
    ];
    let cells = figures.into_iter().take(columns);
    Row::new(cells.chain([Cell::from(text)])).style(dim())
}

/// What grows is red, what shrinks is green.
fn tone(state: &State, change: i64) -> Style {
    match change {
        1.. => painted(state.color, Color::Red),
        0 => Style::new(),
        _ => painted(state.color, Color::Green),
    }
}
