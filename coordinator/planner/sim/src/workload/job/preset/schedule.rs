//! Order of the work of a pipeline stage: one forward, one backward, also for several pieces of the model per stage.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassDirection {
    Forward,
    Backward,
}

/// One micro-batch through one piece of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) direction: PassDirection,
    /// Piece of the stage: the first pieces of all stages come before the second ones.
    pub(super) piece: usize,
    pub(super) micro: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) stages: usize,
    pub(super) pieces: usize,
    pub(super) micros: usize,
}

impl Shape {
    /// First as many forward as it takes until the first backward can arrive, then in turn.
    pub(super) fn of_stage(self, stage: usize) -> Vec<Step> {
        let all = self.pieces * self.micros;
        let later = self.stages - 1 - stage;
        let ahead = match self.pieces {
            1 => later,
            pieces => 2 * later + (pieces - 1) * self.stages,
        };
        let ahead = ahead.min(all);
        let mut steps: Vec<_> = (0..ahead)
            .map(|nth| self.nth(PassDirection::Forward, nth))
            .collect();
        for nth in ahead..all {
            steps.push(self.nth(PassDirection::Forward, nth));
            steps.push(self.nth(PassDirection::Backward, nth - ahead));
        }
        steps.extend((all - ahead..all).map(|nth| self.nth(PassDirection::Backward, nth)));
        steps
    }

    /// As many micro-batches as stages go through one piece, and then through the next.
    fn nth(self, direction: PassDirection, nth: usize) -> Step {
        if self.pieces == 1 {
            return Step {
                direction,
                piece: 0,
                micro: nth,
            };
        }
        let round = self.stages * self.pieces;
        let piece = nth % round / self.stages;
        Step {
            direction,
            piece: match direction {
                PassDirection::Forward => piece,
                PassDirection::Backward => self.pieces - 1 - piece,
            },
            micro: nth / round * self.stages + nth % self.stages,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn written(shape: Shape, stage: usize) -> String {
        let steps = shape.of_stage(stage).into_iter();
        let step = |step: Step| match step.direction {
            PassDirection::Forward => format!("F{}", step.micro),
            PassDirection::Backward => format!("B{}", step.micro),
        };
        steps.map(step).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn one_forward_one_backward() {
        let shape = Shape {
            stages: 3,
            pieces: 1,
            micros: 4,
        };
        assert_eq!(written(shape, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
        assert_eq!(written(shape, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
    }

    /// Runs all stages; each step waits for the one before it on its stage, and for its neighbours
    /// in the model.
    #[test]
    fn pipeline_schedule_runs_every_step_once() {
        for (stages, pieces, micros) in [(1, 1, 3), (4, 1, 2), (4, 1, 9), (2, 2, 4), (4, 3, 8)] {
            let shape = Shape {
                stages,
                pieces,
                micros,
            };
            let steps: Vec<_> = (0..stages).map(|stage| shape.of_stage(stage)).collect();
            let mut at = vec![0; stages];
            let mut done = BTreeSet::new();
            loop {
                let before = done.len();
                for stage in 0..stages {
                    while let Some(step) = steps[stage].get(at[stage]) {
                        let place = step.piece * stages + stage;
                        let last = stages * pieces - 1;
                        let free = match step.direction {
                            PassDirection::Forward => {
                                place == 0 || done.contains(&(0, place - 1, step.micro))
                            }
                            PassDirection::Backward => {
                                done.contains(&(0, place, step.micro))
                                    && (place == last || done.contains(&(1, place + 1, step.micro)))
                            }
                        };
                        if !free {
                            break;
                        }
                        let direction = usize::from(step.direction == PassDirection::Backward);
                        assert!(done.insert((direction, place, step.micro)));
                        at[stage] += 1;
                    }
                }
                if done.len() == before {
                    break;
                }
            }
            assert_eq!(done.len(), 2 * stages * pieces * micros, "{shape:?}");
        }
    }
}
