//! How results reach the user: tables, JSON, a page with plots, progress.

pub mod chart;
pub mod html;
pub mod json;
pub mod progress;
pub mod scale;
pub mod stdout;
pub mod text;
pub mod units;
