use super::*;
use crate::sys::fork::Process;
use proptest::prelude::*;

fn plain(bytes: u64) -> Arena {
    Arena::builder()
        .bytes(bytes)
        .pages(PageChoice::Plain)
        .build()
        .unwrap()
}

#[test]
fn buffers_outlive_the_handle_and_each_other() {
    let arena = plain(1 << 20);
    let shared = Arc::downgrade(&arena.shared);
    let mut first = arena.buffer(16384).unwrap();
    let second = arena.buffer(4096).unwrap();
    drop(arena);
    drop(second);
    first.fill(7);
    assert!(first.iter().all(|byte| *byte == 7));
    assert!(shared.upgrade().is_some());
    drop(first);
    assert!(
        shared.upgrade().is_none(),
        "the last buffer unmaps the arena"
    );
}

#[test]
fn buffers_are_aligned_as_asked() {
    let arena = plain(8 << 20);
    for align in [1, 512, 4096, 16384, 1 << 20, 2 << 20] {
        let odd = arena.buffer(1).unwrap();
        let buffer = arena.buffer_aligned(5000, align).unwrap();
        assert_eq!(buffer.len(), 5000);
        assert!((buffer.as_ptr() as usize).is_multiple_of(align.max(4096)));
        drop(odd);
    }
    assert_eq!(arena.free_bytes(), arena.bytes());
    for align in [0, 3, 1 << 40] {
        let refused = arena.buffer_aligned(1, align).unwrap_err();
        assert!(matches!(refused, BufferError::Alignment { .. }));
    }
}

#[test]
fn an_exhausted_arena_says_what_is_left() {
    let arena = plain(1 << 20);
    let mut pages = Vec::new();
    let refused = loop {
        match arena.buffer(16384) {
            Ok(page) => pages.push(page),
            Err(refused) => break refused,
        }
    };
    assert_eq!(pages.len(), 64);
    let exhausted = |free_bytes, free_largest_bytes, len| BufferError::Exhausted {
        len,
        free_bytes,
        free_largest_bytes,
    };
    assert_eq!(refused, exhausted(0, 0, 16384));
    pages.retain({
        let mut index = 0;
        move |_| {
            index += 1;
            index % 2 == 0
        }
    });
    let refused = arena.buffer(32768).unwrap_err();
    assert_eq!(refused, exhausted(512 << 10, 16384, 32768));
    assert_eq!(
        refused.to_string(),
        "no 32 KiB buffer left in the arena: 512 KiB free, the largest block 16 KiB; \
         drop buffers or build a larger arena"
    );
    pages.clear();
    assert_eq!(arena.buffer(1 << 20).unwrap().len(), 1 << 20);
    assert!(arena.buffer(usize::MAX).is_err());
}

#[test]
fn threads_share_an_arena() {
    let arena = plain(4 << 20);
    std::thread::scope(|scope| {
        for mark in 1..=4u8 {
            let arena = arena.clone();
            scope.spawn(move || {
                for round in 0..200usize {
                    let mut held: Vec<_> = (0..8)
                        .map(|index| arena.buffer(4096 << ((round + index) % 4)).unwrap())
                        .collect();
                    held.iter_mut().for_each(|buffer| buffer.fill(mark));
                    assert!(
                        held.iter()
                            .all(|buffer| buffer.iter().all(|byte| *byte == mark))
                    );
                }
            });
        }
    });
    assert_eq!(arena.free_bytes(), arena.bytes());
}

proptest! {
    #![proptest_config(iolane_testing::cases(64))]

    /// Each buffer is filled with a mark of its own, which must still be there
    /// when it is dropped: buffers do not overlap in memory.
    #[test]
    fn buffers_keep_their_contents(
        steps in prop::collection::vec((0usize..100_000, 0u32..10, any::<usize>()), 1..150),
    ) {
        let arena = plain(1 << 20);
        let mut held: Vec<(Buffer, u8)> = Vec::new();
        for (mark, (len, align_order, pick)) in steps.into_iter().enumerate() {
            if pick % 3 == 0 && !held.is_empty() {
                let (buffer, mark) = held.swap_remove(pick % held.len());
                prop_assert!(buffer.iter().all(|byte| *byte == mark));
            } else if let Ok(mut buffer) = arena.buffer_aligned(len, 512 << align_order) {
                buffer.fill(mark as u8);
                held.push((buffer, mark as u8));
            }
        }
        for (buffer, mark) in held {
            prop_assert!(buffer.iter().all(|byte| *byte == mark));
        }
        prop_assert_eq!(arena.free_bytes(), arena.bytes());
    }
}

#[test]
fn every_choice_gives_what_it_says_or_a_remedy() {
    for choice in [
        PageChoice::Auto,
        PageChoice::Huge1GiB,
        PageChoice::Huge2MiB,
        PageChoice::Transparent,
        PageChoice::Plain,
    ] {
        let built = Arena::builder().bytes(4 << 20).pages(choice).build();
        let arena = match built {
            Ok(arena) => arena,
            Err(ArenaError::Refused(refusal)) => {
                assert!(!matches!(choice, PageChoice::Auto | PageChoice::Plain));
                assert!(!refusal.cause.is_empty() && !refusal.remedy.is_empty());
                continue;
            }
            Err(other) => panic!("{choice:?}: {other}"),
        };
        let report = arena.pages();
        assert_eq!(report.bytes, arena.bytes());
        let huge = report.huge_bytes.expect("/proc is mounted");
        match report.kind {
            PageKind::HugeTlb { .. } => assert_eq!(huge, report.bytes, "{report}"),
            PageKind::Transparent { .. } => assert!(huge > 0, "{report}"),
            PageKind::Plain { .. } if choice == PageChoice::Plain => {
                assert_eq!(huge, 0, "{report}");
            }
            PageKind::Plain { .. } => assert!(!report.refused.is_empty(), "{report}"),
        }
    }
}

#[test]
fn regions_cover_the_arena_in_pieces_that_can_be_registered() {
    // Only the addresses are looked at, so the mapping need not be populated.
    let mapping = Mapping::anonymous((5 << 29) + 4096 * 16, 2 << 20).unwrap();
    let start = mapping.start().as_ptr() as usize;
    let len = mapping.len();
    let report = PagesReport {
        kind: PageKind::Plain { page_bytes: 4096 },
        bytes: len as u64,
        huge_bytes: None,
        refused: Vec::new(),
    };
    let total = (len / GRANULE_BYTES) as u32;
    let granules = Mutex::new(Granules::new(total));
    let shared = Arc::new(Shared {
        mapping,
        granules,
        report,
        process: Process::this(),
    });
    let arena = Arena { shared };
    let regions: Vec<_> = arena
        .regions()
        .map(|(at, len)| (at.as_ptr() as usize, len))
        .collect();
    assert_eq!(
        regions,
        [
            (start, 1 << 30),
            (start + (1 << 30), 1 << 30),
            (start + (2 << 30), len - (2 << 30)),
        ]
    );
    let whole = arena.buffer(1 << 30).unwrap().as_ptr() as usize;
    assert!(
        regions.contains(&(whole, 1 << 30)),
        "one buffer, one region"
    );
}
