//! Tables as text: `name(column type [null], ..., primary key(column, ...),
//! index name(column, ...), unique index name(column, ...))`.

use iolane_store::data::{Column, ColumnType, Index, TableSchema};

/// The shape, for messages.
pub const SHAPE: &str = "name(column type [null], ..., primary key(column, ...), index name(column, ...), \
unique index name(column, ...)); types: integer, real, text, blob";

/// A table, not checked any further than that it can be read.
///
/// # Errors
/// What was expected, and where.
pub fn parse(text: &str) -> Result<TableSchema, String> {
    let mut words = Words::of(text)?;
    let mut schema = TableSchema {
        name: words.name("the name of the table")?,
        columns: Vec::new(),
        primary_key: Vec::new(),
        indexes: Vec::new(),
    };
    words.sign('(')?;
    loop {
        parse_part(&mut words, &mut schema)?;
        if !words.take_sign(',') {
            break;
        }
    }
    words.sign(')')?;
    words.end()?;
    if schema.primary_key.is_empty() {
        return Err("it has no primary key".to_owned());
    }
    Ok(schema)
}

/// A word that stands for something else only where a bracket follows, so that
/// columns can have any name.
fn parse_part(words: &mut Words<'_>, schema: &mut TableSchema) -> Result<(), String> {
    if words.follow(&["primary", "key", "("]) {
        words.skip(2);
        if !schema.primary_key.is_empty() {
            return Err("it has two primary keys".to_owned());
        }
        schema.primary_key = words.columns()?;
    } else if words.follow(&["index", "", "("]) {
        words.skip(1);
        schema.indexes.push(words.index(false)?);
    } else if words.follow(&["unique", "index", "", "("]) {
        words.skip(2);
        schema.indexes.push(words.index(true)?);
    } else {
        schema.columns.push(words.column()?);
    }
    Ok(())
}

/// Names and signs, each with its position.
struct Words<'a> {
    words: Vec<(usize, &'a str)>,
    next: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let belongs = |letter: char| letter.is_alphanumeric() || letter == '_';
        let mut words = Vec::new();
        let mut at = 0;
        while let Some(first) = text[at..].chars().next() {
            let rest = &text[at..];
            let bytes = match first {
                _ if belongs(first) => rest.find(|letter| !belongs(letter)).unwrap_or(rest.len()),
                '(' | ')' | ',' => 1,
                _ if first.is_whitespace() => {
                    at += first.len_utf8();
                    continue;
                }
                _ => {
                    let position = text[..at].chars().count() + 1;
                    return Err(format!("{first:?} at character {position} means nothing"));
                }
            };
            words.push((text[..at].chars().count() + 1, &rest[..bytes]));
            at += bytes;
        }
        Ok(Self { words, next: 0 })
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|(_, word)| *word)
    }

    /// Whether these come next; the empty word stands for any name.
    fn follow(&self, expected: &[&str]) -> bool {
        let rest = &self.words[self.next.min(self.words.len())..];
        rest.len() >= expected.len()
            && expected.iter().zip(rest).all(|(expected, (_, word))| {
                (expected.is_empty() && !is_sign(word)) || word.eq_ignore_ascii_case(expected)
            })
    }

    fn skip(&mut self, count: usize) {
        self.next += count;
    }

    fn expected(&self, what: &str) -> String {
        match self.words.get(self.next) {
            Some((position, word)) => {
                format!("expected {what} at character {position}, found {word:?}")
            }
            None => format!("expected {what} at the end"),
        }
    }

    fn name(&mut self, what: &str) -> Result<String, String> {
        match self.peek() {
            Some(word) if !is_sign(word) => {
                self.next += 1;
                Ok(word.to_owned())
            }
            _ => Err(self.expected(what)),
        }
    }

    fn take_sign(&mut self, sign: char) -> bool {
        let found = self.peek().is_some_and(|word| word.starts_with(sign));
        self.next += usize::from(found);
        found
    }

    fn sign(&mut self, sign: char) -> Result<(), String> {
        if self.take_sign(sign) {
            return Ok(());
        }
        Err(self.expected(&format!("{sign:?}")))
    }

    fn end(&self) -> Result<(), String> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.expected("nothing more")),
        }
    }

    fn columns(&mut self) -> Result<Vec<String>, String> {
        self.sign('(')?;
        let mut columns = vec![self.name("a column")?];
        while self.take_sign(',') {
            columns.push(self.name("a column")?);
        }
        self.sign(')')?;
        Ok(columns)
    }

    fn index(&mut self, unique: bool) -> Result<Index, String> {
        Ok(Index {
            name: self.name("the name of an index")?,
            columns: self.columns()?,
            unique,
        })
    }

    fn column(&mut self) -> Result<Column, String> {
        let name = self.name("a column, primary key or index")?;
        let types = [
            ColumnType::Integer,
            ColumnType::Real,
            ColumnType::Text,
            ColumnType::Blob,
        ];
        let named = |word: &str| {
            let mut types = types.into_iter();
            types.find(|each| word.eq_ignore_ascii_case(each.name()))
        };
        let Some(column_type) = self.peek().and_then(named) else {
            let what = format!("the type of column {name} (integer, real, text or blob)");
            return Err(self.expected(&what));
        };
        self.next += 1;
        let nullable = self.follow(&["null"]);
        self.next += usize::from(nullable);
        Ok(Column {
            name,
            column_type,
            nullable,
        })
    }
}

fn is_sign(word: &str) -> bool {
    matches!(word, "(" | ")" | ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_everything() {
        let table = parse(
            "Person ( id INTEGER, Größe real null,index blob,\n key text, \
             primary key(id, key), index by_key(key, Größe), unique index once(index) )",
        )
        .unwrap();
        assert_eq!(table.name, "Person");
        let columns: Vec<_> = table
            .columns
            .iter()
            .map(|column| {
                (
                    column.name.as_str(),
                    column.column_type.name(),
                    column.nullable,
                )
            })
            .collect();
        assert_eq!(
            columns,
            [
                ("id", "integer", false),
                ("Größe", "real", true),
                ("index", "blob", false),
                ("key", "text", false)
            ]
        );
        assert_eq!(table.primary_key, ["id", "key"]);
        assert_eq!(table.indexes[0].columns, ["key", "Größe"]);
        assert!(table.indexes[1].unique && table.indexes[1].name == "once");
        assert_eq!(table.validate(), Ok(()));
    }

    #[test]
    fn what_cannot_be_read_says_where() {
        for (text, message) in [
            ("", "expected the name of the table at the end"),
            ("t", "expected '(' at the end"),
            (
                "t(a int, primary key(a))",
                "expected the type of column a (integer, real, text or blob) at character 5, found \"int\"",
            ),
            ("t(a integer)", "it has no primary key"),
            (
                "t(a integer, primary key())",
                "expected a column at character 26, found \")\"",
            ),
            (
                "t(a integer, primary key(a)) x",
                "expected nothing more at character 30, found \"x\"",
            ),
            (
                "t(a integer; primary key(a))",
                "';' at character 12 means nothing",
            ),
            (
                "t(a integer primary key(a))",
                "expected ')' at character 13, found \"primary\"",
            ),
            (
                "t(a integer, primary key(a), primary key(a))",
                "it has two primary keys",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err(), message, "{text}");
        }
    }
}
