//! Rows from text: CSV and JSON lines.
//!
//! A line that makes no row does not end the reading; whoever reads decides.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use iolane_store::ROW_BYTES_MAX;
use iolane_store::data::{Row, TableSchema, Value};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

use super::quotes::{BYTE_ORDER_MARK, Fault, Followed};
use super::value;
use crate::args::store::RowFormat;
use crate::cleanup::StopFlag;
use crate::error::Failure;

/// Longest record of text: the longest row, every byte of it escaped as JSON
/// does at worst (`\u0000`). Bounds the memory that a file without line ends
/// takes.
const RECORD_BYTES_MAX: u64 = 6 * ROW_BYTES_MAX as u64 + (1 << 20);

/// Where rows come from.
pub struct Input {
    /// For messages.
    pub name: String,
    /// Of a regular file.
    pub length_bytes: Option<u64>,
    reader: Box<dyn Read>,
}

impl Input {
    /// A file; standard input without one.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: Option<&Path>, stop: &StopFlag) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self {
                name: "standard input".to_owned(),
                length_bytes: None,
                reader: Box::new(Awaited {
                    reader: io::stdin(),
                    stop: stop.clone(),
                }),
            });
        };
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            Ok((file, metadata.is_file().then_some(metadata.len())))
        });
        let (file, length_bytes) = opened.map_err(|error| {
            Failure::setup(
                format!("cannot read {}: {error}", path.display()),
                "Check the path, and that you may read the file.",
            )
        })?;
        Ok(Self {
            name: path.display().to_string(),
            length_bytes,
            reader: Box::new(file),
        })
    }
}

/// Bytes that come when somebody writes them.
struct Awaited<R> {
    reader: R,
    stop: StopFlag,
}

impl<R: Read> Read for Awaited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let reader = &mut self.reader;
        self.stop.while_waiting(|| reader.read(buffer))
    }
}

/// How much has been read.
#[derive(Clone, Default)]
struct Meter {
    total_bytes: Rc<Cell<u64>>,
    /// At the beginning of the record.
    record_bytes: Rc<Cell<u64>>,
}

impl Meter {
    fn next_record(&self) {
        self.record_bytes.set(self.total_bytes.get());
    }
}

/// Refuses records without an end.
struct Bounded {
    reader: Box<dyn Read>,
    meter: Meter,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let total = self.meter.total_bytes.get();
        if total - self.meter.record_bytes.get() > RECORD_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a record does not end within {RECORD_BYTES_MAX} bytes"),
            ));
        }
        let count = self.reader.read(buffer)?;
        self.meter.total_bytes.set(total + count as u64);
        Ok(count)
    }
}

/// A line, and the row in it or why there is none.
pub struct Record {
    pub line: u64,
    pub row: Result<Row, String>,
}

/// Reads the rows of one table.
pub struct RowReader {
    schema: TableSchema,
    name: String,
    meter: Meter,
    source: Source,
    /// A record was read.
    has_begun: bool,
}

enum Source {
    Csv(Box<CsvRows>),
    Lines(Lines),
}

struct CsvRows {
    reader: csv::Reader<Followed<Bounded>>,
    record: csv::ByteRecord,
    /// For each field the position of its column.
    positions: Vec<usize>,
    /// What else means null.
    null: Option<String>,
}

impl RowReader {
    /// # Errors
    /// A header that does not fit the table, a beginning that cannot be read or
    /// is none of JSON lines.
    pub fn new(
        input: Input,
        schema: &TableSchema,
        format: RowFormat,
        null: Option<String>,
    ) -> Result<Self, Failure> {
        let meter = Meter::default();
        let name = input.name;
        let bounded = Bounded {
            reader: input.reader,
            meter: meter.clone(),
        };
        let source = match format {
            RowFormat::Csv => Source::Csv(Box::new(CsvRows::new(bounded, schema, &name, null)?)),
            RowFormat::Jsonl => {
                let mut lines = Lines::of(bounded);
                let first = lines.peek().map_err(|error| unreadable(&name, error))?;
                if first.is_some_and(opens_array) {
                    return Err(is_array(&name));
                }
                Source::Lines(lines)
            }
        };
        Ok(Self {
            schema: schema.clone(),
            name,
            meter,
            source,
            has_begun: false,
        })
    }

