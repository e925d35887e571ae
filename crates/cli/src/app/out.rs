//! Where a command's result and its failure go.

use std::io::{self, Write};

use crate::error::Failure;
use crate::output::text::Style;

/// Results on standard output, failures on standard error.
pub struct Out<'a> {
    pub stdout: &'a mut dyn Write,
    /// A failure is a document on standard output too.
    pub json: bool,
    pub stderr_style: Style,
}

impl Out<'_> {
    /// Gives the exit code.
    pub fn end(&mut self, result: &Result<String, Failure>) -> u8 {
        match result {
            Ok(text) => self.print(text),
            Err(failure) => self.fail(failure),
        }
    }

    /// A closed pipe is no error: `iolane ... | head` is a fine thing to do.
    pub fn print(&mut self, text: &str) -> u8 {
        let written = self.stdout.write_all(text.as_bytes());
        match written.and_then(|()| self.stdout.flush()) {
            Ok(()) => 0,
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            Err(error) => self.complain(&Failure::writing("standard output", &error)),
        }
    }

    pub fn fail(&mut self, failure: &Failure) -> u8 {
        if let Failure::Found { result, .. } = failure {
            self.print(result);
        } else if self.json {
            self.print(&format!("{:#}\n", failure.document()));
        }
        self.complain(failure)
    }

    fn complain(&self, failure: &Failure) -> u8 {
        let error = self.stderr_style.red("error:");
        // A closed stderr leaves only the exit code to tell.
        let _ = writeln!(io::stderr(), "{error} {failure}\n{}", failure.remedy());
        failure.kind().exit_code()
    }
}
