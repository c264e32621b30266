//! Counts of experts' gates: lines of `iteration,from,to,bytes`.

use reweave_common::input::InputError;

use super::Counts;

const TABLE_HEADER: &str = "iteration,from,to,bytes";
const MAX_ITERATIONS: usize = 1 << 16;

/// Parses counts by iteration, for this number of `hosts`. `file` is the name in error messages.
pub fn parse(file: &str, text: &str, hosts: usize) -> Result<Vec<Counts>, InputError> {
    let error = |line: usize, key: &str, problem: String| InputError {
        file: file.to_owned(),
        line,
        key: key.to_owned(),
        problem,
    };
    let mut all = Vec::new();
    let lines = (1..).zip(text.lines());
    for (line, text) in lines.filter(|(_, text)| !text.trim().is_empty()) {
        if text.trim() == TABLE_HEADER {
            continue;
        }
        let cells: Vec<_> = text.split(',').map(str::trim).collect();
        let [iteration, from, to, bytes] = cells[..] else {
            return Err(error(line, "", format!("a line has {TABLE_HEADER}")));
        };
        let whole = |key: &str, text: &str, below: usize| {
            let number = text.parse::<usize>().ok().filter(|&number| number < below);
            number.ok_or_else(|| {
                error(
                    line,
                    key,
                    format!("{text:?} is not between 0 and {}", below - 1),
                )
            })
        };
        let iteration = whole("iteration", iteration, MAX_ITERATIONS)?;
        let [from, to] = [whole("from", from, hosts)?, whole("to", to, hosts)?];
        let amount = bytes
            .parse::<f64>()
            .ok()
            .filter(|it| (0.0..=1e15).contains(it));
        let amount = amount
            .ok_or_else(|| error(line, "bytes", format!("{bytes:?} is not a number of bytes")))?;
        if all.len() <= iteration {
            all.resize(iteration + 1, Counts::new(hosts));
        }
        all[iteration].add(from, to, amount);
    }
    Ok(all)
}
