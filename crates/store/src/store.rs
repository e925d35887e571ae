//! A store of tables: what a program works with.

mod estimates;
mod preloader;
mod prepared;
mod waits;

pub use waits::{DeadlockMember, DeadlockReport};

use crate::access::Pages;
use crate::attempt::until_loaded;
use crate::backing::Backing;
use crate::catalog::{DamagedTable, expect_dropped};
use crate::check::CheckReport;
use crate::data::{Row, TableSchema};
use crate::error::StoreError;
use crate::flush::CheckpointReport;
use crate::ids::{Lsn, PageId};
use crate::ledger::Ledger;
use crate::master::Master;
use crate::names::{DirectoryLock, LOCK_FILE, Names};
use crate::page::header::{self, PageKind};
use crate::page_store::{PageStore, PageStoreOptions, PageStoreStatistics};
use crate::policy::Role;
use crate::recovery::{RecoveryProgress, RecoveryReport};
use crate::space::{SYSTEM_SPACE, SpaceStatistics};
use crate::stream::{StreamStatistics, acting_as};
use crate::system::{System, SystemOptions};
use crate::torn::TornProtection;
use crate::txn::{Durability, Error, Transaction, TransactionOptions};
use crate::waits::WaitStatistics;
use iolane::{Device, Engine, Outstanding};
use preloader::Preloader;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the master page is: the first that the system's tablespace gives.
const MASTER: PageId = PageId::new(SYSTEM_SPACE, 3);
/// A commit that does not wait is durable after about so long.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// The thread that purges looks so often whether there is something to do.
const PURGE_INTERVAL: Duration = Duration::from_millis(100);
/// The same when it is far behind, and only a view is in its way, perhaps that
/// of a short transaction.
const PURGE_INTERVAL_SHORT: Duration = Duration::from_millis(10);

/// How a store is made and opened.
///
/// ```
/// use iolane_store::{Durability, StoreOptions};
/// use std::time::Duration;
///
/// let mut options = StoreOptions::default();
/// options.pages.pool_bytes = 16 << 20;
/// options.durability = Durability::Lazy;
/// options.lock_timeout = Duration::from_secs(5);
/// ```
#[derive(Clone)]
pub struct StoreOptions {
    /// Pages, pool and log.
    pub pages: PageStoreOptions,
    /// The engine for all of its I/O; otherwise it makes its own.
    pub engine: Option<Arc<Engine>>,
    /// When a commit is acknowledged, unless it says otherwise.
    pub durability: Durability,
    /// How long a transaction waits for a row that another one has changed, or
    /// to begin writing when too many do.
    pub lock_timeout: Duration,
    /// Rows that may be locked at a time, over all transactions.
    pub locks_max: usize,
    /// Transactions that may write at a time. A store keeps those undo slots
    /// that it has once used.
    pub undo_slots: u32,
    /// Does a thread of the store purge what nobody can see any more? If not,
    /// call [`Store::purge`].
    pub purge_thread: bool,
    /// Bytes of undo that the thread which purges may be behind: when it cannot
    /// follow, those who write are held up from there on, until they are as slow
    /// as it is. `None`: half of the pool, so that undo need not be read from
    /// the disk to be purged. `Some(u64::MAX)`: nobody is held up, and undo grows
    /// for as long as they go on.
    pub purge_lag_bytes: Option<u64>,
    /// Whether the pages that are in memory when the store is closed are read again when it is opened: in the
    /// background, until nothing of the pool is free. After a crash they are those of when it was closed last.
    pub preload: bool,
    /// Bytes of memory in which a load sorts rows and index entries; what is more
    /// goes to the disk in between.
    pub sort_bytes: usize,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        StoreOptions {
            pages: PageStoreOptions::default(),
            engine: None,
            durability: Durability::default(),
            lock_timeout: Duration::from_secs(50),
            locks_max: 10 << 20,
            undo_slots: 128,
            purge_thread: true,
            purge_lag_bytes: None,
            preload: false,
            sort_bytes: 64 << 20,
        }
    }
}

impl StoreOptions {
    fn system(&self) -> SystemOptions {
        SystemOptions {
            durability: self.durability,
            lock_timeout: self.lock_timeout,
            locks_max: self.locks_max,
            undo_slots: self.undo_slots,
            purge_lag_bytes: self.purge_lag_bytes.unwrap_or(self.pages.pool_bytes / 2),
            sort_bytes: self.sort_bytes,
        }
    }

    fn engine(&self, path: &Path) -> Result<Arc<Engine>, StoreError> {
        match &self.engine {
            Some(engine) => Ok(Arc::clone(engine)),
            None => Engine::new()
                .map(Arc::new)
                .map_err(|error| StoreError::Option(format!("{}: {error}", path.display()))),
        }
    }

