//! Metrics of flow imbalance.

use reweave_common::operator::Imbalances;

use super::page::{Kind, Page};

/// Maximum number of jobs, because each is a series.
const MAX_JOBS: usize = 64;

pub(super) fn imbalances(page: &mut Page, found: &Imbalances) {
    let name = "reweave_flow_imbalance_percent";
    let help = "The flow imbalance metric of large flows, by layer: the mean, and the worst links with their floor.";
    page.family(Kind::Gauge, name, help);
    for layer in &found.layers {
        let figures = [
            ("mean", layer.mean_fim_percent),
            ("worst", layer.worst.fim_percent),
            ("floor", layer.worst.floor_percent),
        ];
        for (figure, value) in figures {
            let labels = [("layer", &*layer.to_string()), ("figure", figure)];
            page.sample(name, &labels, value);
        }
    }
    let name = "reweave_flow_max_over_mean_ratio";
    let help = "Load of the fullest of equivalent links over the mean, by layer.";
    page.family(Kind::Gauge, name, help);
    for layer in &found.layers {
        let labels = [("layer", &*layer.to_string())];
        page.sample(name, &labels, layer.max_over_mean);
    }
    jobs(page, found);
}

fn jobs(page: &mut Page, found: &Imbalances) {
    let name = "reweave_job_flow_imbalance_percent";
    let help = "Flow imbalance of each job's own flows, for the jobs farthest above their floor.";
    page.family(Kind::Gauge, name, help);
    for job in found.jobs.iter().take(MAX_JOBS) {
        let figures = [
            ("mean", job.all.mean_fim_percent),
            ("worst", job.all.worst.fim_percent),
            ("floor", job.all.worst.floor_percent),
        ];
        for (figure, value) in figures {
            let labels = [("training_job", &*job.job), ("figure", figure)];
            page.sample(name, &labels, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use reweave_common::finding::Imbalance;
    use reweave_common::operator::{FlowImbalance, JobImbalance, LayerImbalance};

    use super::*;

    const UNEVEN_LOAD: Imbalance = Imbalance {
        fim_percent: 100.0,
        floor_percent: 25.0,
        weighted_percent: 90.0,
        max_over_mean: 2.0,
    };

    fn job(number: usize) -> JobImbalance {
        let all = FlowImbalance {
            mean_fim_percent: 50.0,
            worst_over: vec![],
            worst: UNEVEN_LOAD,
        };
        JobImbalance {
            job: format!("job{number}"),
            flows: 2,
            all,
        }
    }

    #[test]
    fn imbalance_metrics_limit_jobs() {
        let mut page = Page::default();
        let layer = LayerImbalance {
            from_tier: 1,
            to_tier: 2,
            is_chosen: true,
            groups: 3,
            mean_fim_percent: 50.0,
            worst: UNEVEN_LOAD,
            max_over_mean: 1.5,
        };
        let found = Imbalances {
            layers: vec![layer],
            jobs: (0..100).map(job).collect(),
            ..Imbalances::default()
        };
        imbalances(&mut page, &found);
        let samples = page.0.lines().filter(|line| !line.starts_with('#'));
        let samples: Vec<_> = samples.collect();
        let of_layer = [
            r#"reweave_flow_imbalance_percent{layer="tier 1 to 2",figure="mean"} 50"#,
            r#"reweave_flow_imbalance_percent{layer="tier 1 to 2",figure="worst"} 100"#,
            r#"reweave_flow_imbalance_percent{layer="tier 1 to 2",figure="floor"} 25"#,
            r#"reweave_flow_max_over_mean_ratio{layer="tier 1 to 2"} 1.5"#,
            r#"reweave_job_flow_imbalance_percent{training_job="job0",figure="mean"} 50"#,
        ];
        assert_eq!(samples[..5], of_layer);
        assert_eq!(samples.len(), 4 + 3 * 64);
    }
}
