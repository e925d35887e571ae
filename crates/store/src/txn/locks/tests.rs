use super::*;
use crate::sync::Arc;

const PATIENCE: Duration = Duration::from_secs(60);
const NONE: Duration = Duration::ZERO;

fn name(number: u8) -> LockName {
    LockName {
        index: 1,
        key: Arc::new([number]),
    }
}

use LockMode::{Exclusive, Shared};

#[cfg(not(feature = "shuttle"))]
mod threads {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
    use std::sync::mpsc;
    use std::thread;

    /// Waits until `count` transactions wait.
    fn until_waiting(table: &LockTable, count: usize) {
        while lock(&table.graph).waiting() < count {
            thread::yield_now();
        }
    }

    /// The same, unless `thread` has ended before that.
    fn until_waiting_beside<T>(
        table: &LockTable,
        count: usize,
        thread: &thread::ScopedJoinHandle<'_, T>,
    ) -> bool {
        while lock(&table.graph).waiting() < count {
            if thread.is_finished() {
                return false;
            }
            thread::yield_now();
        }
        true
    }

    /// Tries with ever more patience, until nobody gives up before the others
    /// are where they must be by then: a slow machine needs more of it.
    fn with_enough_patience(attempt: impl FnMut(Duration) -> bool) {
        let mut patience = (0..13).map(|doubled| Duration::from_millis(50 << doubled));
        assert!(patience.any(attempt), "somebody always gives up too early");
    }

    #[test]
    fn exclusive_keeps_all_others_out_and_shared_only_exclusive_ones() {
        let table = LockTable::new(100);
        let (mut a, mut b) = (table.locks(TrxId(1)), table.locks(TrxId(2)));
        assert_eq!(a.lock(name(1), Exclusive, NONE), Ok(false));
        assert_eq!(a.lock(name(1), Shared, NONE), Ok(false));
        for mode in [Shared, Exclusive] {
            assert_eq!(b.lock(name(1), mode, NONE), Err(LockError::Busy));
        }
        a.release_all();
        assert_eq!(a.lock(name(1), Shared, NONE), Ok(false));
        assert_eq!(b.lock(name(1), Shared, NONE), Ok(false));
        assert_eq!(b.lock(name(1), Exclusive, NONE), Err(LockError::Busy));
        assert!(b.holds(&name(1), Shared) && !b.holds(&name(1), Exclusive));
        drop(a);
        assert_eq!(b.lock(name(1), Exclusive, NONE), Ok(false));
        assert_eq!((table.held(), b.len()), (1, 1));
        drop(b);
        assert_eq!(table.held(), 0);
        assert!(table.shards.iter().all(|shard| lock(shard).is_empty()));
    }

