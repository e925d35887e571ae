//! Stores and their tables.

use super::options::{durability, iolane_store_options, options};
use super::pointers::{bytes, give, object, object_mut, put, take, text};
use super::row::iolane_row;
use crate::failure::{Failure, done};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use store::Store;
use store::data::{TableSchema, Value};

/// An open store of tables.
pub struct iolane_store(pub(super) Arc<Store>);

/// Makes an empty store in the directory `path`, which is made if need be, and opens
/// it. To be closed by iolane_store_close(). Blocks until it is on the disk. Fails
/// with IOLANE_STORE_ERROR_EXISTS where there is one, _FILES, _ARGUMENT. From any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_create(
    path: *const c_char,
    settings: *const iolane_store_options,
    store: *mut *mut iolane_store,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let made = Store::create(text(path, "path")?, &options(settings)?)?;
        give(store, iolane_store(Arc::new(made)))
    })
}

/// Opens a store: brings its pages to the end of the log, and rolls back what was
/// neither committed nor prepared. To be closed by iolane_store_close(). Blocks as
/// long as that takes. Fails with IOLANE_STORE_ERROR_FILES, _DAMAGED, _PAGES,
/// _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_open(
    path: *const c_char,
    settings: *const iolane_store_options,
    store: *mut *mut iolane_store,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let opened = Store::open(text(path, "path")?, &options(settings)?)?;
        give(store, iolane_store(Arc::new(opened)))
    })
}

/// Writes everything that is changed, and closes it; NULL is allowed. Blocks as long
/// as that takes. All its transactions and cursors are to be freed before; otherwise
/// the store stays open until the last one is, which this function says with
/// IOLANE_STORE_ERROR_TABLE_IN_USE. Also fails with _PAGES: what was committed
/// durably is in the log. `store` cannot be used any more, however it ends. From any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_close(store: *mut iolane_store) -> i32 {
    if store.is_null() {
        return 0;
    }
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = take(store, "store")?;
        match Arc::try_unwrap(store.0) {
            Ok(store) => Ok(store.close()?),
            Err(_) => Err(Failure::new(
                super::error::iolane_store_error::IOLANE_STORE_ERROR_TABLE_IN_USE,
                "transactions or cursors of the store are not freed: it stays open until they are",
            )),
        }
    })
}

/// A table's schema from JSON.
pub(super) fn schema_of(json: &str) -> Result<TableSchema, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::argument(format!("the schema: {error}")))
}

/// Makes an empty table, for good when this returns. `schema` is JSON, as in
/// docs/store.md: name, columns, primary_key, indexes. It is no part of a
/// transaction. Blocks until it is on the disk. Fails with
/// IOLANE_STORE_ERROR_TABLE_EXISTS, _SCHEMA, _ARGUMENT, _FILES, _PAGES, _DAMAGED. From
/// any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_table_create(
    store: *const iolane_store,
    schema: *const c_char,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let schema = schema_of(text(schema, "schema")?)?;
        Ok(object(store, "store")?.0.create_table(&schema)?)
    })
}

/// Drops a table with all its rows, for good when this returns; also a damaged one.
/// Blocks until it is on the disk. Fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
/// _TABLE_IN_USE, _FILES, _PAGES, _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_table_drop(
    store: *const iolane_store,
    name: *const c_char,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe { Ok(object(store, "store")?.0.drop_table(text(name, "name")?)?) })
}

/// Fills `row` with the names of all tables, in their order, as texts. Never blocks
/// for long; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_tables(
    store: *const iolane_store,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let names = object(store, "store")?.0.table_names();
        object_mut(row, "row")?.fill(names.into_iter().map(Value::Text).collect());
        Ok(())
    })
}

