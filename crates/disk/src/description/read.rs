//! From TOML to a description, with the line of everything that is wrong.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::presets::PRESETS;
use super::{Description, DescriptionError, Parameters, Place, near};

/// A text, and where it came from.
struct Source<'a> {
    text: &'a str,
    file: Option<&'a str>,
}

impl Source<'_> {
    fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn place(&self, span: Option<Range<usize>>) -> Place {
        Place {
            file: self.file.map(str::to_owned),
            line: span.map(|span| self.line(span.start)),
        }
    }
}

pub(super) fn read(text: &str, file: Option<&str>) -> Result<Description, DescriptionError> {
    let source = Source { text, file };
    let document = parse(&source)?;
    let mut own = model_table(&source, document)?;
    let span = own.span();
    let own = own.get_mut();
    let mut lines = Vec::new();
    note_lines(&source, "", own, &mut lines);

    let kind = take_text(&source, own, "kind")?;
    let base = take_text(&source, own, "base")?;
    let base = base.map(|name| find_base(&source, &name)).transpose()?;
    let kind = choose_kind(&source, span.clone(), kind, base.as_ref())?;
    check_keys(&source, "", own, &known_keys(kind))?;

    // The base's text must outlive the tables that refer to it.
    let base_text = base.map(|base| base.to_toml());
    let mut table = base_text.as_deref().map(parse_preset).unwrap_or_default();
    merge(&mut table, own);
    let parameters = Parameters::read(kind, Spanned::new(span, table))
        .map_err(|error| explain(&source, own, kind, &error))?;
    Ok(Description {
        parameters,
        file: file.map(str::to_owned),
        lines,
    })
}

fn parse<'a>(source: &Source<'a>) -> Result<DeTable<'a>, DescriptionError> {
    DeTable::parse(source.text)
        .map(Spanned::into_inner)
        .map_err(|error| DescriptionError::Syntax {
            place: source.place(error.span()),
            message: error.message().trim_end().replace('\n', ", "),
        })
}

/// The `[model]` table, which is all that a description has.
fn model_table<'a>(
    source: &Source<'a>,
    mut document: DeTable<'a>,
) -> Result<Spanned<DeTable<'a>>, DescriptionError> {
    let Some(model) = document.remove("model") else {
        return Err(DescriptionError::Incomplete {
            place: source.place(None),
            message: "there is no [model] table; begin with [model] and its kind or base".into(),
        });
    };
    if let Some((key, _)) = document.iter().next() {
        return Err(DescriptionError::UnknownKey {
            place: source.place(Some(key.span())),
            key: key.get_ref().to_string(),
            names: vec!["[model]".into()],
        });
    }
    let span = model.span();
    match model.into_inner() {
        DeValue::Table(table) => Ok(Spanned::new(span, table)),
        other => Err(DescriptionError::Type {
            place: source.place(Some(span)),
            parameter: "model".into(),
            message: format!("is of type {}, must be a table", other.type_str()),
        }),
    }
}

/// Where each parameter is set.
fn note_lines(
    source: &Source<'_>,
    path: &str,
    table: &DeTable<'_>,
    lines: &mut Vec<(String, usize)>,
) {
    for (key, value) in table {
        let path = format!("{path}{}", key.get_ref());
        lines.push((path.clone(), source.line(key.span().start)));
        if let DeValue::Table(table) = value.get_ref() {
            note_lines(source, &format!("{path}."), table, lines);
        }
    }
}

/// Takes a key out of the table whose value is text.
fn take_text<'a>(
    source: &Source<'_>,
    table: &mut DeTable<'a>,
    key: &str,
) -> Result<Option<Spanned<String>>, DescriptionError> {
    let Some(value) = table.remove(key) else {
        return Ok(None);
    };
    let span = value.span();
    match value.into_inner() {
        DeValue::String(text) => Ok(Some(Spanned::new(span, text.into_owned()))),
        other => Err(DescriptionError::Type {
            place: source.place(Some(span)),
            parameter: key.into(),
            message: format!("is of type {}, must be a text in quotes", other.type_str()),
        }),
    }
}

fn find_base(source: &Source<'_>, name: &Spanned<String>) -> Result<Description, DescriptionError> {
    Description::preset(name.get_ref()).map_err(|error| match error {
        DescriptionError::UnknownPreset {
            name: unknown,
            names,
            ..
        } => DescriptionError::UnknownPreset {
            place: source.place(Some(name.span())),
            name: unknown,
            names,
        },
        other => other,
    })
}

fn choose_kind(
    source: &Source<'_>,
    span: Range<usize>,
    kind: Option<Spanned<String>>,
    base: Option<&Description>,
) -> Result<&'static str, DescriptionError> {
    let base_kind = base.map(|base| base.parameters().kind());
    let Some(kind) = kind else {
        return base_kind.ok_or_else(|| DescriptionError::Incomplete {
            place: source.place(Some(span)),
            message: "[model] has neither kind nor base; name a preset as base, or a kind and all of its parameters".into(),
        });
    };
    let name = kind.get_ref().as_str();
    let Some(known) = Parameters::KINDS.iter().find(|known| **known == name) else {
        return Err(DescriptionError::UnknownKind {
            place: source.place(Some(kind.span())),
            kind: name.into(),
            names: Parameters::KINDS
                .iter()
                .map(|&known| known.to_owned())
                .collect(),
        });
    };
    match base_kind {
        Some(base_kind) if base_kind != *known => Err(DescriptionError::Type {
            place: source.place(Some(kind.span())),
            parameter: "kind".into(),
            message: format!("is {known:?}, but base is a {base_kind:?}; leave kind out"),
        }),
        _ => Ok(known),
    }
}