    /// The next record; nothing at the end.
    ///
    /// # Errors
    /// When the input cannot be read.
    pub fn next(&mut self) -> Result<Option<Record>, Failure> {
        let read = match &mut self.source {
            Source::Csv(rows) => rows
                .next(&self.schema)
                .map_err(|error| ended(&self.name, &rows.reader, error)),
            Source::Lines(lines) => match lines.next() {
                Ok(line) => Ok(line.map(|(line, text)| Record {
                    line,
                    row: row_of_line(text, &self.schema).map_err(|reason| match self.has_begun {
                        true => reason,
                        false => reason + hint_at_csv(text),
                    }),
                })),
                Err(error) => Err(unreadable(&self.name, error)),
            },
        };
        self.has_begun = true;
        self.meter.next_record();
        read
    }

    /// Bytes read, also ahead of the last record.
    pub fn bytes_read(&self) -> u64 {
        self.meter.total_bytes.get()
    }
}

fn unreadable(name: &str, error: io::Error) -> Failure {
    Failure::transfer(format!("reading {name}"), error)
}

/// Why CSV cannot be read on.
fn ended(name: &str, reader: &csv::Reader<Followed<Bounded>>, error: csv::Error) -> Failure {
    match reader.get_ref().fault() {
        Some(fault) => misquoted(fault),
        None => unreadable(name, error.into()),
    }
}

/// Not a row that could be left out: where the next one begins is unknown.
fn misquoted(fault: Fault) -> Failure {
    Failure::course(
        fault.to_string(),
        "A field in quotes ends with a quote, and a quote within it is written twice (\"\").",
    )
}

impl CsvRows {
    fn new(
        bounded: Bounded,
        schema: &TableSchema,
        name: &str,
        null: Option<String>,
    ) -> Result<Self, Failure> {
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_reader(Followed::new(bounded));
        let header = reader.byte_headers().cloned();
        let header = header.map_err(|error| ended(name, &reader, error))?;
        let mut positions = Vec::with_capacity(header.len());
        for field in &header {
            let column = String::from_utf8_lossy(field);
            let position = schema
                .position(&column)
                .map_err(|error| no_column(name, &error.to_string(), schema))?;
            if positions.contains(&position) {
                let message = format!("the first line names column {column:?} twice");
                return Err(no_column(name, &message, schema));
            }
            positions.push(position);
        }
        let missing = schema
            .columns
            .iter()
            .enumerate()
            .find(|(position, column)| !column.nullable && !positions.contains(position));
        if let Some((_, column)) = missing {
            let message = if positions.is_empty() {
                "there is no first line with the names of columns".to_owned()
            } else {
                format!(
                    "the first line does not name column {:?}, which cannot be null",
                    column.name
                )
            };
            return Err(no_column(name, &message, schema));
        }
        Ok(Self {
            reader,
            record: csv::ByteRecord::new(),
            positions,
            null,
        })
    }

    fn next(&mut self, schema: &TableSchema) -> Result<Option<Record>, csv::Error> {
        if !self.reader.read_byte_record(&mut self.record)? {
            return Ok(None);
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        Ok(Some(Record {
            line,
            row: self.row(schema),
        }))
    }

    fn row(&self, schema: &TableSchema) -> Result<Row, String> {
        if self.record.len() != self.positions.len() {
            return Err(format!(
                "{} fields, the first line has {}",
                self.record.len(),
                self.positions.len()
            ));
        }
        let mut row = vec![Value::Null; schema.columns.len()];
        for (field, &position) in self.record.iter().zip(&self.positions) {
            let column = &schema.columns[position];
            row[position] = value::from_field(field, column.column_type, self.null.as_deref())
                .map_err(|reason| format!("column {:?}: {reason}", column.name))?;
        }
        checked(row, schema)
    }
}

fn no_column(name: &str, message: &str, schema: &TableSchema) -> Failure {
    let columns: Vec<&str> = schema.column_names().collect();
    Failure::usage(
        format!("{name}: {message}"),
        format!(
            "The first line names columns of table {}: {}. JSON lines need --format jsonl.",
            schema.name,
            columns.join(",")
        ),
    )
}

fn checked(row: Row, schema: &TableSchema) -> Result<Row, String> {
    schema.check_row(&row).map_err(|error| error.to_string())?;
    Ok(row)
}

/// Lines that are not blank, with their numbers.
pub struct Lines {
    reader: BufReader<Bounded>,
    line: u64,
    text: Vec<u8>,
    /// The line is still to be handed out.
    is_held: bool,
}

impl Lines {
    fn of(bounded: Bounded) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, bounded),
            line: 0,
            text: Vec::new(),
            is_held: false,
        }
    }

    pub fn new(input: Input) -> Self {
        Self::of(Bounded {
            reader: input.reader,
            meter: Meter::default(),
        })
    }

    /// What comes next.
    fn peek(&mut self) -> io::Result<Option<&[u8]>> {
        self.is_held = self.next()?.is_some();
        Ok(self.is_held.then_some(&self.text))
    }

    /// # Errors
    /// When it cannot be read.
    pub fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if std::mem::take(&mut self.is_held) {
            return Ok(Some((self.line, &self.text)));
        }
        loop {
            self.text.clear();
            self.reader.get_ref().meter.next_record();
            if self.reader.read_until(b'\n', &mut self.text)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if self.line == 1 && self.text.starts_with(BYTE_ORDER_MARK) {
                self.text.drain(..BYTE_ORDER_MARK.len());
            }
            if !self.text.trim_ascii().is_empty() {
                return Ok(Some((self.line, &self.text)));
            }
        }
    }
}

