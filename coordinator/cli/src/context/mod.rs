//! `reweave context`: clusters stored under names, and the current one.

mod file;

use std::process::ExitCode;

use clap::Subcommand;
use reweave_common::names::{MAX_NAME_BYTES, is_plain, refusal};
use serde::Serialize;

use crate::ask::Reach;
use crate::error::CliError;
use crate::page::Page;
use crate::report::Report;
use crate::{Output, print_report};

use file::ContextConfig;
pub(crate) use file::{Context, selected};

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List contexts; the current one is marked
    List,
    /// Show the coordinators and the certificate folder of a context
    Show {
        /// Context [default: the one that commands use]
        name: Option<String>,
    },
    /// Make a context the current one: commands use it unless --context names another
    Use {
        /// Context
        name: String,
    },
    /// Store --coordinator and --identity as a context; options that are not given keep their values
    ///
    /// The first context becomes the current one.
    Set {
        /// Context, new or existing
        #[arg(value_parser = context_name)]
        name: ContextName,
    },
    /// Remove a context; its certificate folder is kept
    Remove {
        /// Context
        name: String,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct ContextName(String);

fn context_name(text: &str) -> Result<ContextName, String> {
    if is_plain(text, MAX_NAME_BYTES) {
        Ok(ContextName(text.to_owned()))
    } else {
        Err(refusal(text, "context"))
    }
}

#[derive(Debug, Serialize)]
struct ContextList {
    current: Option<String>,
    contexts: Vec<Context>,
}

impl Report for ContextList {
    fn lay_out(&self, page: &mut Page) {
        if self.contexts.is_empty() {
            return page.line("no contexts; `reweave context set NAME --coordinator A` stores one");
        }
        let rows = self.contexts.iter().map(|it| {
            let is_current = self.current.as_ref() == Some(&it.name);
            let identity = it.identity.as_ref();
            [
                if is_current { "*" } else { "" }.to_owned(),
                it.name.clone(),
                it.coordinators.join(", "),
                identity.map_or_else(|| "-".to_owned(), |folder| folder.display().to_string()),
            ]
        });
        page.table(["", "name", "coordinators", "identity"], rows);
    }

    fn names(&self) -> Vec<String> {
        self.contexts.iter().map(|it| it.name.clone()).collect()
    }
}

impl ContextCommand {
    pub(crate) fn run(&self, reach: &Reach, output: Output) -> Result<ExitCode, CliError> {
        let path = file::config_path().ok_or(CliError::NoConfigFolder)?;
        let mut contexts = ContextConfig::read(&path)?;
        match self {
            Self::List => {}
            Self::Show { name } => {
                let name = match name {
                    Some(name) => contexts.find(name)?.name.clone(),
                    None => reach.context()?.ok_or(CliError::NoContext)?.name.clone(),
                };
                contexts.all.retain(|context| context.name == name);
            }
            Self::Use { name } => contexts.current = Some(contexts.find(name)?.name.clone()),
            Self::Set { name } => contexts.set(reach.as_context(&name.0))?,
            Self::Remove { name } => contexts.remove(name)?,
        }
        if matches!(
            self,
            Self::Use { .. } | Self::Set { .. } | Self::Remove { .. }
        ) {
            contexts.write(&path)?;
        }
        let ContextConfig { current, all } = contexts;
        let contexts = all;
        print_report(output, &ContextList { current, contexts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_context_is_marked() {
        let context = |name: &str| Context {
            name: name.to_owned(),
            coordinators: vec!["10.0.0.1".to_owned()],
            identity: Some("/c".into()),
        };
        let list = ContextList {
            current: Some("prod".to_owned()),
            contexts: vec![context("lab"), context("prod")],
        };
        let mut page = Page::default();
        list.lay_out(&mut page);
        let rows = [
            "     name  coordinators  identity",
            "     lab   10.0.0.1      /c",
            "  *  prod  10.0.0.1      /c",
        ];
        assert_eq!(page.text.lines().collect::<Vec<_>>(), rows);
        assert_eq!(list.names(), ["lab", "prod"]);
    }
}
