//! `iolane run`: what stands under it does as it does without.

mod ahead;
mod confined;
mod container;
mod embedded;
mod failing;
mod generic;
mod kernel;
mod paths;
mod place;
mod probes;
mod random;
mod refusals;
mod servers;
mod unit;