/// Fills `row` with the schema of a table: one text, as
/// iolane_store_table_create() takes it. May read the table's description, which
/// blocks; fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE, _DAMAGED, _PAGES, _ARGUMENT.
/// From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_table_schema(
    store: *const iolane_store,
    name: *const c_char,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let schema = object(store, "store")?.0.table(text(name, "name")?)?;
        let json =
            serde_json::to_string(&schema).map_err(|error| Failure::argument(error.to_string()))?;
        object_mut(row, "row")?.fill(vec![Value::Text(json)]);
        Ok(())
    })
}

/// Fills `row` with the names of all prepared transactions, as blobs. Never blocks
/// for long; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_prepared(
    store: *const iolane_store,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let names = object(store, "store")?.0.prepared();
        object_mut(row, "row")?.fill(names.into_iter().map(Value::Blob).collect());
        Ok(())
    })
}

/// Says in `is_changed` whether a prepared transaction has changed a table: 1 or 0.
/// Where one is just being ended, perhaps not. May read the table's description, which
/// blocks; fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE, _DAMAGED, _PAGES, _ARGUMENT.
/// From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_is_changed_by_prepared(
    store: *const iolane_store,
    table: *const c_char,
    is_changed: *mut i32,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = &object(store, "store")?.0;
        let changed = store.is_changed_by_prepared(text(table, "table")?)?;
        put(is_changed, changed.into())
    })
}

/// Commits a prepared transaction. `how` is of enum iolane_durability. Blocks as long
/// as that asks for. Fails with IOLANE_STORE_ERROR_UNKNOWN_PREPARED, _PAGES,
/// _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_commit_prepared(
    store: *const iolane_store,
    xid: *const c_void,
    length: usize,
    how: i32,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = object(store, "store")?;
        let (xid, how) = (bytes(xid, length)?, durability(how)?);
        Ok(store.0.commit_prepared_with(xid, how)?)
    })
}

/// Undoes a prepared transaction. Blocks until that is durable as the store's options
/// say. Fails with IOLANE_STORE_ERROR_UNKNOWN_PREPARED, _PAGES, _ARGUMENT. From any
/// thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_rollback_prepared(
    store: *const iolane_store,
    xid: *const c_void,
    length: usize,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = object(store, "store")?;
        Ok(store.0.rollback_prepared(bytes(xid, length)?)?)
    })
}

/// Makes all that was changed until now durable in the log, commits above all that
/// did not wait for it. Blocks until it is. Fails with IOLANE_STORE_ERROR_PAGES,
/// _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_sync(store: *const iolane_store) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe { Ok(object(store, "store")?.0.sync()?) })
}

/// Returns once all that was committed before the call is in its place in the files
/// of the tables. Blocks until it is. Fails with IOLANE_STORE_ERROR_PAGES, _ARGUMENT.
/// From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_checkpoint(store: *const iolane_store) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        object(store, "store")?.0.checkpoint()?;
        Ok(())
    })
}

/// Copies all tables, as they are at one moment, to a new store in the directory
/// `path`, at the level of backups; puts the number of rows into `rows`. Blocks as
/// long as that takes. Fails with IOLANE_STORE_ERROR_EXISTS, _FILES, _PAGES, _DAMAGED,
/// _ARGUMENT; then what was copied is removed. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_backup(
    store: *const iolane_store,
    path: *const c_char,
    settings: *const iolane_store_options,
    rows: *mut u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = object(store, "store")?;
        let copied = store.0.backup(text(path, "path")?, &options(settings)?)?;
        put(rows, copied)
    })
}

/// Walks everything, beside other work and at the level of checks: pages, trees, rows
/// against index entries, undo. Fills `row` with what is wrong, a text each; nothing
/// if all is in order. Blocks as long as that takes. Fails with
/// IOLANE_STORE_ERROR_PAGES, _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_check(
    store: *const iolane_store,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let report = object(store, "store")?.0.check()?;
        let findings = report.findings.iter();
        let texts = findings.map(|finding| Value::Text(finding.to_string()));
        object_mut(row, "row")?.fill(texts.collect());
        Ok(())
    })
}
