//! What a figure says: values beside the document's, tables, plots.

use maud::Markup;
use serde::Serialize;

/// How far from the document's value one of ours may lie.
pub const TOLERANCE_PERCENT: f64 = 15.0;

/// One figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figure {
    pub name: &'static str,
    pub title: &'static str,
    /// Where the document's values stand.
    pub source: &'static str,
    /// How ours were obtained.
    pub method: Vec<String>,
    pub comparisons: Vec<Comparison>,
    pub tables: Vec<Data>,
    /// What the values mean, and why some differ.
    pub notes: Vec<String>,
    #[serde(skip)]
    pub plots: Vec<(String, Markup)>,
}

impl Figure {
    pub fn comparison(&self, what: &str) -> Option<&Comparison> {
        self.comparisons.iter().find(|one| one.what == what)
    }
}

/// What a document says of a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stated {
    pub min: Option<f64>,
    pub max: Option<f64>,
}

impl Stated {
    pub fn about(value: f64) -> Self {
        Self::between(value, value)
    }

    pub fn between(min: f64, max: f64) -> Self {
        Self {
            min: Some(min),
            max: Some(max),
        }
    }

    pub fn above(min: f64) -> Self {
        Self {
            min: Some(min),
            max: None,
        }
    }

    pub fn below(max: f64) -> Self {
        Self {
            min: None,
            max: Some(max),
        }
    }

    /// How far a value lies from the nearest that fits.
    fn deviation_percent(self, value: f64) -> f64 {
        let percent = |bound: f64| (value / bound - 1.0) * 100.0;
        match (self.min, self.max) {
            (Some(min), _) if value < min => percent(min),
            (_, Some(max)) if value > max => percent(max),
            _ => 0.0,
        }
    }
}

/// Ours against the document's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// At most 15 % off.
    Fits,
    Differs,
    /// A parameter was set by it, so that it proves nothing.
    Given,
}

/// A value of the document beside ours.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    pub what: String,
    pub unit: &'static str,
    pub document: Stated,
    pub ours: f64,
    pub deviation_percent: f64,
    pub verdict: Verdict,
    /// Why it differs.
    pub explanation: Option<String>,
}

impl Comparison {
    pub fn new(what: impl Into<String>, unit: &'static str, document: Stated, ours: f64) -> Self {
        let deviation_percent = document.deviation_percent(ours);
        let fits = deviation_percent.abs() <= TOLERANCE_PERCENT;
        Self {
            what: what.into(),
            unit,
            document,
            ours,
            deviation_percent,
            verdict: if fits {
                Verdict::Fits
            } else {
                Verdict::Differs
            },
            explanation: None,
        }
    }

    /// For a value from which a parameter was taken.
    #[must_use]
    pub fn given(mut self) -> Self {
        self.verdict = Verdict::Given;
        self
    }

    /// Said only where it differs.
    #[must_use]
    pub fn because(mut self, explanation: &str) -> Self {
        if self.verdict == Verdict::Differs {
            self.explanation = Some(explanation.to_owned());
        }
        self
    }
}

/// A column of a table.
#[derive(Clone, Debug, Serialize)]
pub struct Column {
    pub name: String,
    /// Empty for names and counts.
    pub unit: &'static str,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    Number(f64),
    Text(String),
    Nothing,
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Number(f64::from(value))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Nothing, Self::Number)
    }
}

/// A table of what was simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Data {
    pub title: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
}

impl Data {
    /// A table without rows; columns as name and unit.
    pub fn new(title: impl Into<String>, columns: &[(&str, &'static str)]) -> Self {
        let column = |&(name, unit): &(&str, &'static str)| Column {
            name: name.to_owned(),
            unit,
        };
        Self {
            title: title.into(),
            columns: columns.iter().map(column).collect(),
            rows: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(stated: Stated, ours: f64) -> (Verdict, f64) {
        let comparison = Comparison::new("x", "ms", stated, ours);
        (comparison.verdict, comparison.deviation_percent.round())
    }

    #[test]
    fn fifteen_percent_to_either_side_fit() {
        assert_eq!(verdict(Stated::about(100.0), 114.0), (Verdict::Fits, 14.0));
        assert_eq!(verdict(Stated::about(100.0), 86.0), (Verdict::Fits, -14.0));
        assert_eq!(
            verdict(Stated::about(100.0), 116.0),
            (Verdict::Differs, 16.0)
        );
    }

    #[test]
    fn bounds_are_open_on_one_side() {
        assert_eq!(verdict(Stated::above(500.0), 900.0), (Verdict::Fits, 0.0));
        assert_eq!(
            verdict(Stated::above(500.0), 250.0),
            (Verdict::Differs, -50.0)
        );
        assert_eq!(verdict(Stated::below(350.0), 10.0), (Verdict::Fits, 0.0));
        assert_eq!(
            verdict(Stated::between(7.0, 8.0), 7.5),
            (Verdict::Fits, 0.0)
        );
    }
}
