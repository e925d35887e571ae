//! Aligned tables for terminals.

use std::ffi::OsStr;
use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

/// What `TERM` is where a terminal knows no escape sequences.
pub const DUMB_TERMINAL: &str = "dumb";

/// Escape sequences, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    pub colour: bool,
}

impl Style {
    pub const PLAIN: Self = Self { colour: false };

    /// Colours only on a terminal that has them (`TERM` is not `dumb`), and not where
    /// `NO_COLOR` is set and not empty (no-color.org).
    pub fn detect(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        Self {
            colour: is_terminal
                && no_color.is_none_or(OsStr::is_empty)
                && term.is_none_or(|term| term != DUMB_TERMINAL),
        }
    }

    /// The word in front of a failure.
    pub fn red(self, text: &str) -> String {
        if self.colour {
            format!("\x1b[1;31m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub fn bold(self, text: &str) -> String {
        if self.colour {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// What every terminal shows in one line.
pub const WIDTH: usize = 80;

/// A paragraph in lines of a terminal's width.
pub fn wrapped(paragraph: &str) -> String {
    let mut text = String::new();
    let mut width = 0;
    for word in paragraph.split(' ') {
        let next = word.width();
        if width > 0 && width + 1 + next > WIDTH {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += next;
    }
    text
}

/// Named values, each with a bar; the longest ends where a terminal does.
pub fn bars(values: &[(String, f64)], written: fn(f64) -> String) -> String {
    let longest = values.iter().map(|value| value.1).fold(0.0, f64::max);
    let mut table = Table::new(1, ["", "", ""]);
    for (name, value) in values {
        table.row([name.clone(), written(*value), String::new()]);
    }
    let lines = table.render(Style::PLAIN);
    let lines: Vec<&str> = lines.lines().skip(1).collect();
    let begin = lines.iter().map(|line| line.width()).max().unwrap_or(0) + 2;
    let room = WIDTH.saturating_sub(begin + INDENT.len()) as f64;
    let mut text = String::new();
    for (line, (_, value)) in lines.iter().zip(values) {
        let gap = " ".repeat(begin - line.width());
        // The least is seen too.
        let cells = (value / longest.max(f64::MIN_POSITIVE) * room)
            .round()
            .max(1.0);
        let _ = writeln!(text, "{INDENT}{line}{gap}{}", BAR.repeat(cells as usize));
    }
    text
}

const INDENT: &str = "  ";
const BAR: &str = "█";

/// Rows under a header. The first columns are names, flush left; the rest
/// are figures, flush right.
#[derive(Clone, Debug)]
pub struct Table {
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// How many columns from the left are names.
    pub names: usize,
}

impl Table {
    pub fn new<T: Into<String>>(names: usize, header: impl IntoIterator<Item = T>) -> Self {
        Self {
            header: header.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
            names,
        }
    }

    /// Adds a row, which must be as long as the header.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(
            cells.len(),
            self.header.len(),
            "a row as long as the header"
        );
        self.rows.push(cells);
    }

    /// Takes away columns in which no row has anything.
    #[must_use]
    pub fn without_empty_columns(mut self) -> Self {
        for column in (0..self.header.len()).rev() {
            if self.rows.iter().all(|row| row[column].is_empty()) {
                self.header.remove(column);
                self.rows.iter_mut().for_each(|row| {
                    row.remove(column);
                });
                self.names -= usize::from(column < self.names);
            }
        }
        self
    }

    pub fn render(&self, style: Style) -> String {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                let cells = self.rows.iter().map(|row| row[column].width());
                cells
                    .chain([self.header[column].width()])
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut out = style.bold(&self.line(&self.header, &widths));
        out.push('\n');
        for row in &self.rows {
            out.push_str(&self.line(row, &widths));
            out.push('\n');
        }
        out
    }

    /// With sentences below it.
    pub fn render_above(&self, sentences: &[String], style: Style) -> String {
        let mut text = self.render(style);
        for sentence in sentences {
            text.push_str(&format!("\n{sentence}"));
        }
        text.push('\n');
        text
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
            // Counted in columns of the terminal, which `{:>8}` does not do.
            let padding = " ".repeat(width - cell.width());
            let gap = if column == 0 { "" } else { "  " };
            let _ = if column < self.names {
                write!(line, "{gap}{cell}{padding}")
            } else {
                write!(line, "{gap}{padding}{cell}")
            };
        }
        line.trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(1, ["policy", "p99", "note"]);
        table.row(["lanes", "94 µs", ""]);
        table.row(["優先", "1.2 ms", ""]);
        table
    }

    #[test]
    fn columns_line_up_whatever_the_letters() {
        let text = table().without_empty_columns().render(Style::PLAIN);
        assert_eq!(text, "policy     p99\nlanes    94 µs\n優先    1.2 ms\n");
    }

    #[test]
    fn paragraphs_and_bars_fit_a_terminal() {
        let text = wrapped(&"priorités ".repeat(40));
        assert!(text.lines().all(|line| line.width() <= WIDTH), "{text}");
        assert_eq!(text.lines().count(), 5);
        let values = [("alone", 1.0), ("without", 400.0), ("with", 100.0)];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        let text = bars(&values, |value| format!("{value} ms"));
        let cells = text.lines().map(|line| line.matches(BAR).count());
        let cells: Vec<usize> = cells.collect();
        let widest = text.lines().map(UnicodeWidthStr::width).max();
        assert_eq!((widest, cells[0]), (Some(WIDTH), 1), "{text}");
        assert!(cells[2].abs_diff(cells[1] / 4) <= 1, "{text}");
        assert!(text.starts_with("  alone      1 ms  █\n"), "{text}");
    }

    #[test]
    fn colours_only_where_wanted() {
        assert!(
            table()
                .render(Style { colour: true })
                .starts_with("\x1b[1m")
        );
        let text = |text| Some(OsStr::new(text));
        let xterm = text("xterm");
        assert!(!Style::detect(true, text("1"), xterm).colour);
        assert!(Style::detect(true, text(""), xterm).colour);
        assert!(!Style::detect(false, None, xterm).colour);
        assert!(Style::detect(true, None, xterm).colour);
        assert!(Style::detect(true, None, None).colour);
        assert!(!Style::detect(true, None, text("dumb")).colour);
    }
}
