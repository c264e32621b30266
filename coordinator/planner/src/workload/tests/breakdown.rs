//! Where the time went.

use super::*;

/// Rank 0 computes 2 ms and sends for 8 ms; rank 1 computes 1 ms meanwhile, and 4 ms on what comes.
fn handover() -> Evaluation {
    let mut sketch = Sketch::of(3);
    let before = sketch.compute(0, 2, &[]);
    let sent = sketch.transfer([0, 1], 8_000_000, &[before]);
    sketch.compute(1, 1, &[]);
    sketch.compute(1, 4, &[sent]);
    evaluated(&sketch.done(), &ideal(3, 8), bare())
}

#[test]
fn a_rank_computes_or_waits_for_its_own_or_for_others() {
    let evaluation = handover();
    near(evaluation.iteration_ms, 14.0);
    let times = |rank: &RankTime| [rank.compute_ms, rank.exposed_ms, rank.stalled_ms];
    let times: Vec<_> = evaluation.ranks.iter().map(times).collect();
    assert_eq!(times, [[2.0, 8.0, 4.0], [5.0, 8.0, 1.0], [0.0, 0.0, 14.0]]);
    near(evaluation.exposed[0].ms, 16.0 / 3.0);
    assert_eq!(evaluation.exposed[0].name, "transfer");
}

#[test]
fn the_critical_path_leads_from_the_end_to_the_beginning() {
    let critical = handover().critical;
    let part = |segment: &Segment| (segment.stretch, segment.ms, segment.tasks);
    let parts: Vec<_> = critical.iter().map(part).collect();
    assert_eq!(
        parts,
        [(Stretch::Communication, 8.0, 1), (Stretch::Compute, 6.0, 2)]
    );
}

#[test]
fn a_task_that_waited_for_its_processor_has_the_one_before_it_on_its_path() {
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
fn what_several_wait_at_once_for_is_shared_out() {
    let mut sketch = Sketch::of(2);
    sketch.transfer([0, 1], 8_000_000, &[]);
    sketch.all(Operation::AllReduce, 8_000_000, &[]);
    let evaluation = evaluated(&sketch.done(), &ideal(2, 8), bare());
    near(evaluation.iteration_ms, 16.0);
    let sum: f64 = evaluation.exposed.iter().map(|it| it.ms).sum();
    near(sum, 16.0);
}

#[test]
fn lanes_tell_how_full_they_were() {
    let evaluation = handover();
    let lane = &evaluation.lanes[0];
    assert_eq!((lane.lane.as_str(), lane.bytes), ("h0>switch", 8e6));
    near(lane.utilization, 8.0 / 14.0);
    assert_eq!(evaluation.lanes.len(), 2);
}
