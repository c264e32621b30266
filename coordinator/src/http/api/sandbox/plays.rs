//! What somebody wants to be played: one thing, and no more than there is patience for.

use std::time::{Duration, SystemTime};

use reweave_common::moment::Moment;
use reweave_history::written;

use super::super::past::{moment, no_such_moment};
use super::super::problem::Problem;
use super::scene::Text;
use super::{Plays, too_much};

const LONGEST_SPAN: Duration = Duration::from_hours(1);
const MOST_VARIANTS: usize = 4;
/// Of flows or of a job; a table of as many flows as are played has that much.
const MOST_TEXT: usize = 1 << 20;
const ONE: &str = "say one of what is to be played: `from` and `to` of the past, `flows`, or `job`";
const OF_THE_PAST: &str = "the past was on the cluster's own fabric: leave `fabric` out";

pub(super) enum Play {
    Past([Moment; 2]),
    Text(Text),
}

impl Plays {
    /// Takes out what is to be played.
    pub(super) fn play(&mut self, now: SystemTime) -> Result<Play, Problem> {
        match self.variants.len() {
            0 => return Err(Problem::bad_request("there is no variant to play")),
            many if many > MOST_VARIANTS => {
                let detail = format!("{many} variants are more than {MOST_VARIANTS}");
                return Err(Problem::bad_request(detail));
            }
            _ => {}
        }
        let moments = [&self.from, &self.to].map(Option::as_deref);
        match (moments, self.flows.take(), self.job.take()) {
            ([Some(_), Some(_)], None, None) if self.fabric.is_some() => {
                Err(Problem::bad_request(OF_THE_PAST))
            }
            ([Some(from), Some(to)], None, None) => span([from, to], now).map(Play::Past),
            ([None, None], Some(flows), None) => {
                short("flows", flows).map(|it| Play::Text(Text::Flows(it)))
            }
            ([None, None], None, Some(job)) => {
                short("job", job).map(|it| Play::Text(Text::Job(it)))
            }
            _ => Err(Problem::bad_request(ONE)),
        }
    }
}

fn span(span: [&str; 2], now: SystemTime) -> Result<[Moment; 2], Problem> {
    let [from, to] = [moment(span[0], now)?, moment(span[1], now)?];
    if from >= to {
        let [from, to] = [from, to].map(written);
        return Err(no_such_moment(format!("{from} is not before {to}")));
    }
    if to.since(from) > LONGEST_SPAN {
        return Err(too_much("more than an hour is too much to play here"));
    }
    Ok([from, to])
}

fn short(what: &str, text: String) -> Result<String, Problem> {
    match text.len() > MOST_TEXT {
        true => {
            let detail = format!("{what}: {} bytes are more than {MOST_TEXT}", text.len());
            Err(too_much(detail))
        }
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::tests::problem;
    use super::*;

    fn asked(json: &str, variants: usize) -> Result<Play, Problem> {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_183_200);
        let variant = r#"{ "name": "v", "variant": "" }"#;
        let variants = vec![variant; variants].join(",");
        let comma = if json.is_empty() { "" } else { "," };
        let json = format!("{{ {json} {comma} \"variants\": [{variants}] }}");
        let mut plays: Plays = serde_json::from_str(&json).unwrap();
        plays.play(now)
    }

    fn past(from: &str, to: &str) -> String {
        format!(r#""from": "{from}", "to": "{to}""#)
    }

    #[test]
    fn no_more_is_played_than_somebody_has_patience_for() {
        assert!(asked(&past("1h", "0s"), 4).is_ok());
        for (from, to, variants, status, says) in [
            ("1h", "0s", 5, 400, "5 variants are more than 4"),
            ("1h", "0s", 0, 400, "no variant"),
            ("1m", "2m", 1, 422, "is not before"),
            ("then", "2m", 1, 422, "no moment"),
            ("2h", "0s", 1, 422, "more than an hour"),
        ] {
            let told = problem(asked(&past(from, to), variants));
            assert!(told.0 == status && told.1.contains(says), "{told:?}");
        }
        let long = format!(r#""flows": "{}""#, "x".repeat(MOST_TEXT + 1));
        let told = problem(asked(&long, 1));
        assert!(
            told.0 == 422 && told.1.starts_with("flows: 1048577 bytes"),
            "{told:?}"
        );
    }

    #[test]
    fn one_thing_is_played() {
        assert!(asked(r#""flows": "", "fabric": """#, 1).is_ok());
        assert!(asked(r#""job": """#, 1).is_ok());
        let (flows, job) = (r#""flows": """#, r#""job": """#);
        for bad in [
            String::new(),
            format!("{flows}, {job}"),
            format!("{}, {job}", past("1h", "0s")),
            r#""from": "1h""#.to_owned(),
            format!(r#"{job}, "to": "1h""#),
        ] {
            let told = problem(asked(&bad, 1));
            assert_eq!(told, (400, ONE.to_owned()), "{bad}");
        }
        let told = problem(asked(&format!(r#"{}, "fabric": """#, past("1h", "0s")), 1));
        assert_eq!(told, (400, OF_THE_PAST.to_owned()));
    }
}
