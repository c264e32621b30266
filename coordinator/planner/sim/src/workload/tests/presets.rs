//! Traffic and computation of presets, compared with values known without a simulation.

use std::collections::BTreeMap;

use super::*;
use crate::workload::job::preset::{
    Batch, Gpu, Kind, Parallelism, Preset, Zero, measured, names, sizes,
};

fn preset(name: &str, size: &str, batch: u64) -> Preset {
    let size = Some(size).filter(|size| !size.is_empty());
    Preset::named(name, size, Batch::PerReplica(batch)).unwrap()
}

/// Bytes of every collective and transfer, by name.
fn bytes(iteration: &Iteration) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (_, task) in iteration.tasks() {
        if let TaskWork::Collective { bytes, .. } | TaskWork::Transfer { bytes, .. } = task.work {
            let name = iteration.name(task.name).to_owned();
            *sums.entry(name).or_default() += bytes.count();
        }
    }
    sums
}

fn compute_ms(iteration: &Iteration) -> Vec<f64> {
    let times = iteration.compute_times().into_iter();
    times.map(|time| time.as_secs_f64() * 1e3).collect()
}

#[test]
fn every_preset_of_every_size_runs() {
    for name in names() {
        let sizes: Vec<_> = sizes(name).collect();
        for size in if sizes.is_empty() { vec![""] } else { sizes } {
            let iteration = preset(name, size, 32).iteration(4).unwrap();
            let evaluation = evaluated(&iteration, &ideal(4, 400), Settings::default());
            assert!(evaluation.iteration_ms > 0.1, "{name} {size}");
            assert!(evaluation.mean.stalled_ms >= 0.0);
        }
    }
}

#[test]
fn parameter_counts_match_known_models() {
    let reduced = |name, size| -> u64 {
        let iteration = preset(name, size, 1).iteration(2).unwrap();
        bytes(&iteration).values().sum::<u64>() / 2
    };
    for (name, size, parameters) in [
        ("vgg16", "", 138.4e6),
        ("vgg19", "", 143.7e6),
        ("resnet50", "", 25.6e6),
        ("gpt", "6.7b", 6.65e9),
        ("gpt", "175b", 174.6e9),
        ("llama", "8b", 7.5e9),
        ("llama", "70b", 69.5e9),
        ("moe", "8x7b", 46.96e9),
    ] {
        let found = reduced(name, size) as f64;
        assert!(
            (found / parameters - 1.0).abs() < 0.01,
            "{name} {size}: {found:e}"
        );
    }
}

#[test]
fn zero_stages_move_expected_volume() {
    let spread = |zero| {
        let mut preset = preset("gpt", "1.3b", 1);
        preset.parallelism.zero = zero;
        let iteration = preset.iteration(4).unwrap();
        let evaluation = evaluated(&iteration, &ideal(4, 100), bare());
        evaluation.bounds.communication_ms
    };
    let plain = spread(Zero::Off);
    near(spread(Zero::Optimizer), plain);
    near(spread(Zero::Gradients), plain);
    near(spread(Zero::Weights), plain * 1.5);
}

#[test]
fn tensor_slices_reduce_twice_per_layer() {
    let mut preset = preset("gpt", "6.7b", 2);
    preset.parallelism.tensor = 8;
    let iteration = preset.iteration(8).unwrap();
    let activations = 2 * 2048 * 4096 * 2;
    assert_eq!(
        bytes(&iteration)["all-reduce of slices"],
        32 * 4 * activations
    );
}

/// Stages of equal cost wait for p - 1 of m + p - 1 turns, interleaved for a v-th of that.
#[test]
fn pipeline_bubble_matches_theory() {
    let stalled = |interleave| {
        let mut preset = preset("candle", "", 256);
        preset.parallelism = Parallelism {
            pipeline: 4,
            microbatches: 8,
            interleave,
            ..Parallelism::default()
        };
        preset.recompute = true;
        let iteration = preset.iteration(4).unwrap();
        let times = compute_ms(&iteration);
        near(times[0], times[3]);
        let evaluation = evaluated(&iteration, &ideal(4, 1_000_000), bare());
        (evaluation.iteration_ms - times[0]) / times[0]
    };
    let close = |value: f64, expected: f64| assert!((value - expected).abs() < 0.02, "{value}");
    close(stalled(1), 3.0 / 8.0);
    close(stalled(2), 3.0 / 16.0);
    close(stalled(3), 3.0 / 24.0);
}

#[test]
fn experts_exchange_tokens_both_ways() {
    let mut preset = preset("moe", "8x7b", 1);
    preset.parallelism.expert = 4;
    let iteration = preset.iteration(8).unwrap();
    let visits = 4096 * 2 * 4096 * 2;
    let groups = 2;
    assert_eq!(
        bytes(&iteration)["all-to-all of experts"],
        groups * 32 * 4 * visits
    );
    // Two experts a rank, which two ranks hold.
    let of_experts = bytes(&iteration)["all-reduce of experts"];
    assert_eq!(of_experts, 4 * 32 * 2 * 176_160_768 * 2);
}

#[test]
fn tables_send_entries_for_each_sample() {
    for (ranks, collective) in [(4, true), (6, false), (80, false)] {
        let iteration = preset("dlrm", "", 128).iteration(ranks).unwrap();
        let evaluation = evaluated(&iteration, &ideal(ranks, 100), bare());
        let entries = evaluation.lanes.iter().map(|lane| lane.bytes).sum::<f64>();
        let sent = bytes(&iteration)["all-to-all of entries"] as f64;
        // Of 64 tables, each sends 256 bytes for each sample on another rank.
        let (n, samples) = (ranks as f64, 128.0);
        let expected = 64.0 * 256.0 * samples * (n - 1.0);
        if collective {
            near(sent * (n - 1.0), expected);
        } else {
            near(sent, expected);
        }
        assert!(entries > 2.0 * 2.0 * expected);
    }
}

