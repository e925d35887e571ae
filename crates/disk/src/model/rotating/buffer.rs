//! The disk's buffer: segments that hold what was read, and segments that
//! hold what is still to be written.

use super::geometry::Place;

/// A contiguous range of what was read from the medium.
#[derive(Clone, Copy)]
struct Segment {
    first: u64,
    /// One behind the last sector.
    end: u64,
    used: u64,
}

/// The segments for reading. Each is a ring: what is read into it overwrites
/// what lies a segment's size behind.
pub(super) struct ReadBuffer {
    segments: Vec<Segment>,
    pub(super) segment_sectors: u64,
    uses: u64,
}

impl ReadBuffer {
    pub(super) fn new(segments: usize, segment_sectors: u64) -> ReadBuffer {
        let empty = Segment {
            first: 0,
            end: 0,
            used: 0,
        };
        ReadBuffer {
            segments: vec![empty; segments],
            segment_sectors,
            uses: 0,
        }
    }

    /// The segment that holds `sector` or ends right before it.
    pub(super) fn find(&self, sector: u64) -> Option<usize> {
        self.segments.iter().position(|segment| {
            segment.first < segment.end && segment.first <= sector && sector <= segment.end
        })
    }

    /// One behind the last sector of a segment.
    pub(super) fn end(&self, segment: usize) -> u64 {
        self.segments[segment].end
    }

    /// Marks a segment as used, so that it is replaced last.
    pub(super) fn touch(&mut self, segment: usize) {
        self.uses += 1;
        self.segments[segment].used = self.uses;
    }

    /// Empties the segment unused for longest, to be filled from `first` on.
    pub(super) fn replace(&mut self, first: u64) -> usize {
        let (oldest, _) = self
            .segments
            .iter()
            .enumerate()
            .min_by_key(|(_, segment)| segment.used)
            .expect("a buffer has a segment for reads");
        self.segments[oldest].first = first;
        self.segments[oldest].end = first;
        self.touch(oldest);
        oldest
    }

    /// Everything before `end` was read into a segment.
    pub(super) fn extend(&mut self, segment: usize, end: u64) {
        let segment = &mut self.segments[segment];
        segment.end = segment.end.max(end);
        segment.first = segment
            .first
            .max(segment.end.saturating_sub(self.segment_sectors));
    }

    /// Forgets what a write to the range makes stale.
    pub(super) fn invalidate(&mut self, first: u64, end: u64) {
        for segment in &mut self.segments {
            if segment.first < end && first < segment.end {
                segment.end = segment.first;
            }
        }
    }
}

/// A range that was written by the host and is not on the medium.
#[derive(Clone, Copy)]
pub(super) struct Dirty {
    pub(super) first: u64,
    /// One behind the last sector.
    pub(super) end: u64,
    pub(super) place: Place,
    /// When its first write came.
    pub(super) since_ns: u64,
    /// When its last byte is in the buffer.
    pub(super) available_ns: u64,
    /// Number of its first write, by which a flush knows what it waits for.
    pub(super) sequence: u64,
    /// Whether it is on its way to the medium and can take no more.
    pub(super) writing: bool,
}

/// The segments for writing.
pub(super) struct WriteCache {
    pub(super) dirty: Vec<Dirty>,
    segments_max: u64,
    segment_sectors: u64,
    /// Number of the next write.
    pub(super) sequence: u64,
}

impl WriteCache {
    pub(super) fn new(segments: usize, segment_sectors: u64) -> WriteCache {
        WriteCache {
            dirty: Vec::with_capacity(segments + 1),
            segments_max: segments as u64,
            segment_sectors,
            sequence: 0,
        }
    }

    /// Segments that a range takes.
    fn segments(&self, first: u64, end: u64) -> u64 {
        (end - first).div_ceil(self.segment_sectors)
    }

    fn used(&self) -> u64 {
        self.dirty
            .iter()
            .map(|dirty| self.segments(dirty.first, dirty.end))
            .sum()
    }