    #[test]
    fn those_who_wait_are_served_in_their_order() {
        let table = LockTable::new(100);
        let mut holder = table.locks(TrxId(0));
        holder.lock(name(1), Exclusive, NONE).unwrap();
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for (trx, mode) in [(1, Exclusive), (2, Shared), (3, Shared), (4, Exclusive)] {
                let (table, sender) = (&table, sender.clone());
                scope.spawn(move || {
                    let mut locks = table.locks(TrxId(trx));
                    assert_eq!(locks.lock(name(1), mode, PATIENCE), Ok(true));
                    sender.send(trx).unwrap();
                });
                until_waiting(table, trx as usize);
            }
            holder.release_all();
        });
        let order: Vec<u64> = receiver.try_iter().collect();
        assert_eq!(order[0], 1);
        assert_eq!(order[3], 4, "{order:?}");
    }

    #[test]
    fn the_last_link_of_a_circle_is_refused() {
        for length in 2..6u64 {
            let table = LockTable::new(100);
            let barrier = std::sync::Barrier::new(length as usize);
            let refused = AtomicU64::new(0);
            thread::scope(|scope| {
                let (table, barrier, refused) = (&table, &barrier, &refused);
                for trx in 0..length {
                    scope.spawn(move || {
                        let mut locks = table.locks(TrxId(trx));
                        locks.lock(name(trx as u8), Exclusive, NONE).unwrap();
                        barrier.wait();
                        let next = name(((trx + 1) % length) as u8);
                        match locks.lock(next, Exclusive, PATIENCE) {
                            Ok(waited) => assert!(waited),
                            Err(LockError::Deadlock { with }) => {
                                assert_eq!(with as u64, length - 1);
                                assert_eq!(refused.fetch_add(1, Ordering::SeqCst), 0);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    });
                }
            });
        }
    }

    #[test]
    fn two_upgrades_of_one_row_are_a_deadlock() {
        let table = LockTable::new(100);
        let mut a = table.locks(TrxId(1));
        a.lock(name(1), Shared, NONE).unwrap();
        thread::scope(|scope| {
            let table = &table;
            scope.spawn(move || {
                let mut b = table.locks(TrxId(2));
                b.lock(name(1), Shared, NONE).unwrap();
                assert_eq!(b.lock(name(1), Exclusive, PATIENCE), Ok(true));
            });
            until_waiting(table, 1);
            let refused = a.lock(name(1), Exclusive, PATIENCE);
            assert_eq!(refused, Err(LockError::Deadlock { with: 1 }));
            // What it held it still holds: the other waits until it goes.
            assert_eq!(lock(&table.graph).waiting(), 1);
            a.release_all();
        });
    }

    /// W waits behind X1, U overtakes both, X1 gives up: now W waits for U
    /// alone, which it did not when it began to wait.
    #[test]
    fn a_circle_through_an_upgrade_is_seen() {
        with_enough_patience(circle_through_an_upgrade);
    }

    /// False if X1 gives up before the others wait.
    fn circle_through_an_upgrade(patience: Duration) -> bool {
        let table = LockTable::new(100);
        let (mut u, mut z) = (table.locks(TrxId(1)), table.locks(TrxId(2)));
        u.lock(name(1), Shared, NONE).unwrap();
        z.lock(name(1), Shared, NONE).unwrap();
        thread::scope(|scope| {
            let table = &table;
            let give_up = scope.spawn(move || {
                let mut x1 = table.locks(TrxId(3));
                x1.lock(name(1), Exclusive, patience)
            });
            if !until_waiting_beside(table, 1, &give_up) {
                return false;
            }
            scope.spawn(move || {
                let mut w = table.locks(TrxId(4));
                w.lock(name(2), Exclusive, NONE).unwrap();
                w.lock(name(1), Shared, PATIENCE).unwrap();
            });
            if !until_waiting_beside(table, 2, &give_up) {
                return false;
            }
            let upgrade = scope.spawn(move || u.lock(name(1), Exclusive, PATIENCE));
            if !until_waiting_beside(table, 3, &give_up) {
                z.release_all();
                return false;
            }
            assert_eq!(give_up.join().unwrap(), Err(LockError::Timeout(patience)));
            let refused = z.lock(name(2), Exclusive, PATIENCE);
            assert_eq!(refused, Err(LockError::Deadlock { with: 2 }));
            z.release_all();
            assert_eq!(upgrade.join().unwrap(), Ok(true));
            true
        })
    }

    #[test]
    fn who_gives_up_waiting_lets_those_behind_go() {
        with_enough_patience(|patience| {
            let table = LockTable::new(100);
            let mut holder = table.locks(TrxId(1));
            holder.lock(name(1), Shared, NONE).unwrap();
            thread::scope(|scope| {
                let table = &table;
                let second = scope.spawn(move || {
                    let mut second = table.locks(TrxId(2));
                    second.lock(name(1), Exclusive, patience)
                });
                if !until_waiting_beside(table, 1, &second) {
                    return false;
                }
                // Compatible with the holder, but not ahead of who waits.
                let mut third = table.locks(TrxId(3));
                let waited = third.lock(name(1), Shared, PATIENCE).unwrap();
                let is_alone = lock(&table.graph).waiting() == 0;
                assert!(waited || is_alone, "the third goes ahead of the second");
                assert_eq!(second.join().unwrap(), Err(LockError::Timeout(patience)));
                waited
            })
        });
    }

    #[test]
    fn the_table_is_bounded() {
        let table = LockTable::new(3);
        let mut locks = table.locks(TrxId(1));
        for number in 0..3 {
            locks.lock(name(number), Exclusive, NONE).unwrap();
        }
        let refused = locks.lock(name(9), Exclusive, NONE);
        assert_eq!(refused, Err(LockError::TooMany(3)));
        assert_eq!(locks.lock(name(1), Exclusive, NONE), Ok(false));
        locks.release_all();
        assert_eq!(locks.lock(name(9), Exclusive, NONE), Ok(false));
    }

    /// Threads take random locks in random order. Nobody is ever beside an
    /// exclusive holder, and every wait ends: granted, or refused as a circle.
    #[test]
    fn storms_of_transactions_exclude_each_other_and_end() {
        // Threads that get a processor one after the other meet nobody.
        let contended = (0..20).any(|_| storm() > 0);
        assert!(contended, "no circle: nothing was contended");
    }

    /// How many circles there were.
    fn storm() -> u64 {
        const NAMES: usize = 6;
        let table = LockTable::new(1000);
        let users: [AtomicI64; NAMES] = Default::default();
        let circles = AtomicU64::new(0);
        let failed = AtomicBool::new(false);
        thread::scope(|scope| {
            for thread in 0..6u64 {
                let (table, users, circles, failed) = (&table, &users, &circles, &failed);
                scope.spawn(move || {
                    let mut random = thread * 7919 + 1;
                    let mut next = |below: u64| {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        random % below
                    };
                    for round in 0..3000 {
                        let mut locks = table.locks(TrxId(round * 100 + thread));
                        let mut mine: HashMap<usize, LockMode> = HashMap::new();
                        for _ in 0..1 + next(4) {
                            let number = next(NAMES as u64) as usize;
                            let mode = if next(3) == 0 { Exclusive } else { Shared };
                            match locks.lock(name(number as u8), mode, PATIENCE) {
                                Ok(_) => {
                                    let had = mine.get(&number).copied();
                                    let now = had.map_or(mode, |had| had.max(mode));
                                    let change = weight(now) - had.map_or(0, weight);
                                    let before = users[number].fetch_add(change, Ordering::SeqCst);
                                    let after = before + change;
                                    let wrong = now == Exclusive && after != weight(Exclusive);
                                    if wrong || after > weight(Exclusive) {
                                        failed.store(true, Ordering::SeqCst);
                                    }
                                    mine.insert(number, now);
                                    if next(16) == 0 {
                                        thread::yield_now();
                                    }
                                }
                                Err(LockError::Deadlock { .. }) => {
                                    circles.fetch_add(1, Ordering::SeqCst);
                                    break;
                                }
                                Err(error) => panic!("{error}"),
                            }
                        }
                        for (number, mode) in mine {
                            users[number].fetch_sub(weight(mode), Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(!failed.into_inner(), "two where one excludes the other");
        assert_eq!((table.held(), lock(&table.graph).waiting()), (0, 0));
        circles.into_inner()
    }

    fn weight(mode: LockMode) -> i64 {
        match mode {
            Shared => 1,
            Exclusive => 1000,
        }
    }
}

/// `cargo test -p iolane-store --features shuttle shuttle`
#[cfg(feature = "shuttle")]
mod shuttle {
    use super::*;
    use ::shuttle::sync::atomic::AtomicUsize;
    use ::shuttle::{check_pct, check_random, thread};

    /// Each makes one order of the steps, by each scheduler.
    const ORDERS: usize = 3000;
    /// See `log::model`.
    const DEPTH: usize = 3;

    /// One after the other, in this mode, waiting so long.
    type Wanted = &'static [(u8, LockMode, Duration)];

    /// Every order of steps ends, as shuttle finds a thread that waits for
    /// ever; nobody is beside an exclusive holder, and nothing is left.
    fn run(threads: &'static [Wanted]) {
        let order = move || {
            let table = Arc::new(LockTable::new(100));
            let inside: Arc<[AtomicUsize; 2]> = Arc::default();
            let threads: Vec<_> = (0..)
                .zip(threads)
                .map(|(trx, wanted)| {
                    let (table, inside) = (Arc::clone(&table), Arc::clone(&inside));
                    thread::spawn(move || {
                        let mut locks = table.locks(TrxId(trx));
                        for &(number, mode, patience) in *wanted {
                            // A victim of a deadlock, or out of patience.
                            if locks.lock(name(number), mode, patience).is_err() {
                                return;
                            }
                            let inside = &inside[number as usize];
                            let (weight, beside) = match mode {
                                Shared => (1, 100),
                                Exclusive => (100, 1),
                            };
                            assert!(inside.fetch_add(weight, Ordering::SeqCst) < beside);
                            thread::yield_now();
                            inside.fetch_sub(weight, Ordering::SeqCst);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(table.held(), 0);
            assert!(table.shards.iter().all(|shard| lock(shard).is_empty()));
            assert_eq!(lock(&table.graph).waiting(), 0);
        };
        check_random(order, ORDERS);
        check_pct(order, ORDERS, DEPTH);
    }

    #[test]
    fn shuttle_finds_no_order_in_which_a_wake_up_is_lost() {
        const UP: Wanted = &[
            (0, Shared, PATIENCE),
            (0, Exclusive, PATIENCE),
            (1, Shared, PATIENCE),
            (1, Exclusive, PATIENCE),
        ];
        const DOWN: Wanted = &[
            (1, Shared, PATIENCE),
            (1, Exclusive, PATIENCE),
            (0, Shared, PATIENCE),
            (0, Exclusive, PATIENCE),
        ];
        run(&[UP, DOWN, UP]);
    }

    /// Who leaves the queue lets those go on who waited behind it, also when
    /// the lock comes just as it gives up.
    #[test]
    fn shuttle_finds_no_order_in_which_one_who_gives_up_blocks_others() {
        const PATIENT: Wanted = &[(0, Exclusive, PATIENCE)];
        const READS: Wanted = &[(0, Shared, PATIENCE)];
        const HASTY: Wanted = &[(0, Exclusive, NONE)];
        const HASTY_UPGRADE: Wanted = &[(0, Shared, PATIENCE), (0, Exclusive, NONE)];
        run(&[PATIENT, HASTY, READS, HASTY_UPGRADE]);
    }
}
