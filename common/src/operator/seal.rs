//! The seal of a plan: a short hash of all that is shown of it, so that an approval covers exactly that.

use std::fmt::{self, Write};

use super::Plan;

impl Plan {
    #[must_use]
    pub fn sealed(self) -> Self {
        Self {
            seal: self.true_seal(),
            ..self
        }
    }

    /// Whether the plan is unchanged since it was sealed.
    pub fn is_as_sealed(&self) -> bool {
        self.seal == self.true_seal()
    }

    /// The number of a job's flows that send now is left out: it changes too often for an approval.
    fn true_seal(&self) -> String {
        let jobs: Vec<_> = self.touched.iter().map(|it| &it.job).collect();
        let (does, hindered) = (
            (&self.tables, &self.circuits, &self.pins),
            &self.hindered_by,
        );
        let (changes, migration) = (&self.changes, &self.migration);
        let promised = (&self.moves, &self.predictions, &self.iterations);
        let of = (self.generation, self.parent, self.takes_back);
        mark(format_args!(
            "{:?}",
            (of, does, changes, migration, promised, jobs, hindered)
        ))
    }
}

/// Returns a hash of a text, equal on every machine. It is no signature: anyone can compute it.
pub fn mark(text: impl fmt::Display) -> String {
    let mut hash = Fnv::default();
    // Writing into a hash cannot fail.
    let _ = write!(hash, "{text}");
    format!("{:016x}", hash.0)
}

/// FNV-1a, which is the same on every machine.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
