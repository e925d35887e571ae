//! Values and rows.

use super::pointers::{bytes, give, object, put, take};
use crate::failure::{Failure, done};
use std::ffi::c_void;
use store::data::{Row, Value};

/// What a value is.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_type {
    /// Nothing.
    IOLANE_NULL = 0,
    /// A signed number of 64 bits.
    IOLANE_INTEGER = 1,
    /// A number of 64 bits by IEEE 754, but no NaN.
    IOLANE_REAL = 2,
    /// UTF-8, ordered by its bytes.
    IOLANE_TEXT = 3,
    /// Any bytes.
    IOLANE_BLOB = 4,
}

/// One value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct iolane_value {
    /// Of enum iolane_type.
    pub kind: i32,
    /// Of IOLANE_INTEGER.
    pub integer: i64,
    /// Of IOLANE_REAL.
    pub real: f64,
    /// Of IOLANE_TEXT and IOLANE_BLOB; NULL is allowed for none.
    pub bytes: *const c_void,
    /// Their number.
    pub length: usize,
}

impl iolane_value {
    const NOTHING: iolane_value = iolane_value {
        kind: iolane_type::IOLANE_NULL as i32,
        integer: 0,
        real: 0.0,
        bytes: std::ptr::null(),
        length: 0,
    };

    /// # Safety
    /// The bytes of a text or blob are there, as many as it says.
    pub(super) unsafe fn get(&self) -> Result<Value, Failure> {
        let mut value = Value::Null;
        // SAFETY: the caller's promise.
        unsafe { self.put(&mut value) }?;
        Ok(value)
    }

    /// The same in the place of another value: a blob in the memory of a blob.
    ///
    /// # Safety
    /// As [`get`](Self::get).
    pub(super) unsafe fn put(&self, out: &mut Value) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        let bytes = || unsafe { bytes(self.bytes, self.length) };
        *out = match self.kind {
            0 => Value::Null,
            1 => Value::Integer(self.integer),
            2 => Value::Real(self.real),
            3 => {
                let text = std::str::from_utf8(bytes()?);
                let text = text.map_err(|_| Failure::argument("a text is not UTF-8"))?;
                Value::Text(text.to_owned())
            }
            4 => {
                out.set_blob(bytes()?);
                return Ok(());
            }
            other => return Err(Failure::argument(format!("there is no type {other}"))),
        };
        Ok(())
    }

    /// What C sees of a value, for as long as that is where it is.
    fn of(value: &Value) -> iolane_value {
        use iolane_type::*;
        let of_bytes = |kind: iolane_type, bytes: &[u8]| iolane_value {
            kind: kind as i32,
            bytes: bytes.as_ptr().cast(),
            length: bytes.len(),
            ..iolane_value::NOTHING
        };
        match value {
            Value::Null => iolane_value::NOTHING,
            Value::Integer(number) => iolane_value {
                kind: IOLANE_INTEGER as i32,
                integer: *number,
                ..iolane_value::NOTHING
            },
            Value::Real(number) => iolane_value {
                kind: IOLANE_REAL as i32,
                real: *number,
                ..iolane_value::NOTHING
            },
            Value::Text(text) => of_bytes(IOLANE_TEXT, text.as_bytes()),
            Value::Blob(bytes) => of_bytes(IOLANE_BLOB, bytes),
        }
    }
}

/// Room for a row, or a list of values, that the library fills.
pub struct iolane_row {
    values: Row,
    seen: Vec<iolane_value>,
}

impl iolane_row {
    pub(super) fn fill(&mut self, values: Row) {
        self.seen.clear();
        self.values = values;
        self.seen.extend(self.values.iter().map(iolane_value::of));
    }

    /// Lets `put` put a row into the place of the one that is here, if there is one.
    /// Returns whether there was; otherwise it is empty.
    pub(super) fn fill_by(
        &mut self,
        put: impl FnOnce(&mut Row) -> Result<bool, Failure>,
    ) -> Result<bool, Failure> {
        self.seen.clear();
        let is_there = put(&mut self.values)?;
        if is_there {
            self.seen.extend(self.values.iter().map(iolane_value::of));
        }
        Ok(is_there)
    }
}

/// Makes room for a row, to be freed by iolane_row_free(). Never blocks; fails with
/// IOLANE_STORE_ERROR_ARGUMENT where `row` is NULL. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_row_new(row: *mut *mut iolane_row) -> i32 {
    let made = iolane_row {
        values: Vec::new(),
        seen: Vec::new(),
    };
    // SAFETY: C's promise.
    done(|| unsafe { give(row, made) })
}

/// Frees it; NULL is allowed. Never blocks. Not while another thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_row_free(row: *mut iolane_row) {
    if !row.is_null() {
        // SAFETY: C's promise.
        done(|| unsafe { take(row, "row") }.map(drop));
    }
}

/// The values in it, in the order of the table's columns. They stay until the row is
/// filled again or freed. Never blocks; fails with IOLANE_STORE_ERROR_ARGUMENT. Not
/// while another thread fills it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_row_values(
    row: *const iolane_row,
    values: *mut *const iolane_value,
    count: *mut usize,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let row = object(row, "row")?;
        put(values, row.seen.as_ptr())?;
        put(count, row.seen.len())
    })
}
