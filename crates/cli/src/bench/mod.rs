//! The measurements, one module each: options in, results out.

pub mod hugepages;
