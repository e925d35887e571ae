//! Quotes of CSV that are not closed, or have text behind them.
//!
//! The reader of CSV takes both: it ends an open quote at the end of the input,
//! with all rows in between in one field. So the quotes are followed here, on
//! the way to it, in the same dialect: a quote opens a field only at its
//! beginning, and two of them within are one of its text.

use std::fmt;
use std::io::{self, Read};

const QUOTE: u8 = b'"';
/// Of UTF-8; it may stand in front of everything.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Looked through at once; the compiler makes a few instructions of it.
const BLOCK_BYTES: usize = 32;

/// Where a quote is wrong, in lines from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The line in which it opens.
    Open { line: u64 },
    Behind {
        line: u64,
        /// Where the quote opens.
        opened: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { line } => write!(f, "line {line}: the quote is not closed"),
            Self::Behind { line, opened } => {
                write!(f, "line {line}: text behind a closing quote")?;
                if opened == line {
                    return Ok(());
                }
                write!(f, ", of the quote that opens in line {opened}")
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No quote is open.
    Outside,
    Within,
    /// Behind a quote that closes, unless another one follows.
    Closing,
}

/// Follows the quotes of a text that comes in pieces.
pub struct Quotes {
    state: State,
    /// Outside: whether the next byte begins a field.
    begins: bool,
    /// Nothing has come yet.
    first: bool,
    /// Line ends in the pieces before.
    line_ends: u64,
    /// The line in which the quote opens.
    opened: u64,
}

impl Quotes {
    pub fn new() -> Self {
        Self {
            state: State::Outside,
            begins: true,
            first: true,
            line_ends: 0,
            opened: 0,
        }
    }

    /// Takes the next piece. With a fault comes how much there is before it.
    ///
    /// # Errors
    /// Text behind a closing quote.
    pub fn follow(&mut self, piece: &[u8]) -> Result<(), (usize, Fault)> {
        let mut at = 0;
        if self.first && piece.starts_with(BYTE_ORDER_MARK) {
            at = BYTE_ORDER_MARK.len();
        }
        self.first &= piece.is_empty();
        let mut opened_at = None;
        while at < piece.len() {
            match self.state {
                State::Outside => {
                    let found = quote_in(&piece[at..]);
                    let next = found.map_or(piece.len(), |found| at + found);
                    let begins = if next == at {
                        self.begins
                    } else {
                        ends_field(piece[next - 1])
                    };
                    self.begins = begins && found.is_none();
                    if begins && found.is_some() {
                        self.state = State::Within;
                        opened_at = Some(next);
                    }
                    at = next + 1;
                }
                State::Within => match quote_in(&piece[at..]) {
                    Some(found) => {
                        self.state = State::Closing;
                        at += found + 1;
                    }
                    None => break,
                },
                State::Closing => {
                    match piece[at] {
                        QUOTE => self.state = State::Within,
                        byte if ends_field(byte) => {
                            self.state = State::Outside;
                            self.begins = true;
                        }
                        _ => return Err((at, self.behind(piece, at, opened_at))),
                    }
                    at += 1;
                }
            }
        }
        if self.state != State::Outside {
            self.note_opened(piece, opened_at);
        }
        self.line_ends += line_ends(piece);
        Ok(())
    }

    /// # Errors
    /// If the text ends here: a quote is not closed.
    pub fn end(&self) -> Result<(), Fault> {
        match self.state {
            State::Within => Err(Fault::Open { line: self.opened }),
            _ => Ok(()),
        }
    }

    fn behind(&mut self, piece: &[u8], at: usize, opened_at: Option<usize>) -> Fault {
        self.note_opened(piece, opened_at);
        Fault::Behind {
            line: self.line_of(piece, at),
            opened: self.opened,
        }
    }

    /// Only for what is open at the end of a piece: lines are not counted for
    /// each quote.
    fn note_opened(&mut self, piece: &[u8], opened_at: Option<usize>) {
        if let Some(at) = opened_at {
            self.opened = self.line_of(piece, at);
        }
    }

    fn line_of(&self, piece: &[u8], at: usize) -> u64 {
        self.line_ends + line_ends(&piece[..at]) + 1
    }
}

fn ends_field(byte: u8) -> bool {
    matches!(byte, b',' | b'\n' | b'\r')
}

fn line_ends(bytes: &[u8]) -> u64 {
    // As many as a byte counts, which the compiler adds up many at a time.
    let pieces = bytes.chunks(usize::from(u8::MAX));
    let ends = |piece: &[u8]| {
        piece
            .iter()
            .map(|&byte| u8::from(byte == b'\n'))
            .sum::<u8>()
    };
    pieces.map(|piece| u64::from(ends(piece))).sum()
}

fn quote_in(bytes: &[u8]) -> Option<usize> {
    let is_quote = |&byte: &u8| byte == QUOTE;
    // Where fields are in quotes, the next one is near.
    let near = bytes.len().min(BLOCK_BYTES);
    if let Some(found) = bytes[..near].iter().position(is_quote) {
        return Some(found);
    }
    let (blocks, _) = bytes[near..].as_chunks::<BLOCK_BYTES>();
    let without = |block: &&[u8; BLOCK_BYTES]| {
        !block
            .iter()
            .fold(false, |found, byte| found | is_quote(byte))
    };
    let from = near + blocks.iter().take_while(without).count() * BLOCK_BYTES;
    let found = bytes[from..].iter().position(is_quote)?;
    Some(from + found)
}

/// Follows the quotes in what is read. What is before a fault can be read.
pub struct Followed<R> {
    reader: R,
    quotes: Quotes,
    fault: Option<Fault>,
}

impl<R: Read> Followed<R> {
    pub fn new(reader: R) -> Self {
        Self {
            reader,
            quotes: Quotes::new(),
            fault: None,
        }
    }

    /// Why reading ended, if it is that.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn end(&mut self, fault: Fault) -> io::Error {
        self.fault = Some(fault);
        io::Error::new(io::ErrorKind::InvalidData, fault.to_string())
    }
}