    fn lock(&self, path: &Path) -> Result<DirectoryLock, StoreError> {
        let locked = self.pages.names.lock(path);
        let locked = locked.map_err(|source| StoreError::system(path, source))?;
        locked.ok_or_else(|| StoreError::Locked {
            path: path.to_owned(),
        })
    }
}

/// Removes a directory in which no store could be made, and those above it: as many as were made
/// for it, and as are empty.
fn remove_directories(names: &dyn Names, path: &Path, count: usize) {
    if count > 0 {
        // What cannot be removed stays.
        let _ = names.remove(&path.join(LOCK_FILE));
        let mut made = path.ancestors().take(count);
        let _ = made.try_for_each(|directory| names.remove_directory(directory));
    }
}

/// What a store did and holds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StoreStatistics {
    /// Pages, pool, flusher and log.
    pub pages: PageStoreStatistics,
    /// Transactions committed that had changed something.
    pub committed: u64,
    /// Rolled back.
    pub rolled_back: u64,
    /// Changes refused because another transaction was first.
    pub conflicts: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Transactions that have changed something and not ended.
    pub writing: u64,
    /// Views that are open: old versions are kept for them.
    pub views: u64,
    /// Row locks held.
    pub locks: u64,
    /// Undo slots in use.
    pub undo_slots: u64,
    /// Transactions that have ended and whose old versions are not purged.
    pub unpurged: u64,
    /// Bytes of undo of these.
    pub unpurged_bytes: u64,
    /// Undo records purged.
    pub purged: u64,
    /// Waits of those who write for purge, which could not follow them.
    pub purge_waits: WaitStatistics,
}

/// An open store of tables. Shared by threads.
///
/// ```
/// use iolane_store::data::{ColumnType, TableSchema};
/// use iolane_store::{Direction, Store, StoreOptions};
///
/// # let directory = tempfile::tempdir_in("/var/tmp")?;
/// # let path = directory.path().join("people");
/// let mut options = StoreOptions::default();
/// options.pages.pool_bytes = 16 << 20;
/// let store = Store::create(&path, &options)?;
/// let person = TableSchema::new("person")
///     .column("id", ColumnType::Integer)
///     .column("name", ColumnType::Text)
///     .primary_key(["id"]);
/// store.create_table(&person)?;
///
/// let mut transaction = store.begin();
/// transaction.insert("person", vec![1.into(), "Anna".into()])?;
/// transaction.insert("person", vec![2.into(), "Bert".into()])?;
/// transaction.commit()?;
///
/// let mut transaction = store.begin();
/// assert_eq!(transaction.get("person", &[2.into()])?, Some(vec![2.into(), "Bert".into()]));
/// for row in transaction.range("person", .., Direction::Forward)? {
///     println!("{:?}", row?);
/// }
/// # drop(transaction);
/// # drop(store);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Store {
    pub(crate) system: Arc<System<PageStore>>,
    worker: Option<Worker>,
    preloader: Option<Preloader>,
    report: RecoveryReport,
    rolled_back: u32,
    /// Given up last.
    _lock: DirectoryLock,
}

