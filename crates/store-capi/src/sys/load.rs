//! Tables that a transaction makes and fills.

use super::pointers::{give, may_change_threads, object, object_mut, take, text, values};
use super::row::{iolane_row, iolane_value};
use super::store::schema_of;
use super::transaction::iolane_transaction;
use crate::failure::{Failure, done, guarded};
use std::ffi::c_char;
use std::sync::Arc;
use store::{Load, Store};

/// A table that is being made and filled. For one thread at a time.
pub struct iolane_load {
    load: Load<'static>,
    /// Given up after it.
    store: Arc<Store>,
}

const _: () = may_change_threads::<iolane_load>();

/// # Errors
/// They are of two stores.
fn check_store(load: &iolane_load, it: &iolane_transaction) -> Result<(), Failure> {
    match Arc::ptr_eq(&load.store, &it.store) {
        true => Ok(()),
        false => Err(Failure::argument("load and transaction are of two stores")),
    }
}

/// Begins to make a table, and to fill it: much faster than inserting rows, and fastest
/// in the order of the primary key. `schema` is as in iolane_store_table_create(). The
/// rows are the transaction's: others see them when it has committed. The table is no
/// part of the transaction: whoever rolls back drops it. To be freed by
/// iolane_load_free(). Blocks until its file is made. Fails with
/// IOLANE_STORE_ERROR_TABLE_EXISTS, _SCHEMA, _ENDED, _TOO_MANY_WRITERS, _FILES, _PAGES,
/// _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_load_begin(
    transaction: *mut iolane_transaction,
    schema: *const c_char,
    load: *mut *mut iolane_load,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        let schema = schema_of(text(schema, "schema")?)?;
        let begun = iolane_load {
            load: it.transaction.load(&schema)?,
            store: Arc::clone(&it.store),
        };
        give(load, begun)
    })
}

/// Adds a row: values for all columns, in their order. With `ascending` = 1 only if all
/// rows came in the order of their primary keys and this one is behind them, so that no
/// other one has its key. Returns 1, or 0 where it is not, and nothing has happened.
/// Blocks while pages are written. After another failure it can only be freed. Fails
/// with IOLANE_STORE_ERROR_SCHEMA, _TOO_LARGE, _DUPLICATE, _ENDED, _FILES, _PAGES,
/// _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_load_row(
    load: *mut iolane_load,
    transaction: *mut iolane_transaction,
    row: *const iolane_value,
    count: usize,
    ascending: i32,
) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe {
        let load = object_mut(load, "load")?;
        let it = object(transaction, "transaction")?;
        check_store(load, it)?;
        let row = values(row, count)?;
        if ascending != 0 {
            return Ok(load.load.push_ascending(&it.transaction, row)?.into());
        }
        load.load.push(&it.transaction, row)?;
        Ok(1)
    })
}

/// Makes the table, for good when this returns, with all rows. After
/// IOLANE_STORE_ERROR_DUPLICATE fills `same` with one of the rows of which there are
/// two, or with nothing if that cannot be had any more. Blocks until all is on the disk.
/// Also fails with _TABLE_EXISTS, _ENDED, _FILES, _PAGES, _ARGUMENT; then nothing of it
/// is there. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_load_finish(
    load: *mut iolane_load,
    transaction: *mut iolane_transaction,
    same: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let load = object_mut(load, "load")?;
        let it = object(transaction, "transaction")?;
        check_store(load, it)?;
        let same = object_mut(same, "same")?;
        same.fill(Vec::new());
        if let Err(error) = load.load.finish(&it.transaction) {
            same.fill(load.load.refused()?.unwrap_or_default());
            return Err(error.into());
        }
        Ok(())
    })
}

/// Frees it; NULL is allowed. Of a table that was not finished nothing is left. Blocks
/// until its file is gone. For one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_load_free(load: *mut iolane_load) {
    if load.is_null() {
        return;
    }
    // SAFETY: C's promise.
    done(|| unsafe {
        let iolane_load { load, store } = *take(load, "load")?;
        drop(load);
        drop(store);
        Ok(())
    });
}
