//! `reweave sim history`: recorded traffic of a past period, replayed in variants.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use reweave_common::moment::Moment;
use reweave_common::traffic::Burst;
use reweave_history::{Kind, written};
use reweave_sim::sandbox::{Compared, Traffic, compare};

use super::costs::Costs;
use super::past::Looked;
use super::variants::{Allowed, Answer, Base, Part, Read, Stretch};
use super::{effort, measured, past};
use crate::Output;
use crate::error::CliError;

/// Replay past traffic on another fabric, with other paths or between other hosts
///
/// Several variants are printed side by side; JSON has one line per variant, in the order in which they were named.
#[derive(Debug, Args)]
pub(crate) struct History {
    /// Start and length: 2026-11-20T14:00/10m (UTC), or 1h/10m for an hour ago
    #[arg(value_name = "FROM/SPAN")]
    span: String,
    /// Variant to simulate; may be repeated
    #[arg(long = "with", value_name = "VARIANT.toml", required = true)]
    variants: Vec<PathBuf>,
    #[command(flatten)]
    allowed: Allowed,
    /// Location of the history: a folder or s3://bucket/prefix
    #[arg(long, env = "REWEAVE_HISTORY", value_name = "URL")]
    history: String,
    #[command(flatten)]
    costs: Costs,
    #[command(flatten)]
    effort: effort::Effort,
}

impl History {
    pub(crate) fn run(&self, output: Output) -> Result<ExitCode, CliError> {
        let span = past::span(&self.span)?;
        let kinds = [&[Kind::Flows][..], &measured::LOSS_KINDS].concat();
        let looked = past::look(&self.history, span, &kinds)?;
        let bursts = looked.window.bursts();
        let base = Base {
            seen: Some((&bursts, &looked.moved)),
            ..Base::default()
        };
        let variants = base.read_all(&self.variants)?;
        let answers = variants.iter();
        let answers = answers.map(|it| self.play(span, &looked, &bursts, it));
        let answers: Vec<_> = answers.collect::<Result<_, _>>()?;
        self.allowed.judged(&answers, output)
    }

    fn play(
        &self,
        [from, to]: [Moment; 2],
        looked: &Looked,
        bursts: &[Burst],
        read: &Read,
    ) -> Result<Answer<Compared>, CliError> {
        let (
            variant,
            Looked {
                window, covered, ..
            },
        ) = (&read.variant, looked);
        let traffic = Traffic::seen(bursts, from, &variant.recorded);
        let [from, to] = [from, to].map(written);
        let of = format!("from {from} to {to} the history");
        let costs = self.costs.known().ok_or(CliError::NoPayload)?;
        let answer = read.played(costs, self.effort.limit(), &of, |effort| {
            compare(&traffic, variant, effort)
        })?;
        let lossy = measured::lossy(window, &variant.recorded);
        Ok(answer.during(Stretch {
            from,
            to,
            resolution: window.resolution.name().to_owned(),
            covered: Part::all(covered),
            covered_percent: covered.share() * 100.0,
            lossy: measured::listed(&lossy, &variant.recorded),
        }))
    }
}