impl<R: Read> Read for Followed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(fault) = self.fault {
            return Err(self.end(fault));
        }
        let count = match self.reader.read(buffer) {
            // A record without an end: most likely for want of a quote.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(self
                    .quotes
                    .end()
                    .map_or_else(|fault| self.end(fault), |()| error));
            }
            read => read?,
        };
        if count == 0 {
            let end = self.quotes.end();
            return end.map(|()| 0).map_err(|fault| self.end(fault));
        }
        match self.quotes.follow(&buffer[..count]) {
            Ok(()) => Ok(count),
            Err((0, fault)) => Err(self.end(fault)),
            Err((before, fault)) => {
                self.fault = Some(fault);
                Ok(before)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In pieces of so many bytes.
    fn fault_of(text: &str, piece_bytes: usize) -> Option<Fault> {
        let mut quotes = Quotes::new();
        for piece in text.as_bytes().chunks(piece_bytes) {
            if let Err((_, fault)) = quotes.follow(piece) {
                return Some(fault);
            }
        }
        quotes.end().err()
    }

    #[test]
    fn faults_are_found_with_their_lines_in_pieces_of_any_size() {
        let long = format!("a,{}\n\"{}\n", "x".repeat(70), "\"\"y,".repeat(40));
        for (text, fault) in [
            ("", None),
            ("a,b\n1,\"x\"\n", None),
            ("1,\"x", Some(Fault::Open { line: 1 })),
            ("1,\"x\"", None),
            ("a\r\n\"b \"\"c\"\"\nd\",\"\"\r\n\"\"\n", None),
            // No quotes that open a field.
            ("a,b\"c\"d\",1\n x\"\n", None),
            ("a\n\n1,\"b\nc,d\n2,e\n", Some(Fault::Open { line: 3 })),
            ("a\n1,\"b\"\"\n", Some(Fault::Open { line: 2 })),
            ("a\n\"b\"c\n", Some(Fault::Behind { line: 2, opened: 2 })),
            (
                "a\n\"b\n\nc\" \n",
                Some(Fault::Behind { line: 4, opened: 2 }),
            ),
            (&long, Some(Fault::Open { line: 2 })),
        ] {
            for piece_bytes in 1..100 {
                assert_eq!(
                    fault_of(text, piece_bytes),
                    fault,
                    "{text:?} by {piece_bytes}"
                );
            }
        }
        let marked = "\u{feff}\"a\n";
        assert_eq!(fault_of(marked, 100), Some(Fault::Open { line: 1 }));
    }

    #[test]
    fn what_is_before_a_fault_is_read() {
        let mut read = Vec::new();
        let mut followed = Followed::new(&b"a\n\"b\"c\n"[..]);
        let error = followed.read_to_end(&mut read).unwrap_err();
        assert_eq!(read, b"a\n\"b\"");
        assert_eq!(error.to_string(), "line 2: text behind a closing quote");
        assert_eq!(followed.fault(), Some(Fault::Behind { line: 2, opened: 2 }));
    }

    /// Of random text, what the reader of CSV takes to its end without a field
    /// that goes on behind its quote.
    #[test]
    fn the_reader_of_csv_sees_the_same_quotes() {
        let letters = b"\"\"\",,\n\rab";
        let mut seed = 1_u64;
        let mut faults = 0;
        for _ in 0..20_000 {
            let mut text = Vec::new();
            for _ in 0..12 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push(letters[(seed >> 33) as usize % letters.len()]);
            }
            let text = String::from_utf8(text).unwrap();
            let records = |text: &str| -> Vec<csv::StringRecord> {
                let mut reader = csv::ReaderBuilder::new();
                let reader = reader.has_headers(false).flexible(true);
                let reader = reader.from_reader(text.as_bytes());
                reader.into_records().map(Result::unwrap).collect()
            };
            match fault_of(&text, 5) {
                // It is closed: what comes next is a record of its own.
                None => {
                    let more = records(&format!("{text}\nend"));
                    assert_eq!(more.last().unwrap(), &vec!["end"], "{text:?}");
                }
                Some(Fault::Open { .. }) => {
                    let more = records(&format!("{text}\nend"));
                    assert_ne!(more.last().unwrap(), &vec!["end"], "{text:?}");
                    faults += 1;
                }
                Some(Fault::Behind { .. }) => faults += 1,
            }
        }
        assert!(faults > 1000);
    }
}
