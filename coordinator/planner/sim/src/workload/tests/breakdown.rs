//! Tests of the breakdown of an iteration's time.

use super::*;

/// Rank 0 computes 2 ms and sends for 8 ms; rank 1 computes 1 ms meanwhile, and 4 ms on the received data.
fn handover() -> Evaluation {
    let mut sketch = Sketch::of(3);
    let before = sketch.compute(0, 2, &[]);
    let sent = sketch.transfer([0, 1], 8_000_000, &[before]);
    sketch.compute(1, 1, &[]);
    sketch.compute(1, 4, &[sent]);
    evaluated(&sketch.done(), &ideal(3, 8), bare())
}

#[test]
fn rank_time_splits_into_computing_waiting() {
    let evaluation = handover();
    near(evaluation.iteration_ms, 14.0);
    let times = |rank: &RankTime| [rank.compute_ms, rank.exposed_ms, rank.stalled_ms];
    let times: Vec<_> = evaluation.ranks.iter().map(times).collect();
    assert_eq!(times, [[2.0, 8.0, 4.0], [5.0, 8.0, 1.0], [0.0, 0.0, 14.0]]);
    near(evaluation.exposed[0].ms, 16.0 / 3.0);
    assert_eq!(evaluation.exposed[0].name, "transfer");
}

#[test]
fn critical_path_runs_from_end() {
    let critical = handover().critical;
    let part = |segment: &Segment| (segment.stretch, segment.ms, segment.tasks);
    let parts: Vec<_> = critical.iter().map(part).collect();
    assert_eq!(
        parts,
        [(Stretch::Communication, 8.0, 1), (Stretch::Compute, 6.0, 2)]
    );
}

#[test]
fn critical_path_includes_processor_wait() {
    let mut sketch = Sketch::of(2);
    sketch.compute(0, 5, &[]);
    let first = sketch.compute(1, 1, &[]);
    sketch.compute(0, 3, &[first]);
    let evaluation = evaluated(&sketch.done(), &ideal(2, 8), bare());
    near(evaluation.iteration_ms, 8.0);
    assert_eq!(evaluation.critical[0].tasks, 2);
    near(evaluation.critical[0].ms, 8.0);
}

#[test]
fn shared_wait_is_divided() {
    let mut sketch = Sketch::of(2);
    sketch.transfer([0, 1], 8_000_000, &[]);
    sketch.all(Operation::AllReduce, 8_000_000, &[]);
    let evaluation = evaluated(&sketch.done(), &ideal(2, 8), bare());
    near(evaluation.iteration_ms, 16.0);
    let sum: f64 = evaluation.exposed.iter().map(|it| it.ms).sum();
    near(sum, 16.0);
}

#[test]
fn lanes_report_their_utilization() {
    let evaluation = handover();
    let lane = &evaluation.lanes[0];
    assert_eq!((lane.lane.as_str(), lane.bytes), ("h0>switch", 8e6));
    near(lane.utilization, 8.0 / 14.0);
    assert_eq!(evaluation.lanes.len(), 2);
}
