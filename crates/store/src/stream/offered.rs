//! Pages whose numbers are known beforehand.

use super::{More, Next, PageStream, ReadAhead, Source};
use crate::ids::PageId;
use crate::policy::Role;
use std::collections::VecDeque;

/// What it is given, in that order.
#[derive(Default)]
pub(crate) struct Offered(VecDeque<PageId>);

impl Source for Offered {
    fn more(&mut self, next: &mut Next, _ahead: usize) -> More {
        if self.0.is_empty() {
            return More::NotNow;
        }
        next.pages.extend(self.0.drain(..));
        More::Found
    }
}

impl<'p> PageStream<'p, Offered> {
    /// A stream of what will be [offered](Self::offer).
    pub(crate) fn of_offered(ahead: ReadAhead<'p>, role: Role, begin: usize) -> Self {
        PageStream::new(ahead, role, begin, Offered::default())
    }

    /// Pages that the consumer will come to next, and begins to read them.
    pub(crate) fn offer(&mut self, pages: impl IntoIterator<Item = PageId>) {
        self.source.0.extend(pages);
        self.passed();
    }
}
