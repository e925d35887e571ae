//! The locks of this module. The model test puts others in their place.

pub(crate) use parking_lot::{Condvar, Mutex, RwLock};
