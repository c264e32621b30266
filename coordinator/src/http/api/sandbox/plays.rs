//! Requests to the sandbox: exactly one kind of traffic, within limits.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use reweave_common::moment::Moment;
use reweave_history::written;

use super::super::past::{moment, no_such_moment};
use super::super::problem::Problem;
use super::recorded::Trace;
use super::scene::{Named, Sent};
use super::{Plays, too_much};

const MAX_SPAN: Duration = Duration::from_hours(1);
const MAX_VARIANTS: usize = 4;
/// Maximum size of a flow table or job file: enough for the maximum number of flows.
const MAX_TEXT_BYTES: usize = 1 << 20;
/// Maximum size of all files of a trace. The request has room for it in base64.
const MAX_TRACE_BYTES: usize = 6 << 20;
const ONE_INPUT_ERROR: &str = "give exactly one of `from` and `to`, `flows`, `job`, or `trace`";
const NO_PROFILE_ERROR: &str =
    "`profile` belongs to a job of operators: send it with that `job`, or leave it out";
const PAST_FABRIC_ERROR: &str = "`from` and `to` use the cluster's own fabric: leave `fabric` out";

pub(super) enum Play {
    Past([Moment; 2]),
    Sent(Sent),
}

impl Plays {
    /// Takes the traffic out of the request.
    pub(super) fn play(&mut self, now: SystemTime) -> Result<Play, Problem> {
        match self.variants.len() {
            0 => return Err(Problem::bad_request("no variants")),
            many if many > MAX_VARIANTS => {
                let detail = format!("{many} variants are more than {MAX_VARIANTS}");
                return Err(Problem::bad_request(detail));
            }
            _ => {}
        }
        let mut names = BTreeSet::new();
        if let Some(twice) = self.variants.iter().find(|it| !names.insert(&it.name)) {
            let detail = format!("two variants are named {:?}", twice.name);
            return Err(Problem::bad_request(detail));
        }
        if self.profile.is_some() && self.job.is_none() {
            return Err(Problem::bad_request(NO_PROFILE_ERROR));
        }
        let moments = [&self.from, &self.to].map(Option::as_deref);
        let sent = (self.flows.take(), self.job.take(), self.trace.take());
        match (moments, sent) {
            ([Some(_), Some(_)], (None, None, None)) if self.fabric.is_some() => {
                Err(Problem::bad_request(PAST_FABRIC_ERROR))
            }
            ([Some(from), Some(to)], (None, None, None)) => span([from, to], now).map(Play::Past),
            ([None, None], (Some(flows), None, None)) => {
                short("flows", flows).map(|it| Play::Sent(Sent::Flows(it)))
            }
            ([None, None], (None, Some(job), None)) => self.job(job).map(Play::Sent),
            ([None, None], (None, None, Some(trace))) => {
                small(trace).map(|it| Play::Sent(Sent::Trace(it)))
            }
            _ => Err(Problem::bad_request(ONE_INPUT_ERROR)),
        }
    }

    fn job(&mut self, job: String) -> Result<Sent, Problem> {
        let profile = self.profile.take();
        Ok(Sent::Job(Named {
            text: short("job", job)?,
            profile: profile.map(|it| short("profile", it)).transpose()?,
        }))
    }
}

fn span(span: [&str; 2], now: SystemTime) -> Result<[Moment; 2], Problem> {
    let [from, to] = [moment(span[0], now)?, moment(span[1], now)?];
    if from >= to {
        let [from, to] = [from, to].map(written);
        return Err(no_such_moment(format!("{from} is not before {to}")));
    }
    if to.since(from) > MAX_SPAN {
        return Err(too_much("the span is more than an hour"));
    }
    Ok([from, to])
}

fn short(what: &str, text: String) -> Result<String, Problem> {
    if text.len() > MAX_TEXT_BYTES {
        let detail = format!(
            "{what}: {} bytes are more than {MAX_TEXT_BYTES}",
            text.len()
        );
        Err(too_much(detail))
    } else {
        Ok(text)
    }
}

