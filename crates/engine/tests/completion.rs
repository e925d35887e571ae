//! Every way to learn of a completion.

mod common;

use common::{Held, PAGE, block_on, folder, numbered, open};
use iolane::{Batch, Cause, Engine, File, Level, Pending};
use std::sync::mpsc;
use tempfile::TempDir;

fn one_file() -> (Engine, File, TempDir) {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let file = open(&engine, &numbered(&folder, 32), true);
    (engine, file, folder)
}

fn read(file: &File, page: usize) -> Pending<iolane::Buffer> {
    let buffer = iolane::Buffer::new(PAGE);
    file.read(buffer, (page * PAGE) as u64, Level::Normal)
        .unwrap()
}

#[test]
fn a_future_needs_no_runtime() {
    let (_engine, file, _folder) = one_file();
    let sum = block_on(async {
        let ahead: Vec<_> = (0..8).map(|page| read(&file, page)).collect();
        let mut sum = 0;
        for pending in ahead {
            let completion = pending.await;
            completion.result.unwrap();
            sum += usize::from(completion.buffer[0]);
        }
        sum
    });
    assert_eq!(sum, 28);
}

#[test]
fn polling_never_blocks_and_loses_nothing() {
    let (_engine, file, _folder) = one_file();
    let mut outstanding: Vec<_> = (0..32).map(|page| (page, read(&file, page))).collect();
    while !outstanding.is_empty() {
        outstanding = outstanding
            .into_iter()
            .filter_map(|(page, pending)| match pending.try_take() {
                Ok(completion) => {
                    assert_eq!(completion.buffer[7], page as u8);
                    None
                }
                Err(pending) => Some((page, pending)),
            })
            .collect();
        std::thread::yield_now();
    }
}

#[test]
fn waiting_in_any_order_loses_nothing() {
    let (_engine, file, _folder) = one_file();
    let pending: Vec<_> = (0..32).map(|page| read(&file, page)).collect();
    for (page, pending) in pending.into_iter().enumerate().rev() {
        assert_eq!(pending.wait().buffer[0], page as u8);
    }
}

#[test]
fn blocking_calls_in_a_callback_are_refused() {
    let (_engine, file, _folder) = one_file();
    let (sender, receiver) = mpsc::channel();
    let inside = file.clone();
    file.read_then(
        iolane::Buffer::new(PAGE),
        0,
        Level::Normal,
        move |completion| {
            let error = inside
                .write_at(&completion.buffer, 0, Level::Critical)
                .unwrap_err();
            sender.send(error).unwrap();
        },
    )
    .unwrap();
    let error = receiver.recv().unwrap();
    assert!(matches!(error.cause(), Cause::InCallback), "{error}");
}

#[test]
fn the_engine_may_be_dropped_in_a_callback() {
    let (engine, file, _folder) = one_file();
    let (sender, receiver) = mpsc::channel();
    file.read_then(
        iolane::Buffer::new(PAGE),
        0,
        Level::Normal,
        move |completion| {
            drop(engine);
            sender.send(completion.result.unwrap()).unwrap();
        },
    )
    .unwrap();
    assert_eq!(receiver.recv().unwrap(), PAGE);
    let error = file.read_at(&mut iolane::Buffer::new(PAGE), 0, Level::Normal);
    assert!(matches!(error.unwrap_err().cause(), Cause::Closed));
}

#[test]
fn an_engine_that_ends_with_its_statement_leaves_a_file_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    std::fs::write(&path, [1; 512]).unwrap();
    let mut options = iolane::OpenOptions::new();
    options.read(true);
    let file = iolane::Engine::new().unwrap().open(&path, &options);
    let error = file.unwrap().read_at(&mut [0; 512], 0, Level::Normal);
    let said = error.unwrap_err().to_string();
    assert!(said.contains("keep it as long as its files"), "{said}");
}