    /// The range that a write would continue or overwrite, within its segment.
    fn joins(&self, first: u64, end: u64) -> Option<usize> {
        self.dirty.iter().position(|dirty| {
            !dirty.writing
                && dirty.first <= first
                && first <= dirty.end
                && self.segments(dirty.first, dirty.end.max(end)) == 1
        })
    }

    /// Whether there is room for a write. One that is larger than the whole
    /// cache passes when it is alone.
    pub(super) fn fits(&self, first: u64, end: u64) -> bool {
        self.dirty.is_empty()
            || self.joins(first, end).is_some()
            || self.used() + self.segments(first, end) <= self.segments_max
    }

    /// Takes a write that [`fits`](Self::fits).
    pub(super) fn admit(&mut self, write: Dirty) {
        self.sequence += 1;
        if let Some(joined) = self.joins(write.first, write.end) {
            let dirty = &mut self.dirty[joined];
            dirty.end = dirty.end.max(write.end);
            dirty.available_ns = write.available_ns;
        } else {
            self.dirty.push(write);
        }
    }

    /// Whether one range holds everything from `first` to `end`.
    pub(super) fn holds(&self, first: u64, end: u64) -> bool {
        self.dirty
            .iter()
            .any(|dirty| dirty.first <= first && end <= dirty.end)
    }

    /// The range that was on its way has arrived.
    pub(super) fn written(&mut self) {
        self.dirty.retain(|dirty| !dirty.writing);
    }

    /// Whether everything is on the medium that came before `sequence`.
    pub(super) fn is_durable(&self, sequence: u64) -> bool {
        self.dirty.iter().all(|dirty| dirty.sequence >= sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(cache: &WriteCache, first: u64, end: u64) -> Dirty {
        Dirty {
            first,
            end,
            place: Place {
                cylinder: 0,
                head: 0,
                angle: 0,
                left_on_track: 1,
                sectors_per_track: 1,
            },
            since_ns: 0,
            available_ns: 0,
            sequence: cache.sequence,
            writing: false,
        }
    }

    #[test]
    fn a_segment_forgets_what_lies_its_size_behind() {
        let mut buffer = ReadBuffer::new(2, 100);
        let segment = buffer.replace(1_000);
        buffer.extend(segment, 1_150);
        assert_eq!(buffer.find(1_049), None);
        assert_eq!(buffer.find(1_050), Some(segment));
        assert_eq!(buffer.find(1_150), Some(segment));
        buffer.invalidate(1_100, 1_101);
        assert_eq!(buffer.find(1_050), None);
    }

    #[test]
    fn the_segment_unused_for_longest_is_replaced() {
        let mut buffer = ReadBuffer::new(2, 100);
        let first = buffer.replace(0);
        let second = buffer.replace(1_000);
        buffer.touch(first);
        assert_eq!(buffer.replace(2_000), second);
    }

    #[test]
    fn adjacent_writes_share_a_segment_and_others_take_one_each() {
        let mut cache = WriteCache::new(2, 100);
        cache.admit(write(&cache, 0, 50));
        cache.admit(write(&cache, 50, 100));
        assert_eq!(cache.dirty.len(), 1);
        assert!(cache.holds(20, 80));
        cache.admit(write(&cache, 500, 510));
        assert!(!cache.fits(1_000, 1_010), "both segments are taken");
        assert!(cache.fits(510, 600), "continues the second");
        cache.dirty[0].writing = true;
        assert!(cache.fits(510, 600) && !cache.fits(100, 110));
        cache.written();
        assert!(cache.fits(100, 110));
    }

    #[test]
    fn a_flush_waits_for_what_came_before_it_only() {
        let mut cache = WriteCache::new(2, 100);
        cache.admit(write(&cache, 0, 50));
        let flush = cache.sequence;
        cache.admit(write(&cache, 500, 510));
        assert!(!cache.is_durable(flush));
        cache.dirty[0].writing = true;
        cache.written();
        assert!(cache.is_durable(flush));
    }
}
