//! The live screen, painted. Nothing is kept here from one painting to the next. Used by `live`.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use report::profile::called;
use report::text::printable;

use super::state::{Item, State};
use crate::ui::screen::{bold, dim, right, wrapped};

/// The width of a share.
const SHARE: u16 = 7;

/// What the keys do.
const KEYS: &str =
    "q quit  s sort  ↑↓ choose  Enter callers  Esc back  p pause  + - seconds  Tab waits";

/// Paints the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let said = wrapped(&state.verdict, usize::from(area.width));
    let waits = state.waits.len() as u16;
    let third = area.height / 3;
    let room = if state.waits_first { 2 * third } else { third };
    // One line is empty, one the heading.
    let waits = if waits == 0 { 0 } else { (waits + 2).min(room) };
    let [head, judged, threads, _, functions, below, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(said.len() as u16),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(waits),
        Constraint::Length(1),
    ])
    .areas(area);
    let who = format!("{}, {}", printable(&state.who), state.span());
    frame.render_widget(Paragraph::new(who).style(bold()), head);
    frame.render_widget(Paragraph::new(said), judged);
    let mut spans = vec![Span::raw(state.threads.clone())];
    if state.paused() {
        spans.push(Span::styled("  PAUSED", bold()));
    }
    frame.render_widget(Paragraph::new(Line::from(spans)), threads);
    list(frame, state, functions);
    waited(frame, state, below);
    frame.render_widget(Paragraph::new(KEYS).style(dim()), keys);
}

/// The functions, or who calls the one that the user has gone into and what it calls.
fn list(frame: &mut Frame<'_>, state: &State, area: Rect) {
    // One line is the heading.
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let first = (state.chosen() + 1).saturating_sub(room);
    let columns = if state.opened().is_some() { 1 } else { 2 };
    let shown = state.items.iter().enumerate().skip(first).take(room);
    let lines = shown.map(|(number, item)| line(item, columns, number == state.chosen()));
    let sorted = |name: &str, is_it: bool| format!("{}{name}", if is_it { "▼" } else { "" });
    let (names, title) = match state.opened() {
        Some(function) => (vec!["share".to_owned()], called(function, None)),
        None => (
            vec![
                sorted("own", !state.view.by_total),
                sorted("total", state.view.by_total),
            ],
            state.view.by.words()[0].to_owned(),
        ),
    };
    let head = names
        .into_iter()
        .map(right)
        .chain([Cell::from(format!(" {title}"))]);
    let widths = std::iter::repeat_n(Constraint::Length(SHARE), columns);
    let widths = widths.chain([Constraint::Fill(1)]);
    let table = Table::new(lines, widths).header(Row::new(head).style(bold()));
    frame.render_widget(table, area);
}

fn line(item: &Item, columns: usize, is_chosen: bool) -> Row<'_> {
    let shares = item.shares.iter().map(|share| format!("{share:.1}%"));
    let shares = shares.chain(std::iter::repeat(String::new())).take(columns);
    // Also seen where there is no colour, and in a copy of the screen.
    let sign = if is_chosen { '>' } else { ' ' };
    let name = Cell::from(format!("{sign}{}", item.name));
    let row = Row::new(shares.map(right).chain([name]));
    match (is_chosen, item.shares.is_empty()) {
        (true, _) => row.style(Style::new().add_modifier(Modifier::REVERSED)),
        (_, true) => row.style(bold()),
        _ => row,
    }
}

/// What threads waited for.
fn waited(frame: &mut Frame<'_>, state: &State, area: Rect) {
    let room = usize::from(area.height.saturating_sub(2));
    let waits = state.waits.iter().take(room);
    let lines = waits.map(|(part, text)| {
        Row::new([right(format!("{part:.1}%")), Cell::from(format!(" {text}"))])
    });
    let widths = [Constraint::Length(SHARE), Constraint::Fill(1)];
    let title = " at which line, and what for".to_owned();
    let head = Row::new([right("waited".to_owned()), Cell::from(title)]);
    let table = Table::new(lines, widths).header(head.style(bold()).top_margin(1));
    if area.height > 2 {
        frame.render_widget(table, area);
    }
}