#[test]
fn a_batch_that_is_dropped_completes_with_an_error() {
    let (_engine, file, _folder) = one_file();
    let mut batch: Batch = file.device().batch();
    let pending = batch
        .read(&file, iolane::Buffer::new(PAGE), 0, Level::Normal)
        .unwrap();
    assert!(!pending.promote(Level::Critical));
    let pending = pending.cancel().unwrap_err();
    drop(batch);
    let error = pending.wait().result.unwrap_err();
    assert!(matches!(error.cause(), Cause::NotSubmitted), "{error}");
    assert_eq!(file.device().statistics().total().read.requests, 0);
}

#[test]
fn a_batch_with_callbacks() {
    let (_engine, file, _folder) = one_file();
    let (sender, receiver) = mpsc::channel();
    let mut batch = file.device().batch();
    for page in 0..32usize {
        let sender = sender.clone();
        let buffer = iolane::Buffer::new(PAGE);
        let then = move |completion: iolane::Completion<iolane::Buffer>| {
            assert_eq!(completion.buffer[0], page as u8);
            sender.send(page).unwrap();
        };
        batch
            .read_then(&file, buffer, (page * PAGE) as u64, Level::Normal, then)
            .unwrap();
    }
    batch.submit();
    drop(sender);
    let mut pages: Vec<_> = receiver.iter().collect();
    pages.sort_unstable();
    assert_eq!(pages, (0..32).collect::<Vec<_>>());
}

#[test]
fn a_refused_callback_that_panics_keeps_no_result_from_others() {
    let (_engine, file, _folder) = one_file();
    let mut batch = file.device().batch();
    let then = |_: iolane::Completion<iolane::Buffer>| panic!("a callback's own panic");
    batch
        .read_then(&file, iolane::Buffer::new(PAGE), 0, Level::Normal, then)
        .unwrap();
    let pending = batch
        .read(&file, iolane::Buffer::new(PAGE), 0, Level::Normal)
        .unwrap();
    let dropping = std::panic::AssertUnwindSafe(|| drop(batch));
    assert!(std::panic::catch_unwind(dropping).is_err());
    assert!(pending.is_done());
}

#[test]
fn a_ticket_promotes_and_withdraws_a_request_with_a_callback() {
    let folder = folder();
    let path = numbered(&folder, 8);
    let engine = iolane::Engine::builder()
        .configure(|_, config| {
            config.window = iolane::WindowConfig::Fixed(1);
            config.transfer_members_max = 1;
        })
        .policy(iolane::Policy::Noop)
        .build()
        .unwrap();
    let file = open(&engine, &path, false);
    let held = Held::hold(&file);
    let (sender, receiver) = mpsc::channel();
    let mut batch = file.device().batch();
    assert!(batch.ticket().is_none());
    let mut tickets = Vec::new();
    for page in 0..4 {
        let sender = sender.clone();
        let then = move |_| sender.send(page).unwrap();
        let at = page * PAGE as u64;
        batch
            .read_then(&file, vec![0; PAGE], at, Level::Background, then)
            .unwrap();
        tickets.push(batch.ticket().unwrap());
    }
    let synced = sender.clone();
    batch
        .sync_then(
            &file,
            iolane::Operation::SyncData,
            Level::Background,
            move |done| {
                done.result.unwrap();
                synced.send(99).unwrap();
            },
        )
        .unwrap();
    drop(sender);
    assert!(!tickets[2].promote(Level::Normal), "it is not submitted");
    batch.submit();
    assert!(tickets[2].cancel());
    assert!(!tickets[2].cancel(), "it is gone");
    assert!(tickets[3].promote(Level::Foreground));
    drop(held);
    let mut done: Vec<u64> = receiver.iter().collect();
    done.sort_unstable();
    assert_eq!(done, [0, 1, 3, 99]);
    assert!(!tickets[3].promote(Level::Critical), "it has completed");
    let mut batch = file.device().batch();
    let pending = batch.read(&file, vec![0; PAGE], 0, Level::Normal).unwrap();
    assert!(batch.ticket().is_none(), "a pending one is its own");
    drop(batch);
    assert!(pending.wait().result.is_err());
}
