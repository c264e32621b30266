//! Union-find: groups of connected elements, given pair by pair.

/// Trees of joined elements; the least element represents each.
#[derive(Debug, Clone, Default)]
pub struct Together(Vec<u32>);

impl Together {
    /// This many, each by itself.
    pub fn new(count: usize) -> Self {
        Self((0..count as u32).collect())
    }

    /// Takes them all apart again.
    pub fn part(&mut self) {
        (0..).zip(&mut self.0).for_each(|(own, it)| *it = own);
    }

    /// The least member of the set that this one belongs to.
    pub fn first(&mut self, of: usize) -> usize {
        let (before, mut at) = (&mut self.0, of);
        while before[at] as usize != at {
            // Path halving for later calls.
            before[at] = before[before[at] as usize];
            at = before[at] as usize;
        }
        at
    }

    /// Whether they did not belong together before.
    pub fn join(&mut self, a: usize, b: usize) -> bool {
        let [a, b] = [self.first(a), self.first(b)];
        self.0[a.max(b)] = a.min(b) as u32;
        a != b
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_elements_share_least_representative() {
        let mut together = Together::new(6);
        assert!(together.join(5, 3));
        assert!(together.join(4, 1));
        assert!(together.join(3, 4));
        assert!(!together.join(1, 5), "they belong together by now");
        let firsts: Vec<_> = (0..6).map(|it| together.first(it)).collect();
        assert_eq!(firsts, [0, 1, 2, 1, 1, 1]);
        together.part();
        assert_eq!(together.first(5), 5);
    }
}