/// A JSON object's fields as they stand, also the same name twice.
pub struct Fields(pub Vec<(String, serde_json::Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with a field per column")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Fields, M::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// # Errors
/// What is wrong, with the place in the line.
pub fn fields_of_line(text: &[u8]) -> Result<Fields, String> {
    serde_json::from_slice(text).map_err(|error| {
        let column = error.column();
        let error = error.to_string();
        // Its line is always the first.
        let what = error.split(" at line ").next().unwrap_or_default();
        format!("{what}, at character {column}")
    })
}

fn opens_array(text: &[u8]) -> bool {
    text.trim_ascii_start().starts_with(b"[")
}

fn is_array(name: &str) -> Failure {
    Failure::usage(
        format!("{name}: this is a JSON array, and not an object per line"),
        "Make lines of it: jq -c '.[]' FILE | iolane store load DIR TABLE --format jsonl",
    )
}

/// For a first line.
fn hint_at_csv(text: &[u8]) -> &'static str {
    let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
    if is_json || text.trim_ascii_start().starts_with(b"{") {
        return "";
    }
    "; this is no JSON: rows as CSV need --format csv"
}

fn row_of_line(text: &[u8], schema: &TableSchema) -> Result<Row, String> {
    row_of_fields(fields_of_line(text)?, schema)
}

/// # Errors
/// Why it is no row of the table.
pub fn row_of_fields(fields: Fields, schema: &TableSchema) -> Result<Row, String> {
    let mut row: Vec<Option<Value>> = vec![None; schema.columns.len()];
    for (name, json) in fields.0 {
        let position = schema.position(&name).map_err(|error| error.to_string())?;
        let found = value::from_json(json, schema.columns[position].column_type)
            .map_err(|reason| format!("column {name:?}: {reason}"))?;
        if row[position].replace(found).is_some() {
            return Err(format!("column {name:?} comes twice"));
        }
    }
    let row = row.into_iter().map(|value| value.unwrap_or(Value::Null));
    checked(row.collect(), schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table_text;

    fn reader(text: &str, format: RowFormat) -> Result<RowReader, Failure> {
        let schema = table_text::parse("t(a integer, b text null, primary key(a))").unwrap();
        let input = Input {
            name: "test".to_owned(),
            length_bytes: None,
            reader: Box::new(io::Cursor::new(text.as_bytes().to_vec())),
        };
        RowReader::new(input, &schema, format, None)
    }

    fn read(text: &str, format: RowFormat) -> Vec<(u64, Result<Row, String>)> {
        let mut reader = reader(text, format).unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            records.push((record.line, record.row));
        }
        records
    }

    #[test]
    fn csv_has_columns_in_any_order_and_bad_lines_between() {
        let text = "\u{feff}b,a\nx,1\n\"two\nlines\",2\ny,z\n,3\n1\n\\N,4\n";
        let rows = read(text, RowFormat::Csv);
        assert_eq!(rows[0], (2, Ok(vec![1.into(), "x".into()])));
        assert_eq!(rows[1], (3, Ok(vec![2.into(), "two\nlines".into()])));
        assert_eq!(
            rows[2],
            (
                5,
                Err("column \"a\": \"z\" is no integer of 64 bits".into())
            )
        );
        assert_eq!(rows[3], (6, Ok(vec![3.into(), "".into()])));
        assert_eq!(rows[4], (7, Err("1 fields, the first line has 2".into())));
        assert_eq!(rows[5], (8, Ok(vec![4.into(), Value::Null])));
    }

    #[test]
    fn csv_whose_quotes_are_wrong_ends_behind_the_rows_before() {
        for (text, rows, message) in [
            ("a,b\n1,\"x\n2,y\n", 0, "line 2: the quote is not closed"),
            ("a,b\n1,x\n2,\"y", 1, "line 3: the quote is not closed"),
            (
                "a,b\n1,x\n2,\"y\nz\" \n3,z\n",
                1,
                "line 4: text behind a closing quote, of the quote that opens in line 3",
            ),
        ] {
            let mut reader = reader(text, RowFormat::Csv).unwrap();
            for _ in 0..rows {
                assert!(reader.next().unwrap().unwrap().row.is_ok(), "{text:?}");
            }
            let failure = reader.next().err().unwrap();
            assert_eq!(failure.to_string(), message);
            assert_eq!(failure.kind().exit_code(), 3);
        }
        let failure = reader("a,\"b\n1,x\n", RowFormat::Csv).err().unwrap();
        assert_eq!(failure.to_string(), "line 1: the quote is not closed");
    }

    #[test]
    fn json_lines_say_what_is_wrong_with_them() {
        let text =
            "{\"b\":\"x\",\"a\":1}\n\n{\"a\":2}\n{\"a\":1,\"a\":2}\n{\"c\":1}\n[1]\n{\"a\"\n{}\n";
        let rows = read(text, RowFormat::Jsonl);
        assert_eq!(rows[0], (1, Ok(vec![1.into(), "x".into()])));
        assert_eq!(rows[1], (3, Ok(vec![2.into(), Value::Null])));
        let why = |at: usize| rows[at].1.clone().unwrap_err();
        assert_eq!(why(2), "column \"a\" comes twice");
        assert_eq!(why(3), "table \"t\" has no column \"c\"");
        assert!(
            why(4).contains("expected an object with a field per column"),
            "{}",
            why(4)
        );
        assert!(why(5).contains("at character"), "{}", why(5));
        assert_eq!(why(6), "column \"a\" holds integer, the value is null");
    }

    #[test]
    fn what_is_no_json_lines_is_told_at_its_beginning() {
        let rows = read("\u{feff}{\"a\":1}\n", RowFormat::Jsonl);
        assert_eq!(rows, [(1, Ok(vec![1.into(), Value::Null]))]);
        for text in ["[{\"a\":1}]", "\n\u{20}[\n{\"a\":1},\n{\"a\":2}\n]\n"] {
            let failure = reader(text, RowFormat::Jsonl).err().unwrap();
            assert!(failure.to_string().contains("a JSON array"), "{failure}");
            assert!(failure.remedy().contains("jq -c '.[]'"));
            assert_eq!(failure.kind().exit_code(), 1);
        }
        let rows = read("a,b\n1,x\n", RowFormat::Jsonl);
        let hints = |at: usize| rows[at].1.clone().unwrap_err().contains("--format csv");
        assert!(hints(0) && !hints(1));
        for object in ["{\"c\":1}\n", "{\"a\n", "7\n"] {
            let why = read(object, RowFormat::Jsonl)[0].1.clone().unwrap_err();
            assert!(!why.contains("--format csv"), "{why}");
        }
    }

    #[test]
    fn a_record_without_end_does_not_fill_the_memory() {
        let mut bounded = Bounded {
            reader: Box::new(io::repeat(b' ')),
            meter: Meter::default(),
        };
        let mut buffer = vec![0; 1 << 20];
        let mut total = 0;
        let error = loop {
            match bounded.read(&mut buffer) {
                Ok(count) => total += count as u64,
                Err(error) => break error,
            }
        };
        assert!(total <= RECORD_BYTES_MAX + (1 << 20));
        assert!(error.to_string().contains("does not end within"));
    }
}