/// 64 tables on 256 ranks are 64 senders; in four parts each, all ranks send equally.
#[test]
fn table_columns_send_evenly() {
    let sends = |columns: usize| {
        let mut preset = preset("dlrm", "", 128);
        preset.parallelism.columns = columns;
        let iteration = preset.iteration(256).unwrap();
        let evaluation = evaluated(&iteration, &ideal(256, 100), bare());
        let mut sent: Vec<_> = evaluation.lanes.iter().map(|lane| lane.bytes).collect();
        sent.sort_by(f64::total_cmp);
        (sent.iter().sum::<f64>(), sent[sent.len() - 1] / sent[0])
    };
    let [(whole, uneven), (parts, even)] = [1, 4].map(sends);
    near(whole, parts);
    near(even, 1.0);
    // Most of the traffic is reductions, and these are equal.
    assert!(uneven > 1.005, "{uneven}");
}

/// 64 tables of 32 hosts with four processors each: every host holds two, and not 16 hosts four.
#[test]
fn few_tables_use_all_host_ports() {
    let mut preset = preset("dlrm", "", 128);
    preset.gpus_per_host = 4;
    let iteration = preset.iteration(128).unwrap();
    let mut sent = [0; 32];
    for (_, task) in iteration.tasks() {
        if let TaskWork::Transfer { from, bytes, .. } = task.work
            && iteration.name(task.name) == "all-to-all of entries"
        {
            sent[from.index() / 4] += bytes.count();
        }
    }
    assert!(
        sent.iter().all(|&bytes| bytes == 2 * 127 * 128 * 256),
        "{sent:?}"
    );
}

#[test]
fn compute_time_is_monotonic() {
    for layer in measured() {
        let costs = [0.5, 1.0, 3.0, 16.0, 40.0, 100.0, 5000.0].map(|batch| layer.cost(batch));
        assert!(
            costs[0].forward_ms > 0.0 && costs[0].backward_ms > 0.0,
            "{layer:?}"
        );
        for pair in costs.windows(2) {
            assert!(pair[1].forward_ms >= pair[0].forward_ms, "{layer:?}");
            assert!(pair[1].backward_ms >= pair[0].backward_ms, "{layer:?}");
        }
        let largest = layer.points.last().unwrap();
        let double = layer.cost(largest.batch * 2.0);
        near(double.forward_ms, 2.0 * largest.forward_ms);
    }
    assert_eq!(
        measured()
            .iter()
            .filter(|it| it.kind == Kind::Expert)
            .count(),
        2
    );
    let on = |gpu: &str| {
        let mut preset = preset("vgg16", "", 64);
        preset.gpu = Gpu::named(gpu).unwrap();
        compute_ms(&preset.iteration(1).unwrap())[0]
    };
    assert!(on("v100") > on("a100") && on("a100") > on("h100") && on("h200") > on("b200"));
    assert!(on("h100") > on("h200"));
}

#[test]
fn table_columns_must_divide_evenly() {
    let refusal = |name: &str, columns| {
        let mut preset = preset(name, "", 6);
        preset.parallelism.columns = columns;
        preset.iteration(2).unwrap_err().to_string()
    };
    assert!(refusal("dlrm", 7).contains("write columns = 4"));
    assert!(refusal("vgg16", 2).contains("no embedding tables"));
}

#[test]
fn indivisible_parallelism_names_valid_values() {
    let refusal = |name: &str, ranks, parallelism| {
        let mut preset = preset(name, "", 6);
        preset.parallelism = parallelism;
        preset.iteration(ranks).unwrap_err().to_string()
    };
    let plain = Parallelism::default();
    let said = |parallelism, ranks| refusal("gpt", ranks, parallelism);
    assert_eq!(
        said(Parallelism { tensor: 8, ..plain }, 12),
        "12 GPUs are not a whole number of replicas of 8: write data = 1"
    );
    assert_eq!(
        said(Parallelism { tensor: 8, ..plain }, 4),
        "the job needs 8 GPUs, and the hosts have 4; take hosts of 8 GPUs in all, or write smaller degrees \
         under [parallelism]"
    );
    assert_eq!(
        said(
            Parallelism {
                microbatches: 4,
                ..plain
            },
            1
        ),
        "a batch of 6 cannot be dealt out evenly to 4 micro-batches; 4 can"
    );
    assert_eq!(
        said(Parallelism { expert: 2, ..plain }, 2),
        "this model has no experts: write expert = 1"
    );
    assert_eq!(
        refusal("moe", 5, Parallelism { expert: 5, ..plain }),
        "8 experts cannot be dealt out evenly to 5 replicas; write expert = 4"
    );
    assert!(refusal("vgg16", 2, Parallelism { tensor: 2, ..plain }).contains("can be sliced"));
    assert!(
        refusal(
            "dlrm",
            2,
            Parallelism {
                pipeline: 2,
                ..plain
            }
        )
        .contains("leave out")
    );
    assert!(
        said(
            Parallelism {
                pipeline: 64,
                ..plain
            },
            64
        )
        .contains("33 layers")
    );
    assert!(
        said(
            Parallelism {
                interleave: 2,
                ..plain
            },
            1
        )
        .contains("interleave needs")
    );
}

#[test]
fn indivisible_batch_names_valid_one() {
    let whole = Preset::named("vgg16", None, Batch::Whole(100)).unwrap();
    assert_eq!(
        whole.iteration(8).unwrap_err().to_string(),
        "a batch of 100 cannot be dealt out evenly to 8 replicas; 96 can"
    );
}
