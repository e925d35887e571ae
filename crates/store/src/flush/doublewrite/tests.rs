use super::*;
use iolane::{Engine, OpenOptions, SimulatedDisk};
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

/// Writes a batch of one page, and does not say that it is in its place.
fn begin(area: &Doublewrite, lsn: u64, filling: u8) -> Ticket {
    let ticket = area.begin().expect("a slot");
    let page = image(lsn, filling);
    let head = Buffer::new(PAGE_BYTES);
    let pending = area.submit(
        &ticket,
        vec![(PAGE, page)],
        head,
        Role::Checkpoint,
        Level::Background,
    );
    for request in pending.unwrap() {
        request.wait().result.unwrap();
    }
    area.file_for(Role::Checkpoint)
        .sync_data(Level::Background)
        .unwrap();
    ticket
}

/// Writes a batch of one page; returns the slot that it went into.
fn write(area: &Doublewrite, lsn: u64, filling: u8) -> usize {
    let ticket = begin(area, lsn, filling);
    area.finished(&ticket, vec![(PAGE, Lsn(lsn))]);
    ticket.slot
}

/// What a power cut leaves of a batch whose list arrived alone.
fn lose_pages(area: &Doublewrite, slot: usize) {
    let at = slot_offset(slot, PAGE_BYTES) + PAGE_BYTES as u64;
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

#[test]
fn the_oldest_slot_is_overwritten_when_its_batch_is_in_place() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::new().unwrap();
    let area = Doublewrite::create(file(&engine, directory.path()), PAGE_BYTES, STORE).unwrap();
    assert_eq!(area.slots(), SLOTS);
    let mut under_way: Vec<Ticket> = (0..SLOTS as u64)
        .map(|number| begin(&area, 100 + number, number as u8))
        .collect();
    let slots: std::collections::BTreeSet<usize> =
        under_way.iter().map(|ticket| ticket.slot).collect();
    assert_eq!(slots.len(), SLOTS, "each has its own");
    assert!(!area.has_room() && area.begin().is_none());
    // A later one is first: the oldest still holds its slot.
    let later = under_way.remove(2);
    area.finished(&later, vec![(PAGE, Lsn(102))]);
    assert!(!area.has_room() && area.begin().is_none());
    let oldest = under_way.remove(0);
    area.finished(&oldest, vec![(PAGE, Lsn(100))]);
    assert!(area.has_room());
    assert_eq!(copy(&area).unwrap(), image(102, 2)[..]);
    let next = area.begin().unwrap();
    assert_eq!(next.slot, oldest.slot);
    assert_eq!(next.sequence, later.sequence + 2);
}

/// The format before this one: two slots, of which the header says nothing.
#[test]
fn an_area_of_two_halves_is_opened_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::new().unwrap();
    let area = file(&engine, directory.path());
    drop(Doublewrite::create(area.clone(), PAGE_BYTES, STORE).unwrap());
    let mut page = Buffer::new(PAGE_BYTES);
    area.read_at(&mut page, 0, Level::Background).unwrap();
    page[12..16].copy_from_slice(&1u32.to_le_bytes());
    page[32..36].fill(0);
    header::seal(&mut page);
    area.write_at(&page, 0, Level::Background).unwrap();
    let area = Doublewrite::open(area, PAGE_BYTES, STORE).unwrap();
    assert_eq!(area.slots(), 2);
    write(&area, 300, 1);
    write(&area, 400, 2);
    write(&area, 500, 3);
    drop(area);
    let area = opened(&engine, directory.path());
    assert_eq!(area.slots(), 2);
    assert_eq!(copy(&area).unwrap(), image(500, 3)[..]);
}

/// After the program was killed, or after a sync that failed: the page can be
/// read, and is not on the disk.
#[test]
fn a_page_that_stands_in_a_cache_is_written_again() {
    let plan = "lost=1:power-cut".parse().unwrap();
    let disk = SimulatedDisk::builder().faults(plan).build().unwrap();
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    let directory = Path::new("store");
    let area = Doublewrite::create(file(&engine, directory), PAGE_BYTES, STORE).unwrap();
    write(&area, 300, 1);
    drop(area);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).size(1 << 20);
    let space = engine.open(directory.join("space"), &options).unwrap();
    space.sync(Level::Foreground).unwrap();
    let offset = u64::from(PAGE.page) * PAGE_BYTES as u64;
    let page = image(300, 1);
    space.write_at(&page, offset, Level::Foreground).unwrap();

    let area = opened(&engine, directory);
    let restored = area.restore(Lsn(200), Lsn(1000), |number| {
        Ok((number == PAGE.space).then(|| space.clone()))
    });
    // It was not torn.
    assert_eq!(restored.unwrap(), 0);
    disk.power_cut().unwrap();
    let mut found = Buffer::new(PAGE_BYTES);
    space
        .read_at(&mut found, offset, Level::Foreground)
        .unwrap();
    assert_eq!(found[..], page[..]);
}

#[test]
fn a_page_that_a_checkpoint_has_passed_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let engine = Engine::new().unwrap();
    let area = Doublewrite::create(file(&engine, directory.path()), PAGE_BYTES, STORE).unwrap();
    write(&area, 300, 1);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).size(1 << 20);
    let space = engine
        .open(directory.path().join("space"), &options)
        .unwrap();
    let offset = u64::from(PAGE.page) * PAGE_BYTES as u64;
    // Told from the copy by what it holds.
    let place = image(300, 2);
    for (checkpoint, left) in [(300, 2), (299, 1)] {
        space.write_at(&place, offset, Level::Foreground).unwrap();
        let file = |number| Ok((number == PAGE.space).then(|| space.clone()));
        assert_eq!(area.restore(Lsn(checkpoint), Lsn(1000), file).unwrap(), 0);
        let mut found = Buffer::new(PAGE_BYTES);
        space
            .read_at(&mut found, offset, Level::Foreground)
            .unwrap();
        assert_eq!(found[..], image(300, left)[..]);
    }
}