/// The thread that purges, and syncs commits that did not wait.
struct Worker {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Store {
    /// Makes an empty store in a directory, which is made if need be.
    ///
    /// # Errors
    /// [`Error::Files`]: there is one already ([`StoreError::Exists`]), it is
    /// open elsewhere ([`StoreError::Locked`]), an option that cannot be, what
    /// the system says.
    pub fn create(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Store, Error> {
        let path = path.as_ref();
        let engine = options.engine(path)?;
        let names = &options.pages.names;
        let missing = path.ancestors().take_while(|it| !names.exists(it)).count();
        let made = names.make_directory(path);
        made.map_err(|source| StoreError::system(path, source))?;
        let lock = options.lock(path)?;
        let pages = PageStore::create(engine, path, &options.pages).inspect_err(|_| {
            // Still locked: nobody else has made a store there meanwhile.
            remove_directories(names.as_ref(), path, missing);
        })?;
        make_master(&pages)?;
        Store::start(options, pages, RecoveryReport::default(), lock)
    }

    /// Opens a store: brings its pages to the end of the log, and rolls back
    /// whatever had not been committed.
    ///
    /// # Errors
    /// [`Error::Files`]: it is open elsewhere ([`StoreError::Locked`]); files
    /// that are missing, foreign ([`StoreError::Foreign`]), of a newer version
    /// ([`StoreError::Version`]), damaged without a copy; what the system says.
    /// [`Error::DamagedCatalogue`]. A table whose description cannot be read is
    /// no error: see [`damaged_tables`](Self::damaged_tables).
    pub fn open(path: impl AsRef<Path>, options: &StoreOptions) -> Result<Store, Error> {
        Store::open_with(path, options, &mut |_| {})
    }

    /// The same, and tells how far redo has come.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_with(
        path: impl AsRef<Path>,
        options: &StoreOptions,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<Store, Error> {
        let path = path.as_ref();
        let engine = options.engine(path)?;
        let lock = options.lock(path)?;
        let _reads = acting_as(Role::Recovery);
        let (pages, report) =
            PageStore::open_to_look(engine, path, &options.pages, true, progress)?;
        // It may have been stopped while it was being made.
        let master = until_loaded(&pages, || {
            let page = pages.shared(MASTER)?;
            Ok(header::kind(&page))
        })?;
        if master == Some(PageKind::Unused) {
            if !Backing::spaces(&pages).is_empty() {
                return Err(Error::Files(StoreError::Damaged {
                    path: path.to_owned(),
                    reason: "there are tables, but their catalogue is gone: restore a backup"
                        .to_owned(),
                }));
            }
            pages.allow_checkpoints();
            make_master(&pages)?;
        } else {
            let catalogue = Master { page: MASTER }.read(&pages)?.catalogue;
            expect_dropped(&pages, &catalogue, &report.passed_over)?;
            pages.allow_checkpoints();
        }
        Store::start(options, pages, report, lock)
    }

    fn start(
        options: &StoreOptions,
        pages: PageStore,
        report: RecoveryReport,
        lock: DirectoryLock,
    ) -> Result<Store, Error> {
        let (system, opened) = System::open(pages, MASTER, options.system())?;
        let system = Arc::new(system);
        let mut store = Store {
            system,
            worker: None,
            preloader: None,
            report,
            rolled_back: opened.rolled_back,
            _lock: lock,
        };
        store.worker = Some(store.start_worker(options.purge_thread)?);
        let preloader = options.preload.then(|| Preloader::start(&store.system));
        store.preloader = preloader.transpose()?;
        Ok(store)
    }

    fn start_worker(&self, purges: bool) -> Result<Worker, StoreError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (system, stopped) = (Arc::clone(&self.system), Arc::clone(&stop));
        let work = move || work(&system, &stopped, purges);
        let thread = self.system.backing.spawn("iolane-purge", work)?;
        Ok(Worker { stop, thread })
    }

    /// Begins a transaction. It sees what has been committed when it first
    /// reads or changes something.
    pub fn begin(&self) -> Transaction<'_> {
        Transaction::begin(&self.system)
    }

