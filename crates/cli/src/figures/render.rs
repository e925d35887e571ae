//! Figures as text and as a page.

use super::catalogue::Entry;
use super::report::{Cell, Comparison, Data, Figure, Stated, Verdict};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;

/// Which figures there are.
pub fn list(entries: &[Entry], style: Style) -> String {
    list_table(entries).render(style)
}

pub fn list_section(entries: &[Entry]) -> Section {
    Section::new("Figures").table(list_table(entries))
}

fn list_table(entries: &[Entry]) -> Table {
    let mut table = Table::new(3, ["name", "what it shows", ""]);
    for entry in entries {
        let needs = entry.needs.map(|needs| format!("needs {needs}"));
        table.row([
            entry.name.to_owned(),
            entry.title.to_owned(),
            needs.unwrap_or_default(),
        ]);
    }
    table.without_empty_columns()
}

pub fn text(figures: &[Figure], style: Style) -> String {
    let mut text = String::new();
    for figure in figures {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&style.bold(&format!("{}: {}", figure.name, figure.title)));
        text.push_str(&format!("\n{}\n", figure.source));
        if !figure.comparisons.is_empty() {
            text.push('\n');
            text.push_str(&comparison_table(figure).render(style));
        }
        for data in &figure.tables {
            text.push_str(&format!("\n{}\n", data.title));
            text.push_str(&data_table(data).render(style));
        }
        for sentence in explanations(figure).iter().chain(&figure.notes) {
            text.push_str(&format!("\n- {sentence}"));
        }
        text.push('\n');
    }
    text
}

pub fn html(figures: &[Figure]) -> Vec<Section> {
    let mut sections: Vec<Section> = summary(figures).into_iter().collect();
    for figure in figures {
        let mut section = Section::new(figure.title).text([figure.source]);
        section = section.text(figure.method.iter().map(String::as_str));
        if !figure.comparisons.is_empty() {
            section = section
                .table(comparison_table(figure))
                .text(explanations(figure));
        }
        for (title, svg) in &figure.plots {
            section = section.heading(title).chart(svg.clone());
        }
        section = section.text(figure.notes.iter().map(String::as_str));
        for data in &figure.tables {
            section = section.heading(&data.title).table(data_table(data));
        }
        sections.push(section);
    }
    sections
}

/// How many values fit, by figure; nothing where none is compared.
fn summary(figures: &[Figure]) -> Option<Section> {
    let mut table = Table::new(2, ["figure", "title", "values", "fit", "differ"]);
    for figure in figures {
        let count = |verdict| {
            let those = figure.comparisons.iter();
            those.filter(|one| one.verdict == verdict).count()
        };
        let (fit, differ) = (count(Verdict::Fits), count(Verdict::Differs));
        if fit + differ == 0 {
            continue;
        }
        table.row([
            figure.name.to_owned(),
            figure.title.to_owned(),
            (fit + differ).to_string(),
            fit.to_string(),
            differ.to_string(),
        ]);
    }
    let section = Section::new("Ours and the documents'")
        .text(["Each document's own values beside ours. A value fits if it is at most 15 % off."]);
    (!table.rows.is_empty()).then(|| section.table(table))
}

fn comparison_table(figure: &Figure) -> Table {
    let mut table = Table::new(1, ["", "document", "ours", "unit", "off", "verdict"]);
    for one in &figure.comparisons {
        table.row([
            one.what.clone(),
            stated(one.document),
            units::figure(one.ours),
            one.unit.to_owned(),
            deviation(one),
            match one.verdict {
                Verdict::Fits => "fits",
                Verdict::Differs => "differs",
                Verdict::Given => "given",
            }
            .to_owned(),
        ]);
    }
    table
}

fn stated(stated: Stated) -> String {
    let plain = |value: f64| {
        let text = units::figure(value);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    };
    match (stated.min, stated.max) {
        (Some(min), Some(max)) if min == max => plain(min),
        (Some(min), Some(max)) => format!("{} to {}", plain(min), plain(max)),
        (Some(min), None) => format!("> {}", plain(min)),
        (None, Some(max)) => format!("< {}", plain(max)),
        (None, None) => String::new(),
    }
}

fn deviation(one: &Comparison) -> String {
    if one.deviation_percent == 0.0 {
        return String::new();
    }
    format!("{:+.1} %", one.deviation_percent)
}

/// Each reason once, behind the values that differ for it.
fn explanations(figure: &Figure) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in &figure.comparisons {
        let Some(reason) = one.explanation.as_deref() else {
            continue;
        };
        match reasons.iter_mut().find(|(other, _)| *other == reason) {
            Some((_, values)) => values.push(&one.what),
            None => reasons.push((reason, vec![&one.what])),
        }
    }
    let sentence = |(reason, values): (&str, Vec<&str>)| format!("{}: {reason}", values.join("; "));
    reasons.into_iter().map(sentence).collect()
}

fn data_table(data: &Data) -> Table {
    let is_name = |column: usize| {
        let mut cells = data.rows.iter().map(|row| &row[column]);
        cells.any(|cell| matches!(cell, Cell::Text(_)))
    };
    let names = (0..data.columns.len())
        .take_while(|&at| is_name(at))
        .count();
    let header = data.columns.iter().map(|column| match column.unit {
        "" => column.name.clone(),
        unit => format!("{}, {unit}", column.name),
    });
    let mut table = Table::new(names, header);
    for row in &data.rows {
        table.row(row.iter().map(|cell| match cell {
            Cell::Number(value) if value.fract() == 0.0 && value.abs() < 1e6 => {
                format!("{value:.0}")
            }
            Cell::Number(value) => units::figure(*value),
            Cell::Text(text) => text.clone(),
            Cell::Nothing => String::new(),
        }));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_stands_once_behind_all_that_differ_for_it() {
        let differs =
            |what: &str, why: &str| Comparison::new(what, "", Stated::about(1.0), 2.0).because(why);
        let figure = Figure {
            comparisons: vec![differs("a", "x"), differs("b", "y"), differs("c", "x")],
            ..Figure::default()
        };
        assert_eq!(explanations(&figure), ["a; c: x", "b: y"]);
    }
}
