//! `reweave policy`: the policy in force, and changes to it while the cluster runs.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Subcommand;
use reweave_common::operator::{PolicySetting, PolicyStatus, Request, Response, SettingSource};
use reweave_common::setting_value::setting_value;
use serde::Serialize;

use crate::ask::{Coordinator, Reach};
use crate::error::CliError;
use crate::page::{Page, age};
use crate::report::Report;
use crate::{Output, print_report};

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Show every setting of the policy, with its source
    ///
    /// The source is `set` for a value that an operator has set, `file` for a value of the leader's coordinator.toml,
    /// and `default` for all others. Lines below the table name values that are set and not in force, since they do not
    /// fit the leader's file or release.
    Show,
    /// Set settings of the policy, without a restart
    ///
    /// The leader uses the values at once, and every later leader has them, whatever its coordinator.toml says. Prints
    /// what has changed. Refused if another operator changes the policy at the same time. `lossless`, `capacity_floor`,
    /// `most_sends` and `answer_within_ms` are refused while a plan is in progress.
    Set {
        /// Settings with their new values, such as mode=auto least_gain=0.2. A value is TOML; a bare word is a string
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = assignment)]
        settings: Vec<Assignment>,
    },
    /// Return settings of the policy to the value in coordinator.toml, or to the default
    Reset {
        /// Settings, as `reweave policy show` lists them
        #[arg(value_name = "KEY", required = true)]
        keys: Vec<String>,
    },
}

/// A setting with its new value, a TOML value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Assignment {
    key: String,
    value: String,
}

fn assignment(text: &str) -> Result<Assignment, String> {
    let parts = text.split_once('=');
    let parts = parts.map(|(key, value)| (key.trim(), value));
    let (key, value) = parts
        .filter(|(key, _)| !key.is_empty())
        .ok_or("write KEY=VALUE, such as least_gain=0.2")?;
    let (key, written) = (key.to_owned(), value.trim());
    let value = setting_value(written);
    // A shell takes the quotes of the texts, and what is left would become one text.
    if written.starts_with('[') && !value.starts_with('[') {
        return Err(format!(
            "{written} is not a TOML list: quote the whole list, such as '{key}=[\"Sat 22:00-06:00\"]'"
        ));
    }
    Ok(Assignment { key, value })
}

/// New values by key; none returns the key to the file's value.
type NewSettings = BTreeMap<String, Option<String>>;

impl PolicyCommand {
    pub(crate) fn is_show(&self) -> bool {
        matches!(self, Self::Show)
    }

    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        match self {
            Self::Show => {
                let policy = asked(&mut Coordinator::reach(reach)?, &Request::Policy)?;
                print_report(output, &PolicyAnswer { policy })
            }
            Self::Set { settings } => change(reach, output, assigned(settings)?),
            Self::Reset { keys } => {
                let settings = keys.iter().map(|key| (key.clone(), None)).collect();
                change(reach, output, settings)
            }
        }
    }
}

fn assigned(settings: &[Assignment]) -> Result<NewSettings, CliError> {
    let mut all = NewSettings::new();
    for Assignment { key, value } in settings {
        if all.insert(key.clone(), Some(value.clone())).is_some() {
            let key = key.clone();
            return Err(CliError::SettingTwice { key });
        }
    }
    Ok(all)
}

/// Changes the policy as it was just read, so that no other change is overwritten unseen.
fn change(reach: &Reach, output: Output, settings: NewSettings) -> Result<ExitCode, CliError> {
    let mut coordinator = Coordinator::reach(reach)?;
    let before = asked(&mut coordinator, &Request::Policy)?;
    let expected = Some(before.revision);
    let request = Request::PolicySet { settings, expected };
    let after = asked(&mut coordinator, &request)?;
    print_report(output, &PolicyChangeAnswer::between(before, after))
}

fn asked(coordinator: &mut Coordinator, request: &Request) -> Result<PolicyStatus, CliError> {
    match coordinator.ask(request)? {
        Response::Policy(policy) => Ok(policy),
        Response::Refused(refused) => Err(CliError::Refused(refused)),
        other => Err(CliError::unexpected(&other)),
    }
}

#[derive(Serialize)]
#[serde(transparent)]
struct PolicyAnswer {
    policy: PolicyStatus,
}

impl Report for PolicyAnswer {
    fn lay_out(&self, page: &mut Page) {
        let rows = self.policy.settings.iter().map(|setting| {
            let age = age_of(setting).map(|age| format!(", {age} ago"));
            let source = origin(setting) + &age.unwrap_or_default();
            [setting.key.clone(), setting.value.clone(), source]
        });
        page.table(["key", "value", "source"], rows);
        lay_out_unfit(page, &self.policy.settings);
    }

