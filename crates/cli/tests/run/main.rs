//! `iolane run`: what stands under it does as it does without.

mod container;
mod failing;
mod place;
mod probes;
mod refusals;
mod servers;
mod unit;
