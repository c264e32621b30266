//! Typed indices into a [`Fabric`](crate::fabric::Fabric).

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(u32);

        impl $name {
            /// Returns the id of the `index`-th element.
            ///
            /// # Panics
            ///
            /// Panics above `u32::MAX` elements, which no cluster has.
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect("fewer than 2^32 elements"))
            }

            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

index! {
    /// A host, switch or relay of a fabric.
    NodeId
}
index! {
    /// A cable between two ports of a fabric.
    LinkId
}
index! {
    /// A NIC of a host of a fabric.
    NicId
}
index! {
    /// An optical switch of a fabric.
    OpticalId
}
index! {
    /// A member of a job: rank 0 runs on the job's first host, and so on.
    Rank
}
