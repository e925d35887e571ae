//! For which role a thread reads the pages that it waits for, and how urgently.
//!
//! Those who wait are deep below those who know what it is for, and a thread
//! does one thing at a time.

use crate::policy::{IoPolicy, Role};
use iolane::Level;
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static ROLE: Cell<Role> = const { Cell::new(Role::Read) };
    static HURRY: RefCell<Option<Hurry>> = const { RefCell::new(None) };
    static RANGE: Cell<Range> = const { Cell::new(Range::Outside) };
    static AWAITED: Cell<u64> = const { Cell::new(0) };
}

/// How many pages the calling thread has waited for so far, in all stores. Who reads one row
/// after the other does well to read the rest together once this grows
/// ([`Transaction::many_ranges`](crate::Transaction::many_ranges)).
pub fn pages_awaited() -> u64 {
    AWAITED.get()
}

/// This thread waits for a page.
pub(crate) fn awaits_page() {
    AWAITED.set(AWAITED.get() + 1);
}

/// Whether a thread is on its way through a range.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    Outside,
    /// What it needs is not read ahead, as nothing was missing.
    Within,
    /// It waits for the first of many pages that a stream asked for.
    Ahead,
}

/// Until it is dropped, its thread goes through a range.
pub(crate) struct InRange {
    before: Range,
}

/// From now on this thread goes through a range.
pub(crate) fn in_range() -> InRange {
    InRange {
        before: RANGE.replace(Range::Within),
    }
}

/// A stream reads ahead of this thread, which has to wait for a page.
pub(super) fn waits_ahead() {
    if RANGE.get() == Range::Within {
        RANGE.set(Range::Ahead);
    }
}

/// How urgent it is what this thread waits for.
///
/// Who has a window of pages on their way pays with throughput, not with the
/// latency of one of them. If each of its waits counted as a query's, the
/// device would keep a small window for its sake, and the stream to that.
pub(crate) fn waiting_level(policy: &IoPolicy, role: Role) -> Level {
    let level = policy.level(role);
    match RANGE.get() {
        Range::Ahead => level.max(Level::Normal),
        Range::Outside | Range::Within => level,
    }
}

impl Drop for InRange {
    fn drop(&mut self) {
        RANGE.set(self.before);
    }
}

/// Raised when somebody begins to wait for what a background holds: until it
/// lets go, that is as urgent as a query. Without, whoever wants a row that a
/// change in bulk has locked would wait behind all that goes before that.
#[derive(Clone, Default)]
pub(crate) struct Hurry(Arc<HurryState>);

#[derive(Default)]
struct HurryState {
    raised: AtomicBool,
    /// Tells who waits for a page without hurry.
    tell: Mutex<Option<Tell>>,
}

type Tell = Box<dyn Fn() + Send>;

impl Hurry {
    pub(crate) fn raise(&self) {
        self.0.raised.store(true, Ordering::SeqCst);
        if let Some(tell) = &*self.0.tell.lock() {
            tell();
        }
    }

    fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::SeqCst)
    }
}

/// Until it is dropped, somebody is told when this thread's hurry is raised.
pub(crate) struct Told(Option<Hurry>);

/// Calls `tell` when this thread's hurry is raised from now on. Whether it was
/// before, [`acting`] says.
pub(crate) fn when_hurried(tell: impl Fn() + Send + 'static) -> Told {
    let hurry = HURRY.with_borrow(Option::clone);
    if let Some(hurry) = &hurry {
        *hurry.0.tell.lock() = Some(Box::new(tell));
    }
    Told(hurry)
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(hurry) = &self.0 {
            *hurry.0.tell.lock() = None;
        }
    }
}

/// Until it is dropped, its thread reads for another role.
pub(crate) struct Acting {
    before: (Role, Option<Hurry>),
}

/// From now on this thread reads for `role`.
pub(crate) fn acting_as(role: Role) -> Acting {
    acting_until(role, None)
}

/// The same until `hurry` is raised.
pub(crate) fn acting_until(role: Role, hurry: Option<Hurry>) -> Acting {
    Acting {
        before: (ROLE.replace(role), HURRY.replace(hurry)),
    }
}

/// For which role this thread reads: [`Role::Read`], a query, unless it says
/// otherwise.
pub(crate) fn acting() -> Role {
    let role = ROLE.get();
    let hurried = || HURRY.with_borrow(|hurry| hurry.as_ref().is_some_and(Hurry::is_raised));
    if role != Role::Read && hurried() {
        return Role::Read;
    }
    role
}

/// For which role this thread does to its files what is otherwise `role`'s: all
/// that a backup does to the copy, whose files nobody else waits for, is a
/// backup's.
pub(crate) fn role_of(role: Role) -> Role {
    match acting() {
        Role::Backup => Role::Backup,
        _ => role,
    }
}

/// The same for a load. Nothing leads to its file before it is through, so nobody else
/// waits for it, and if it is done in bulk, all of it may wait.
pub(crate) fn role_of_load(role: Role) -> Role {
    match acting() {
        Role::Bulk => Role::Bulk,
        _ => role_of(role),
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let (role, hurry) = (self.before.0, self.before.1.take());
        ROLE.set(role);
        HURRY.set(hurry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_a_stream_waits_less_urgently_within_its_range() {
        let policy = IoPolicy::AGGRESSIVE;
        let level = || waiting_level(&policy, Role::Read);
        // The pages of a long value, which a query wants.
        waits_ahead();
        assert_eq!(level(), Level::Foreground);
        let range = in_range();
        assert_eq!(level(), Level::Foreground);
        waits_ahead();
        assert_eq!(level(), Level::Normal);
        assert_eq!(waiting_level(&policy, Role::Backup), Level::Background);
        drop(range);
        assert_eq!(level(), Level::Foreground);
    }

    #[test]
    fn a_thread_acts_for_one_role_at_a_time() {
        assert_eq!(acting(), Role::Read);
        let backup = acting_as(Role::Backup);
        {
            let _check = acting_as(Role::Check);
            assert_eq!(acting(), Role::Check);
            let other = std::thread::spawn(acting).join();
            assert_eq!(other.ok(), Some(Role::Read));
        }
        assert_eq!(acting(), Role::Backup);
        drop(backup);
        assert_eq!(acting(), Role::Read);
    }

    #[test]
    fn who_is_waited_for_hurries_and_is_told() {
        let hurry = Hurry::default();
        let seen = Arc::new(AtomicBool::new(false));
        let tell = || {
            let seen = Arc::clone(&seen);
            when_hurried(move || seen.store(true, Ordering::SeqCst))
        };
        {
            let _acting = acting_until(Role::Bulk, Some(hurry.clone()));
            drop(tell());
            hurry.raise();
            assert!(!seen.load(Ordering::SeqCst), "it waits no more");
            assert_eq!(acting(), Role::Read);
            let _told = tell();
            hurry.raise();
            assert!(seen.load(Ordering::SeqCst));
            // A check of its own is nobody's concern.
            let _check = acting_as(Role::Check);
            assert_eq!(acting(), Role::Check);
        }
        assert_eq!(acting(), Role::Read);
        let _acting = acting_until(Role::Bulk, Some(Hurry::default()));
        assert_eq!(acting(), Role::Bulk);
    }
}
