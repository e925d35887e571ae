//! How far ahead of its consumer a stream reads.

/// Pages passed without a wait, in distances, after which it shrinks.
const CALM_DISTANCES: usize = 8;

/// Doubles whenever the consumer has to wait for a page that is on its way,
/// and shrinks by an eighth when that has not happened for a while: what
/// others could use is given back slowly, what is missing is taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Distance {
    pages: usize,
    begin: usize,
    calm: usize,
}

impl Distance {
    /// One that begins with `begin` pages, and never asks for fewer.
    pub(crate) fn new(begin: usize) -> Distance {
        Distance {
            pages: begin,
            begin,
            calm: 0,
        }
    }

    /// Pages to be ahead, of `limit` that there may be.
    pub(crate) fn pages(&self, limit: usize) -> usize {
        self.pages.min(limit).max(1)
    }

    /// The consumer has to wait.
    pub(crate) fn waited(&mut self, limit: usize) {
        self.pages = (2 * self.pages).min(limit).max(self.begin);
        self.calm = 0;
    }

    /// The consumer found a page, or has waited for it.
    pub(crate) fn passed(&mut self) {
        self.calm += 1;
        if self.calm >= CALM_DISTANCES * self.pages {
            self.calm = 0;
            self.pages = (self.pages - self.pages / 8).max(self.begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_at_once_and_shrinks_slowly() {
        let mut distance = Distance::new(128);
        assert_eq!(distance.pages(1000), 128);
        assert_eq!(distance.pages(40), 40);
        distance.waited(1000);
        assert_eq!(distance.pages(1000), 256);
        for _ in 0..10 {
            distance.waited(1000);
        }
        assert_eq!(distance.pages(usize::MAX), 1000);
        for _ in 0..7999 {
            distance.passed();
        }
        assert_eq!(distance.pages(1000), 1000);
        distance.passed();
        assert_eq!(distance.pages(1000), 875);
        for _ in 0..1_000_000 {
            distance.passed();
        }
        assert_eq!(distance.pages(1000), 128);
    }

    #[test]
    fn it_always_asks_for_a_page_and_never_beyond_the_limit() {
        let mut distance = Distance::new(16);
        assert_eq!(distance.pages(0), 1);
        distance.waited(4);
        assert_eq!(distance.pages(4), 4);
        assert_eq!(distance.pages(100), 16);
    }
}