    fn lay_out_wide(&self, page: &mut Page) {
        let dash = || "-".to_owned();
        let rows = self.policy.settings.iter().map(|setting| {
            let by = setting.set.as_ref().map(|set| set.by.clone());
            [
                setting.key.clone(),
                setting.value.clone(),
                source_name(setting).to_owned(),
                by.unwrap_or_else(dash),
                age_of(setting).unwrap_or_else(dash),
            ]
        });
        page.table(["key", "value", "source", "set by", "age"], rows);
        lay_out_unfit(page, &self.policy.settings);
    }

    fn names(&self) -> Vec<String> {
        let settings = self.policy.settings.iter();
        settings.map(|setting| setting.key.clone()).collect()
    }
}

fn lay_out_unfit(page: &mut Page, settings: &[PolicySetting]) {
    for line in settings.iter().filter_map(unfit) {
        page.line(&line);
    }
}

/// Returns the value that is set and not in force, and why.
fn unfit(setting: &PolicySetting) -> Option<String> {
    let unfit = setting.unfit.as_ref()?;
    Some(format!("{} = {unfit}", setting.key))
}

fn source_name(setting: &PolicySetting) -> &'static str {
    match setting.source {
        SettingSource::Default => "default",
        SettingSource::File => "file",
        SettingSource::Set => "set",
    }
}

/// Returns the source, with the operator who set the value.
fn origin(setting: &PolicySetting) -> String {
    match &setting.set {
        Some(set) => format!("set by {}", set.by),
        None => source_name(setting).to_owned(),
    }
}

fn age_of(setting: &PolicySetting) -> Option<String> {
    let set = setting.set.as_ref()?;
    Some(age(set.age_s.saturating_mul(1000)))
}

/// The new revision, and the settings that differ from the one before.
#[derive(Serialize)]
struct PolicyChangeAnswer {
    revision: u64,
    changes: Vec<SettingChanged>,
}

#[derive(Serialize)]
struct SettingChanged {
    before: PolicySetting,
    after: PolicySetting,
}

impl PolicyChangeAnswer {
    fn between(before: PolicyStatus, after: PolicyStatus) -> Self {
        let before = before.settings.into_iter();
        let mut before: BTreeMap<_, _> = before.map(|it| (it.key.clone(), it)).collect();
        let changes = after.settings.into_iter().filter_map(|after| {
            let before = before.remove(&after.key)?;
            let differs = before.value != after.value
                || origin(&before) != origin(&after)
                || before.unfit != after.unfit;
            differs.then_some(SettingChanged { before, after })
        });
        Self {
            changes: changes.collect(),
            revision: after.revision,
        }
    }
}

impl Report for PolicyChangeAnswer {
    fn lay_out(&self, page: &mut Page) {
        if self.changes.is_empty() {
            return page.line("no change: the policy has these values already");
        }
        for SettingChanged { before, after } in &self.changes {
            for (sign, setting) in [('-', before), ('+', after)] {
                let PolicySetting { key, value, .. } = setting;
                page.line(&format!("{sign} {key} = {value} ({})", origin(setting)));
                if let Some(unfit) = unfit(setting) {
                    page.line(&format!("{sign} {unfit}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignment_is_key_and_value() {
        for (text, key, value) in [
            ("mode=auto", "mode", "\"auto\""),
            ("least_gain = 0.2", "least_gain", "0.2"),
            ("lossless=true", "lossless", "true"),
            ("mode=\"a=b\"", "mode", "\"a=b\""),
            ("changes_only=[]", "changes_only", "[]"),
            ("mode=", "mode", "\"\""),
        ] {
            let [key, value] = [key, value].map(str::to_owned);
            assert_eq!(assignment(text), Ok(Assignment { key, value }), "{text}");
        }
        for wrong in ["", "mode", "=auto", " =auto"] {
            let message = assignment(wrong).unwrap_err();
            assert!(message.contains("KEY=VALUE"), "{wrong}: {message}");
        }
    }

    /// As bash passes `changes_only=["Sat 22:00-06:00"]`.
    #[test]
    fn list_without_quotes_is_refused() {
        let message = assignment("changes_only= [Sat 22:00-06:00]").unwrap_err();
        assert!(message.contains("[Sat 22:00-06:00] is not"), "{message}");
        let remedy = "'changes_only=[\"Sat 22:00-06:00\"]'";
        assert!(message.ends_with(remedy), "{message}");
    }

    #[test]
    fn setting_given_twice_is_refused() {
        let given = ["mode=auto", "least_gain=0.2"].map(|text| assignment(text).unwrap());
        assert_eq!(assigned(&given).unwrap().len(), 2);
        let twice = [given[0].clone(), assignment("mode=manual").unwrap()];
        let error = assigned(&twice).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.error_chain().starts_with("mode is given twice"));
    }
}
