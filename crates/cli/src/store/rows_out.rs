//! Rows as text on standard output, row by row.

use std::io::{self, BufWriter, Write};

use iolane_store::data::{Row, SchemaError, TableSchema};

use super::value;
use crate::args::store::RowFormat;
use crate::error::Failure;
use crate::output::stdout::Stdout;

/// A reader that has gone away is no error: `iolane store scan ... | head` is
/// a fine thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    There,
    Gone,
}

/// Standard output, buffered.
pub struct Lines<W: Write> {
    writer: BufWriter<W>,
}

impl Lines<Stdout<io::StdoutLock<'static>>> {
    pub fn to_stdout() -> Self {
        Self::to(Stdout::new().lock())
    }
}

impl<W: Write> Lines<W> {
    pub fn to(writer: W) -> Self {
        Self {
            writer: BufWriter::with_capacity(64 << 10, writer),
        }
    }

    /// # Errors
    /// What the system says, unless the reader has gone.
    pub fn write(&mut self, line: &[u8]) -> Result<Reader, Failure> {
        judge(self.writer.write_all(line))
    }

    /// # Errors
    /// The same.
    pub fn finish(mut self) -> Result<Reader, Failure> {
        judge(self.writer.flush())
    }
}

fn judge(written: io::Result<()>) -> Result<Reader, Failure> {
    match written {
        Ok(()) => Ok(Reader::There),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
        Err(error) => Err(Failure::writing("standard output", &error)),
    }
}

/// Makes lines of rows.
pub struct RowWriter {
    format: RowFormat,
    /// Names of the columns, for JSON in quotes already.
    labels: Vec<String>,
    /// Positions of the columns in a row.
    positions: Vec<usize>,
    line: Vec<u8>,
}

impl RowWriter {
    /// For some columns of a table; `None` for all.
    ///
    /// # Errors
    /// Columns that the table does not have.
    pub fn new(
        schema: &TableSchema,
        columns: Option<&[String]>,
        format: RowFormat,
    ) -> Result<Self, SchemaError> {
        let positions = match columns {
            None => (0..schema.columns.len()).collect(),
            Some(names) => {
                let positions = names.iter().map(|name| schema.position(name));
                positions.collect::<Result<Vec<usize>, _>>()?
            }
        };
        let label = |&position: &usize| {
            let name = &schema.columns[position].name;
            match format {
                RowFormat::Csv => name.clone(),
                RowFormat::Jsonl => serde_json::Value::from(name.as_str()).to_string(),
            }
        };
        Ok(Self {
            format,
            labels: positions.iter().map(label).collect(),
            positions,
            line: Vec::new(),
        })
    }

    /// What stands above all rows.
    pub fn header(&mut self) -> &[u8] {
        self.line.clear();
        if self.format == RowFormat::Csv {
            csv_line(self.labels.iter().map(String::as_str), &mut self.line);
        }
        &self.line
    }

    pub fn line(&mut self, row: &Row) -> &[u8] {
        self.line.clear();
        match self.format {
            RowFormat::Csv => {
                let fields = self.positions.iter().map(|&at| value::to_field(&row[at]));
                csv_line(fields, &mut self.line);
            }
            RowFormat::Jsonl => self.json_line(row),
        }
        &self.line
    }

    fn json_line(&mut self, row: &Row) {
        let line = &mut self.line;
        line.push(b'{');
        for (number, (label, &position)) in self.labels.iter().zip(&self.positions).enumerate() {
            if number > 0 {
                line.push(b',');
            }
            line.extend(label.as_bytes());
            line.push(b':');
            line.extend(value::to_json(&row[position]).to_string().into_bytes());
        }
        line.extend(b"}\n");
    }
}

/// As RFC 4180 has it, with a line feed alone at the end.
fn csv_line(fields: impl ExactSizeIterator<Item: AsRef<str>>, out: &mut Vec<u8>) {
    let alone = fields.len() == 1;
    for (number, field) in fields.enumerate() {
        let field = field.as_ref();
        if number > 0 {
            out.push(b',');
        }
        // An empty line would be no row.
        let quoted = field.contains(['"', ',', '\n', '\r']) || (alone && field.is_empty());
        if quoted {
            out.push(b'"');
            out.extend(field.replace('"', "\"\"").into_bytes());
            out.push(b'"');
        } else {
            out.extend(field.as_bytes());
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::table_text;
    use iolane_store::data::Value;

    #[test]
    fn rows_as_csv_and_as_json() {
        let schema =
            table_text::parse("t(a integer, b text null, c blob null, primary key(a))").unwrap();
        let row = vec![1.into(), "say \"a,b\"".into(), Value::Null];
        let mut csv = RowWriter::new(&schema, None, RowFormat::Csv).unwrap();
        assert_eq!(csv.header(), b"a,b,c\n");
        assert_eq!(csv.line(&row), b"1,\"say \"\"a,b\"\"\",\\N\n");
        let columns = ["c".to_owned(), "b".to_owned()];
        let mut json = RowWriter::new(&schema, Some(&columns), RowFormat::Jsonl).unwrap();
        assert_eq!(json.header(), b"");
        assert_eq!(json.line(&row), b"{\"c\":null,\"b\":\"say \\\"a,b\\\"\"}\n");
        let columns = ["b".to_owned()];
        let mut alone = RowWriter::new(&schema, Some(&columns), RowFormat::Csv).unwrap();
        assert_eq!(
            alone.line(&vec![1.into(), "".into(), Value::Null]),
            b"\"\"\n"
        );
        let columns = ["d".to_owned()];
        assert!(RowWriter::new(&schema, Some(&columns), RowFormat::Csv).is_err());
    }

    #[test]
    fn a_reader_that_is_gone_is_no_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut lines = Lines::to(writer);
        assert_eq!(
            lines.write(b"one\n").unwrap(),
            Reader::There,
            "in the buffer"
        );
        assert_eq!(lines.finish().unwrap(), Reader::Gone);
    }
}
