//! Sharing of links by flows: all rates rise together in proportion to their weights, until a link is full. The flows
//! on it stop, and the others continue.

/// A flow that sends as fast as it may.
#[derive(Debug, Clone)]
pub(super) struct Stream {
    /// Links that it crosses, as indices into the capacities.
    pub(super) links: Vec<usize>,
    pub(super) weight: f64,
}

/// The rate of each stream, in the unit of the capacities.
pub(super) fn levels(capacities: &[f64], streams: &[Stream]) -> Vec<f64> {
    let mut levels = vec![0.0; streams.len()];
    let mut room = capacities.to_vec();
    let mut rising: Vec<usize> = (0..streams.len())
        .filter(|&one| !streams[one].links.is_empty())
        .collect();
    while !rising.is_empty() {
        let pull = pull(streams, &rising, room.len());
        let pulled = (0..room.len()).filter(|&link| pull[link] > 0.0);
        let rise = pulled
            .clone()
            .map(|link| room[link] / pull[link])
            .fold(f64::INFINITY, f64::min);
        for &one in &rising {
            levels[one] += rise * streams[one].weight;
        }
        let full: Vec<usize> = pulled
            .clone()
            .filter(|&link| room[link] / pull[link] <= rise)
            .collect();
        pulled.for_each(|link| room[link] -= rise * pull[link]);
        rising.retain(|&one| !streams[one].links.iter().any(|link| full.contains(link)));
    }
    levels
}

/// Returns how fast each link fills while these rates rise.
fn pull(streams: &[Stream], rising: &[usize], links: usize) -> Vec<f64> {
    let mut pull = vec![0.0; links];
    for &one in rising {
        for &link in &streams[one].links {
            pull[link] += streams[one].weight;
        }
    }
    pull
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(capacities: &[f64], streams: &[(&[usize], f64)]) -> Vec<f64> {
        let streams: Vec<_> = streams
            .iter()
            .map(|(links, weight)| Stream {
                links: links.to_vec(),
                weight: *weight,
            })
            .collect();
        levels(capacities, &streams)
    }

    #[test]
    fn elsewhere_limited_flow_leaves_room() {
        let rates = shared(&[90.0, 30.0], &[(&[0], 1.0), (&[0, 1], 1.0), (&[1], 1.0)]);
        assert_eq!(rates, [75.0, 15.0, 15.0]);
    }

    #[test]
    fn weights_count_only_on_shared_links() {
        let rates = shared(&[90.0, 30.0], &[(&[0], 2.0), (&[0], 1.0), (&[1], 0.1)]);
        assert_eq!(rates[..2], [60.0, 30.0]);
        assert!((rates[2] - 30.0).abs() < 1e-9);
    }

    #[test]
    fn flow_without_path_gets_nothing() {
        assert_eq!(shared(&[10.0], &[(&[], 1.0), (&[0], 1.0)]), [0.0, 10.0]);
    }
}
