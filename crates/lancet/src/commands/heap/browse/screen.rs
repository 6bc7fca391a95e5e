//! Paints the browser of heap snapshots. Used by `browse`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use report::heap::{losses, table, words};
use report::text::printable;

use super::page::{Item, Sort};
use super::rows;
use super::state::State;
use crate::ui::screen::{bold, dim, fitting, painted, right, wrapped};

/// The widths of the number columns: retained, bytes, objects.
const FIGURES: [u16; 3] = [11, 11, 11];
/// So many of them stay however narrow the screen is.
const LEAST_FIGURES: usize = 1;
/// What the keys do; the last ones where the process can be copied again.
const KEYS: &[&str] = &[
    "q quit",
    "Enter open",
    "Esc back",
    "Tab page",
    "←→ tree",
    "s sort",
    "/ find",
    "t what it dominates",
];
const RENEW: &[&str] = &["n new snapshot", "m mark: what comes from here is new"];
/// Below so many lines nothing is said of the chosen row besides.
const LOW: u16 = 14;
/// Lines that are said of it at most.
const DETAIL: usize = 4;

/// Paints the whole screen.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let area = frame.area();
    let width = usize::from(area.width);
    let answers = state.view.answers;
    let first = words::first(answers).into_iter();
    let sums = first.chain([table::sums(answers)]);
    let sums: Vec<Line<'_>> = sums
        .flat_map(|text: String| wrapped(&printable(&text), width))
        .collect();
    let said = state.page().head.iter();
    let said: Vec<Line<'_>> = said
        .flat_map(|text| wrapped(&printable(text), width))
        .collect();
    let mut detail = wrapped(&printable(&state.detail), width);
    detail.truncate(if area.height < LOW { 0 } else { DETAIL });
    let notes = notes(state);
    let keys = last_lines(state, width);
    let lines = |lines: &[Line<'_>]| Constraint::Length(lines.len() as u16);
    let [head, totals, noted, pages, about, rows, more, last] = Layout::vertical([
        Constraint::Length(1),
        lines(&sums),
        Constraint::Length(u16::from(notes.is_some())),
        Constraint::Length(1),
        lines(&said),
        Constraint::Min(2),
        lines(&detail),
        lines(&keys),
    ])
    .areas(area);
    let who = printable(&table::who(answers)).into_owned();
    frame.render_widget(Paragraph::new(who).style(bold()), head);
    frame.render_widget(Paragraph::new(sums), totals);
    if let Some(text) = notes {
        let tone = painted(state.color, Color::Yellow);
        frame.render_widget(Paragraph::new(text).style(tone), noted);
    }
    frame.render_widget(Paragraph::new(where_we_are(state)), pages);
    frame.render_widget(Paragraph::new(said), about);
    list(frame, state, rows);
    frame.render_widget(Paragraph::new(detail).style(dim()), more);
    frame.render_widget(Paragraph::new(keys), last);
}

/// What is missing from the snapshot.
fn notes(state: &State) -> Option<String> {
    let snapshot = state.view.answers.analysis.snapshot();
    let notes = snapshot.about().notes.iter().cloned();
    let notes: Vec<String> = losses(snapshot).into_iter().chain(notes).collect();
    let first = notes.first()?;
    let more = match notes.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    Some(format!("note: {}{more}", printable(first)))
}

/// The pages that there are, and those that were opened.
fn where_we_are(state: &State) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, page) in state.tops.iter().enumerate() {
        let text = match number == state.top {
            true => Span::styled(format!("[{}] ", page.title), bold()),
            false => Span::styled(format!(" {}  ", page.title), dim()),
        };
        spans.push(text);
    }
    if !state.opened.is_empty() {
        let titles = state.opened.iter().map(|page| page.title.as_str());
        let titles: Vec<&str> = titles.collect();
        // Of a long way the end.
        let from = titles.len().saturating_sub(3);
        let text = format!(" › {}", titles[from..].join(" › "));
        spans.truncate(state.top + 1);
        spans.drain(..state.top);
        spans.push(Span::styled(printable(&text).into_owned(), bold()));
    }
    Line::from(spans)
}

fn list(frame: &mut Frame<'_>, state: &mut State, area: Rect) {
    // One line is the heading.
    let room = usize::from(area.height.saturating_sub(1));
    state.room = room;
    let first = state.page_mut().scroll(room);
    let page = state.page();
    let shown = page.items.iter().skip(first).take(room);
    let said: Vec<(Item, rows::Row)> = shown
        .map(|item| (*item, state.view.row(page, *item)))
        .collect();
    let longest = said.iter().map(|(_, row)| row.name.chars().count()).max();
    let longest = longest.unwrap_or(0);
    let columns = fitting(&FIGURES, LEAST_FIGURES, longest, area.width);
    let lines = said.into_iter().enumerate().map(|(number, (item, row))| {
        let cells = row.figures.into_iter().take(columns).map(right);
        let is_chosen = first + number == page.chosen;
        // Also seen where there is no colour, and in a copy of the screen.
        let sign = if is_chosen { '>' } else { ' ' };
        let name = format!("{sign}{}", printable(&row.name));
        let line = Row::new(cells.chain([Cell::from(name)]));
        line.style(match item {
            _ if is_chosen => Style::new().add_modifier(Modifier::REVERSED),
            Item::Heading(_) => bold(),
            Item::More(_) => dim(),
            _ => Style::new(),
        })
    });
    let widths = FIGURES.into_iter().take(columns).map(Constraint::Length);
    let widths = widths.chain([Constraint::Fill(1)]);
    let table = Table::new(lines, widths).header(heading(state, columns));
    frame.render_widget(table, area);
}

fn heading(state: &State, columns: usize) -> Row<'static> {
    let page = state.page();
    let sorted = |name: &str, by: Sort| {
        let mark = if page.sort == by { "▼" } else { "" };
        format!("{mark}{name}")
    };
    let names = [
        sorted("retained", Sort::Retained),
        sorted("bytes", Sort::Bytes),
        sorted("objects", Sort::Objects),
    ];
    let place = match page.items.len() {
        0 => " nothing".into(),
        all => format!(" {} of {all}", page.chosen + 1),
    };
    let mark = if page.sort == Sort::Name { " ▼" } else { "" };
    let cells = names.into_iter().take(columns).map(right);
    Row::new(cells.chain([Cell::from(place + mark)])).style(bold())
}

/// What is typed or said, or else what the keys do.
fn last_lines(state: &State, width: usize) -> Vec<Line<'static>> {
    if let Some(typed) = &state.typed {
        let text = format!("type or 0xADDRESS: {}█", printable(typed));
        return vec![Line::from(text)];
    }
    if let Some(message) = &state.message {
        let tone = painted(state.color, Color::Yellow);
        let lines = wrapped(&printable(message), width).into_iter();
        return lines.map(|line| line.style(tone)).collect();
    }
    let renew = if state.can_renew { RENEW } else { &[] };
    let mut lines: Vec<String> = Vec::new();
    for key in KEYS.iter().chain(renew) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 2 + key.chars().count() <= width => {
                line.push_str("  ");
                line.push_str(key);
            }
            _ => lines.push((*key).to_owned()),
        }
    }
    lines
        .into_iter()
        .map(|line| Line::styled(line, dim()))
        .collect()
}