    /// The same for work that nobody waits for: reports over whole tables, mass
    /// changes, exports. Its pages are read at [`Background`](iolane::Level), unless
    /// another transaction waits for the same. While frames or room in the log are
    /// short, it leaves them to others for up to 100 ms at a time; while nearly half of
    /// the frames hold changes, it changes nothing for up to a second at a time, and
    /// on a volume with a recognised rate reads nothing for up to 100 ms at a time. Its
    /// commit is as quick as any.
    ///
    /// The rows that it changes are locked as long as it runs, so short
    /// transactions that change the same rows wait for it all the same. From
    /// the moment at which one does, its pages are read as a query's, so that
    /// it ends soon.
    pub fn begin_bulk(&self) -> Transaction<'_> {
        Transaction::begin_as(&self.system, Role::Bulk)
    }

    /// Begins a transaction in another way than the usual.
    pub fn begin_with(&self, options: &TransactionOptions) -> Transaction<'_> {
        Transaction::begin_with(&self.system, options)
    }

    /// Makes an empty table, for good when this returns. It is no part of a
    /// transaction: all see it at once.
    ///
    /// # Errors
    /// [`Error::TableExists`], or [`Error::DamagedTable`] of that name;
    /// [`Error::Schema`], and those of files and pages.
    pub fn create_table(&self, schema: &TableSchema) -> Result<(), Error> {
        self.system.create_table(schema)
    }

    /// Drops a table with all its rows, for good when this returns; also a
    /// damaged one.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::TableInUse`], and those of files and
    /// pages.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        self.system.drop_table(name)
    }

    /// Loads rows into an empty table that no transaction uses, much faster than
    /// inserting them; fastest in the order of the primary key. All are there
    /// for good when this returns, or none. Returns how many.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::TableInUse`], [`Error::Duplicate`], those
    /// of rows that do not fit the table, and those of files and pages.
    pub fn bulk_load(
        &self,
        table: &str,
        rows: impl IntoIterator<Item = Row>,
    ) -> Result<u64, Error> {
        self.system.bulk_load(table, rows, 0)
    }

    /// The names of all tables, in their order, whether they can be used or not.
    pub fn table_names(&self) -> Vec<String> {
        self.system.catalog.names()
    }

    /// What a table is made of.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::DamagedTable`], and those of files and
    /// pages.
    pub fn table(&self, name: &str) -> Result<TableSchema, Error> {
        let table = self.system.catalog.table(&self.system.backing, name)?;
        Ok(table.schema.clone())
    }

    /// The tables that can be used, in the order of their names. The descriptions
    /// of those that nobody has used yet are read: see
    /// [`table_names`](Self::table_names).
    pub fn tables(&self) -> Vec<TableSchema> {
        let tables = self.system.catalog.all(&self.system.backing);
        tables.iter().map(|table| table.schema.clone()).collect()
    }

    /// The tables that are there and cannot be used, in the order of their names:
    /// their descriptions cannot be read, which is tried for those that nobody has
    /// used yet. Using one is an [`Error::DamagedTable`]; it can be
    /// [dropped](Self::drop_table).
    pub fn damaged_tables(&self) -> Vec<DamagedTable> {
        self.system.catalog.damaged(&self.system.backing)
    }

    /// The tablespace of a table: what its file has, and what is in use.
    ///
    /// # Errors
    /// [`Error::UnknownTable`].
    pub fn table_space(&self, table: &str) -> Result<SpaceStatistics, Error> {
        let pages = &self.system.backing;
        let space = self.system.catalog.table(pages, table)?.space;
        Ok(pages.space_statistics(space)?)
    }

    /// Takes away what nobody can see any more, up to about `records` changes.
    /// Returns how many; 0 when nothing is left that could go now.
    ///
    /// # Errors
    /// [`Error::Pages`].
    pub fn purge(&self, records: usize) -> Result<usize, Error> {
        self.system.purge(records)
    }

    /// Makes all that was changed until now durable in the log, commits above
    /// all that did not wait for it.
    ///
    /// # Errors
    /// [`Error::Pages`], also when there was nothing to do and the store has
    /// failed.
    pub fn sync(&self) -> Result<(), Error> {
        let pages = &self.system.backing;
        pages.make_durable(pages.log().end())?;
        Ok(pages.check_failure()?)
    }

    /// Returns once every change that was committed before the call, and every
    /// other that was in the log by then, is in its place in the tablespaces,
    /// and the log's checkpoint has passed it: recovery would begin behind it.
    ///
    /// Nobody is stopped by it, and what is changed during the call is not waited
    /// for. Meanwhile pages are written at [`Prefetch`](iolane::Level), ahead of
    /// backups and behind all that queries and commits wait for; that may take
    /// as long as writing the whole pool. Several threads may call it at once.
    ///
    /// A store needs no such calls: it writes changed pages and moves the
    /// checkpoint by itself. They bound what recovery will have to do, or bring
    /// the files up to date before they are copied below the store.
    ///
    /// ```
    /// # use iolane_store::{Store, StoreOptions};
    /// # let directory = tempfile::tempdir_in("/var/tmp")?;
    /// # let path = directory.path().join("people");
    /// # let mut options = StoreOptions::default();
    /// # options.pages.pool_bytes = 16 << 20;
    /// let store = Store::create(&path, &options)?;
    /// let report = store.checkpoint()?;
    /// assert!(report.to >= report.target);
    /// println!("{} pages, {} bytes of the log", report.pages, report.to.0 - report.from.0);
    /// # drop(store);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Pages`] if the store has failed, or fails meanwhile.
    pub fn checkpoint(&self) -> Result<CheckpointReport, Error> {
        Ok(self.system.backing.checkpoint()?)
    }

    /// Walks everything: pages and their checksums, the order of trees, rows
    /// against index entries, undo, which pages are in use. Transactions go on
    /// meanwhile. What looks wrong beside them is looked at again while changes
    /// wait: eight leaves, or one row or entry at a time. So a change waits no
    /// longer in a large table than in a small one, but where a branch is
    /// damaged: what lies below it is looked at in one go. Purge waits while undo
    /// is walked, once for up to a thousand rows or entries that look wrong;
    /// whoever makes or drops a table waits for the whole check.
    ///
    /// Of pages that were changed during the walk it cannot tell whether they are
    /// lost or used twice: the next check can.
    ///
    /// # Errors
    /// [`Error::Pages`] if the store has failed. What is damaged is a finding.
    pub fn check(&self) -> Result<CheckReport, Error> {
        self.check_while(&|| true)
    }

    /// The same as long as `go_on` says so. It is asked for every page and row:
    /// it should be quick.
    ///
    /// # Errors
    /// As [`check`](Self::check), and [`Error::Stopped`].
    pub fn check_while(&self, go_on: &dyn Fn() -> bool) -> Result<CheckReport, Error> {
        self.system.check(go_on)
    }

    /// What opening it had to do: redo, and transactions rolled back.
    pub fn recovery(&self) -> (&RecoveryReport, u32) {
        (&self.report, self.rolled_back)
    }

    /// What keeps pages from being torn, and why that.
    pub fn torn_pages(&self) -> &TornProtection {
        self.system.backing.torn_pages()
    }

    /// Who used the device that the store's directory lies on: requests, bytes
    /// and times by role and level, distributions of outstanding requests.
    pub fn ledger(&self) -> Ledger {
        self.system.backing.ledger()
    }

    /// The device that the store's directory lies on: its name, and what was learned
    /// of it ([`Device::snapshot`]).
    pub fn device(&self) -> Device {
        self.system.backing.device()
    }

    /// How many requests were outstanding: the part of the ledger that is
    /// cheap enough to be looked at all the time.
    pub fn outstanding(&self) -> Outstanding {
        self.system.backing.outstanding()
    }

    /// What the streams of pages of a role did: how much was read ahead, and how
    /// often that was not far enough.
    pub fn stream_statistics(&self, role: Role) -> StreamStatistics {
        self.system.backing.stream_statistics(role)
    }

    /// Counts of all that happened since it was opened.
    pub fn statistics(&self) -> StoreStatistics {
        let system = &self.system;
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        StoreStatistics {
            pages: system.backing.statistics(),
            committed: read(&system.counters.committed),
            rolled_back: read(&system.counters.rolled_back),
            conflicts: read(&system.counters.conflicts),
            deadlocks: read(&system.counters.deadlocks),
            writing: system.views.active() as u64,
            views: system.views.open_count() as u64,
            locks: system.locks.held() as u64,
            undo_slots: system.slots.owned().into(),
            unpurged: system.purge.waiting() as u64,
            unpurged_bytes: system.purge.lag.bytes(),
            purged: read(&system.counters.purged),
            purge_waits: system.purge.lag.waits(),
        }
    }

    /// Makes commits durable, writes everything that is changed and ends.
    /// Dropping it does the same, but says nothing of errors.
    ///
    /// # Errors
    /// [`Error::Pages`]: what was committed durably is in the log.
    pub fn close(mut self) -> Result<(), Error> {
        self.stop();
        self.system.sync_commits()
    }

    fn stop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.stop.store(true, Ordering::Release);
            self.system.purge.wake();
            // If it panicked there is nothing that it could still do.
            let _ = worker.thread.join();
        }
        if let Some(preloader) = self.preloader.take() {
            preloader.stop(&self.system);
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.stop();
        // Whoever wants to know closes it.
        let _ = self.system.sync_commits();
    }
}

