//! Tests of the whole history: written rows are read back, after any failure.

mod crashes;
mod misfits;
mod peers;
mod scene;
mod thinning;
mod written;