/// The keys of a kind, as its presets have them.
fn known_keys(kind: &str) -> toml::Table {
    let mut known = toml::Table::new();
    for preset in PRESETS {
        let parameters = (preset.parameters)();
        if parameters.kind() == kind {
            let text = parameters.to_toml();
            let document: toml::Table = text.parse().expect("presets are written as TOML");
            if let Some(toml::Value::Table(model)) = document.get("model") {
                known.extend(model.clone());
            }
        }
    }
    known
}

fn check_keys(
    source: &Source<'_>,
    path: &str,
    own: &DeTable<'_>,
    known: &toml::Table,
) -> Result<(), DescriptionError> {
    for (key, value) in own {
        let name: &str = key.get_ref();
        let Some(example) = known.get(name) else {
            let names = known
                .keys()
                .map(String::as_str)
                .filter(|name| *name != "kind");
            return Err(DescriptionError::UnknownKey {
                place: source.place(Some(key.span())),
                key: format!("{path}{name}"),
                names: near::choose(name, names),
            });
        };
        if let (DeValue::Table(own), toml::Value::Table(known)) = (value.get_ref(), example) {
            check_keys(source, &format!("{path}{name}."), own, known)?;
        }
    }
    Ok(())
}

/// The parameters of a preset, from its own text.
fn parse_preset(text: &str) -> DeTable<'_> {
    let document = DeTable::parse(text).expect("presets are written as TOML");
    match document
        .into_inner()
        .remove("model")
        .map(Spanned::into_inner)
    {
        Some(DeValue::Table(mut table)) => {
            table.remove("kind");
            table
        }
        _ => unreachable!("presets have a table [model]"),
    }
}

/// Puts the own values in the place of the base's. Tables are merged, all
/// else is replaced.
fn merge<'a>(base: &mut DeTable<'a>, own: &DeTable<'a>) {
    for (key, value) in own {
        if let DeValue::Table(inner) = value.get_ref()
            && let Some(DeValue::Table(base)) = base.get_mut(&**key.get_ref()).map(Spanned::get_mut)
        {
            merge(base, inner);
            continue;
        }
        base.insert(key.clone(), value.clone());
    }
}

/// What serde reports, in a sentence about the parameter.
fn explain(
    source: &Source<'_>,
    own: &DeTable<'_>,
    kind: &str,
    error: &toml::de::Error,
) -> DescriptionError {
    let message = error.message().trim_end();
    if let Some(rest) = message.strip_prefix("missing field ") {
        return DescriptionError::Incomplete {
            place: source.place(error.span()),
            message: format!(
                "{} is missing; a {kind} without a base needs all parameters",
                rest.trim_matches('`')
            ),
        };
    }
    let offset = error.span().map_or(0, |span| span.start);
    let parameter = path_at(own, offset).unwrap_or_else(|| "[model]".into());
    if message.starts_with("unknown field ") {
        // Names stand in backquotes; the first is the field itself.
        let names = message.split('`').skip(3).step_by(2);
        return DescriptionError::UnknownKey {
            place: source.place(error.span()),
            key: parameter,
            names: names.map(str::to_owned).collect(),
        };
    }
    DescriptionError::Type {
        place: source.place(error.span()),
        parameter,
        message: in_words(message),
    }
}

/// The path of the parameter that stands at this offset.
fn path_at(table: &DeTable<'_>, offset: usize) -> Option<String> {
    for (key, value) in table {
        if let Some(path) = path_inside(value.get_ref(), offset) {
            return Some(format!("{}.{path}", key.get_ref()));
        }
        if key.span().contains(&offset) || value.span().contains(&offset) {
            return Some(key.get_ref().to_string());
        }
    }
    None
}

fn path_inside(value: &DeValue<'_>, offset: usize) -> Option<String> {
    match value {
        DeValue::Table(table) => path_at(table, offset),
        DeValue::Array(values) => values
            .iter()
            .find_map(|value| path_inside(value.get_ref(), offset)),
        _ => None,
    }
}

/// Rust's names of types in a reader's words.
fn in_words(message: &str) -> String {
    let mut words = message
        .replace("invalid type: ", "is the ")
        .replace("invalid value: ", "is the ")
        .replace(", expected ", ", must be ");
    for (rust, plain) in [
        ("must be f64", "must be a number"),
        ("must be u64", "must be a whole number, 0 or above"),
        ("must be usize", "must be a whole number, 0 or above"),
        ("must be u32", "must be a whole number from 0 to 4294967295"),
        ("must be a boolean", "must be true or false"),
    ] {
        words = words.replace(rust, plain);
    }
    words
}