fn make_master(pages: &PageStore) -> Result<(), Error> {
    let master = System::create(pages, SYSTEM_SPACE)?;
    assert_eq!(master, MASTER, "the first page of a tablespace is fixed");
    Ok(pages.make_durable(pages.log().end())?)
}

/// Nobody waits for a thread that has ended, however it did.
struct Purging<'s>(&'s System<PageStore>);

impl Drop for Purging<'_> {
    fn drop(&mut self) {
        self.0.purge.lag.nothing_to_eat();
    }
}

/// Until it is stopped. After an error the next round tries again; a store that
/// has failed tells whoever uses it.
fn work(system: &System<PageStore>, stop: &AtomicBool, purges: bool) {
    let mut synced = Instant::now();
    let mut durable = Lsn::default();
    let _purging = Purging(system);
    let lag = &system.purge.lag;
    while !stop.load(Ordering::Acquire) {
        // Not after it had to break off.
        if !lag.is_behind() {
            let is_far = purges && lag.is_large();
            system.purge.wait(if is_far {
                PURGE_INTERVAL_SHORT
            } else {
                PURGE_INTERVAL
            });
        }
        while purges
            && !stop.load(Ordering::Acquire)
            && synced.elapsed() < SYNC_INTERVAL
            && system.purge_round().is_ok_and(|count| count > 0)
        {}
        if synced.elapsed() >= SYNC_INTERVAL {
            synced = Instant::now();
            let last = Lsn(system.last_commit.load(Ordering::Acquire));
            if last > durable && system.sync_commits().is_ok() {
                durable = last;
            }
        }
    }
}
