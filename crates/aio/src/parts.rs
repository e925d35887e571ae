//! A request in pieces: one for each vector, and one for each gigabyte.

use crate::sys::abi::Errno;

/// Results by piece, until all are there.
#[derive(Debug)]
pub(crate) struct Parts {
    first: Part,
    more: Vec<Part>,
    left: usize,
}

#[derive(Debug, Default)]
struct Part {
    length: usize,
    result: Option<Result<usize, Errno>>,
}

impl Parts {
    /// Of these lengths, in order. None: it is done.
    pub(crate) fn new(mut lengths: impl Iterator<Item = usize>) -> Parts {
        let part = |length| Part {
            length,
            result: None,
        };
        let first = lengths.next();
        let more: Vec<Part> = lengths.map(part).collect();
        Parts {
            left: usize::from(first.is_some()) + more.len(),
            first: first.map_or_else(Part::default, part),
            more,
        }
    }

    pub(crate) fn are_done(&self) -> bool {
        self.left == 0
    }

    pub(crate) fn done(&mut self, index: usize, result: Result<usize, Errno>) {
        let part = match index {
            0 => &mut self.first,
            index => &mut self.more[index - 1],
        };
        debug_assert!(part.result.is_none());
        part.result = Some(result);
        self.left -= 1;
    }

    /// What the kernel would say of the whole: bytes up to the first piece that
    /// came up short, or its error if there are none before it.
    pub(crate) fn result(&self) -> i64 {
        let mut bytes = 0;
        for part in std::iter::once(&self.first).chain(&self.more) {
            match part.result {
                Some(Ok(done)) => {
                    bytes += done as i64;
                    if done < part.length {
                        break;
                    }
                }
                Some(Err(Errno(errno))) => {
                    if bytes == 0 {
                        return -i64::from(errno);
                    }
                    break;
                }
                None => break,
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(lengths: &[usize], results: &[Result<usize, Errno>]) -> i64 {
        let mut parts = Parts::new(lengths.iter().copied());
        // The order of completion is nobody's choice.
        for (index, result) in results.iter().enumerate().rev() {
            assert!(!parts.are_done());
            parts.done(index, *result);
        }
        assert!(parts.are_done());
        parts.result()
    }

    #[test]
    fn a_whole_is_what_came_before_the_first_gap() {
        let failed = Err(Errno(libc::EIO));
        assert_eq!(result(&[], &[]), 0);
        assert_eq!(result(&[10], &[Ok(10)]), 10);
        assert_eq!(result(&[10], &[Ok(3)]), 3);
        assert_eq!(result(&[10], &[failed]), -i64::from(libc::EIO));
        assert_eq!(result(&[10, 5, 7], &[Ok(10), Ok(5), Ok(7)]), 22);
        assert_eq!(result(&[10, 5, 7], &[Ok(10), Ok(2), Ok(7)]), 12);
        assert_eq!(result(&[10, 5, 7], &[Ok(10), failed, Ok(7)]), 10);
        assert_eq!(
            result(&[10, 5, 7], &[failed, Ok(5), Ok(7)]),
            -i64::from(libc::EIO)
        );
    }
}
