//! Children of a process that has an engine: what is the parent's fails at once
//! there, what the child makes works, and the parent goes on.

mod common;
mod sys;

use common::{BACKENDS, Held, PAGE, engine, folder, numbered, open};
use iolane::{
    Arena, Cause, Completion, Engine, File, Level, OpenError, OpenOptions, Operation, Pending,
    Policy,
};
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use sys::fork::{Ended, in_child};

const FINE: Ended = Ended::Code(0);

fn forked<T>(result: Result<T, iolane::Error>) {
    match result {
        Err(error) => assert!(matches!(error.cause(), Cause::Forked), "{error}"),
        Ok(_) => panic!("a child had a request of its parent's engine carried out"),
    }
}

fn read(file: &File) -> Pending<Vec<u8>> {
    file.read(vec![0; PAGE], PAGE as u64, Level::Normal)
        .unwrap()
}

/// All that a child may try with what it inherited.
fn try_all(engine: &Engine, file: &File, path: &Path, outstanding: Pending<Vec<u8>>) {
    let level = Level::Foreground;
    forked(file.read_at(&mut vec![0; PAGE], 0, level));
    forked(file.write_at(&vec![0; PAGE], 0, level));
    forked(file.sync(level));
    let refused = file.read(vec![1; PAGE], 0, level).unwrap_err();
    assert_eq!(refused.buffer, vec![1; PAGE]);
    forked(Err::<(), _>(refused.error));
    let then = |_: Completion<_>| unreachable!("it was not accepted");
    forked(
        file.read_then(vec![0; PAGE], 0, level, then)
            .map_err(|refused| refused.error),
    );
    let synced = file.submit_sync(Operation::SyncData, level);
    forked(synced.map_err(|refused| refused.error));
    let mut batch = file.device().batch();
    let batched = batch.read(file, vec![0; PAGE], 0, level).unwrap();
    batch.submit();
    forked(batched.wait().result);

    assert!(outstanding.is_done());
    assert!(!outstanding.promote(Level::Critical));
    let outstanding = outstanding.cancel().unwrap_err();
    let Completion { result, buffer } = outstanding.wait();
    assert_eq!(buffer.len(), PAGE);
    let text = result.as_ref().unwrap_err().to_string();
    assert!(
        text.contains("at offset 16384") && text.contains("after the fork"),
        "{text}"
    );
    forked(result);

    let device = file.device();
    assert!(device.backend().is_err());
    assert_eq!(device.statistics().transfers, 0);
    assert_eq!(device.snapshot().policy, Policy::Lanes);
    assert_eq!(engine.devices(), []);
    let opened = engine.open(path, OpenOptions::new().read(true));
    assert!(matches!(opened, Err(OpenError::Forked { .. })));
}

#[test]
fn what_a_child_inherited_fails_at_once_and_its_own_works() {
    let folder = folder();
    let path = numbered(&folder, 64);
    for backend in BACKENDS {
        let Some(parents) = engine(backend, Policy::Lanes) else {
            continue;
        };
        let file = open(&parents, &path, false);
        // Its driver runs, and has something to do.
        assert_eq!(read(&file).wait().result.unwrap(), PAGE);
        let held = Held::hold(&file);
        let outstanding = read(&file);
        let child = in_child(|| {
            try_all(&parents, &file, &path, outstanding);
            let own = Engine::new().unwrap();
            let file = open(&own, &path, false);
            let page = read(&file).wait();
            assert_eq!(page.result.unwrap(), PAGE);
            assert_eq!(page.buffer, [1; PAGE]);
            file.read_at(&mut vec![0; PAGE], 0, Level::Foreground)
                .unwrap();
            drop(own);
            0
        });
        drop(held);
        assert_eq!(child, FINE, "{backend}");
        assert_eq!(read(&file).wait().buffer, [1; PAGE]);
    }
}

#[test]
fn a_child_drops_what_it_inherited_and_its_own_child_has_nothing_of_either() {
    let folder = folder();
    let path = numbered(&folder, 4);
    let parents = Engine::new().unwrap();
    let file = open(&parents, &path, false);
    assert_eq!(read(&file).wait().result.unwrap(), PAGE);
    let outstanding = read(&file);
    let child = in_child(move || {
        drop(outstanding);
        drop(file);
        drop(parents);
        let own = Engine::new().unwrap();
        let file = open(&own, &path, false);
        assert_eq!(read(&file).wait().result.unwrap(), PAGE);
        let grandchild = in_child(|| {
            forked(file.read_at(&mut vec![0; PAGE], 0, Level::Normal));
            let own = Engine::new().unwrap();
            let file = open(&own, &path, false);
            i32::from(read(&file).wait().buffer != [1; PAGE])
        });
        i32::from(grandchild != FINE || read(&file).wait().buffer != [1; PAGE])
    });
    assert_eq!(child, FINE);
}

#[test]
fn a_future_that_a_child_polls_ends_with_an_error() {
    let folder = folder();
    let path = numbered(&folder, 4);
    let engine = Engine::new().unwrap();
    let file = open(&engine, &path, false);
    let held = Held::hold(&file);
    let outstanding = read(&file);
    let child = in_child(move || {
        let mut future = pin!(outstanding);
        let mut context = Context::from_waker(Waker::noop());
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => {
                forked(done.result);
                0
            }
            Poll::Pending => 1,
        }
    });
    drop(held);
    assert_eq!(child, FINE);
}

/// However the fork falls into what other threads do: locks that they hold are
/// held for ever in the child.
#[test]
fn forks_beside_threads_that_are_busy_do_not_hang() {
    let folder = folder();
    let path = numbered(&folder, 64);
    let parents = Engine::new().unwrap();
    let file = open(&parents, &path, false);
    let arena = Arena::builder().bytes(1 << 20).build().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    read(&file).wait().result.unwrap();
                    file.device().statistics();
                    let buffer = arena.buffer(PAGE).unwrap();
                    file.read(buffer, 0, Level::Background).unwrap().wait();
                }
            });
        }
        let held = arena.buffer(PAGE).unwrap();
        for _ in 0..30 {
            let child = in_child(|| {
                forked(file.read_at(&mut vec![0; PAGE], 0, Level::Normal));
                assert!(file.read(vec![0; PAGE], 0, Level::Normal).is_err());
                file.device().statistics();
                assert!(arena.buffer(PAGE).is_err());
                assert_eq!(held.len(), PAGE);
                0
            });
            assert_eq!(child, FINE);
        }
        stop.store(true, Ordering::Relaxed);
        drop(held);
    });
}

#[test]
fn a_child_that_leaves_a_callback_is_aborted_and_its_parent_goes_on() {
    let folder = folder();
    let path = numbered(&folder, 4);
    let engine = Engine::new().unwrap();
    let file = open(&engine, &path, false);
    let (sender, receiver) = mpsc::channel();
    let then = move |_: Completion<Vec<u8>>| sender.send(sys::fork::branch()).unwrap();
    file.read_then(vec![0; PAGE], 0, Level::Normal, then)
        .unwrap();
    let child = receiver.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(sys::fork::wait(child), Ended::Signal(libc::SIGABRT));
    assert_eq!(read(&file).wait().buffer, [1; PAGE]);
}
