use super::*;
use iolane::{Engine, OpenOptions};
use std::path::Path;

const PAGE_BYTES: usize = 4096;
const STORE: u64 = 42;
const PAGE: PageId = PageId { space: 9, page: 3 };

/// The area's file in a folder; what that lies on may know no direct I/O.
fn file(engine: &Engine, directory: &Path) -> File {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(true)
        .create(true)
        .size(Doublewrite::file_bytes(PAGE_BYTES));
    engine.open(directory.join("area"), &options).unwrap()
}

fn opened(engine: &Engine, directory: &Path) -> Doublewrite {
    Doublewrite::open(file(engine, directory), PAGE_BYTES, STORE).unwrap()
}

fn image(lsn: u64, filling: u8) -> Buffer {
    let mut page = Buffer::new(PAGE_BYTES);
    page[64..].fill(filling);
    page[4..8].copy_from_slice(&PAGE.page.to_le_bytes());
    page[8..12].copy_from_slice(&PAGE.space.to_le_bytes());
    header::set_lsn(&mut page, Lsn(lsn));
    header::seal(&mut page);
    page
}

/// Writes a batch of one page; returns the half that it went into.
fn write(area: &Doublewrite, lsn: u64, filling: u8) -> usize {
    let page = image(lsn, filling);
    let head = Buffer::new(PAGE_BYTES);
    let pending = area.submit(
        vec![(PAGE, page)],
        head,
        Role::Checkpoint,
        Level::Background,
    );
    for request in pending.unwrap() {
        request.wait().result.unwrap();
    }
    let sync = area
        .submit_sync(Role::Checkpoint, Level::Background)
        .unwrap();
    sync.wait().result.unwrap();
    area.finished(vec![(PAGE, Lsn(lsn))]);
    let state = area.state.lock();
    usize::from(state.halves[1].sequence > state.halves[0].sequence)
}

/// What a power cut leaves of a batch whose list arrived alone.
fn lose_pages(area: &Doublewrite, half: usize) {
    let at = half_offset(half, PAGE_BYTES) + PAGE_BYTES as u64;
    let zeros = Buffer::new(PAGE_BYTES);
    area.file.write_at(&zeros, at, Level::Background).unwrap();
}

fn copy(area: &Doublewrite) -> Option<Vec<u8>> {
    let mut page = vec![0; PAGE_BYTES];
    area.copy(PAGE, &mut page).unwrap().then_some(page)
}

#[test]
fn a_batch_after_one_cut_short_gives_the_copy() {
    // What recovery writes may have the same last change as the batch that the
    // crash cut short, or an older one.
    for recovered in [700, 500] {
        let directory = tempfile::tempdir().unwrap();
        let engine = Engine::new().unwrap();
        let area = file(&engine, directory.path());
        let area = Doublewrite::create(area, PAGE_BYTES, STORE).unwrap();
        write(&area, 300, 1);
        let cut = write(&area, 700, 2);
        lose_pages(&area, cut);
        drop(area);

        let area = opened(&engine, directory.path());
        assert_eq!(copy(&area), None);
        assert_ne!(write(&area, recovered, 3), cut);
        drop(area);

        let area = opened(&engine, directory.path());
        let found = copy(&area).expect("the later batch has it");
        assert_eq!(found, image(recovered, 3)[..]);
    }
}

#[test]
fn an_older_copy_never_stands_for_a_newer_one_that_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::new().unwrap();
    let area = file(&engine, directory.path());
    let area = Doublewrite::create(area, PAGE_BYTES, STORE).unwrap();
    write(&area, 300, 1);
    let newer = write(&area, 700, 2);
    assert_eq!(copy(&area).unwrap(), image(700, 2)[..]);
    lose_pages(&area, newer);
    assert_eq!(copy(&area), None);
    drop(area);
    assert_eq!(copy(&opened(&engine, directory.path())), None);
}
