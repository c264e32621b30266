//! The engine against what must hold of every outcome, on problems made from seeds.

mod courses;
mod hostile;
mod random;
