//! The history as a whole: what is written is read back, after any failure.

mod crashes;
mod misfits;
mod peers;
mod scene;
mod thinning;
mod written;
