//! The presets' timings are those that were measured.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use reweave_sim::workload::job::preset::{Measured, measured};
use serde_json::{Map, Value};

use crate::Test;

pub(crate) fn tests() -> impl Iterator<Item = (String, Test)> {
    let test: Test = Box::new(all_agree);
    [("profiles::h200".to_owned(), test)].into_iter()
}

fn all_agree(data: &Path) -> Result<(), Failed> {
    let mut ours = measured();
    for entry in fs::read_dir(data.join("profiles-h200"))? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let profile: Value = serde_json::from_slice(&fs::read(&path)?)?;
        for layer in profile["layers"].as_array().into_iter().flatten() {
            let same = |it: &Measured| it.model == name && is_of(it, layer);
            let at = ours.iter().position(same);
            let at = at.ok_or_else(|| format!("{name} lacks {layer}"))?;
            agrees(&ours.swap_remove(at), layer)?;
        }
    }
    match ours.first() {
        None => Ok(()),
        Some(more) => Err(format!("{more:?} was not measured").into()),
    }
}

fn whole(layer: &Value, key: &str) -> Option<u64> {
    layer[key].as_f64().map(|value| value as u64)
}

fn is_of(ours: &Measured, layer: &Value) -> bool {
    let tensor = whole(layer, "tensor_parallel").unwrap_or(1);
    let seq = whole(layer, "seq").unwrap_or(0);
    layer["name"] == *ours.layer && u64::from(ours.tensor) == tensor && u64::from(ours.seq) == seq
}

fn agrees(ours: &Measured, layer: &Value) -> Result<(), Failed> {
    let parameters = whole(layer, "params").or(whole(layer, "params_per_expert"));
    let times = |key: &str| layer[key].as_object().cloned().unwrap_or_default();
    let [forward, backward] = [times("forward_ms"), times("backward_ms")];
    let has = |times: &Map<String, Value>, batch: f64, ms: f64| {
        let found = times.get(&batch.to_string()).and_then(Value::as_f64);
        found.is_some_and(|found| (found - ms).abs() < 1e-9)
    };
    let same = ours.points.iter().all(|point| {
        has(&forward, point.batch, point.forward_ms)
            && has(&backward, point.batch, point.backward_ms)
    });
    let complete = ours.points.len() == forward.len() && parameters == Some(ours.parameters);
    if same && complete {
        Ok(())
    } else {
        Err(format!("{ours:?} is not {layer}").into())
    }
}