fn small(trace: Trace) -> Result<Trace, Problem> {
    match trace.bytes() {
        bytes if bytes > MAX_TRACE_BYTES => {
            let instead = "use `reweave sim trace` for larger ones";
            let detail = format!("trace: {bytes} bytes are more than {MAX_TRACE_BYTES}: {instead}");
            Err(too_much(detail))
        }
        _ => Ok(trace),
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::super::tests::problem;
    use super::*;

    fn asked(json: &str, variants: usize) -> Result<Play, Problem> {
        let now = UNIX_EPOCH + Duration::from_secs(1_795_183_200);
        let variant = |nth| format!(r#"{{ "name": "v{nth}", "variant": "" }}"#);
        let variants: Vec<_> = (0..variants).map(variant).collect();
        let variants = variants.join(",");
        let comma = if json.is_empty() { "" } else { "," };
        let json = format!("{{ {json} {comma} \"variants\": [{variants}] }}");
        let mut plays: Plays = serde_json::from_str(&json).unwrap();
        plays.play(now)
    }

    fn past(from: &str, to: &str) -> String {
        format!(r#""from": "{from}", "to": "{to}""#)
    }

    #[test]
    fn sandbox_work_is_limited() {
        assert!(asked(&past("1h", "0s"), 4).is_ok());
        for (from, to, variants, status, says) in [
            ("1h", "0s", 5, 400, "5 variants are more than 4"),
            ("1h", "0s", 0, 400, "no variants"),
            ("1m", "2m", 1, 422, "is not before"),
            ("then", "2m", 1, 422, "not a time"),
            ("2h", "0s", 1, 422, "more than an hour"),
        ] {
            let refusal = problem(asked(&past(from, to), variants));
            assert!(
                refusal.0 == status && refusal.1.contains(says),
                "{refusal:?}"
            );
        }
        let long = format!(r#""flows": "{}""#, "x".repeat(MAX_TEXT_BYTES + 1));
        let refusal = problem(asked(&long, 1));
        assert!(
            refusal.0 == 422 && refusal.1.starts_with("flows: 1048577 bytes"),
            "{refusal:?}"
        );
        let file = format!(r#"{{ "name": "a", "base64": "{}" }}"#, "x".repeat(8 << 20));
        let long = format!(r#""trace": {{ "format": "chakra", "files": [{file}, {file}] }}"#);
        let refusal = problem(asked(&long, 1));
        assert!(
            refusal.0 == 422 && refusal.1.starts_with("trace: 12582912 bytes"),
            "{refusal:?}"
        );
    }

    #[test]
    fn variant_names_are_unique() {
        let variant = r#"{ "name": "v", "variant": "" }"#;
        let json = format!(r#"{{ "flows": "", "variants": [{variant}, {variant}] }}"#);
        let mut plays: Plays = serde_json::from_str(&json).unwrap();
        let refusal = problem(plays.play(UNIX_EPOCH));
        assert_eq!(refusal, (400, "two variants are named \"v\"".to_owned()));
    }

    #[test]
    fn one_thing_is_played() {
        assert!(asked(r#""flows": "", "fabric": """#, 1).is_ok());
        assert!(asked(r#""job": "", "profile": """#, 1).is_ok());
        let trace = r#""trace": { "format": "chakra", "files": [] }"#;
        assert!(asked(trace, 1).is_ok());
        let (flows, job) = (r#""flows": """#, r#""job": """#);
        for bad in [
            String::new(),
            format!("{flows}, {job}"),
            format!("{trace}, {job}"),
            format!("{}, {job}", past("1h", "0s")),
            r#""from": "1h""#.to_owned(),
            format!(r#"{job}, "to": "1h""#),
        ] {
            let refusal = problem(asked(&bad, 1));
            assert_eq!(refusal, (400, ONE_INPUT_ERROR.to_owned()), "{bad}");
        }
        let refusal = problem(asked(&format!(r#"{flows}, "profile": """#), 1));
        assert_eq!(refusal, (400, NO_PROFILE_ERROR.to_owned()));
        let refusal = problem(asked(&format!(r#"{}, "fabric": """#, past("1h", "0s")), 1));
        assert_eq!(refusal, (400, PAST_FABRIC_ERROR.to_owned()));
    }
}
